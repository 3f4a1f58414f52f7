"""Elements that are read where other tensors say, of tensors whose sizes vary: one kernel each, right at every size."""

import pytest
import torch
from checks import check
from torch.export import Dim
from universal_program import SimulatedModel

import inferno
from inferno.capture.capture import capture
from inferno.runtime.call.sizes import SizeCheck
from inferno.schedule import elementwise
from inferno.target import find_target

TARGET, F, A = find_target("sm_90a"), torch.nn.functional, Dim.AUTO
PICTURES = [(2, 9, 11, 5, 8), (3, 4, 30, 7, 16), (3, 40, 5, 9, 3)]
TABLES = [(2, 9, 11, 5), (4, 30, 7, 16), (3, 5, 40, 33)]
FIRST, SECOND, EVERY = {0: A}, {0: A, 1: A}, {0: A, 1: A, 2: A}


def sampled(**how):
    return lambda x, g: F.grid_sample(x, g, **{"align_corners": False, **how})


def pictures(b, h, w, p, q):
    return torch.randn(b, 3, h, w), torch.rand(b, p, q, 2) * 2.6 - 1.3


def volumes(b, h, w, p, q):
    return torch.randn(b, 3, 4, h, w), torch.rand(b, 2, p, q, 3) * 2.6 - 1.3


def deep(b, h, w, p, q):
    return torch.randn(b, 3, w, h, 6), torch.rand(b, p, q, 2, 3) * 2.6 - 1.3


def places(size, *shape):
    return torch.randint(-size, size, shape)


def pairs(*front, behind=()):
    """A table [*front, h, w, *behind], and as many places along h and w."""
    return lambda b, h, w, n: (torch.randn(*front, h, w, *behind), places(h, n), places(w, n))


def along(dim):
    """A table, and places along one dimension, the others of which are the table's."""
    def inputs(b, h, w, n):
        size = (b, h, w)[dim]
        return torch.randn(b, h, w), torch.randint(size, [n if d == dim else m for d, m in enumerate((b, h, w))])

    return inputs


