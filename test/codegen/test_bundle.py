"""Independent small kernels in one launch: right on the simulated GPU, assembled as one kernel without spills, and only where they may be."""

import pytest
import torch
from bundle_cases import CASES
from checks import check
from universal_program import Simulated, SimulatedModel, _fuse, assert_assembles

from inferno.capture import capture
from inferno.codegen.composite import bundle as codegen
from inferno.errors import CompileError
from inferno.mlir import ir, idle_context
from inferno.passes.manager import run_pipeline
from inferno.runtime.call.finish import Finish
from inferno.runtime.executables import tensor_of
from inferno.runtime.report import read_schedule
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import ATTRIBUTE, from_attribute, to_attribute
from inferno.schedule.composite import bundle
from inferno.schedule.composite.bundle import Bundle
from inferno.schedule.maps.elementwise import Elementwise
from inferno.schedule.passes.bundle_kernels import BUNDLE
from inferno.schedule.reductions.reduction_schedule import Reductions
from inferno.target import find_target

TARGET = find_target("sm_90a")


class SimulatedBundles(SimulatedModel):
    """A model whose small kernels are bundled, as chosen, on the simulator."""

    def __init__(self, function, args, dynamic_shapes=None) -> None:
        captured = capture(function, args, {}, dynamic_shapes)
        fused, constants = _fuse(captured, expand=True)
        with idle_context(), ir.Location.unknown():
            module = ir.Module.parse(fused)
            module.operation.attributes[BUNDLE] = ir.UnitAttr.get()
            run_pipeline(module, f"inferno-schedule{{target={TARGET.name}}}")
            self.schedules = [from_attribute(k.attributes[ATTRIBUTE]) for k in kernels(module)]
            self.scheduled = str(module)
        self._signature, self._constants = captured.signature, [tensor_of(*c) for c in constants]
        self.program = Simulated(self.scheduled, lambda kernel: from_attribute(kernel.attributes[ATTRIBUTE]))
        self._finish = Finish(self._signature, self.program)

    @property
    def bundles(self) -> list[list[str]]:
        return [[p.generator for p in s.parts] for s in self.schedules if isinstance(s, Bundle)]


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    torch.manual_seed(0)
    function, args, bundles = CASES[name]
    simulated = SimulatedBundles(function, args)
    assert sorted(map(sorted, simulated.bundles)) == sorted(map(sorted, bundles))
    assert (found := check(simulated, function, args)).right, str(found)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name, varying", [("several generators", False), ("equal parts", False), ("equal parts", True), ("a transposing one", True)])
def test_assembles(name, varying):
    function, args, _ = CASES[name]
    sizes = tuple({d: torch.export.Dim.AUTO for d in range(a.dim())} for a in args) if varying else None
    assert_assembles(SimulatedBundles(function, args, sizes).program.gpu, TARGET)


@pytest.mark.parametrize("other", [Elementwise(threads=128), Reductions(1, 128, 8)], ids=["elementwise", "reductions"])
def test_is_told(other):
    """Threads are those of a block of any part: sums have theirs by what they share."""
    with idle_context():
        text = str(to_attribute(Bundle((Reductions(2, 64, 8), other))))
    assert read_schedule(text) == ("bundle", f"reductions + {other.generator}, 128 threads")


def chain(x):
    y = torch.softmax(x, -1)
    return torch.softmax(y.t() @ y, -1)


def large(x, y):
    return torch.softmax(x, -1), torch.softmax(y, -1)


def update(w, v):
    return w * 0.9, v * 0.9


def test_what_may_be_written_in_place_still_may_be():
    simulated = SimulatedBundles(update, (torch.randn(64), torch.randn(64)))
    assert len(simulated.bundles) == 1 and "inferno.overwrites" in simulated.scheduled
    assert (found := check(simulated, update, (torch.randn(64), torch.randn(64)))).right, str(found)


@pytest.mark.parametrize("function, args", [
    (chain, (torch.empty(8, 8),)), (large, (torch.empty(2048, 2048), torch.empty(1024, 2048))),
], ids=["one waits for the other", "large ones"])
def test_left_alone(function, args):
    assert not SimulatedBundles(function, args).bundles


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", ["several generators", "equal parts", "bytes and halves", "a transposing one", "of nothing"])
def test_sizes_that_vary(name):
    """How many blocks a part has, and where the next one's begin, a call says."""
    function, args, _ = CASES[name]
    torch.manual_seed(0)
    simulated = SimulatedBundles(function, args, tuple({d: torch.export.Dim.AUTO for d in range(a.dim())} for a in args))
    assert len(simulated.bundles) == 1
    for part in (1.0, 0.4, 2.3):
        given = tuple(torch.randn([max(2, int(n * part)) for n in a.shape]) for a in args)
        assert (found := check(simulated, function, given)).right, str(found)


def apart(x, y, z):
    return torch.sin(x)[:, None] * z, torch.softmax(z, -1), torch.cos(y)[:, None] + z, torch.exp(y)[:, None] * z


def test_parts_without_blocks():
    """Where a size is 0, whichever part has that."""
    sizes = tuple({0: torch.export.Dim(name, min=0, max=1 << 20)} for name in ("n", "m"))
    simulated = SimulatedBundles(apart, (torch.randn(9), torch.randn(300), torch.randn(40, 8)[0]), (*sizes, None))
    assert len(simulated.bundles) == 1
    for n, m in ((9, 300), (0, 300), (300, 0), (0, 0), (1, 1)):
        args = torch.randn(n), torch.randn(m), torch.randn(8)
        torch.testing.assert_close(simulated(*args), apart(*args))


def test_a_schedule_for_other_kernels():
    function, args, _ = CASES["equal parts"]
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(SimulatedBundles(function, args).scheduled)
        kernel = next(k for k in kernels(module) if "bundle" in k.name.value)
        with pytest.raises(CompileError, match="3 independent parts, and its schedule is for 1"):
            codegen.generate(kernel, Bundle((Elementwise(),)), TARGET)


def test_a_warp_alone_is_no_block_of_what_has_many():
    large, small = Elementwise(threads=256), Reductions(16, 2, 1)
    assert bundle.join([large, large]) is not None
    assert bundle.join([large, small]) is None
    assert bundle.join([Elementwise(threads=64), small]) is not None


def test_sums_have_as_many_threads_as_others():
    """Half of theirs, and no fewer: and not where one thread has each."""
    few, many = Reductions(32, 8, 8), Reductions(32, 16, 4)
    assert bundle.join([few, many]).parts == (few, Reductions(32, 8, 4))
    assert bundle.join([few, Reductions(32, 32, 4)]) is None
    assert bundle.join([few, Reductions(512, 1, 4)]) is None
