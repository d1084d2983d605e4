#!/usr/bin/env python3
"""What rounding a model's weights costs in words: bench/word_errors.py [PROGRAM [MODEL]].

Every clip of tests/data/speech is recognized as it is and delayed by 67, 134, ... 603 ms of silence (with sox), so that
its words fall differently onto chunks: a model that is unsure of most of them shows a loss only over many.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SPEECH = os.path.join(ROOT, "tests/data/speech")
DELAYS_MS = range(0, 670, 67)


def word_errors(expected, heard):
    """Insertions, deletions and substitutions that make `heard` of `expected`."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(expected, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(heard, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (word != other))
    return row[-1]


def recognize(program, model, decoder, weights, files):
    command = [program, "transcribe", "--model", model, "--decoder", decoder, "--weights", weights, "--json", *files]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    results = map(json.loads, output.splitlines())
    return {result["file"]: result["text"].upper().split() for result in results}


def delayed(folder):
    """Paths of all clips, delayed by all of DELAYS_MS."""
    for clip in sorted(glob.glob(os.path.join(SPEECH, "*.flac"))):
        for delay in DELAYS_MS:
            path = os.path.join(folder, str(delay), os.path.basename(clip))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            subprocess.run(["sox", clip, path, "pad", f"{delay / 1000:.3f}"], check=True)
            yield path


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/release/bin/tutti")
    model = sys.argv[2] if len(sys.argv) > 2 else os.path.join(ROOT, "models/tutti-en-mini")
    with open(os.path.join(SPEECH, "transcripts.jsonl"), encoding="utf-8") as lines:
        said = {clip["file"]: clip["text"].split() for clip in map(json.loads, lines)}
    with tempfile.TemporaryDirectory() as folder:
        files = list(delayed(folder))
        for decoder in ("greedy", "prefix"):
            exact = recognize(program, model, decoder, "fp32", files)
            for weights in ("fp32", "bf16", "int8"):
                heard = recognize(program, model, decoder, weights, files)
                words = sum(len(said[os.path.basename(path)]) for path in files)
                errors = sum(word_errors(said[os.path.basename(path)], heard[path]) for path in files)
                changed = sum(word_errors(exact[path], heard[path]) for path in files)
                print(f"{decoder} {weights}: {errors} errors in {words} words, {100 * errors / words:.2f} %; "
                      f"{changed} words not as in fp32", flush=True)


if __name__ == "__main__":
    main()
