"""Programs whose only contraction has a schedule that the test says, on a GPU."""

import sys
from pathlib import Path

import torch
from checks import check, poison_memory

from inferno.mlir import ir
from inferno.passes.programs import PRECISION
from inferno.schedule.maps import elementwise
from inferno.schedule.matmul.parser import parse_contraction
from inferno.target import find_target
from inferno.tf32 import takes_tf32

sys.path.insert(0, str(Path(__file__).parent / "codegen"))
from universal_program import compile_universal

F = torch.nn.functional
TARGET = find_target("sm_90a")


def right(schedule, function, *shapes, dtype=torch.bfloat16):
    """``function`` with ``schedule`` of normal numbers is right, and the same twice; returns it and its arguments."""
    torch.manual_seed(0)
    args = tuple(torch.randn(s, device="cuda").to(dtype) for s in shapes)
    used = []

    def choose(kernel):
        if parse_contraction(kernel) is None:
            return elementwise.choose(kernel, TARGET)
        used.append(schedule)
        if dtype == torch.float32 and takes_tf32():
            kernel.attributes[PRECISION] = ir.StringAttr.get("tf32", kernel.context)
        return schedule

    compiled = compile_universal(function, args, torch.device("cuda"), TARGET.name, choose)
    assert "failed" not in (report := str(compiled.explain())), report
    poison_memory()
    verdict = check(compiled, function, args)
    assert used and verdict.right, f"{schedule}\n{verdict}"
    assert torch.equal(compiled(*args), compiled(*args))
    return compiled, args


def gelu(x, w, r):
    return F.gelu(F.linear(x, w)) + r
