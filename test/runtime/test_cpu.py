"""Running a plan on the CPU: threads of torch, calls from several threads, memory, and the library's functions."""

import time

import pytest
import torch
from checks import assert_right, in_threads
import torch.nn.functional as F
from torch import nn

import inferno
from inferno.runtime.launch.cpu import BYTES_PER_THREAD
from inferno.runtime.launch.library import convolution, matmul
from inferno.runtime.launch.native import openmp_library
from inferno.runtime.launch.shared_memory import as_laid
from inferno.targets.cpu import ENTRY


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_torchs_openmp_library_is_found():
    assert openmp_library() is not None and torch.backends.openmp.is_available()


def test_work_that_threads_share_is_the_work_of_one(two_threads):
    x = torch.randn(3000, 700)
    assert x.numel() * 4 > 2 * BYTES_PER_THREAD

    def model(x):
        return torch.sigmoid(x * 2) + 1, x.sum(), x.sum(0), x.t().contiguous() * 3

    compiled = inferno.compile(model, (x,))
    shared = compiled(x)
    torch.set_num_threads(1)
    alone = compiled(x)
    assert all(torch.equal(a, b) for a, b in zip(shared, alone))


def test_a_kernel_is_compiled_once():
    compiled = inferno.compile(nn.Softmax(-1), (torch.randn(3, 50),))
    code = "".join(kernel.llvm for kernel in compiled.program.kernels.values())
    functions = [line for line in code.splitlines() if line.startswith("  llvm.func ") and line.endswith("{")]
    assert functions and all(line.startswith("  llvm.func internal @") for line in functions)
    assert all("no_inline" in line for line in functions if ENTRY not in line)


def test_several_kernels_and_library_calls_from_several_threads(two_threads):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 64), nn.Softmax(-1)).eval()
    xs = [torch.randn(50, 64) for _ in range(6)]
    compiled = inferno.compile(net, (xs[0],))
    assert "inferno.library" in compiled.ir("gpu")
    with torch.no_grad():
        expected = [compiled(x) for x in xs]
    wrong = []

    def work(i):
        for _ in range(40):
            with torch.no_grad():
                if not torch.equal(compiled(xs[i]), expected[i]):
                    wrong.append(i)

    in_threads(work, range(len(xs)))
    assert not wrong


def test_gradient_mode_does_not_matter():
    net = nn.Linear(64, 64)
    x = torch.randn(8, 64)
    compiled = inferno.compile(net, (x,))
    with torch.no_grad():
        expected = net(x)
    out = compiled(x)
    torch.testing.assert_close(out, expected)
    assert not out.requires_grad


def test_results_are_not_shared_between_calls():
    x = torch.randn(64, 64)
    compiled = inferno.compile(lambda x: torch.relu(x @ x), (x,))
    first = compiled(x)
    kept = first.clone()
    compiled(torch.randn(64, 64))
    assert torch.equal(first, kept)


def test_a_small_call_is_short():
    """Under 50 us even on a busy machine; 4 us on an idle one."""
    x = torch.randn(8, 8)
    compiled = inferno.compile(lambda x: torch.relu(x + 1), (x,))
    times = []
    for _ in range(200):
        begin = time.perf_counter()
        compiled(x)
        times.append(time.perf_counter() - begin)
    assert min(times) < 50e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
def test_matmul_by_strides(dtype):
    """Several indices in each group, every operand lying in an order of its own, in a slice of a larger storage."""
    a = (torch.randn(6, 5, 4, 3, 2) * 4).to(dtype)[1:5].contiguous()  # i b k j l: (batch b, m i j, k k l)
    b = (torch.randn(4, 5, 2, 7) * 4).to(dtype)  # k b l n
    out = torch.empty(3, 5, 7, 4, dtype=dtype)  # j b n i
    matmul({
        "batch": [5], "m": [4, 3], "k": [4, 2], "n": [7], "offsets": [0, 0, 0],
        "lhs": [24, 120, 2, 6, 1], "rhs": [14, 70, 7, 1], "out": [28, 1, 140, 4],
    })(a, b, out)
    expected = torch.einsum("ibkjl,kbln->jbni", a.double(), b.double())
    eps = torch.finfo(dtype).eps if dtype.is_floating_point else 0
    assert (out.double() - expected).norm() <= max(eps, 0) * expected.norm()


