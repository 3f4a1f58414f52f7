"""Masks and biases that come to shared memory for attention's gradients: numbers by the simulator, which kernels have such, and what is emitted."""

from dataclasses import replace

import pytest
import torch
from attention_cases import fused
from attention_gradient_cases import backward, biased_backward, empty, operands
from kernels import TARGET, build, check_arrivals
from test_scored_attention import SEED, exact
from test_wgmma import assembled
from universal_program import SimulatedModel

from inferno.capture import scored_attention, trained_attention
from inferno.mlir import idle_context, ir
from inferno.schedule.assign import kernels
from inferno.schedule.attention.attention_gradients import AttentionGradients, brought_masks, candidates, choose, fits, held, read, tile_gradient
from inferno.schedule.attention.gradient_parser import parse_attention_gradient
from inferno.schedule.attention.masks import widths
from inferno.schedule.spaces import attention_gradients as spaces

PASSES = "fuse-attention-gradients{target=sm_90a always=1}"
TOGETHER = "fuse-attention-gradients{target=sm_90a always=1 together=1}"


def some(*shape):
    """Bools; of some queries no key is seen."""
    mask = torch.rand(shape) > 0.3
    mask[..., 3, :] = False
    return mask


def numbers(*shape):
    """As models give them: next to nothing where a key is hidden, in a row everywhere; and a row of infinities."""
    mask = torch.randn(shape).masked_fill(torch.rand(shape) > 0.8, torch.finfo(torch.bfloat16).min)
    mask[..., 3, :], mask[..., 7, :] = torch.finfo(torch.bfloat16).min, -torch.inf
    return mask.bfloat16()


def wide(*shape):
    """Of float32."""
    return torch.randn(shape)


# (batch, heads, heads of keys, queries, keys, depth, width), the mask, the rest of what ``operands`` takes, the schedule
FORMS = {
    "all": ((1, 2, 2, 150, 136, 16, 32), (numbers, (150, 136)), {}, AttentionGradients(2, 64, masks="2")),
    "heads": ((2, 2, 2, 40, 152, 16, 16), (numbers, (1, 2, 40, 152)), {"transposed": True}, AttentionGradients(3, 48, 3, masks="2")),
    "batch, f16": ((2, 2, 2, 100, 72, 16, 16), (numbers, (2, 1, 100, 72)), {"dtype": torch.float16}, AttentionGradients(1, 32, ahead=True, masks="2")),
    "each": ((2, 2, 2, 70, 48, 16, 16), (numbers, (2, 2, 70, 48)), {}, AttentionGradients(1, 112, apart=True, masks="2")),
    "causal": ((1, 2, 2, 140, 136, 64, 32), (numbers, (140, 136)), {"causal": True}, AttentionGradients(2, 48, order="dynamic", masks="2")),
    "bools": ((2, 2, 2, 100, 208, 16, 32), (some, (2, 1, 100, 208)), {}, AttentionGradients(2, 48, turns=True, masks="1")),
    "bools, causal": ((1, 2, 2, 90, 144, 16, 16), (some, (90, 144)), {"causal": True, "transposed": True}, AttentionGradients(3, 32, apart=True, masks="1")),
    "bools, more than a line": ((1, 1, 1, 40, 304, 16, 16), (some, (40, 304)), {}, AttentionGradients(1, 144, masks="1")),
    "float32": ((1, 2, 2, 100, 68, 16, 16), (wide, (1, 2, 100, 68)), {}, AttentionGradients(2, 48, masks="4")),
    "grouped": ((2, 4, 2, 50, 72, 64, 64), (numbers, (2, 4, 50, 72)), {"causal": True}, AttentionGradients(1, 32, apart=True, ahead=True, masks="2")),
    "grouped, bools": ((2, 4, 1, 50, 144, 16, 16), (some, (2, 1, 50, 144)), {"transposed": True}, AttentionGradients(2, 48, ahead=True, masks="1")),
    "together": ((1, 4, 2, 40, 152, 40, 64), (numbers, (1, 4, 40, 152)), {}, AttentionGradients(2, 48, ahead=True, masks="2")),
    "together, bools": ((2, 2, 2, 130, 128, 64, 64), (some, (2, 1, 130, 128)), {"causal": True}, AttentionGradients(1, 64, 3, apart=True, masks="1")),
    "together, a learned bias": ((2, 2, 2, 24, 40, 16, 16), (wide, (2, 1, 24, 40)), {"learned": True}, AttentionGradients(1, 16, masks="4")),
}


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", FORMS)
def test_numbers(name):
    """Of numbers of queries and keys that no tile, block or line divides: what is behind the last ones is none of them."""
    sizes, (make, shape), more, schedule = FORMS[name]
    together = name.startswith("together")
    function, given, wanted = operands(*sizes, mask=lambda: make(*shape), **more)
    found = []

    def chosen(kernel):
        if (gradient := parse_attention_gradient(kernel)) is None:
            return None
        found.append(kernel)
        return replace(schedule, columns=min(schedule.columns, 112)) if gradient.transposed else schedule  # of two results there are no registers for more

    ours = SimulatedModel(function, given, choose=chosen, early=len(name) % 2 == 0, passes=TOGETHER if together else PASSES)(*given)
    assert len(found) == (1 if together else 2)
    check(ours, function(*given), wanted)


