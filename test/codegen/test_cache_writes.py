"""Writes to a part of an argument, from PyTorch to the kernels that are chosen for it: in the argument's place they write that part alone."""

import pytest
import torch
from torch import nn
from universal_program import Simulated

from inferno.capture import capture
from inferno.capture.decompositions.scattering import put_slices
from inferno.runtime.build import build_from
from inferno.runtime.plan.in_place import write_in_place
from inferno.schedule.attributes import ATTRIBUTE, from_attribute
from inferno.target import find_target


class Cache(nn.Module):
    """``write(cache, new, *places)`` changes a cache in place; what is read of it then is the second result."""

    def __init__(self, write, dtype):
        super().__init__()
        self.write = write
        self.register_buffer("cache", torch.randn(2, 3, 12, 8).to(dtype))

    def forward(self, new, *places):
        self.write(self.cache, new, *places)
        return self.cache[:, :, :, 0] * 2


def put(cache, new, place):
    cache[:, :, place] = new * 2


def narrow(cache, new):
    cache.narrow(2, 5, 3).copy_(new * 2)


def last(cache, new):
    cache[:, 1:, -3:] = new[:, 1:]


def token(cache, new, place):
    cache.index_copy_(2, place, new[:, :, :1] * 2)


def corner(cache, new, place, head):
    chosen = (torch.arange(3) == head).view(3, 1, 1) & (torch.arange(12) == place).view(12, 1)
    cache.copy_(torch.where(chosen, new[:, :1, :1], cache))


def apart(cache, new, first, second):
    """Each sequence of a batch is at a place of its own."""
    place = torch.cat([first, second])
    cache.copy_(torch.where((torch.arange(12) == place[:, None])[:, None, :, None], new[:, :, :1] + 1, cache))


def numbered(cache, new):
    cache[:, :, 7] = new[:, :, 0].sigmoid()


class OnGpu:
    """The model's program, simulated, with its writes in the place of arguments or apart from them; ``choose(kernel)`` may say another schedule."""

    def __init__(self, model, inputs, choose=lambda kernel: from_attribute(kernel.attributes[ATTRIBUTE]), early=False, dynamic_shapes=None):
        found = capture(model, inputs, dynamic_shapes=dynamic_shapes)
        self.signature = found.signature
        text = build_from("torch", found.text, find_target("sm_90a"), last="scheduled", signature=found.signature).stages["scheduled"]
        self.program = Simulated(text, choose, early)

    def plan(self, in_place):
        writes = [(i, r.target) for i, r in enumerate(self.signature.results) if r.kind == "mutation"]
        return write_in_place(self.program.plan, writes) if in_place else self.program.plan

    def kernels(self, in_place):
        return [s.kernel.split("::")[1] for s in self.plan(in_place).steps]

    def __call__(self, inputs, in_place):
        """The results; buffers of the model are changed as a call changes them, and not before the program has run where writes are apart."""
        self.program._executable.plan = self.plan(in_place)
        arguments = [t.detach() for t in self.signature.arguments_of(inputs, {})]
        before = [t.clone() for t in arguments]
        results = self.program(*arguments)
        if not in_place:
            assert all(map(torch.equal, arguments, before))
            for value, result in zip(results, self.signature.results):
                if result.kind == "mutation":
                    arguments[result.target].copy_(value)
        return [value for value, result in zip(results, self.signature.results) if result.kind != "mutation"]


@pytest.mark.covering(most=2)
@pytest.mark.parametrize(("write", "places"), [(put, (torch.tensor([3, 9, 4]),)), (narrow, ()), (last, ())])
def test_parts_are_written_where_they_lie(write, places):
    torch.manual_seed(0)
    model, new = Cache(write, torch.float32), torch.randn(2, 3, 3, 8)
    on_gpu = OnGpu(model, (new, *places))
    for in_place in (True, False):
        expected = model.cache.clone()
        write(expected, new, *places)
        (read,) = on_gpu((new, *places), in_place)
        torch.testing.assert_close(model.cache, expected, rtol=0, atol=0)
        torch.testing.assert_close(read, expected[:, :, :, 0] * 2, rtol=0, atol=0)
    assert len(on_gpu.kernels(True)) == len(on_gpu.kernels(False)) - 1  # the copy


@pytest.mark.covering(most=3)
@pytest.mark.parametrize(("write", "places", "dtype"), [
    (token, ([3], [11], [0], [12], [-1], [-(2**62)], [2**32 + 3]), torch.float32), (token, ([5], [12]), torch.bfloat16),
    (apart, ([4, 7], [0, 0]), torch.bfloat16), (corner, ([4, 1], [4, 3], [12, 0]), torch.float32), (numbered, ([],), torch.float32),
])
def test_a_token_is_written_alone(write, places, dtype):
    """Places that there are not are written to by nobody."""
    torch.manual_seed(0)
    model, new = Cache(write, dtype), torch.randn(2, 3, 3, 8).to(dtype)
    given = [tuple(torch.tensor([n]) for n in place) for place in places]
    on_gpu = OnGpu(model, (new, *given[0]))
    assert len(on_gpu.kernels(True)) == len(on_gpu.kernels(False)) - 1
    for place in given:
        expected = model.cache.clone()
        if not place or 0 <= place[0] < 12:
            write(expected, new, *place)
        for in_place in (True, False):
            start = model.cache.clone()
            (read,) = on_gpu((new, *place), in_place)
            torch.testing.assert_close(model.cache, expected, rtol=1e-6, atol=1e-6)
            torch.testing.assert_close(read, expected[:, :, :, 0] * 2, rtol=1e-6, atol=1e-6)
            if in_place:
                model.cache.copy_(start)