def test_offsets_count_from_the_tensor():
    storage = torch.randn(100)
    a, b, out = storage[10:22], storage[30:46], torch.zeros(30)[6:]
    matmul({"batch": [], "m": [2], "k": [4], "n": [3], "offsets": [2, 1, 3], "lhs": [4, 1], "rhs": [3, 1], "out": [3, 1]})(a, b, out)
    torch.testing.assert_close(out[3:9].view(2, 3), a[2:10].view(2, 4) @ b[1:13].view(4, 3))
    assert not out[:3].any() and not out[9:].any()


def test_convolution_with_groups_and_a_start():
    x, w, start = torch.randn(2, 2, 3, 9, 8), torch.randn(2, 4, 3, 3, 2), torch.randn(2, 2, 4, 3, 6)
    out = torch.empty(2, 2, 4, 3, 6)
    options = {
        "image": [2, 6, 9, 8], "image_sizes": [2, 2, 3, 9, 8], "image_order": [0, 1, 2, 3, 4], "weight": [8, 3, 3, 2], "weight_sizes": [2, 4, 3, 3, 2],
        "weight_order": [0, 1, 2, 3, 4], "result_sizes": [2, 2, 4, 3, 6], "result_order": [0, 1, 2, 3, 4], "groups": 2, "strides": [2, 1],
        "dilations": [2, 2], "padding": [0, 0], "bias": False}
    convolution(options)(x, w, start, out)
    expected = torch.conv2d(x.view(2, 6, 9, 8), w.view(8, 3, 3, 2), None, (2, 1), 0, (2, 2), 2).view(out.shape) + start
    torch.testing.assert_close(out, expected)
    bias, out = torch.randn(2, 4), torch.empty(2, 4, 10, 2, 4)
    convolution({**options, "padding": [1, 2], "bias": True, "result_sizes": out.shape, "result_order": [0, 3, 4, 1, 2]})(x, w, bias, out)
    expected = torch.conv2d(x.view(2, 6, 9, 8), w.view(8, 3, 3, 2), bias.view(-1), (2, 1), (1, 2), (2, 2), 2)
    torch.testing.assert_close(out.permute(0, 3, 4, 1, 2).reshape(expected.shape), expected)


CONVOLUTIONS = [
    {"padding": 1}, {"stride": 2, "dilation": 2}, {"groups": 2}, {"groups": 4}, {"padding": (2, 0), "stride": (1, 2)}, {"kernel_size": 1, "stride": 2},
    {"kernel_size": (1, 5), "padding": (0, 2)}, {"kernel_size": (5, 1)}, {"kernel_size": (120, 3)}, {"padding": 2, "padding_mode": "circular"},
]


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("arguments", CONVOLUTIONS, ids=str)
def test_convolutions(arguments, images):
    """The library's, where it is worth a call: without batches, windows or results that are one as well."""
    torch.manual_seed(0)
    arguments = {"kernel_size": 3, **arguments}
    made = assert_right(nn.Conv2d(4, 24, **arguments).eval(), (torch.randn(images, 4, 120, 124),), target="cpu")
    assert 'function = "convolution"' in made.ir("gpu")


