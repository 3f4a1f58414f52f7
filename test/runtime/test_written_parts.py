"""What torch.compile writes to a part of an argument is written there alone, as eager writes it; results that are the argument, or views of it, are."""

import math

import pytest
import torch

import inferno
from inferno.runtime.executables import plan_in_place
from inferno.runtime.plan.plan import Buffer, Launch
from inferno.runtime.region.graphs import graphs_of


def last(x, y):
    x[:, -1] = y
    return y * 2


def shifted(x, y):
    x[:, 1:] += y[:, None]
    return y.sum()


def token(x, y):
    x.index_copy_(1, torch.tensor([2]), y[:, None])
    return y + 1


def returned(x, y):
    x[:, -1] = y
    return x


def viewed(x, y):
    x[:, 1] = y
    return x[:, :2], y + 1, x[0].t()


def read_before(x, y):
    total = x.sum()
    x[:, -1] = y
    return total


def read_behind(x, y):
    x[:, -1] = y
    return x.sum(1)


def kept(x, y):
    old = x * 1
    x[:, -1] = y
    return old


def copied(x, y):
    x[:, -1] = y
    return x.clone()


def reshaped(x, y):
    """A part whose dimensions of one element are elsewhere in what is written."""
    x[0:1].flatten(0, 1)[1:3] = y[:2]
    return x[1] * 2


FUNCTIONS = [reshaped, last, shifted, token, returned, viewed, read_before, read_behind, kept, copied]


def compiled(function, dynamic, **options):
    torch._dynamo.reset()
    return torch.compile(function, backend="inferno", dynamic=dynamic, options=options or None)


def launches(function, dynamic, *args) -> list[Launch]:
    """What a GPU's program runs, results in their places."""
    fast = compiled(function, dynamic, target="sm_90a")
    with pytest.raises(inferno.LaunchError), torch.no_grad():
        fast(*args)
    ((_, region),) = graphs_of(fast)[0].regions
    (segment,) = region.segments
    assert not region.fallbacks and "write_values" not in region.text and len(segment.written) == 1
    ((number, place),) = segment.written.items()
    if dynamic:
        place = [source for source, *_ in segment._sources].index(place)
    return [s for s in plan_in_place(segment.program, [(number, place)]).steps if isinstance(s, Launch)]


LIES = {
    "dense": lambda x: x, "transposed": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "with an offset": lambda x: torch.cat([torch.zeros(3), x.reshape(-1)])[3:].view(x.shape),
    "with gaps": lambda x: torch.stack([x, x], -1)[..., 0],
}


def sharing(results, x):
    """Of each result whether it is the argument, and whether and where it lies in its memory."""
    shared = [r.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for r in results]
    return [(r is x, s, r.shape, *((r.stride(), r.storage_offset()) if s else ())) for r, s in zip(results, shared)]


@pytest.mark.covering
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("lies", LIES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_arguments_are_changed_as_eager_changes_them(function, lies, dynamic):
    fast = compiled(function, dynamic)
    for rows, columns in ((3, 5), (4, 9)):
        x, y = LIES[lies](torch.randn(rows, 6, columns)), torch.randn(rows, columns)
        other = LIES[lies](x.clone())
        with torch.no_grad():
            for _ in range(2):
                ours, theirs = fast(x, y), function(other, y)
                torch.testing.assert_close((ours, x), (theirs, other))
        results = (ours, theirs) if isinstance(ours, tuple) else ((ours,), (theirs,))
        assert sharing(results[0], x) == sharing(results[1], other)


@pytest.mark.covering
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [last, shifted, token, returned, viewed, read_before, read_behind])
def test_what_changes_alone_is_written_on_a_gpu(function, dynamic):
    """By one launch, which has no more threads than numbers that change."""
    x, y = torch.randn(32, 100, 64), torch.randn(32, 64)
    found = launches(function, dynamic, x, y)
    wrote, buffers = [], []
    for step in found:
        buffers.append([p for p in step.parameters if isinstance(p, Buffer) and p.place != "workspace"])
        wrote += [(step, buffers[-1][-1])] if buffers[-1][-1].place == "argument" else []
    ((launch, to),) = wrote
    assert len(to.shape) == 3
    if not dynamic:
        changed = 32 * 99 * 64 if function is shifted else y.numel()
        assert math.prod(launch.grid) * math.prod(launch.block) <= changed
    assert not any(p.place == "result" and len(p.shape) == 3 for b in buffers for p in b) and not any(step.copies for step in found)
