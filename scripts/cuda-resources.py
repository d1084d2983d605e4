#!/usr/bin/env python3
"""Reports what each CUDA kernel takes of a multiprocessor, as ptxas tells it, and how many of its instructions are
tensor-core products. Fails where registers are spilled to memory, or a product's kernel has no tensor-core instruction.

Compiles gpu/cuda/*.cu, or those named, for each architecture; no GPU is needed.
"""
import argparse
import collections
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
KERNELS = ROOT / "gpu/cuda"
FLAGS = ["-std=c++20", "-O2", "--fmad=false", "--expt-relaxed-constexpr", "-Xptxas", "-v", "-cubin", f"-I{ROOT}"]
# Files whose kernels have to multiply on tensor cores, and the first architecture that they are for.
TENSOR_CORES = {"gemm_tensor.cu": "sm_80", "gemm_f8.cu": "sm_89"}

FUNCTION = re.compile(r"Compiling entry function '(\w+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")

# From Volta on an instruction has 16 bytes, the lowest 12 bits of which say what it does.
INSTRUCTION_BYTES = 16
# Products of 16-bit numbers, of integers and of float8, as nvdisasm names them. For sm_90 an mma of float8 becomes
# conversions to float16, which are exact, and HMMA.
PRODUCTS = {0x23C: "HMMA", 0x237: "IMMA", 0x27A: "QMMA"}


def code_sections(cubin):
    """The machine code of each kernel: the sections .text.NAME of an ELF file."""
    data = cubin.read_bytes()
    offset, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, offset + i * size) for i in range(count)]
    strings = headers[names][4]
    for name_at, _, _, _, begin, length in headers:
        name = data[strings + name_at:data.index(b"\0", strings + name_at)].decode()
        if name.startswith(".text."):
            yield name.removeprefix(".text."), data[begin:begin + length]


def tensor_core_instructions(code):
    """Such as "16 HMMA"; empty where there are none."""
    found = collections.Counter(PRODUCTS.get(struct.unpack_from("<H", code, at)[0] & 0xFFF)
                                for at in range(0, len(code), INSTRUCTION_BYTES))
    return ", ".join(f"{count} {name}" for name, count in found.items() if name)


def demangled(names):
    text = subprocess.run(["c++filt", "-p"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    short = (re.sub(r"\(anonymous namespace\)::|tutti::cuda::|^void ", "", name) for name in text.split("\n"))
    return dict(zip(names, short))


def compiled(nvcc, source, arch, folder):
    """(kernel, registers, shared bytes, stack bytes, spilled bytes, tensor-core instructions) of a file."""
    cubin = folder / f"{source.stem}.{arch}.cubin"
    run = subprocess.run([nvcc, *FLAGS, f"-arch={arch}", "-o", cubin, source], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr)
    products = {name: tensor_core_instructions(code) for name, code in code_sections(cubin)}
    rows = []
    for part in re.split(r"(?=ptxas info\s+: Compiling entry function)", run.stderr)[1:]:
        name = FUNCTION.search(part)[1]
        stack, stores, loads = map(int, SPILLS.search(part).groups())
        shared = SHARED.search(part)
        rows.append((name, int(USED.search(part)[1]), int(shared[1]) if shared else 0, stack, stores + loads,
                     products[name]))
    names = demangled([row[0] for row in rows])
    return [(names[row[0]], *row[1:]) for row in rows]


def faults(source, rows):
    for kernel, _, _, _, spilled, products in rows:
        if spilled:
            yield f"{source.name}: {kernel} spills {spilled} bytes"
        if source.name in TENSOR_CORES and not products:
            yield f"{source.name}: {kernel} has no tensor-core instruction"


def architectures(source, asked):
    """Those asked for; instead of older ones the file's own first."""
    return sorted({max(arch, TENSOR_CORES.get(source.name, arch)) for arch in asked})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcc", default="/usr/local/cuda/bin/nvcc")
    parser.add_argument("--arch", nargs="+", default=["sm_80", "sm_90"])
    parser.add_argument("--write", type=pathlib.Path, help="Write the report to this file instead of printing it")
    parser.add_argument("kernels", nargs="*", help="File names in gpu/cuda (default: all)")
    options = parser.parse_args()

    sources = [KERNELS / name for name in options.kernels] or sorted(KERNELS.glob("*.cu"))
    lines = ["# What CUDA kernels take", "",
             "Made by `scripts/cuda-resources.py --write bench/cuda-resources.md`. Bytes of shared memory, stack and spilled",
             "registers; products on tensor cores in the machine code. Of `gemm_f8.cu` for sm_90 each is two HMMA, of operands",
             "that are widened to float16 first: what Hopper has for float8 itself is not for `mma`.", "",
             "| kernel | architecture | registers | shared | stack | spilled | tensor cores |",
             "|---|---|--:|--:|--:|--:|--:|"]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for source in sources:
            for arch in architectures(source, options.arch):
                rows = compiled(options.nvcc, source, arch, pathlib.Path(folder))
                found += faults(source, rows)
                for kernel, *figures in rows:
                    name = re.sub(r"\(.*", "", kernel)
                    lines.append(f"| {source.name} `{name}` | {arch} | " + " | ".join(map(str, figures)) + " |")
    report = "\n".join(lines) + "\n"
    if options.write:
        options.write.write_text(report)
    else:
        print(report, end="")
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
