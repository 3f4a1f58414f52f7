"""Models whose sizes depend on values: compiled whole for those of a call, and right for every other call."""

import copy

import pytest
import torch
from checks import assert_right
from torch import nn

import inferno
from inferno.runtime import values
from inferno.runtime.module import CompiledModule
from inferno.runtime.region.dynamo import DynamoModule
from inferno.runtime.values import ValuesModule

LENGTHS = torch.tensor([3, 1, 4])


def pieces(x, lengths):
    """Attention within sequences that lie one behind another."""
    return torch.cat([p.softmax(0) @ p.mT @ p for p in x.split(lengths.tolist())])


def cut(x, lengths):
    """The least that the values decide on."""
    return torch.cat([p * p.sum(0) for p in x.split(lengths.tolist())])


def grid(x, sizes):
    places = [torch.stack(torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij"), -1).view(-1, 2) for h, w in sizes]
    places = torch.cat(places)
    return x[: len(places)] * torch.arange(int(sizes.max()))[places].sum(-1, keepdim=True)


def padded(x, lengths):
    extra = (lengths.max() + 3) // 4 * 4 - lengths.max()
    return nn.functional.pad(x, (0, 0, 0, extra)).cumsum(0)


def written(x, lengths):
    bounds = torch.zeros(4, dtype=torch.int64)
    bounds[1:] = lengths.cumsum(0)
    bounds[0] += 1
    return torch.cat([x[a:b].mean(0, keepdim=True) for a, b in zip(bounds.tolist(), bounds[1:].tolist())])


MODELS = {
    "pieces": pieces, "padded": padded,
    "one size": lambda x, lengths: x[: lengths[0]] + torch.arange(lengths[0])[:, None] * torch.zeros(int(lengths.sum()) - 7, 1),
    "repeated": lambda x, lengths: x.repeat_interleave(lengths, 1) * torch.arange(3).repeat_interleave(lengths),
    "condition": lambda x, lengths: x.sin() if lengths[0] > lengths[1] else x.cos(),
    "picked": lambda x, lengths: x[: len(lengths[lengths > 2])] * lengths[lengths > 2][:, None],
    "place": lambda x, lengths: x[lengths[2]] + (x[lengths.argmin()] if lengths.any() else 0),
}


def inputs(name):
    return torch.randn(8, 3 if name == "repeated" else 5)


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", MODELS)
def test_sizes_that_depend_on_values(name):
    model, x = MODELS[name], inputs(name)
    compiled = inferno.compile(model, (x, LENGTHS), target="cpu")
    assert isinstance(compiled, ValuesModule) and not compiled.fallbacks and len(compiled.programs) == 1
    for lengths in (LENGTHS, torch.tensor([4, 2, 2]), LENGTHS.clone()):
        torch.testing.assert_close(compiled(x, lengths), model(x, lengths))
    assert len(compiled._entries) == 2
    inferno.compile(model, (x, LENGTHS), target="sm_90a").explain()


def test_lengths_that_are_written():
    x = torch.randn(8, 5)
    compiled = inferno.compile(written, (x, LENGTHS), target="cpu")
    for lengths in (LENGTHS, torch.tensor([4, 2, 2])):
        torch.testing.assert_close(compiled(x, lengths), written(x, lengths))


@pytest.mark.thorough
def test_a_grid():
    x, sizes = torch.randn(30, 4), torch.tensor([[2, 3], [4, 1]])
    compiled = inferno.compile(grid, (x, sizes), target="cpu")
    assert isinstance(compiled, ValuesModule)
    for other in (sizes, torch.tensor([[1, 3], [4, 2]])):
        torch.testing.assert_close(compiled(x, other), grid(x, other))
    assert "values of sizes" in str(compiled.explain())


def test_values_that_decide_nothing_may_change():
    def model(x, lengths, tokens):
        return cut(x, lengths) * tokens.cumsum(0)[:, None] + x[tokens]

    x, tokens = torch.randn(8, 5), torch.tensor([3, 1, 0, 2, 5, 7, 4, 6])
    compiled = inferno.compile(model, (x, LENGTHS, tokens), target="cpu")
    torch.testing.assert_close(compiled(x, LENGTHS, tokens.flip(0)), model(x, LENGTHS, tokens.flip(0)))
    assert len(compiled._entries) == 1


@pytest.mark.thorough
def test_many_values_and_other_inputs_are_left_to_dynamo(monkeypatch):
    monkeypatch.setattr(values, "_MOST", 2)
    x = torch.randn(8, 5)
    compiled = inferno.compile(cut, (x, LENGTHS), target="cpu")
    for i in range(1, 4):
        lengths = torch.tensor([i, 8 - i])
        torch.testing.assert_close(compiled(x, lengths), cut(x, lengths))
        assert (compiled._rest is None) == (i == 1)
    assert len(compiled._entries) == 2 and isinstance(compiled._rest, DynamoModule)
    torch.testing.assert_close(compiled(torch.cat([x, x]), lengths=torch.tensor([16])), cut(torch.cat([x, x]), torch.tensor([16])))


class Codec(nn.Module):
    """Its convolutions know their stride as a buffer, and pad as far as that needs."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv1d(2, 3, 4, stride=3)
        self.register_buffer("stride", torch.tensor(3), persistent=False)
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x):
        self.calls += 1
        extra = torch.ceil((x.shape[-1] - 4) / self.stride).to(torch.int64) * self.stride + 4 - x.shape[-1]
        return self.convolution(nn.functional.pad(x, (0, extra)))


def test_buffers_that_decide():
    model, x = Codec(), torch.randn(1, 2, 12)
    compiled = inferno.compile(model, (x,), target="cpu")
    assert isinstance(compiled, ValuesModule)
    expected = copy.deepcopy(model)
    for stride in (3, 3, 5):
        model.stride.fill_(stride)
        expected.stride.fill_(stride)
        torch.testing.assert_close(compiled(x), expected(x))
        assert model.calls == expected.calls
    assert len(compiled._entries) == 2
    copied = copy.deepcopy(compiled)
    copied.convolution.weight.data.mul_(2)
    expected.convolution.weight.data.mul_(2)
    torch.testing.assert_close(copied(x), expected(x))
    assert model.calls == 3
    torch.testing.assert_close(compiled(x[..., :10]), model(x[..., :10]))


def test_what_others_write_is_not_known():
    def model(x, lengths):
        sizes = torch.zeros(3, dtype=torch.int64)
        sizes[:] = lengths
        sizes.add_((x.sum(1)[:3] > 0).long())
        return x[: sizes[0]] + x.split(lengths.tolist())[0].sum()

    x = torch.randn(8, 5)
    compiled = inferno.compile(model, (x, LENGTHS), target="cpu")
    for y in (x, -x):
        torch.testing.assert_close(compiled(y, LENGTHS), model(y, LENGTHS))


def test_tokens_that_decide_are_left_to_dynamo():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(9, 4)

        def forward(self, tokens):
            return self.embedding(tokens)[: tokens.argmax() + 1].softmax(0) if tokens[0] > 2 else self.embedding(tokens)

    model, tokens = Model(), torch.tensor([3, 1, 8, 2])
    compiled = inferno.compile(model, (tokens,), target="cpu")
    assert isinstance(compiled, DynamoModule)
    torch.testing.assert_close(compiled(tokens), model(tokens))


def test_values_that_a_model_counts_itself():
    def model(x):
        return torch.cat([p.softmax(0) for p in x.split(torch.arange(1, 4).tolist())])

    compiled = assert_right(model, (torch.randn(6, 5),), fallback=True)
    assert type(compiled) is CompiledModule and len(compiled.programs) == 1


@pytest.mark.thorough
def test_long_recurrent_layers_are_left_to_dynamo():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.LSTM(4, 4, 2, batch_first=True)

        def forward(self, x, lengths):
            return self.layer(x[:, : int(lengths.max())])[0].sum(1) if lengths[0] > 1 else x.sum(1)

    model, lengths = Model(), torch.tensor([3, 2])
    with torch.no_grad():
        for steps, kind in ((2, ValuesModule), (129, DynamoModule)):
            x, lengths = torch.randn(2, 129, 4), torch.tensor([steps, 2])
            compiled = inferno.compile(model, (x, lengths), target="cpu")
            assert isinstance(compiled, kind)
            torch.testing.assert_close(compiled(x, lengths), model(x, lengths))


def test_what_shares_memory_is_not_known():
    def model(x, lengths):
        sizes = lengths + 0
        sizes.expand_as(x[:3, 0]).copy_(x[:3, 0].abs().ceil())
        return x[: sizes[0]] + x.split(lengths.tolist())[0].sum()

    x = torch.arange(40.0).view(8, 5) / 12 + 1.5
    compiled = inferno.compile(model, (x, LENGTHS), target="cpu")
    for y in (x, x + 2):
        torch.testing.assert_close(compiled(y, LENGTHS), model(y, LENGTHS))


def test_numbers_that_are_drawn_are_not_known():
    def model(x, lengths):
        count = torch.randint_like(lengths, 1, 6)[0] + torch.zeros_like(lengths)[0]
        return x[:count] * len(x.split(lengths.tolist()))

    x = torch.randn(8, 5)
    compiled = inferno.compile(model, (x, LENGTHS), target="cpu")
    assert len({len(compiled(x, LENGTHS)) for _ in range(40)}) > 1


@pytest.mark.thorough
def test_calls_under_transforms_and_without_fallback():
    x = torch.randn(8, 5)
    compiled = inferno.compile(cut, (x, LENGTHS), target="cpu")
    torch.testing.assert_close(torch.func.vmap(lambda y: compiled(y, LENGTHS))(x[None]), cut(x, LENGTHS)[None])
    with pytest.raises(inferno.InfernoError):
        inferno.compile(cut, (x, LENGTHS), target="cpu", fallback=False)


def off_the_diagonal(x):
    """Scores of pairs, as contrastive losses have them."""
    scores = x @ x.T
    return scores[~torch.eye(len(x), dtype=torch.bool)].view(len(x), -1).logsumexp(1)


MASKS = {
    "pairs": off_the_diagonal,
    "a diagonal": lambda x: (x @ x.T)[torch.eye(len(x), dtype=torch.bool)] - x[:, 0],
    "masked_select": lambda x: torch.masked_select(x @ x.T, torch.ones(len(x), len(x)).triu(1).bool()).mean(),
    "places": lambda x: x[torch.ones(len(x), x.shape[1]).tril().nonzero(as_tuple=True)].sum(),
    "beside other indices": lambda x: (x[torch.arange(len(x)) > 3, 2:4].sum(), x[:, torch.arange(x.shape[1]) % 2 == 0, None], x[torch.arange(len(x)) < 2, 1]),
}


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", MASKS)
def test_masks_of_no_input(name):
    """What they pick is found out while the model is traced."""
    fast = assert_right(MASKS[name], (torch.randn(8, 6),), fallback=True)
    assert isinstance(fast, CompiledModule) and not fast.explain().fallbacks


def test_numbers_of_no_input():
    """Python reads what is made of constants alone."""
    assert_right(lambda x: [x * k for k in torch.linspace(0, 1, 4).tolist()], (torch.randn(3),), target="cpu")


def test_a_mask_that_must_select_as_many_as_another_tensor_has():
    """So torch says how many there are, though they depend on the data: the import would never end."""
    def function(x, y):
        return x[x.isfinite()] - y.flatten()

    fast = inferno.compile(function, (torch.randn(3, 4), y := torch.randn(3, 4)))
    torch.testing.assert_close(fast(x := torch.randn(3, 4), y), function(x, y))
    assert ["how many elements its mask selects" in str(f) for f in fast.explain().fallbacks] == [True]
