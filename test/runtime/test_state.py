"""State and aliasing: a compiled model writes, shares memory and is handled as the model itself in eager."""

import copy
import io
import pickle
from unittest import mock

import pytest
import torch
from checks import check
from torch import nn

import inferno


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4)

    def forward(self, x):
        return self.second(torch.relu(self.norm(self.first(x))))


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture
def x():
    return torch.randn(5, 8)


def assert_same(ours, eager):
    torch.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-6)


def sharing(outputs, inputs):
    """For each output its shape, its strides, and which inputs and outputs are in the same memory, from where on."""
    memory = lambda t: t.untyped_storage().data_ptr()  # noqa: E731
    return [
        (tuple(o.shape), o.stride(), o.dtype, [i for i, t in enumerate((*inputs, *outputs)) if memory(t) == memory(o)],
         o.storage_offset() if any(memory(t) == memory(o) for t in inputs) else 0)
        for o in outputs
    ]


class Views(nn.Module):
    """Outputs that are inputs, buffers, parts of them and of each other, before and after they are written to."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 4))
        self.register_buffer("total", torch.zeros(4, 4))
        self.constant = torch.ones(3)

    def forward(self, x, y):
        sums, (q, k) = x.t() + 1, (x @ self.w).chunk(2, 1)
        self.total.add_(x)
        before = y.reshape(-1)
        y.mul_(2)
        return (
            x.view(-1), x, x.contiguous(), x.to(torch.float32), x.clone(), x.view(torch.int32), nn.functional.dropout(x, 0.5, False)[1:],
            y, before, y[1:, ::2], self.w, self.w.t(), self.constant, self.total, self.total[0],
            sums, sums[:, 1:], sums.expand(2, 4, 4), q, k, x + 1, x + 1, (x @ self.w).t(), (x + 2).expand(3, 4, 4),
            (x * 2).view(2, 2, 2, 2).to(memory_format=torch.channels_last),
        )


def test_outputs_share_what_they_share_in_eager():
    torch.manual_seed(0)
    model = Views()
    other = copy.deepcopy(model)
    x, y = torch.randn(4, 4), torch.randn(4, 4).t()
    a, b = x.clone(), y.clone()
    compiled = inferno.compile(model, (x, y))
    assert compiled.explain().fallbacks == ()
    with torch.no_grad():
        for _ in range(2):
            ours, eager = compiled(x, y), other(a, b)
            assert sharing(ours, (x, y, model.w, model.total, model.constant)) == sharing(eager, (a, b, other.w, other.total, other.constant))
            assert ours[1] is x and ours[7] is y and ours[10] is model.w
            assert all(torch.equal(p.isfinite(), q.isfinite()) for p, q in zip(ours, eager) if p.is_floating_point())
            for p, q in zip(ours, eager):
                assert_same(p, q)
            assert_same(model.total, other.total)
            assert_same(y, b)
    # Whoever writes to an output sees the same in all others.
    for outputs in (ours, eager):
        outputs[15].fill_(7.0)
        outputs[0][3] = -1.0
    for p, q in zip(ours, eager):
        assert_same(p, q)


def test_a_view_of_an_output_with_one_column():
    """The stride of a dimension of one element says nothing: eager's is 2, ours 1."""
    def both(x):
        y = torch.tanh(x)
        return y[..., ::2], y

    x = torch.randn(4, 5, 1)
    ours, eager = inferno.compile(both, (x,))(x), both(x)
    for p, q in zip(ours, eager):
        assert_same(p, q)
    assert ours[0].data_ptr() == ours[1].data_ptr()


