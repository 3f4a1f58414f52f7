"""Elements that are read where other tensors say, of tensors whose sizes vary: one kernel each, right at every size."""

import pytest
import torch
from checks import check
from sized_gather_cases import CASES, EVERY, FIRST, PICTURES, A, F, sampled
from universal_program import SimulatedModel

import inferno
from inferno.capture.capture import capture
from inferno.runtime.call.sizes import SizeCheck
from inferno.schedule.maps import elementwise
from inferno.target import find_target

TARGET = find_target("sm_90a")


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


@pytest.mark.thorough
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


def test_a_float_of_a_size_minus_the_least_whole_number():
    model, x = lambda x: (x.shape[0] * 0.5 - x, x.shape[0] - x), torch.tensor([-128, -1, 0, 127, 5], dtype=torch.int8)
    built = SimulatedModel(model, (torch.zeros(7, dtype=torch.int8),), (FIRST,))
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
    with pytest.raises(inferno.InputError, match="argument y, dimension 2: expected 10, because of the size of argument x"):
        sizes((torch.randn(1, 2, 7, 21), torch.randn(1, 2, 11, 31)))


@pytest.mark.parametrize("shape", [(9,), (9, 7)], ids=str)
def test_complex_elements_of_tensors_of_any_size(shape):
    """On the CPU, which checks each place."""
    make = lambda n, count: (torch.randn(n, *shape[1:], dtype=torch.complex64), torch.randint(-n, n, (count,)))  # noqa: E731
    compiled = inferno.compile(lambda x, i: x[i], make(9, 5), dynamic_shapes=({0: A}, {0: A}), fallback=False, target="cpu")
    for n, count in ((9, 5), (40, 3), (2, 17)):
        x, i = make(n, count)
        assert torch.equal(compiled(x, i), x[i])
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([0, 2]))
