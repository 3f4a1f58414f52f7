"""Training graphs whose contractions end with all that is elementwise behind them: what is fused, and that it computes the same (on the CPU)."""

import sys
from pathlib import Path

import torch
from checks import check
from choices import generators

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))
from universal_program import compile_universal

import inferno
from inferno.schedule import assign
from inferno.target import find_target

F = torch.nn.functional
CPU = find_target("cpu")
PASSES = "fuse-epilogues{target=sm_90a always=1}"


def fused(function, *shapes):
    """How often each kernel of ``function``, of normal tensors, is called behind the pass; the program is right."""
    torch.manual_seed(0)
    args = tuple(torch.randn(s).to(torch.bfloat16) for s in shapes)
    compiled = compile_universal(function, args, torch.device("cpu"), "cpu", lambda k: assign.choose(k, CPU), passes=PASSES)
    verdict = check(compiled, function, args)
    assert verdict.right, str(verdict)
    return {row.kernel: row.calls for row in compiled.explain().rows}


def swiglu_backward(gradient, down, gate, up, x):
    """Gradients of ``linear(silu(gate) * up, down)``, and of the weights that gave ``gate`` and ``up``."""
    inner = gradient @ down
    sigmoid = torch.sigmoid(gate)
    silu = gate * sigmoid
    of_up, of_gate = inner * silu, inner * up * (sigmoid + silu * (1 - sigmoid))
    return (silu * up).t() @ gradient, of_up.t() @ x, of_gate.t() @ x


def test_a_reader_may_be_needed_before_the_next():
    """Of one product two gradients are made, the second behind a product that reads the first; what both compute of the gate they compute themselves."""
    kernels = fused(swiglu_backward, (24, 40), (40, 64), (24, 64), (24, 64), (24, 32))
    assert sum(kernels.values()) == 5  # three weights' gradients, the activation again, and one kernel for all between


def test_what_waits_for_another_reader_stays_apart():
    """A map that reads a row's sum of the result cannot be in the kernel that makes the result."""
    kernels = fused(lambda x, w, b: ((y := x @ w + b), torch.relu(y), y - y.sum(-1, keepdim=True)), (24, 40), (40, 64), (64,))
    assert sum(kernels.values()) == 3


def test_windows_of_a_signal_are_no_product():
    """A copy in another order, as a backward wants it, stays a kernel of its own: the one that computes windows would write it uncoalesced."""
    def features(x, w, b):
        y = F.conv1d(x, w, stride=5)
        return y, F.conv1d(torch.relu(y), b, stride=2)

    torch.manual_seed(0)
    args = torch.randn(1, 1, 40000), torch.randn(64, 1, 10), torch.randn(64, 64, 3)
    made = inferno.compile(features, args, target="sm_90a", fallback=False)
    (found,) = [row for row in made.explain().rows if row.generator == "windows"]
    assert found.bytes < 1.2 * 4 * 64 * 7999


def test_what_reads_another_reader_that_has_to_wait_waits_too():
    """Vectors are quantised, and their gradients go past: what is computed of both reads the contraction's result as well."""
    def quantised(x, w, book):
        y = x @ w
        found = y + (book[(y @ book.t()).argmax(-1)] - y)
        return found, torch.tanh(found) * y, y

    torch.manual_seed(0)
    args = torch.randn(80, 64), torch.randn(64, 8), torch.randn(32, 8)
    made = inferno.compile(quantised, args, target="sm_90a", fallback=False)
    assert not made.explain().fallbacks and made.explain().launches <= 4


def test_sines_are_maps_behind_tensor_cores():
    """Whose tiles have few warps, which would wait for each number's branch; arc cosines have none."""
    args = torch.randn(8192, 256).bfloat16(), torch.randn(256, 256).bfloat16()
    kinds = {f: generators(lambda x, w, f=f: f(x @ w), args) for f in (torch.sin, torch.acos)}
    assert kinds == {torch.sin: ["wgmma", "elementwise"], torch.acos: ["wgmma"]}