def test_an_output_that_is_given_twice():
    """It is one tensor, also where that is a view or holds each element several times."""
    def repeated(x):
        wide = (x @ x.T * 0.25).expand(3, 4, 4)
        return wide, wide, wide[1, 2:], wide[1, 2:]

    def whole(x):
        y, part = x + 1, x[1:]
        return y, part, y, part, y.t()

    for model in (repeated, lambda x: repeated(x)[:2], lambda x: repeated(x)[2:], whole):
        x = torch.randn(4, 5)
        compiled = inferno.compile(model, (x,), fallback=False)
        ours, eager = compiled(x), model(x)
        assert sharing(ours, (x,)) == sharing(eager, (x,))
        assert [[a is b for b in ours] for a in ours] == [[a is b for b in eager] for a in eager]
        for p, q in zip(ours, eager):
            assert_same(p, q)


def test_a_view_of_an_input_wants_the_examples_strides():
    compiled = inferno.compile(lambda x: (x[1:], x + 1), (torch.randn(4, 4),))
    x = torch.randn(4, 8)[:, ::2]
    with pytest.raises(inferno.InputError, match=r"argument x: an output is a view of it.*expected \(4, 1\), got \(8, 2\)"):
        compiled(x)
    whole = inferno.compile(lambda x: (x.add_(1), x * 2), (torch.randn(4, 4),))
    before = x.clone()
    ours = whole(x)
    assert ours[0] is x
    assert_same(x, before + 1)
    assert_same(ours[1], (before + 1) * 2)


def test_examples_that_are_one_tensor_may_differ_later():
    a, x, y = torch.randn(4), torch.randn(4), torch.randn(4)
    compiled = inferno.compile(lambda x, y: (x + 1, y, x - y), (a, a))
    ours = compiled(x, y)
    assert ours[1] is y
    assert_same(ours, (x + 1, y, x - y))
    compiled = inferno.compile(lambda x: x + a, (a,))
    assert_same(compiled(x), x + a)


def turn(x):
    x.mul_(2)
    x.t_()
    return x


def widen(x):
    x.unsqueeze_(0)
    x[0, 1] = 3.0
    return x + 1


@pytest.mark.parametrize("function", [turn, widen])
def test_inputs_whose_own_shape_is_changed(function):
    """An input that is written to and gets another shape or strides: these are no tensor's values."""
    for shape in ((4, 4), (3, 4)):
        ours, eager = torch.ones(shape), torch.ones(shape)
        ours[0] = eager[0] = torch.arange(4.0)
        result, expected = inferno.compile(function, (torch.randn(shape),), target="cpu")(ours), function(eager)
        assert_same((result, ours), (expected, eager))
        assert ours.stride() == eager.stride()
    with pytest.raises(inferno.CaptureError, match=r"forward changes a given tensor's own shape or strides, now \((4, 3|1, 3, 4)\)"):
        inferno.compile(function, (torch.randn(3, 4),), target="cpu", fallback=False)


def test_inputs_that_overlap_while_one_is_written_to():
    def swap(x, y):
        old = x.clone()
        x.copy_(y)
        y.copy_(old)
        return x - y

    x, y = torch.randn(6), torch.randn(6)
    a, b = x.clone(), y.clone()
    compiled = inferno.compile(swap, (x, y))
    assert_same(compiled(x, y), swap(a, b))
    assert_same((x, y), (a, b))
    whole = torch.randn(9)
    for first, second in ((whole[:6], whole[3:]), (x, x)):
        with pytest.raises(inferno.InputError, match="arguments x and y share memory.*writes to x"):
            compiled(first, second)
    even, odd = torch.randn(12)[::2], torch.randn(12)[1::2]
    shared = torch.randn(12)
    a, b = shared[::2].clone(), shared[1::2].clone()
    swap(a, b)
    compiled(shared[::2], shared[1::2])  # in one memory, but no element is in both
    assert_same((shared[::2], shared[1::2]), (a, b))
    readers = inferno.compile(lambda x, y: x * y, (even, odd))
    assert_same(readers(whole, whole) if whole.shape == even.shape else readers(even, even), even * even)


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("change", [
    lambda t: t, lambda t: t.t().contiguous().t(), lambda t: t[:1].expand(4, 6), lambda t: t.repeat(2, 2)[4:, 6:], lambda t: t.repeat(1, 2)[:, ::2],
    lambda t: torch.cat([t.reshape(-1), t[0, :1]])[1:].reshape(4, 6),
], ids=["contiguous", "transposed", "expanded", "offset", "strided", "unaligned"])
def test_inputs_of_any_strides(change):
    torch.manual_seed(0)
    compiled = inferno.compile(lambda x, w: torch.softmax(x @ w, -1), (torch.randn(4, 6), torch.randn(6, 3)))
    x, w = change(torch.randn(4, 6)), torch.randn(6, 3)
    assert check(compiled, lambda x, w: torch.softmax(x @ w, -1), (x, w)).right