class Last(nn.Module):
    """A convolution of an image with channels last, as between layers of ConvNeXt or Swin; with ``transposes`` its result has them last, too."""

    def __init__(self, layer, transposes=False):
        super().__init__()
        self.layer, self.transposes = layer, transposes

    def forward(self, x):
        found = self.layer(x.movedim(-1, 1))
        return found.movedim(1, -1).contiguous() if self.transposes else found


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("model,shape", [
    (nn.Conv1d(4, 8, 3, groups=2), (2, 4, 4000)), (nn.Conv2d(1, 16, 5, padding=2, bias=False), (1, 1, 40, 40)), (nn.Conv2d(16, 1, 3), (2, 16, 60, 60)),
    (nn.Conv3d(3, 8, 3, padding=1), (1, 3, 9, 20, 21)), (nn.Conv2d(32, 32, 3, padding=1, groups=32), (1, 32, 40, 40)), (nn.Conv1d(8, 8, 5), (8, 3000)),
    (Last(nn.Conv2d(16, 24, 2, 2)), (1, 60, 62, 16)), (Last(nn.Conv2d(16, 24, 3, padding=1)), (3, 30, 31, 16)), (Last(nn.Conv1d(16, 24, 5, 2)), (2, 800, 16)),
    (Last(nn.Conv2d(16, 32, 3, padding=(2, 0), groups=4)), (1, 30, 31, 16)), (Last(nn.Conv2d(16, 24, 3), transposes=True), (2, 60, 62, 16)),
], ids=str)
def test_other_convolutions(model, shape):
    torch.manual_seed(0)
    made = assert_right(model.eval(), (torch.randn(shape),), target="cpu")
    assert isinstance(model, Last) or [r.generator for r in made.explain().rows] == ["library"]
    assert 'function = "convolution"' in made.ir("gpu")


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("model", [
    lambda x, w, b: F.conv2d(F.pad(x, (1, 2, 1, 1)), w, b), lambda x, w, b: F.conv2d(F.pad(x, (1, 1, 1, 1), value=2.0), w, b),
    lambda x, w, b: F.conv2d(F.pad(x, (0, 0, 0, 0, 1, 1)), F.pad(w, (0, 0, 0, 0, 1, 1)), b), lambda x, w, b: F.conv2d(x, w) + x[:, :1, 1:-1, 1:-1],
    lambda x, w, b: (F.pad(x, (1, 1, 1, 1)), F.conv2d(F.pad(x, (1, 1, 1, 1)), w, b)), lambda x, w, b: F.conv2d(x, w, b).relu() + b[:, None, None],
    lambda x, w, b: F.conv2d(x[:, :, ::2], w, b), lambda x, w, b: F.conv_transpose2d(x, w.mT.transpose(0, 1)[:4], None, 2),
])
def test_what_surrounds_a_convolution(model):
    assert_right(model, (torch.randn(2, 4, 60, 64), torch.randn(24, 4, 3, 3), torch.randn(24)), target="cpu")


def test_sums_that_are_results_next_to_what_is_computed_of_them():
    """Of a convolution of a few places, whose kernel has both."""
    torch.manual_seed(0)

    def model(x, w):
        found = F.conv2d(x, w, padding=1)
        return found, torch.relu(found)

    made = assert_right(model, (torch.randn(2, 32, 2, 2), torch.randn(16, 32, 3, 3)), target="cpu")
    assert made.explain().rows[-1].generator == "library"


def test_convolutions_in_16_bits_are_rounded_once():
    """With what is added to each feature, or to each result."""
    torch.manual_seed(0)
    x, w = torch.randn(2, 40, 30, 32).bfloat16(), torch.randn(24, 40, 3, 3).bfloat16()
    for added in (torch.randn(24).bfloat16(), torch.randn(2, 24, 28, 30)):
        def model(x, w, added):
            return nn.functional.conv2d(x, w, added) if added.dim() == 1 else nn.functional.conv2d(x, w).float() + added

        made = assert_right(model, (x, w, added), target="cpu")
        assert "library" in {r.generator for r in made.explain().rows}
        if added.dim() == 1:
            torch.testing.assert_close(made(x, w, added).double(), model(x.double(), w.double(), added.double()), rtol=2**-8, atol=1e-4)
    options = {
        "image": [2, 40, 30, 32], "image_sizes": [2, 40, 30, 32], "image_order": [0, 1, 2, 3], "weight": [24, 40, 3, 3], "weight_sizes": [24, 40, 3, 3],
        "weight_order": [0, 1, 2, 3], "result_sizes": [2, 24, 28, 30], "result_order": [0, 1, 2, 3], "groups": 1, "strides": [1, 1],
        "dilations": [1, 1], "padding": [0, 0], "bias": False}
    out = torch.empty(2, 24, 28, 30)
    convolution(options)(x, w, added, out)
    torch.testing.assert_close(out, nn.functional.conv2d(x.double(), w.double()).add(added).float(), rtol=1e-5, atol=1e-4)


