#!/usr/bin/env python3
"""Fails where a page names a test that does not exist, or claims something in a table of tests without one."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# A row of a table whose last column has this name has to name tests there.
COLUMN = "tests"
# In docs/, with the tables of tests that each has.
PAGES = {"cluster.md": 1, "field-reports.md": 1, "operations.md": 8, "security.md": 2}

GTEST = re.compile(r"\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)")
PYTHON = re.compile(r"\bdef (test_\w+)\(")
CTEST = re.compile(r"\badd_test\(NAME (\w+\.\w+)")
BENCH = re.compile(r"\btutti_bench_test\((\w+)")
NAME = re.compile(r"`([^`]+)`")


def tests():
    names = set()
    for path in (ROOT / "tests").glob("*/*"):
        if path.suffix == ".cpp":
            names.update(f"{suite}.{test}" for suite, test in GTEST.findall(path.read_text()))
        elif path.suffix == ".py":
            names.update(f"{path.name}: {test}" for test in PYTHON.findall(path.read_text()))
        elif path.name == "CMakeLists.txt":
            names.update(CTEST.findall(path.read_text()))
            names.update(f"bench.{test}" for test in BENCH.findall(path.read_text()))
    return names


def rows_of_tests(lines):
    """(line number, last cell) of every row that has to name tests; and how many tables have such rows."""
    rows, tables, is_inside = [], 0, False
    for number, line in enumerate(lines, 1):
        last = line.strip().strip("|").split("|")[-1].strip()
        if not line.startswith("|"):
            is_inside = False
        elif last == COLUMN:
            is_inside = True
            tables += 1
        elif is_inside and last.strip("-"):
            rows.append((number, last))
    return rows, tables


def faults():
    known = tests()
    for page, expected in PAGES.items():
        rows, tables = rows_of_tests((ROOT / "docs" / page).read_text().splitlines())
        if tables != expected:
            yield f"{page}: {tables} tables of tests instead of {expected}"
        for number, cell in rows:
            named = NAME.findall(cell)
            if not named:
                yield f"{page}:{number}: no test proves it"
            for name in named:
                if name not in known:
                    yield f"{page}:{number}: there is no test {name}"


def main():
    found = list(faults())
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