def test_ones_that_moved_in_memory_stay_where_they_are_in_the_shape():
    x = torch.randn(1, 1, 2, 8)
    parts = (lambda x: x.transpose(1, 2)[..., 0::2], lambda x: x.permute(2, 0, 3, 1)[:, :, 1::3], lambda x: x.transpose(1, 2)[..., :0])
    for function in (lambda x, part=part: part(x * 2) for part in parts):
        ours, theirs = inferno.compile(function, (x,))(x), function(x)
        assert ours.shape == theirs.shape and torch.equal(ours, theirs)


def test_strides_of_outputs():
    conv = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last).eval()
    image = torch.randn(2, 3, 9, 9).to(memory_format=torch.channels_last)
    compiled = inferno.compile(conv, (image,))
    with torch.no_grad():
        ours, eager = compiled(image), conv(image)
    assert ours.stride() == eager.stride() != torch.empty(ours.shape).stride()
    assert_same(ours, eager)


@pytest.mark.parametrize("freeze", [False, True])
def test_weights_in_another_order_are_read_as_they_lie(freeze):
    model = nn.Sequential(nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Conv2d(16, 4, 1)).eval().to(memory_format=torch.channels_last)
    image = torch.randn(2, 8, 9, 9).to(memory_format=torch.channels_last)
    compiled = inferno.compile(model, (image,), freeze=freeze)
    assert [a.order for a in compiled.program.signature.arguments if a.name == "0.weight"] == [(0, 2, 3, 1)]
    with torch.no_grad(), mock.patch.object(compiled, "_call", wraps=compiled._call) as general:
        for change in (lambda w: w, lambda w: w.mul_(2), lambda w: w):
            change(model[0].weight)
            assert_same(compiled(image), model(image))
        assert not general.called
        model[0].weight = nn.Parameter(model[0].weight.detach().clone(memory_format=torch.contiguous_format))
        assert_same(compiled(image), model(image))
        with pytest.raises(inferno.InputError, match=r"argument 0.weight: expected \(16, 8, 3, 3\) torch.float32 on cpu, got \(16, 8, 3, 1\)"):
            model[0].weight = nn.Parameter(torch.randn(16, 8, 3, 1))
            compiled(image)


