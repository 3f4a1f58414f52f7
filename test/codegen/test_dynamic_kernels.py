"""Kernels for sizes that vary, on the simulated GPU: generated once, right for every size."""

import pytest
import torch
from checks import check
from dynamic_cases import CASES
from universal_program import SimulatedModel

from inferno.mlir import ir, new_context
from inferno.passes.manager import run_pipeline
from inferno.schedule import elementwise, simt
from inferno.target import find_target
from inferno.targets import nvptx

TARGET = find_target("sm_90a")


@pytest.mark.parametrize("name", CASES)
def test_right_for_every_size(name):
    torch.manual_seed(0)
    model, inputs, dynamic_shapes, sizes = CASES[name]()
    simulated = SimulatedModel(model, inputs(*sizes[0]), dynamic_shapes)
    for each in sizes:
        found = check(simulated, model, inputs(*each))
        assert found.right, f"{each}: {found}"


def of_choice(kernel):
    """The schedule of the first generator that takes a kernel and whose code the simulator runs."""
    return simt.choose(kernel, TARGET) or elementwise.choose(kernel, TARGET)


ELEMENTWISE = ["elementwise", "broadcast", "transposed", "layer norm", "linear", "positions", "gather", "slices", "no rows", "attention", "multiples"]


@pytest.mark.parametrize("name", [*ELEMENTWISE, "matmul"])
def test_the_generators_of_choice_are_right_for_every_size(name):
    torch.manual_seed(0)
    model, inputs, dynamic_shapes, sizes = CASES[name]()
    simulated = SimulatedModel(model, inputs(*sizes[0]), dynamic_shapes, of_choice)
    for each in sizes:
        found = check(simulated, model, inputs(*each))
        assert found.right, f"{each}: {found}"


ASSEMBLED = [*((n, None) for n in ("attention", "row sums", "cumulative sums")), *((n, of_choice) for n in (*ELEMENTWISE[:6], "matmul", "attention"))]


@pytest.mark.parametrize(("name", "choose"), ASSEMBLED)
def test_assembles(name, choose):
    model, inputs, dynamic_shapes, sizes = CASES[name]()
    simulated = SimulatedModel(model, inputs(*sizes[0]), dynamic_shapes, choose)
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse(simulated.program.gpu)
        run_pipeline(module, "inferno-lower")
        for device in [o for o in module.body.operations if o.operation.name == "gpu.module"]:
            ptx = nvptx.to_ptx(nvptx.llvm_text(device.operation), TARGET)
            assembled = nvptx.assemble(ptx, TARGET)
            assert ".entry" in ptx and (assembled is None or all(r.stack == r.spills == 0 for r in assembled[1].values()))
