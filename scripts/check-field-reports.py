#!/usr/bin/env python3
"""Fails where docs/field-reports.md names a test that does not exist, or has a report without one."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/field-reports.md"

GTEST = re.compile(r"\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)")
PYTHON = re.compile(r"\bdef (test_\w+)\(")
NAME = re.compile(r"`([^`]+)`")


def tests():
    names = set()
    for path in (ROOT / "tests").glob("*/*"):
        if path.suffix == ".cpp":
            names.update(f"{suite}.{test}" for suite, test in GTEST.findall(path.read_text()))
        elif path.suffix == ".py":
            names.update(f"{path.name}: {test}" for test in PYTHON.findall(path.read_text()))
    return names


def faults():
    known = tests()
    for number, line in enumerate(PAGE.read_text().splitlines(), 1):
        if not line.startswith("| ") or line.startswith("| report"):
            continue
        named = NAME.findall(line.strip("| ").split(" | ")[-1])
        if not named:
            yield f"{PAGE.name}:{number}: no test proves it"
        for name in named:
            if name not in known:
                yield f"{PAGE.name}:{number}: there is no test {name}"


def main():
    found = list(faults())
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