class Counting(nn.Module):
    """A buffer held twice, and two norms that are one module."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(3))
        self.same = self.count
        self.norm = nn.BatchNorm1d(3)
        self.again = self.norm

    def forward(self, x):
        self.count.add_(1)
        return self.norm(x) + self.again(x) + self.same


def test_batch_norm_in_training_and_buffers_held_twice():
    torch.manual_seed(0)
    model = Counting()
    other = copy.deepcopy(model)
    x = torch.randn(4, 3)
    compiled = inferno.compile(model, (x,))
    assert model.norm.num_batches_tracked == 0 and model.count.sum() == 0  # compiling runs nothing
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(4, 3)
            assert_same(compiled(x), other(x))
    assert model.norm.num_batches_tracked == 6
    for name, value in other.state_dict().items():
        assert_same(model.state_dict()[name], value)


def test_tied_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(20, 8), nn.Linear(8, 20, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids):
            return self.head(self.embed(ids))

    model, ids = Tied(), torch.tensor([[1, 2, 19]])
    compiled = inferno.compile(model, (ids,))
    assert check(compiled, model, (ids,)).right
    with torch.no_grad():
        model.embed.weight.mul_(2)
    assert check(compiled, model, (ids,)).right
    model.embed.weight = nn.Parameter(torch.randn(20, 8))
    with pytest.raises(inferno.ModelChanged, match="embed.weight and head.weight were one tensor"):
        compiled(ids)
    model.head.weight = model.embed.weight
    assert check(compiled, model, (ids,)).right


def test_weights_that_change_are_seen(net, x):
    compiled = inferno.compile(net, (x,))
    assert_same(compiled(x), net(x))
    net.load_state_dict({k: v + 0.5 for k, v in net.state_dict().items()})
    assert_same(compiled(x), net(x))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(x).sum().backward()
    optimizer.step()
    assert_same(compiled(x), net(x))
    net.first.weight.data = torch.randn(8, 16).t()
    assert_same(compiled(x), net(x))
    net.second.weight = nn.Parameter(torch.randn(4, 16))
    assert_same(compiled(x), net(x))
    net.second.weight = nn.Parameter(torch.randn(4, 17))
    with pytest.raises(inferno.InputError, match=r"second.weight: expected \(4, 16\).*got \(4, 17\)"):
        compiled(x)
    del net.second.weight
    with pytest.raises(inferno.InputError, match="second.weight: expected a tensor.*got NoneType"):
        compiled(x)


def test_another_dtype_is_an_error(net, x):
    compiled = inferno.compile(net, (x,))
    assert compiled.to(torch.bfloat16) is compiled and net.first.weight.dtype == torch.bfloat16
    with pytest.raises(inferno.InputError, match="expected .* torch.float32 on cpu, got .* torch.bfloat16"):
        compiled(x)
    compiled.float()
    assert_same(compiled(x), net(x))


def test_modes_and_replaced_modules_are_noticed():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4)).eval(), torch.randn(3, 4)
    compiled = inferno.compile(model, (x,))
    assert_same(compiled(x), model(x))
    model.train()
    assert compiled.training
    with pytest.raises(inferno.ModelChanged, match="the model was compiled in eval mode and is in train mode now"):
        compiled(x)
    compiled.eval()
    assert_same(compiled(x), model(x))
    model[2].train()
    with pytest.raises(inferno.ModelChanged, match="module 2 was compiled in eval mode"):
        compiled(x)
    model.eval()
    kept, model[0] = model[0], nn.Linear(4, 4)
    with pytest.raises(inferno.ModelChanged, match="module 0 is not the one that was compiled"):
        compiled(x)
    model[0] = kept
    assert_same(compiled(x), model(x))
    model.append(nn.ReLU())
    with pytest.raises(inferno.ModelChanged, match="module 3 was not there"):
        compiled(x)


@pytest.mark.thorough
def test_a_decorated_class_compiles_again_for_the_other_mode():
    @inferno.compile(inputs=(torch.randn(3, 4),))
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(4)

        def forward(self, x):
            return self.norm(x)

    model, x = Normed(), torch.randn(3, 4)
    other = nn.BatchNorm1d(4)
    for mode in (True, False, True):
        model.train(mode), other.train(mode)
        assert_same(model(x), other(x))
    copied = copy.deepcopy(model)
    assert_same(copied(x), other(x))
    assert copied.norm.num_batches_tracked == model.norm.num_batches_tracked + 1


def test_it_is_a_module_with_the_models_own_state(net, x):
    compiled = inferno.compile(net, (x,))
    assert isinstance(compiled, nn.Module)
    assert compiled.state_dict().keys() == net.state_dict().keys()
    assert [(n, id(p)) for n, p in compiled.named_parameters()] == [(n, id(p)) for n, p in net.named_parameters()]
    assert [id(m) for m in list(compiled.modules())[1:]] == [id(m) for m in list(net.modules())[1:]]
    assert compiled.first is net.first
    compiled.load_state_dict({k: v * 2 for k, v in net.state_dict().items()})
    assert_same(compiled(x), net(x))
    whole = nn.Sequential(nn.Linear(8, 8), compiled)
    assert list(whole.state_dict())[2:] == [f"1.{n}" for n in net.state_dict()]
    whole.load_state_dict({k: v / 2 for k, v in whole.state_dict().items()})
    with torch.no_grad():
        assert_same(whole(x), net(whole[0](x)))
    whole.eval(), whole.train()
    assert net.training
    with pytest.raises(AttributeError, match="nothing_like_it"):
        assert compiled.nothing_like_it


def test_a_deep_copy_has_weights_of_its_own(net, x):
    compiled = inferno.compile(net, (x,))
    copied = copy.deepcopy(compiled)
    expected = net(x)
    with torch.no_grad():
        for p in net.parameters():
            p.zero_()
    assert_same(copied(x), expected)
    assert_same(compiled(x), net(x))
    pair = copy.deepcopy(nn.ModuleList([net, compiled]))
    assert pair[1].first is pair[0].first and pair[0].first is not net.first
    with torch.no_grad():
        pair[0].first.bias.fill_(1.0), pair[0].second.weight.fill_(1.0), pair[0].norm.weight.fill_(1.0)
        assert_same(pair[1](x), pair[0](x))


def test_a_pickle_compiles_again(net, x):
    compiled = inferno.compile(net, (), kwargs={"x": x}, fallback=False)
    loaded = pickle.loads(pickle.dumps(compiled))
    assert loaded.first is not net.first
    assert_same(loaded(x=x), net(x))
    stream = io.BytesIO()
    torch.save(compiled, stream)
    stream.seek(0)
    assert_same(torch.load(stream, weights_only=False)(x=x), net(x))


def test_a_pickle_of_a_function_and_of_nothing_that_can_be_found():
    loaded = pickle.loads(pickle.dumps(inferno.compile(torch.relu, (torch.randn(3),))))
    assert_same(loaded(torch.tensor([-1.0, 0.0, 2.0])), torch.tensor([0.0, 0.0, 2.0]))
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(inferno.compile(lambda x: x + 1, (torch.randn(3),)))


def test_hooks(net, x):
    calls = []
    inner = net.first.register_forward_hook(lambda module, args, output: output + 1)
    net.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    outer = net.register_forward_hook(lambda module, args, output: calls.append(type(module)) or output * 3)
    compiled = inferno.compile(net, (x,))
    assert not calls
    assert_same(compiled(x), net(x))
    assert calls == [Net, Net]
    outer.remove()
    assert_same(compiled(x), net(x))
    net.register_forward_hook(lambda module, args, kwargs, output: output - kwargs["x"].sum() if kwargs else output, with_kwargs=True)
    assert_same(compiled(x), net(x))
    assert len(calls) == 2
    inner.remove()


def test_hooks_that_the_first_call_registers():
    """As of what collects the results of layers: compiling registers none, and neither the model nor what is compiled has them twice then."""
    class Collects(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.found, self.hooked = nn.ModuleList(nn.Linear(4, 4) for _ in range(3)), [], False

        def forward(self, x):
            if not self.hooked:
                for layer in self.layers:
                    layer.register_forward_hook(lambda module, args, output: self.found.append(output))
                self.hooked = True
            self.found.clear()
            for layer in self.layers:
                x = layer(x)
            found = list(self.found)
            self.found.clear()
            return sum(found) + len(found)

    x, model = torch.randn(2, 4), Collects()
    compiled = inferno.compile(model, (x,))
    assert not model.hooked and not any(layer._forward_hooks for layer in model.layers)
    expected = Collects()
    expected.load_state_dict(model.state_dict())
    for _ in range(2):
        assert_same(compiled(x), expected(x))
        assert_same(model(x), expected(x))


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_hooks_that_set_a_weight():
    """Those of torch's older weight_norm and spectral_norm, on the compiled model itself."""
    x = torch.randn(3, 8)
    model = nn.utils.weight_norm(nn.Linear(8, 8))
    compiled = inferno.compile(model, (x,))
    with torch.no_grad():
        model.weight_g.mul_(2)
        assert_same(compiled(x), model(x))
        model.weight_v.add_(1)
        assert_same(compiled(x), model(x))
    model = nn.utils.spectral_norm(nn.Linear(8, 8)).eval()
    early = inferno.compile(model, (x,))  # the weight is weight_orig's memory until the first call
    with torch.no_grad():
        copied, its_model = copy.deepcopy((early, model))
        for compiled, eager in ((early, model), (copied, its_model), (inferno.compile(model, (x,)), model)):
            assert_same(compiled(x), eager(x))
            eager.weight_orig.add_(torch.eye(8))
            assert_same(compiled(x), eager(x))
        trained, other = (nn.utils.spectral_norm(nn.Linear(8, 8)) for _ in range(2))  # each call is a step of its power iteration
        other.load_state_dict(trained.state_dict())
        compiled = inferno.compile(trained, (x,))
        for _ in range(3):
            assert_same(compiled(x), other(x))
        assert_same(trained.weight_u, other.weight_u)
        plain = nn.Linear(8, 8)
        plain.memory = plain.weight.data
        compiled = inferno.compile(plain, (x,))
        plain.register_forward_pre_hook(lambda module, args: setattr(module, "memory", module.weight * 2))
        with pytest.raises(inferno.ModelChanged, match="a forward hook of the model sets memory"):
            compiled(x)


