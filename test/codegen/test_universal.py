"""Kernels of the universal generator against float64, on a simulated GPU; and what they are made of."""

import pytest
import torch
from simulator import Executable
from universal_cases import CASES

from checks import check
from inferno.capture import capture
from inferno.codegen.generate import generate_kernels
from inferno.mlir import ir, new_context, walk
from inferno.passes.lift_constants import lifted_values
from inferno.passes.manager import run_pipeline
from inferno.runtime import jobs
from inferno.runtime.module import _tensor
from inferno.runtime.plan import read_plan
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import ATTRIBUTE, to_attribute
from inferno.schedule.universal import Universal
from inferno.target import find_target
from inferno.targets import nvptx


class Simulated:
    """A model compiled by the universal generator alone, run by the simulator."""

    def __init__(self, model, args) -> None:
        captured = capture(model, args)
        linalg, _ = jobs.lower_to_linalg(captured.text)
        self.signature = captured.signature
        self.context = new_context()
        with self.context, ir.Location.unknown():
            self.module = ir.Module.parse(linalg)
            run_pipeline(self.module, "inferno-fuse")
            self.constants = [_tensor(*c) for c in lifted_values(self.module)]
            for kernel in kernels(self.module):
                kernel.attributes[ATTRIBUTE] = to_attribute(Universal())
            generate_kernels(self.module, "sm_90a")
            self.text = str(self.module)
            run_pipeline(self.module, "plan-launches,plan-memory")
            self.plan = read_plan(str(self.module))
            found = {}
            for device in walk(self.module, "gpu.module"):
                for function in walk(device, "gpu.func"):
                    name = ir.StringAttr(function.attributes["sym_name"]).value
                    found[f"{ir.StringAttr(device.attributes['sym_name']).value}::{name}"] = function
        self.executable = Executable(self.plan, found)

    def __call__(self, *args):
        arguments = [*self.signature.arguments_of(args, {}), *self.constants]
        results = self.executable.run(arguments)
        outputs = [x.view(r.dtype) for x, r in zip(results, self.signature.results) if r.kind == "output"]
        return self.signature.build_output(outputs)


@pytest.mark.parametrize("name", CASES)
def test_right(name):
    torch.manual_seed(0)
    model, args = CASES[name]()
    before = [a.clone() for a in args]
    found = check(Simulated(model, args), model, args)
    assert found.right, str(found)
    assert all(torch.equal(a, b) for a, b in zip(args, before)), "an input was written to"
