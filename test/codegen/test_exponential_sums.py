"""The largest of a column and the exponentials below it as one reduction: its numbers on a simulated GPU, and where it is chosen."""

import pytest
import torch
from checks import check, scheduled
from exponential_cases import MODELS, PASSES, columns
from universal_program import SimulatedModel, assert_assembles

from inferno.mlir import ir, idle_context
from inferno.schedule import assign
from inferno.schedule.reductions import reductions
from inferno.target import find_target

TARGET = find_target("sm_90a")


def simulated(model, x, changed=lambda s: s):
    """Of a model whose sums get the schedule that ``changed`` makes of the chosen one."""
    def choose(kernel):
        s = assign.choose(kernel, TARGET)
        return changed(s) if kernel.name.value.startswith("reduce_exponentials") else s

    found = SimulatedModel(model, (x,), choose=choose, passes=PASSES)
    assert "reduce_exponentials" in found.program.gpu
    return found


@pytest.mark.covering(most=8, also=lambda name, dtype, shape: name == "the middle" and dtype == torch.float32 and shape == (600, 24))
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(600, 24), (1030, 33), (3000, 8)])
def test_right(name, dtype, shape):
    torch.manual_seed(0)
    model, x = MODELS[name], columns(*shape, dtype if name != "a sum by itself" else torch.float32)
    found = check(simulated(model, x), model, (x,))
    assert found.right, str(found)


@pytest.mark.covering
@pytest.mark.parametrize("along", [1, 8])
@pytest.mark.parametrize("chunks, interleaved", [(1, False), (3, False), (3, True)])
def test_schedules(along, chunks, interleaved):
    torch.manual_seed(0)
    model, x = MODELS["logsumexp"], columns(500, 64, torch.float32)
    changed = simulated(model, x, lambda s: reductions.Reductions(32, along, 2, 4, chunks, interleaved))
    steps = [s.kernel for s in changed.program.plan.steps]
    assert sum(s.startswith("reduce_exponentials") for s in steps) == 1 + (chunks > 1)
    found = check(changed, model, (x,))
    assert found.right, str(found)


@pytest.mark.parametrize("name", ["logsumexp", "log_softmax"])
def test_what_is_made_of_sums(name):
    """Is made where they come together: a logarithm of the sum needs no kernel."""
    torch.manual_seed(0)
    model, x = MODELS[name], columns(3000, 9, torch.float32)
    passes = PASSES + ",hoist-vectors{target=sm_90a always=1},fuse-sum-maps{target=sm_90a}"
    found = SimulatedModel(model, (x,), choose=lambda k: assign.choose(k, TARGET), passes=passes)
    assert len({s.kernel.partition("::")[0] for s in found.program.plan.steps}) == (1 if name == "logsumexp" else 2)
    verdict = check(found, model, (x,))
    assert verdict.right, str(verdict)


@pytest.mark.parametrize("columns_", [37, 222])
def test_rows_of_an_odd_length(columns_):
    """The map behind them reads the largest and the sum as they lie: lanes of a vector are in one row."""
    torch.manual_seed(0)
    x = torch.randn(900, columns_).half()
    found = simulated(MODELS["softmax"], x)
    verdict = check(found, MODELS["softmax"], (x,))
    assert verdict.right, str(verdict)


def test_assembles():
    for dtype in (torch.float32, torch.bfloat16):
        assert_assembles(simulated(MODELS["softmax"], torch.randn(3000, 64).to(dtype)).program.gpu, TARGET)


def generators(model, *shape):
    text = scheduled(model, (torch.empty(shape, dtype=torch.float16),)).stages["scheduled"]
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)  # which has to live as long as its kernels are looked at
        return [ir.StringAttr(k.attributes["inferno.schedule"]["generator"]).value for k in assign.kernels(module)]


def test_where_columns_are_long_and_few():
    """Rows that follow read the tensor instead of its softmax, which is written nowhere."""
    assert generators(lambda x: torch.softmax(torch.softmax(x, 0), -1).sum(-1), 20000, 96) == ["reductions", "rows"]
    assert generators(lambda x: torch.softmax(x, 0), 150, 131072) == ["columns"]