def test_hooks_of_parts_that_keep_what_they_see():
    """As those that collect features do: a graph has nothing of it, so Dynamo captures the model, and compiling leaves nothing behind."""
    x, model, found = torch.randn(3, 8), nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)), {}
    model[1].register_forward_hook(lambda module, args, output: found.__setitem__("feature", output))
    compiled = inferno.compile(model, (x,))
    assert not found
    with torch.no_grad():
        for scale in (1, 2):
            assert_same(compiled(x * scale), model[2](torch.relu(model[0](x * scale))))
            assert_same(found["feature"], torch.relu(model[0](x * scale)))


def test_parts_that_run_in_eager_share_and_write_too():
    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(4, 4))

        def forward(self, x, y):
            self.seen.copy_(torch.fft.fft(x).real)
            y.mul_(2)
            return y, x[1:], self.seen * 2, torch.fft.ifft(torch.fft.fft(y)).real.t() + 1

    model = Parts()
    other = copy.deepcopy(model)
    x, y = torch.randn(4, 4), torch.randn(4, 4).t()
    a, b = x.clone(), y.clone()
    compiled = inferno.compile(model, (x, y))
    assert compiled.explain().fallbacks
    for _ in range(2):
        ours, eager = compiled(x, y), other(a, b)
        assert sharing(ours, (x, y)) == sharing(eager, (a, b))
        assert_same(ours, eager)
    assert_same((y, model.seen), (b, other.seen))
    assert_same(compiled(a, b.contiguous()), other(a, b.contiguous()))
    copied = copy.deepcopy(compiled)
    copied(x, y)
    assert not torch.equal(copied.seen, torch.zeros(4, 4)) and copied.seen is not model.seen


def test_sizes_that_vary():
    def model(x, y):
        x.add_(1)
        return x, x[1:], y.t() * 2, y, (y * 3).t()

    batch = torch.export.Dim("batch", min=2, max=64)
    compiled = inferno.compile(model, (torch.randn(4, 3), torch.randn(4, 3)), dynamic_shapes=({0: batch}, {0: batch}))
    for size in (4, 9):
        x, y = torch.randn(size, 3), torch.randn(size, 3)
        a, b = x.clone(), y.clone()
        ours, eager = compiled(x, y), model(a, b)
        assert ours[0] is x and ours[3] is y
        assert_same(ours, eager)
        assert_same((x, y), (a, b))
