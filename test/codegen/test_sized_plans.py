"""What a contraction whose sizes vary is launched with, at any size, is what one that is compiled for that size is launched with."""

import pytest
import torch
from torch.export import Dim
from universal_program import SimulatedModel

from inferno.runtime.plan.plan import Launch, Scalar, at_sizes
from inferno.schedule.maps import elementwise
from inferno.schedule.matmul.bf16x6 import Bf16x6
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.wgmma_schedule import Wgmma
from inferno.target import find_target

TARGET = find_target("sm_90a")
F = torch.nn.functional
N, B = Dim("n", min=1, max=2048), Dim("b", min=1, max=64)

# The function, its inputs for a size, and what varies.
CASES = {
    "rows": (lambda x, w, b: F.gelu(F.linear(x, w, b)), lambda n: ((n, 512), (768, 512), (768,)), ({0: N}, None, None)),
    "rows, transposed": (lambda x, w: x.t() @ w, lambda n: ((512, n), (512, 768)), ({1: N}, None)),
    "columns": (lambda x, w: torch.relu(w @ x.t()), lambda n: ((n, 512), (640, 512)), ({0: N}, None)),
    "terms, of a table": (lambda x, y: torch.relu(x @ y), lambda n: ((640, n), (n, 504)), ({1: N}, {0: N})),
    "all": (lambda x, y: x @ y, lambda n: ((n, n), (n, n)), ({0: N, 1: N}, {0: N, 1: N})),
    "a scaled rhs of terms": (lambda x, w, s: x.t() @ (w * s), lambda n: ((n, 512), (n, 768), (n, 1)), ({0: N},) * 3),
    "a batch of scores": (lambda q, k: q @ k.transpose(2, 3), lambda n: ((3, 4, n, 64),) * 2, ({0: B, 2: N},) * 2),
    "a batch of values": (lambda p, v: p @ v, lambda n: ((3, 4, n, n), (3, 4, n, 64)), ({0: B, 2: N, 3: N}, {0: B, 2: N})),
}


def simulated(name: str, n: int, dtype: torch.dtype, dynamic: bool) -> SimulatedModel:
    function, shapes, dynamic_shapes = CASES[name]
    schedule = Bf16x6(128, 64, 4, 4, persistent=False) if dtype is torch.float32 else Wgmma(64, 64, 6, 1)

    def choose(kernel):
        return schedule if parse_contraction(kernel) is not None else elementwise.choose(kernel, TARGET)

    return SimulatedModel(function, tuple(torch.randn(s, dtype=dtype) for s in shapes(n)), dynamic_shapes if dynamic else None, choose)


def described(step: Launch) -> tuple:
    """All but the sizes that a kernel gets, and where buffers are in the workspace."""
    parameters = [str(p) if getattr(p, "place", "") != "workspace" else str(p.shape) for p in step.parameters if not isinstance(p, Scalar)]
    return (step.kernel, step.grid, step.block, step.cluster, step.shared, parameters)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize(("name", "dtype"), [
    *((name, torch.float32) for name in ("rows", "terms, of a table", "a scaled rhs of terms", "all", "a batch of values")),
    *((name, torch.bfloat16) for name in ("rows, transposed", "columns", "a batch of scores")),
])
def test_the_launches_are_those_of_a_static_program(name, dtype):
    plan = simulated(name, 997, dtype, True).program.plan  # (near enough for lines of copies that are padded alike)
    n = 1001  # odd: of a multiple of 4 a static program would know that tensor maps can describe it
    ours = at_sizes(plan, {s.name: 3 if s.hint == 3 else n for s in plan.symbols}).steps
    theirs = simulated(name, n, dtype, False).program.plan.steps
    assert list(map(described, ours)) == list(map(described, theirs))