def test_images_are_looked_at_as_they_lie():
    """A region gives tensors as they are: channels last in memory, in front by their strides."""
    torch.manual_seed(0)
    x, w, out = torch.randn(2, 8, 9, 7).to(memory_format=torch.channels_last), torch.randn(4, 8, 3, 3), torch.empty(2, 4, 7, 5)
    convolution({
        "image": [2, 8, 9, 7], "image_sizes": [2, 9, 7, 8], "image_order": [0, 3, 1, 2], "weight": [4, 8, 3, 3], "weight_sizes": [4, 8, 3, 3],
        "weight_order": [0, 1, 2, 3], "result_sizes": [2, 4, 7, 5], "result_order": [0, 1, 2, 3], "groups": 1, "strides": [1, 1],
        "dilations": [1, 1], "padding": [0, 0], "bias": False})(x, w, out)
    torch.testing.assert_close(out, nn.functional.conv2d(x, w))


def test_results_that_are_arguments_are_what_lies_in_memory():
    """As one of channels last is, which a plan knows by the order in memory."""
    x = torch.randn(2, 3, 8, 4).to(memory_format=torch.channels_last)
    assert torch.equal(as_laid(x, (2, 8, 4, 3), torch.float32), x.permute(0, 2, 3, 1))
    assert torch.equal(as_laid(x[:1], (96,), torch.int32), x[:1].permute(0, 2, 3, 1).reshape(-1).view(torch.int32))
    assert as_laid(x, (2, 8, 4, 3), torch.float32).data_ptr() == x.data_ptr()


def test_small_convolutions_are_loops():
    made = inferno.compile(nn.Conv2d(4, 8, 3).eval(), (torch.randn(2, 4, 11, 12),), target="cpu")
    assert "library" not in {r.generator for r in made.explain().rows}


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_products_of_16_bit_numbers_in_float32(dtype):
    """Sums are rounded to 16 bits only where the kernel's results are."""
    class Wide(nn.Module):
        def forward(self, x, y):
            a, b = x.float(), y.float()
            return a @ b.t(), (a @ b.t()) * 0.2, torch.relu(a @ a.t() + 1).sum(1), torch.cat([(x @ y.t()) * 0.2, a], 0), (x @ y.t()) + 1

    x, y = torch.randn(31, 33).to(dtype), torch.randn(33, 33).to(dtype)
    made = assert_right(Wide(), (x, y), target="cpu")
    assert 'function = "matmul"' in made.ir("gpu")


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("features", [0, 3])
def test_attention_of_queries_without_features(features):
    """Scores are sums of nothing, whatever the root of their number."""
    def model(q, v):
        return torch.nn.functional.scaled_dot_product_attention(q, q, v, is_causal=True) + 1

    q, v = torch.randn(2, 3, 4, 0), torch.randn(2, 3, 4, features)
    assert_right(model, (q, v), target="cpu")
    v.requires_grad_()
    torch.compile(model, backend="inferno")(q, v).sum().backward()
    expected = torch.autograd.grad(model(q, v).sum(), v)
    torch.testing.assert_close((v.grad,), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_sums_whose_terms_are_the_same_along_them(dtype):
    """Of a matrix's part that is all zeros the squares are computed of nothing that goes over the rows."""
    assert_right(lambda x: (x * 2).tril(-2).var((1, 2), unbiased=False, keepdim=True), (torch.randn(1, 2, 2, 34).to(dtype),), target="cpu")
