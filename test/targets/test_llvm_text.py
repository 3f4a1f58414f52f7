"""LLVM 24's text, read back by LLVM 22, holds the same bits."""

import random
import re

import llvmlite.binding as llvm
import pytest

from inferno.mlir import ir, idle_context
from inferno.mlir import llvm as llvm_dialect
from inferno.targets.llvm_text import downgrade

SPECIAL = {
    "f32": [0x3DCCCCCD, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0x3EAAAAAB, 0x00000001, 0x80000000],
    "f64": [0x7FF0000000000000, 0x7FF8000000000000, 0x7FF0000000000001, 0x3FB999999999999A, 0x8000000000000000],
    "f16": [0x7C00, 0x7E00, 0x7C01, 0x2E66, 0x0001],
    "bf16": [0x7F80, 0x7FC0, 0x3DCD, 0x0001, 0xFF80],
}


@pytest.mark.parametrize("type_", SPECIAL)
def test_literals_keep_their_bits(type_):
    width = {"f32": 32, "f64": 64}.get(type_, 16)
    generator = random.Random(width)
    values = SPECIAL[type_] + [generator.getrandbits(width) for _ in range(200)]
    functions = "\n".join(
        f"""llvm.func @f{i}() -> i{width} {{
              %0 = llvm.mlir.constant(0x{v:0{width // 4}X} : {type_}) : {type_}
              %1 = llvm.mlir.constant(1 : i32) : i32
              %2 = llvm.alloca %1 x {type_} : (i32) -> !llvm.ptr
              llvm.store %0, %2 : {type_}, !llvm.ptr
              %3 = llvm.load %2 : !llvm.ptr -> i{width}
              llvm.return %3 : i{width} }}"""
        for i, v in enumerate(values)
    )
    with idle_context(), ir.Location.unknown():
        text = llvm_dialect.translate_module_to_llvmir(ir.Module.parse(functions).operation)
    llvm.initialize_native_target()
    module = llvm.parse_assembly(downgrade(text))
    machine = llvm.Target.from_default_triple().create_target_machine()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(module, builder)
    found = {int(i): int(x) % (1 << width) for i, x in re.findall(r"@f(\d+)\(\)[^{]*\{\s*ret i\d+ (-?\d+)", str(module))}
    assert found == dict(enumerate(values))


def test_strings_and_names_are_left_alone():
    line = 'call float asm "mov.f32 $0, 1.0e+0;", "=f"(float %x.1.5)'
    assert downgrade(line) == line + "\n"