def check(ours, plain, wanted):
    for mine, theirs, right in zip(ours, plain, wanted, strict=True):
        bound = max(1.5 * (theirs.double() - right).norm(), torch.finfo(theirs.dtype).eps * right.norm())
        assert mine.shape == right.shape and (mine.double() - right).norm() <= bound


@pytest.mark.thorough
@pytest.mark.parametrize("dropout, passes", [(0.0, PASSES), (0.25, TOGETHER)], ids=["two kernels", "together, dropped"])
def test_a_mask_and_a_bias(dropout, passes):
    """Where keys are hidden by a number the gradients of scores are made of the mask, too."""
    torch.manual_seed(0)
    q, k, v, gradient = (torch.randn(2, 2, n, 16).bfloat16() for n in (50, 80, 80, 50))
    hidden, found = torch.finfo(torch.bfloat16).min, []
    given = torch.randn(2, 1, 50, 80).bfloat16(), some(1, 2, 50, 80)

    def chosen(kernel):
        gradient = parse_attention_gradient(kernel)
        if gradient is not None:
            found.append(widths(brought_masks(gradient, tile_gradient(gradient))))
            return AttentionGradients(2, 32, ahead=gradient.transposed, masks=found[-1])

    def run(gradient, q, k, v, bias, seen, result, largest, totals, seed):
        seed = seed if dropout else None
        return scored_attention.backward(gradient, q, k, v, bias, seen, result, largest, totals, hidden, 0.25, seed, dropout)

    first = scored_attention.forward(q, k, v, *given, hidden, 0.25, SEED if dropout else None, dropout)
    args = gradient, q, k, v, *given, *first, SEED
    kept = trained_attention.kept(torch.zeros(2, 2, 50, 80), SEED, dropout).double() if dropout else 1.0
    wanted = exact(q, k, v, gradient, *given, hidden, kept, False)[1:]
    ours = SimulatedModel(run, args, choose=chosen, passes=passes)(*args)
    assert {" ".join(sorted(each.split())) for each in found} == {"1 2"}
    check(ours, run(*args), wanted)


