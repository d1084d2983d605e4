#!/usr/bin/env python3
"""Fails where the sources break a rule of their architecture:

* a folder includes only itself and the folders above it;
* Boost.Beast stays inside net/, in few translation units, because each takes half a minute to compile;
* there are no locks outside the tests.
"""
import pathlib
import re
import subprocess
import sys

LAYERS = ["config", "audio", "gpu", "decode", "cache", "model", "engine", "proto", "actors", "cluster", "net", "app"]
FREE = ["tests", "bench"]
SUFFIXES = {".hpp", ".cpp", ".cu", ".cuh"}
MAX_BEAST_UNITS = 4

LOCAL_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
BEAST = re.compile(r"^\s*#\s*include\s+<boost/beast", re.MULTILINE)
LOCK = re.compile(
    r"\bstd::(\w*mutex|condition_variable\w*|lock_guard|unique_lock|scoped_lock|shared_lock|\w+_semaphore)\b"
    r"|#\s*include\s+<(mutex|shared_mutex|condition_variable|semaphore)>"
    r"|\bpthread_(mutex|cond|rwlock|spin)_\w+|\bomp_\w*lock\w*"
)


def source_files(root):
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root, check=True, capture_output=True, text=True,
    ).stdout.split("\n")
    paths = (pathlib.PurePath(name) for name in listed)
    return {p: (root / p).read_text() for p in paths if p.suffix in SUFFIXES and (root / p).is_file()}


def line_of(text, match):
    return text.count("\n", 0, match.start(match.lastindex or 0)) + 1


def layer_faults(path, sources):
    allowed = LAYERS[: LAYERS.index(path.parts[0]) + 1]
    for include in LOCAL_INCLUDE.finditer(sources[path]):
        place = f'{path}:{line_of(sources[path], include)}: "{include[1]}"'
        folder = include[1].split("/")[0]
        if folder in LAYERS + FREE and folder not in allowed:
            yield f"{place}: {path.parts[0]}/ may include {', '.join(allowed)}"
        elif path.parent / include[1] in sources:
            yield f"{place}: headers are named from the root"


def lock_faults(path, text):
    for lock in LOCK.finditer(text):
        yield f"{path}:{line_of(text, lock)}: {lock[0]}: state is shared by messages, not by locks"


def reaches_beast(path, sources, seen):
    if path in seen or path not in sources:
        return False
    seen.add(path)
    text = sources[path]
    return bool(BEAST.search(text)) or any(
        reaches_beast(pathlib.PurePath(name), sources, seen) for name in LOCAL_INCLUDE.findall(text)
    )


def beast_faults(sources):
    units = [p for p in sources if p.suffix != ".hpp" and p.parts[0] != "tests" and reaches_beast(p, sources, set())]
    for path in units:
        if path.parts[0] != "net":
            yield f"{path}: reaches Boost.Beast, which stays inside net/"
    if len(units) > MAX_BEAST_UNITS:
        yield f"{', '.join(map(str, units))}: at most {MAX_BEAST_UNITS} translation units may reach Boost.Beast"


def main():
    sources = source_files(pathlib.Path(__file__).resolve().parent.parent)
    faults = list(beast_faults(sources))
    for path, text in sources.items():
        folder = path.parts[0]
        if folder in LAYERS:
            faults += layer_faults(path, sources)
        elif folder not in FREE:
            faults.append(f"{path}: sources belong in {', '.join(LAYERS + FREE)}")
        if folder != "tests":
            faults += lock_faults(path, text)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
