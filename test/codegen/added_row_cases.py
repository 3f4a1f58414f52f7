"""What tests of scatters share: models that add rows to others, and a model with a generator's schedule for what it scatters."""

from universal_program import SimulatedModel

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


def add(x, i, y):
    return x.index_add(0, i, y)


def put(x, i, y):
    return x.index_put((i,), y, accumulate=True)