# The model, what makes its inputs of sizes, what varies, and the sizes; it is compiled for the first.
SAMPLES = {
    **{f"{mode}, {padding}, {corners}": (
        sampled(mode=mode, padding_mode=padding, align_corners=corners), pictures, ({0: A, 2: A, 3: A}, EVERY), PICTURES,
    ) for mode in ("bilinear", "nearest", "bicubic") for padding in ("zeros", "border", "reflection") for corners in (False, True)},
    "volumes": (sampled(padding_mode="reflection"), volumes, ({0: A, 3: A, 4: A}, {0: A, 2: A, 3: A}), PICTURES),
    "volumes of any depth": (sampled(align_corners=True), deep, ({0: A, 2: A, 3: A}, EVERY), PICTURES),
}
PICKS = {
    "pairs": (lambda x, i, j: x[i, j] * 2, pairs(behind=(3,)), (SECOND, FIRST, FIRST), TABLES),
    "behind a slice": (lambda x, i, j: x[:, i, j], pairs(4), ({1: A, 2: A}, FIRST, FIRST), TABLES),
    "apart": (
        lambda x, i, j: x[i, :, j], lambda b, h, w, n: (torch.randn(h, b, w, 2), places(h, n), places(w, n)), (EVERY, FIRST, FIRST), TABLES,
    ),
    "of a part": (
        lambda x, i, j: x[i, j, 1:], lambda b, h, w, n: (torch.randn(h, w, b + 2), places(h, n), places(w, n)), (EVERY, FIRST, FIRST), TABLES,
    ),
    "rows and columns": (
        lambda x, i, j: x[i[:, None], j], lambda b, h, w, n: (torch.randn(h, w), places(h, b), places(w, n)), (SECOND, FIRST, FIRST), TABLES,
    ),
    "of 32 bits": (
        lambda x, i, j: x[i.int(), j], lambda b, h, w, n: (torch.randn(h, w), places(h, n), places(w, b, n)), (SECOND, FIRST, SECOND), TABLES,
    ),
    "three": (
        lambda x, i, j, k: x[i, j, k], lambda b, h, w, n: (torch.randn(b, h, w), places(b, n), places(h, n, 1, 1), places(w, h, 1)),
        (EVERY, FIRST, FIRST, FIRST), TABLES,
    ),
    "bytes": (
        lambda x, i, j: x[i, j], lambda b, h, w, n: (torch.randint(0, 255, (h, w), dtype=torch.uint8), places(h, n), places(w, n)),
        (SECOND, FIRST, FIRST), TABLES,
    ),
    "the last token": (
        lambda x, n: x[torch.arange(x.shape[0]), n - 1] + 1, lambda b, h, w, n: (torch.randn(b, h, 8), torch.randint(1, h + 1, (b,))), (SECOND, FIRST), TABLES,
    ),
    "each token's word": (
        lambda x, y: x[torch.arange(x.shape[0])[:, None], torch.arange(x.shape[1]), y],
        lambda b, h, w, n: (torch.randn(b, h, 9), places(9, b, h)), (SECOND, SECOND), TABLES,
    ),
    **{f"gathered along {d}": (lambda x, i, d=d: x.gather(d, i), along(d), (EVERY, EVERY), TABLES) for d in range(3)},
}
RESIZED = {
    f"resized by {factor}, {mode}": (
        lambda x, factor=factor, mode=mode: F.interpolate(x, scale_factor=factor, mode=mode), lambda b, h, w, n: (torch.randn(b, 2, h, w),),
        ({0: A, 2: A, 3: A},), TABLES,
    ) for factor in (2, 0.5, 1.5) for mode in ("bilinear", "bicubic")
}
CASES = {**SAMPLES, **PICKS, **RESIZED}


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("name", CASES)
def test_one_kernel_is_right_for_every_size(name):
    torch.manual_seed(0)
    model, inputs, dynamic_shapes, sizes = CASES[name]
    built = SimulatedModel(model, inputs(*sizes[0]), dynamic_shapes, choose=lambda kernel: elementwise.choose(kernel, TARGET), expand=True)
    if "bicubic" not in name:  # on a CPU torch's weights are rows of several
        assert built.program.gpu.count('"inferno.launch"') == 1
    for each in sizes:
        found = check(built, model, inputs(*each))
        assert found.right, f"{each}: {found}"


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("across", [2, 4])
@pytest.mark.parametrize("model", [sampled(), sampled(mode="nearest", padding_mode="border"), lambda x, g, y: F.grid_sample(x, g, align_corners=True) * y])
def test_a_thread_samples_several_channels(model, across):
    """What else is read of each channel, and the result, lie apart as far as the sizes say."""
    def inputs(b, h, w, p, q):
        args = torch.randn(b, 8, 3 * h, 3 * w), torch.rand(b, p, q, 2) * 2.6 - 1.3, torch.randn(b, 8, p, q)
        return args[: model.__code__.co_argcount]

    torch.manual_seed(0)
    varying = ({0: A, 2: A, 3: A}, EVERY, {0: A, 2: A, 3: A})[: model.__code__.co_argcount]
    big = (2, 30, 50, 40, 60)  # pictures that the L1 cache does not have
    built = SimulatedModel(model, inputs(*big), varying, choose=lambda kernel: elementwise.Elementwise(64, 1, across=across), expand=True)
    for each in [*PICTURES, (2, 12, 9, 16, 16)]:
        found = check(built, model, inputs(*each))
        assert found.right, f"{each}: {found}"


def test_several_channels_are_chosen_as_for_known_sizes():
    model, args, found = sampled(), (torch.empty(4, 64, 128, 160), torch.empty(4, 128, 160, 2)), []
    for varying in (None, ({0: A, 2: A, 3: A}, EVERY)):
        SimulatedModel(model, args, varying, choose=lambda kernel: found.append(elementwise.choose(kernel, TARGET)) or found[-1], expand=True)
    assert found == [elementwise.Elementwise(256, 1, across=4)] * 2


def test_a_size_minus_elements():
    model, x = lambda x: (x.shape[0] - x, x.shape[0] / 2 - x, x.shape[0] - x.int(), torch.rsub(x, x.shape[0], alpha=2)), torch.randn(9, 3)
    built = SimulatedModel(model, (torch.randn(5, 3),), (FIRST,))
    for ours, theirs in zip(built(x), model(x)):
        assert torch.equal(ours, theirs)


def test_sizes_that_are_rounded_are_checked_at_the_call():
    """What a factor makes of a size has to fit another tensor's."""
    def model(x, y):
        return F.interpolate(x, scale_factor=1.5, mode="bilinear") + y

    def inputs(h, w):
        return torch.randn(1, 2, h, w), torch.randn(1, 2, h * 3 // 2, w * 3 // 2)

    sizes = SizeCheck(capture(model, inputs(9, 12), {}, ({2: A, 3: A}, {2: A, 3: A})).signature)
    sizes(inputs(7, 21))
    with pytest.raises(inferno.InputError, match="must hold"):
        sizes((torch.randn(1, 2, 7, 21), torch.randn(1, 2, 11, 31)))
