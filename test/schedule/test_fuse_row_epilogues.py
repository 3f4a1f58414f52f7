"""Kernels of a contraction and of operations on its rows compute what they did apart: on the CPU, where any such kernel runs."""

import sys
from pathlib import Path

import pytest
import torch
from checks import assert_close_to_float64, check
from row_cases import CASES, fused, operands

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))
from universal_program import _fuse as fuse
from universal_program import compile_universal

from inferno.capture import capture
from inferno.mlir import ir, idle_context, walk
from inferno.passes.manager import run_pipeline
from inferno.schedule import assign
from inferno.schedule.assign import kernels
from inferno.schedule.matmul.row_contraction import parse_rows
from inferno.symbolic import hint
from inferno.target import find_target
from inferno.tools.ir_program import IrProgram

F = torch.nn.functional
HOPPER = find_target("sm_90a")
ALWAYS = "fuse-row-epilogues{target=sm_90a always=1}"


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", ["layer_norm", "several", "transposed", "triangle", "any"])
def test_the_same(tmp_path, name):
    args = operands(lambda *shape: torch.randn(shape).bfloat16(), 96, 36, 128)
    path = tmp_path / "rows.mlir"
    path.write_text(fused(CASES[name], args))
    program = IrProgram.read(path, "cpu")
    assert len(program.program.kernels) == 1
    found = program(*args)
    assert_close_to_float64(tuple(found) if len(found) > 1 else found[0], CASES[name], args)


VARYING = {
    "softmax": lambda x, w, b, r: torch.softmax(F.linear(x, w, b).float(), -1).bfloat16(),
    "norm": lambda x, w, b, r: F.rms_norm(F.linear(x, w, b) + r, (36,)),
    "sums": lambda x, w, b, r: (F.linear(x, w) * r).sum(-1),
}
ROWS = {"rows": (("n", 64), ("n", 36)), "rows in two dimensions": ((3, "n", 64), (3, "n", 36)), "rows behind": (("n", 3, 64), ("n", 3, 36))}


def shaped(rows, n: int) -> tuple[torch.Tensor, ...]:
    x, r = (torch.randn([n if s == "n" else s for s in shape]).bfloat16() for shape in rows)
    return x, torch.randn(36, 64).bfloat16() / 8, torch.randn(36).bfloat16(), r


def vary(rows) -> tuple:
    n = torch.export.Dim("n", min=1, max=4096)
    x, r = ({shape.index("n"): n} for shape in rows)
    return x, None, None, r


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name, rows", [("softmax", "rows"), ("norm", "rows in two dimensions"), ("sums", "rows behind")])
def test_rows_that_vary(name, rows):
    torch.manual_seed(0)
    args, cpu = shaped(ROWS[rows], 12), find_target("cpu")
    compiled = compile_universal(
        VARYING[name], args, torch.device("cpu"), "cpu", lambda k: assign.choose(k, cpu), dynamic_shapes=vary(ROWS[rows]), passes=ALWAYS)
    assert len(compiled.program.kernels) == 1
    for n in (12, 1, 65):
        args = shaped(ROWS[rows], n)
        verdict = check(compiled, VARYING[name], args)
        assert verdict.right, f"{n}: {verdict}"


def test_what_is_read_of_rows_that_vary():
    """The same as of known rows, with the symbol in the place of their number."""
    found = []
    for dynamic in (None, vary(ROWS["rows behind"])):
        text, _ = fuse(capture(VARYING["norm"], shaped(ROWS["rows behind"], 16), dynamic_shapes=dynamic))
        with idle_context(), ir.Location.unknown():
            module = ir.Module.parse(text)
            run_pipeline(module, ALWAYS)
            kernel, = kernels(module)
            c = parse_rows(kernel)
            assert assign.choose(kernel, HOPPER).generator == "wgmma_rows" and c.varies == (dynamic is not None)
            accesses = [*c.lhs.reads, *c.rhs.reads, *c.extras, *(d.access for d in c.destinations)]
            found.append(([hint(size) for size in (c.M, *c.sizes)], len(c.steps), c.phases, sorted(tuple(map(hint, a.strides)) for a in accesses)))
    assert found[0] == found[1]


def test_other_sizes_that_vary_stay_apart():
    n = torch.export.Dim("n", min=2, max=256)
    args = (torch.randn(40, 64).bfloat16(), torch.randn(36, 64).bfloat16())
    text, _ = fuse(capture(lambda x, w: torch.softmax(F.linear(x, w), -1), args, dynamic_shapes=(None, {0: n})))
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        run_pipeline(module, ALWAYS)
        assert len(walk(module, "func.call")) > 1
