"""What tests of scatters share: models that add rows to others, and a model with a generator's schedule for what it scatters."""

import torch
from checks import check
from universal_program import SimulatedModel

from inferno.capture.decompositions.scattered_extremes import extremes
from inferno.capture.devices import capturing_for

PASSES = "fuse-scatters{target=sm_90a always=1}"


def simulated_with(generator, model, args, schedule=None, dynamic_shapes=None):
    """The model with a schedule for what ``generator`` takes of it, or with the chosen ones."""
    used = []

    def choose(kernel):
        found = generator.fit(kernel)
        if found is None:
            return None
        used.append(schedule or found[1])
        return used[-1]

    with capturing_for(True):  # the arguments are examples, and no program's for a CPU
        made = SimulatedModel(model, args, dynamic_shapes, choose, passes=PASSES)
    assert used
    return made


def assert_launches_right(made, model, args, launches):
    """So many kernels, and numbers by the project's rule."""
    assert len(made.program.plan.steps) == launches, made.program.gpu
    found = check(made, model, args)
    assert found.right, str(found)


def extremes_of(kind, include_self=True):
    """The extremes of rows, of a table that are computed, as they are on a GPU."""
    return lambda x, i, y: extremes(x, 0, i[0][:, None].expand(-1, x.shape[1]), x[i[1]] * y, kind, include_self)


def assert_extremes(generator, kind, include_self, dtype, schedule=None):
    """Of all floats there are, exactly; the last rows get nothing.  Returns the model."""
    torch.manual_seed(0)
    x, i, y = torch.randn(20, 8).to(dtype), torch.stack([torch.randint(0, 15, (300,)), torch.randint(0, 20, (300,))]), torch.randn(300, 1).to(dtype)
    x[3, 2], x[5, 1], x[7, 3], x[9] = torch.nan, torch.inf, -torch.inf, -0.0
    made = simulated_with(generator, extremes_of(kind, include_self), (x, i, y), schedule)
    expected = x.scatter_reduce(0, i[0][:, None].expand(-1, 8), x[i[1]] * y, kind, include_self=include_self)
    torch.testing.assert_close(made(x, i, y), expected, rtol=0, atol=0, equal_nan=True)
    return made


def add(x, i, y):
    return x.index_add(0, i, y)


def put(x, i, y):
    return x.index_put((i,), y, accumulate=True)
