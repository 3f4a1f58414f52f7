"""The last steps to NVIDIA machine code: LLVM dialect -> LLVM IR text -> PTX (llvmlite) -> cubin (ptxas)."""

import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm

from inferno.errors import CompileError
from inferno.mlir import ir, walk
from inferno.mlir import llvm as llvm_dialect
from inferno.target import Target
from inferno.targets import libdevice
from inferno.targets.bf16_roundings import round_in_words
from inferno.targets.llvm_text import downgrade
from inferno.targets.resources import Resources
from inferno.targets.toolkit import find_tool


def llvm_text(module: ir.Operation) -> str:
    """LLVM IR of a ``gpu.module`` that ``inferno-lower`` has brought to the LLVM dialect.

    Upstream's translation ends the process when it meets an operation that it does not know, so they are looked for first.
    """
    left = {o.name for o in walk(module) if not o.name.startswith(("llvm.", "nvvm.", "gpu.module"))}
    if left:
        raise CompileError(f"not lowered to LLVM: {', '.join(sorted(left))}")
    return llvm_dialect.translate_module_to_llvmir(module.operation)


def to_ptx(text: str, target: Target) -> str:
    """PTX of LLVM IR text, optimized; calls of libdevice are linked in.

    Loops stay as the generators wrote them: what should be unrolled is, and LLVM's own unrolling of constant trip counts
    made the pipelined matmul loops slower.
    """
    machine = _machine(target)
    module = llvm.parse_assembly(downgrade(text))
    module.triple = "nvptx64-nvidia-cuda"
    module.data_layout = str(machine.target_data)
    needed = frozenset(re.findall(r"@(__nv_\w+)", text))
    if needed:
        library = llvm.parse_bitcode(libdevice.cut(needed))
        library.triple, library.data_layout = module.triple, module.data_layout
        module.link_in(library)
        for function in module.functions:
            if function.name.startswith("__nv_") and not function.is_declaration:
                function.linkage = "internal"
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_unrolling = options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return round_in_words(machine.emit_assembly(module))


@cache
def _machine(target: Target) -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    return triple.create_target_machine(cpu=target.name, features=target.features, opt=3)


def assemble(ptx: str, target: Target) -> tuple[bytes, dict[str, Resources]] | None:
    """The cubin of ``ptx`` and each kernel's resources; None where there is no ptxas (then the driver assembles)."""
    tool = find_tool("ptxas")
    if tool is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        done = subprocess.run(
            [tool, f"-arch={target.name}", "-v", str(source), "-o", str(cubin)], capture_output=True, text=True, check=False,
        )
        report = done.stdout + done.stderr
        if done.returncode != 0:
            raise CompileError(f"ptxas refused a kernel for {target.name}: {report.strip()[:2000]}")
        return cubin.read_bytes(), parse_report(report)


def parse_report(report: str) -> dict[str, Resources]:
    """Resources by kernel from the text of ``ptxas -v`` (or of the driver's linker with verbose logging)."""
    found: dict[str, Resources] = {}
    for part in re.split(r"Compiling entry function '", report)[1:]:
        name = part.split("'", 1)[0]
        part = part.split("Compiling entry function", 1)[0]

        def number(pattern: str, part: str = part) -> int:
            match = re.search(pattern, part)
            return int(match.group(1)) if match else 0

        found[name] = Resources(
            registers=number(r"Used (\d+) registers"),
            shared=number(r"(\d+) bytes smem"),
            stack=number(r"(\d+) bytes stack frame"),
            spills=number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads"),
        )
    return found
