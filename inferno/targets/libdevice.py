"""NVIDIA's libdevice, cut to the functions that a kernel calls.

Linking all of it costs 0.7 s a kernel; a cut of a few functions costs 40 ms to make and 1 ms to link, and is kept.
"""

from functools import cache
from pathlib import Path

import llvmlite.binding as llvm

from inferno.errors import CompileError
from inferno.targets.toolkit import find_file


@cache
def cut(names: frozenset[str]) -> bytes:
    """Bitcode of libdevice that holds ``names`` and what they call, nothing else."""
    library = _parse()
    defined = {f.name for f in library.functions if not f.is_declaration}
    if missing := names - defined:
        raise CompileError(f"libdevice has no function {', '.join(sorted(missing))}")
    for function in library.functions:
        if not function.is_declaration and function.name not in names:
            function.linkage = "internal"
    machine = llvm.Target.from_triple(library.triple).create_target_machine(cpu="sm_80")
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(library, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0)))
    return library.as_bitcode()


def _parse() -> llvm.ModuleRef:
    library = llvm.parse_bitcode(_bitcode())
    library.triple = "nvptx64-nvidia-cuda"
    return library


@cache
def _bitcode() -> bytes:
    path = find_file("nvvm/libdevice/libdevice.10.bc")
    if path is None:
        raise CompileError("libdevice.10.bc not found; `pip install nvidia-nvvm` or install a CUDA toolkit and set CUDA_HOME")
    return Path(path).read_bytes()