def test_several_slices_are_written_at_their_places():
    """One outside is left out, as on a GPU."""
    torch.manual_seed(0)
    model, new = Cache(lambda cache, new, place: cache.copy_(put_slices(cache, 2, place, new)), torch.bfloat16), torch.randn(2, 3, 3, 8).bfloat16()
    on_gpu = OnGpu(model, (new, torch.tensor([1, 2, 3])))
    assert len(on_gpu.kernels(True)) == len(on_gpu.kernels(False)) - 1
    for place in ([3, 9, 4], [12, -1, 0], [7, 2**40, 8]):
        expected, start = model.cache.clone(), model.cache.clone()
        for n, p in enumerate(place):
            if 0 <= p < 12:
                expected[:, :, p] = new[:, :, n]
        for in_place in (True, False):
            model.cache.copy_(start)
            (read,) = on_gpu((new, torch.tensor(place)), in_place)
            assert torch.equal(model.cache, expected) and torch.equal(read, expected[:, :, :, 0] * 2)


class Both(nn.Module):
    """Two caches, of which the second is written to once more."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.randn(2, 12, 8).bfloat16())
        self.register_buffer("values", torch.randn(3, 12, 16))

    def forward(self, k, v, place, other):
        self.keys.index_copy_(1, place, k)
        self.values.index_copy_(1, other, v)
        return self.keys.sum(1), self.values.sum(1)


def test_keys_and_values_are_written_by_one_launch():
    torch.manual_seed(0)
    model, new = Both(), (torch.randn(2, 1, 8).bfloat16(), torch.randn(3, 1, 16))
    on_gpu = OnGpu(model, (*new, torch.tensor([1]), torch.tensor([1])))
    assert sum("scatter" in k for k in on_gpu.kernels(True)) == 1 and sum("scatter" in k for k in on_gpu.kernels(False)) == 3
    for places in ((3, 11), (12, 0), (5, -1)):
        inputs = (*new, *(torch.tensor([p]) for p in places))
        expected = [t.index_copy(1, at, x) if 0 <= at < 12 else t.clone() for t, x, at in zip((model.keys, model.values), inputs, inputs[2:])]
        start = model.keys.clone(), model.values.clone()
        for in_place in (True, False):
            model.keys.copy_(start[0]), model.values.copy_(start[1])
            read = on_gpu(inputs, in_place)
            assert torch.equal(model.keys, expected[0]) and torch.equal(model.values, expected[1])
            torch.testing.assert_close(read, [t.sum(1) for t in expected], atol=3e-2, rtol=3e-2)


class Kept(nn.Module):
    """A step that also gives its caller the cache as it was."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.randn(2, 12, 8))

    def forward(self, new, place):
        before = self.cache.clone()
        self.cache.index_copy_(1, place, new)
        return before, self.cache.sum(1)


def test_a_cache_that_is_still_needed_is_copied():
    model, inputs = Kept(), (torch.randn(2, 1, 8), torch.tensor([4]))
    on_gpu, before = OnGpu(model, inputs), model.cache.clone()
    assert on_gpu.plan(True) == on_gpu.plan(False)
    old, total = on_gpu(inputs, False)
    expected = before.index_copy(1, inputs[1], inputs[0])
    assert torch.equal(old, before) and torch.equal(model.cache, expected)
    torch.testing.assert_close(total, expected.sum(1))


class Counts(nn.Module):
    """Counts of several sizes, one of which is read as it was, and a weight."""

    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("seen", torch.arange(5))
        self.register_buffer("mean", torch.randn(7))

    def forward(self, x):
        before = self.seen.sum() + self.steps
        self.steps += 1
        self.seen += 2
        self.mean.mul_(0.9).add_(x)
        return before


def test_counts_are_changed_by_one_launch():
    model, x = Counts(), torch.randn(7)
    on_gpu = OnGpu(model, (x,))
    assert sum(k.endswith("updates") for k in on_gpu.kernels(True)) == 1
    assert [o.argument for o in on_gpu.plan(True).outputs] == [*(r.target for r in on_gpu.signature.results if r.kind == "mutation"), -1]
    for in_place in (True, False, True):
        expected = (model.seen.sum() + model.steps, model.steps + 1, model.seen + 2, model.mean * 0.9 + x)
        (before,) = on_gpu((x,), in_place)
        torch.testing.assert_close((before, model.steps, model.seen, model.mean), expected)
