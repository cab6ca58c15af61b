#!/usr/bin/env python3
"""Compiles the kernels to cubins with NVRTC, without a GPU, and prints registers, spills and shared memory.

    python build.py OUT [--arch sm_80,sm_90,sm_100] [--nvrtc libnvrtc.so.13] [NAME...]

The library is that of the PyPI package nvidia-cuda-nvrtc 13.0.88 unless named. Exit status 1 if a kernel spills.
"""
import argparse, ctypes, pathlib, re, sys, time

HERE = pathlib.Path(__file__).resolve().parent
# Rules have the host's bits; elsewhere every fused product is written as one. So nothing is contracted anywhere.
OPTIONS = ["--std=c++17", "--fmad=false", "-default-device", "--ptxas-options=-v", "-DINFINITY=__int_as_float(0x7f800000)"]


def nvrtc_library(path):
    if path:
        return ctypes.CDLL(path)
    for root in map(pathlib.Path, sys.path):
        for found in sorted(root.glob("nvidia/cu13/lib/libnvrtc.so.13")):
            ctypes.CDLL(str(found.with_name("libnvrtc-builtins.so.13.0")), ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(str(found))
    return ctypes.CDLL("libnvrtc.so.13")


def compile_file(nvrtc, source, arch):
    def check(code, what):
        if code:
            nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
            raise SystemExit(f"{what}: {nvrtc.nvrtcGetErrorString(code).decode()}")

    program = ctypes.c_void_p()
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.read_bytes(), source.name.encode(), 0, None, None), "create")
    options = [f"--gpu-architecture={arch}", f"--include-path={HERE}", *OPTIONS]
    array = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
    code = nvrtc.nvrtcCompileProgram(program, len(options), array)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    log = log.value.decode()
    if code:
        raise SystemExit(f"{source.name} for {arch}:\n{log}")
    check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)), "cubin size")
    cubin = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetCUBIN(program, cubin), "cubin")
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin.raw, log


def resources(log):
    """(kernel, registers, spill bytes, stack) of every kernel in the log of ptxas -v."""
    rows, name, spill, stack = [], None, 0, 0
    for line in log.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)'", line):
            name = found[1]
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            stack, spill = int(found[1]), int(found[2]) + int(found[3])
        elif found := re.search(r"Used (\d+) registers", line):
            rows.append((name, int(found[1]), spill, stack))
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--arch", default="sm_80,sm_90,sm_100", type=lambda v: v.split(","))
    parser.add_argument("--nvrtc")
    parser.add_argument("--define", action="append", default=[], help="NAME=VALUE, for trying things out")
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    nvrtc = nvrtc_library(args.nvrtc)
    OPTIONS.extend(f"-D{d}" for d in args.define)
    args.out.mkdir(parents=True, exist_ok=True)
    spilled = False
    for source in sorted(HERE.glob("*.cu")):
        if args.names and source.stem not in args.names:
            continue
        for arch in args.arch:
            start = time.time()
            cubin, log = compile_file(nvrtc, source, arch)
            (args.out / f"{source.stem}.{arch}.cubin").write_bytes(cubin)
            rows = resources(log)
            spilled |= any(spill for _, _, spill, _ in rows)
            print(f"{source.name} {arch}: {len(cubin)} bytes, {time.time() - start:.2f} s, {len(rows)} kernels, "
                  f"spills: {[(n, s) for n, _, s, _ in rows if s] or 'none'}")
            if not args.quiet:
                for name, registers, spill, stack in rows:
                    print(f"    {name:32} {registers:4} registers {spill:5} bytes spilled {stack:5} stack")
    sys.exit(spilled)


if __name__ == "__main__":
    main()