def texts(sizes, mask, passes=PASSES) -> list[str]:
    """The kernels of the gradients of queries, and of keys and values, each as a module of its own."""
    given, is_added = empty(*sizes), mask is not None and mask.dtype != torch.bool
    function, given = (biased_backward, (*given, given[-1], mask)) if is_added else (backward, (*given, *([] if mask is None else [mask])))
    with idle_context(), ir.Location.unknown():
        module = fused(function(False, 0.125), given, f"inferno-fuse,{passes}")
        made = [k for k in kernels(module) if parse_attention_gradient(k) is not None]
        return [f"module {{\n{k.operation.get_asm(use_local_scope=True)}\n}}" for k in made]


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("mask, brought", [
    (torch.zeros(200, 272).bfloat16(), "2"), (torch.zeros(2, 4, 200, 272).bfloat16(), "2"), (torch.zeros(200, 268).bfloat16(), ""),
    (torch.zeros(2, 1, 1, 272).bfloat16(), ""), (torch.ones(200, 272, dtype=torch.bool), "1"), (torch.ones(200, 264, dtype=torch.bool), ""),
    (torch.zeros(272, 200).t().bfloat16(), ""), (torch.zeros(1, 4, 200, 272), "4"),
], ids=["all", "each", "lines of other lengths", "keys", "bools", "lines of other lengths of bools", "transposed", "float32"])
def test_which(mask, brought):
    """By default, and as one of two that can be asked for."""
    for text in texts((2, 4, 4, 200, mask.shape[-1], 64), mask):
        with idle_context(), ir.Location.unknown():
            module = ir.Module.parse(text)
            kernel = kernels(module)[0]
            g, tiling = read(kernel, TARGET)
            assert widths(brought_masks(g, tiling)) == brought == choose(kernel, TARGET).masks
            assert [fits(AttentionGradients(columns=32, masks=each), g, TARGET) for each in ("", "2", "2 2")] == [True, brought == "2", False]
            assert {s.masks for _, s in spaces.space(kernel, TARGET)} == {"", brought}


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dtype, slots", [(torch.bfloat16, (2, 3)), (torch.bool, (3, 3))])
def test_slots(dtype, slots):
    """Of queries' and of keys' gradients: as many as leave results room of their own."""
    for text, number in zip(texts((16, 16, 16, 1024, 1024, 64), torch.zeros(1024, 1024, dtype=dtype)), slots):
        with idle_context(), ir.Location.unknown():
            module = ir.Module.parse(text)
            chosen = choose(kernels(module)[0], TARGET)
            assert (chosen.stages, chosen.apart, chosen.masks) == (number, True, str(dtype.itemsize))


def test_too_little_room():
    """Where no slot of a mask fits beside rows and columns, threads read it."""
    for text in texts((2, 4, 4, 200, 272, 64), torch.zeros(200, 272)):
        with idle_context(), ir.Location.unknown():
            module = ir.Module.parse(text)
            found = read(kernels(module)[0], TARGET)
            for room, masks in ((1 << 16, "4"), (40000, ""), (1 << 15, None)):
                assert {s.masks for s in candidates(*found, replace(TARGET, shared=room))} == {masks} - {None}


@pytest.mark.thorough
def test_nothing_of_a_mask_is_read_of_memory():
    sizes, mask = (2, 4, 4, 1024, 1024, 64), torch.ones(1024, 1024, dtype=torch.bool)
    for text, without in zip(texts(sizes, mask), texts(sizes, None)):
        built, plain, other = (
            build(text, "attention_gradients", AttentionGradients(2, 64, masks=masks)) for text, masks in ((text, "1"), (text, ""), (without, "")))
        assert built.count(r"ld\.global") == other.count(r"ld\.global") < plain.count(r"ld\.global")
        assert check_arrivals(built.ptx)[0]
        assembled(built)


def test_matrices():
    """Of 16 bits a thread has two numbers by one register, of four matrices a load, also where they are transposed."""
    for transposed, text in enumerate(texts((2, 4, 4, 1024, 1024, 64), torch.zeros(1024, 1024).bfloat16())):
        built = build(text, "attention_gradients", AttentionGradients(2, 64, masks="2"))
        assert built.count("ldmatrix") == 4 and built.count("ldmatrix.*trans") == 4 * transposed and not built.count(r"ld\.global\S*b16")
        assembled(built)


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.bool, torch.float32])
@pytest.mark.parametrize("columns, width", [(64, 64), (96, 96), (128, 128), (128, 64)])
def test_no_schedule_spills(dtype, columns, width):
    """Those that take most registers, with two consumers and three."""
    mask = torch.zeros(520, 528, dtype=dtype)
    for text in texts((2, 4, 2, 520, 528, columns, width), mask):
        with idle_context(), ir.Location.unknown():
            module = ir.Module.parse(text)
            kernel = kernels(module)[0]
            g, _ = read(kernel, TARGET)
            found = [s for _, s in spaces.space(kernel, TARGET) if s.masks == str(dtype.itemsize)]
            most = {s.consumers: s for s in sorted(found, key=lambda s: (held(s, g), s.ahead, -s.stages, s.order))}
        assert 2 in most
        for consumers in {2, 3} & most.keys():
            assembled(build(text, "attention_gradients", most[consumers]))
