"""Attention's gradients on Hopper's tensor cores: the simulator against float64, and what ptxas says."""

import dataclasses
import re

import pytest
import torch
from attention_cases import fused
from attention_gradient_cases import backward, empty, learned_backward, operands
from attention_program import share_two_multiprocessors
from kernels import TARGET, build
from test_wgmma import assembled, products
from universal_program import SimulatedModel

from inferno.capture import capture, trained_attention
from inferno.codegen import generate
from inferno.errors import CompileError
from inferno.mlir import ir, idle_context
from inferno.passes.programs import FEW
from inferno.runtime.workers import jobs
from inferno.schedule.assign import kernels
from inferno.schedule.attention import kept_scores
from inferno.schedule.attention.attention_gradients import AttentionGradients, candidates, choose, read
from inferno.schedule.attention.gradient_parser import parse_attention_gradient
from inferno.schedule.attention.parser import parse_attention
from inferno.schedule.attention.schedule import Attention
from inferno.schedule.spaces import attention_gradients as spaces

PASSES = "fuse-attention-gradients{target=sm_90a always=1}"
TOGETHER = "fuse-attention-gradients{target=sm_90a always=1 together=1}"


def some_keys():
    mask = torch.rand(2, 1, 50, 40) > 0.4
    mask[0, 0, 3] = False
    return mask


def numbers():
    """As models give them: next to nothing where a key is hidden, in some rows everywhere; and a row of infinities."""
    mask = torch.zeros(2, 1, 50, 40).masked_fill(~torch.ones(50, 40, dtype=torch.bool).tril(5), torch.finfo(torch.bfloat16).min)
    mask[0, 0, :4], mask[1, 0, 7] = torch.finfo(torch.bfloat16).min, -torch.inf
    return mask.bfloat16()


def biases():
    return torch.randn(1, 4, 40, 150)


def positions():
    """For a batch."""
    return torch.randn(1, 1, 24, 40)


# (batch, heads, heads of keys, queries, keys, depth, width), the rest of what ``operands`` takes, the schedule
FORMS = {
    "causal": ((1, 1, 1, 140, 90, 64, 32), {"causal": True, "transposed": True}, AttentionGradients(2, 64)),
    "more keys": ((1, 1, 1, 40, 150, 40, 72), {"causal": True, "dtype": torch.float16}, AttentionGradients(3, 48, turns=True)),
    "grouped": ((1, 4, 2, 40, 70, 64, 64), {"causal": True}, AttentionGradients(1, 32, order="dynamic", apart=True, ahead=True)),
    "grouped, padding": ((2, 2, 1, 50, 40, 64, 64), {"mask": some_keys, "transposed": True}, AttentionGradients(1, 32)),
    "grouped, numbers": ((2, 4, 2, 50, 40, 64, 64), {"mask": numbers, "transposed": True}, AttentionGradients(1, 32, apart=True, ahead=True)),
    "together, biases": ((1, 4, 2, 40, 150, 40, 64), {"mask": biases, "causal": True, "dtype": torch.float16}, AttentionGradients(2, 48)),
    "together, in parts": ((1, 4, 2, 80, 128, 64, 32), {"causal": True}, AttentionGradients(1, 64, 3, order="dynamic", apart=True, ahead=True)),
    "together, whole tiles of keys that heads share": ((2, 4, 2, 50, 128, 64, 64), {}, AttentionGradients(2, 64, turns=True, apart=True)),
    "together, in turns": ((1, 2, 1, 80, 128, 64, 32), {"causal": True}, AttentionGradients(2, 32, order="dynamic", turns=True, apart=True)),
    "together, more keys": ((1, 1, 1, 40, 150, 40, 64), {"dtype": torch.float16, "transposed": True}, AttentionGradients(2, 48)),
    "together, a learned bias": ((2, 1, 1, 24, 40, 16, 16), {"mask": positions, "learned": True}, AttentionGradients(1, 16)),
    "together, half a tile of keys": ((1, 5, 5, 40, 64, 64, 32), {"causal": True}, AttentionGradients(2, 64)),
    "together, added": ((1, 4, 2, 192, 256, 64, 32), {"transposed": True}, AttentionGradients(turns=True, adds=2)),
    "together, added by way of one slot": ((1, 1, 1, 128, 384, 128, 64), {"dtype": torch.float16}, AttentionGradients(adds=1)),
    "together, added 128 at a time": ((1, 2, 1, 256, 256, 64, 64), {}, AttentionGradients(columns=128, turns=True, adds=2)),
}


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", FORMS)
def test_simulated(name, monkeypatch):
    sizes, more, schedule = FORMS[name]
    together = name.startswith("together")
    monkeypatch.setattr(kept_scores, "KEPT", 2 * 2 * 80 * 128)  # of two heads
    function, given, wanted = operands(*sizes, **more)
    found = []

    def chosen(kernel):
        if parse_attention_gradient(kernel) is None:
            return None
        found.append(kernel)
        return schedule

    if name in ("grouped", "causal", "together, in parts", "together, added"):  # more tiles than blocks
        few = dataclasses.replace(TARGET, multiprocessors=3)
        monkeypatch.setattr(generate, "find_target", lambda name: few)
    ours = SimulatedModel(function, given, choose=chosen, early=len(name) % 2 == 0, passes=TOGETHER if together else PASSES)(*given)
    assert len(found) == (1 if together else 2)
    for mine, plain, exact in zip(ours, function(*given), wanted):
        bound = max(1.5 * (plain.double() - exact).norm(), torch.finfo(plain.dtype).eps * exact.norm())
        assert mine.shape == exact.shape and (mine.double() - exact).norm() <= bound


def forward(q, k, v, mask):
    return trained_attention.forward(q, k, v, mask, True, 0.125)


def test_logarithms_simulated():
    """What the forward leaves for the backward."""
    _, (_, q, k, v, _, totals, mask), _ = operands(2, 2, 1, 50, 40, 64, 64, causal=True, mask=some_keys, transposed=True)
    model = SimulatedModel(
        forward, (q, k, v, mask), choose=lambda kernel: Attention(2, 32) if parse_attention(kernel) is not None else None,
        passes="fuse-attention{target=sm_90a always=1}",
    )
    result, found = model(q, k, v, mask)
    assert len(model.program.plan.steps) == 1 and torch.equal(result.isnan(), torch.zeros_like(mask[..., :1]).expand_as(result))
    assert torch.isposinf(found).any() and torch.equal(torch.isposinf(found), torch.isposinf(totals))
    torch.testing.assert_close(found, totals, rtol=1e-6, atol=1e-6)


def test_logarithms_of_equal_shares(monkeypatch):
    """Where of a tile two blocks of threads have some of the keys each, of which some rows see none, or only one block's."""
    share_two_multiprocessors(monkeypatch)
    q, k, v = (torch.randn(1, 1, n, 16).bfloat16() for n in (300, 90, 90))
    mask = torch.rand(300, 90) > 0.3
    mask[::7], mask[1::7, :45], mask[2::7, 45:] = False, False, False
    model = SimulatedModel(
        lambda *args: trained_attention.forward(*args, False, 0.25), (q, k, v, mask),
        choose=lambda kernel: Attention(1, 16, turns=False, order="even") if parse_attention(kernel) is not None else None,
        passes="fuse-attention{target=sm_90a always=1}",
    )
    result, found = model(q, k, v, mask)
    scores = (q.double() @ k.double().transpose(-1, -2) / 4).masked_fill(~mask, -torch.inf)
    weights, totals = torch.softmax(scores, -1).nan_to_num(0.0), torch.logsumexp(scores, -1)
    totals = torch.where(mask.any(-1), totals, torch.inf)
    assert len(model.program.plan.steps) == 1 and torch.equal(torch.isposinf(found), torch.isposinf(totals)) and torch.isposinf(found).any()
    torch.testing.assert_close(found, totals.float(), rtol=1e-6, atol=1e-6)
    error, size = (result.double() - weights @ v.double()).norm(), (weights @ v.double()).norm()
    assert error <= torch.finfo(torch.bfloat16).eps * size


def biased(q, k, v, mask):
    return trained_attention.biased_forward(q, k, v, mask, True, 0.125)


def test_largest_scores_simulated():
    """The same beside numbers that hide keys, after which no sum of both numbers of a row would be left."""
    _, (_, q, k, v, _, largest, totals, mask), _ = operands(2, 2, 1, 50, 40, 64, 64, causal=True, mask=numbers, transposed=True)
    model = SimulatedModel(
        biased, (q, k, v, mask), choose=lambda kernel: Attention(2, 32) if parse_attention(kernel) is not None else None,
        passes="fuse-attention{target=sm_90a always=1}",
    )
    result, *found = model(q, k, v, mask)
    assert len(model.program.plan.steps) == 1 and not result.isnan().any() and (largest < -1e38).any() and torch.isposinf(totals).any()
    for mine, exact in zip(found, (largest, totals)):
        torch.testing.assert_close(mine, exact, rtol=1e-6, atol=1e-6)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("shape", [(2, 4, 24, 16), (24, 16)])
def test_largest_scores_beside_whole_biases_simulated(shape):
    """Where numbers of a row lie as one dimension or as two."""
    _, (_, q, k, v, _, largest, totals, bias), _ = operands(2, 4, 4, 24, 16, 16, 16, mask=lambda: torch.randn(shape))
    model = SimulatedModel(
        lambda *given: trained_attention.biased_forward(*given, False, 0.25), (q, k, v, bias),
        choose=lambda kernel: Attention(1, 16, turns=False) if parse_attention(kernel) is not None else None, passes="fuse-attention{target=sm_90a always=1}",
    )
    _, *found = model(q, k, v, bias)
    assert len(model.program.plan.steps) == 1
    for mine, exact in zip(found, (largest, totals)):
        torch.testing.assert_close(mine, exact, rtol=1e-5, atol=1e-5)


def test_training_steps():
    """The forward is one kernel; the backward of two layers one each, and what sums the products of rows."""

    def gradients(*given):
        return *backward(True, 0.125)(*given[:6]), *backward(True, 0.125)(*given[6:])

    made, sizes = [], empty(2, 4, 2, 256, 256, 128)
    def of_queries(*given):
        return backward(True, 0.125)(*given)[0]

    masked = (*sizes[1:4], torch.ones(256, 256, dtype=torch.bool))
    for function, given in ((forward, masked), (gradients, (*sizes, *(t.clone() for t in sizes))), (of_queries, sizes)):
        linalg, _ = jobs.lower_to_linalg(capture(function, given).text)
        scheduled = jobs.fuse(linalg, "sm_90a", features=["attention", "unmeasured"]).stages["scheduled"]
        generators = dict(re.findall(r'func.func private @(\w+)\(.*?generator = "(\w+)"', scheduled))
        made.append(sorted(generators[name] for name in re.findall(r"call @(\w+)\(", scheduled.partition("func.func private")[0])))
    assert made[0] == ["attention"] and made[1].count("attention_gradients") == 2 and "wgmma" not in made[1]
    assert made[2][:1] == ["attention_gradients"] and "wgmma" not in made[2]  # where nothing else is wanted


def test_learned_biases_are_chosen():
    """Without being asked for, where they were timed."""
    gradient, q, k, v, result, totals = empty(1, 2, 2, 512, 512, 64)
    linalg, _ = jobs.lower_to_linalg(capture(learned_backward(0.125), (gradient, q, k, v, result, totals, totals, torch.zeros(512, 512))).text)
    assert jobs.fuse(linalg, "sm_90a", features=["attention"]).stages["scheduled"].count('"attention_gradients"') == 1


def texts(sizes, causal=False, dtype=torch.bfloat16, passes=PASSES) -> list[str]:
    """The kernels of the gradients of queries, and of keys and values, each as a module of its own."""
    with idle_context(), ir.Location.unknown():
        module = fused(backward(causal, 0.125), empty(*sizes, dtype=dtype), f"inferno-fuse,{passes}")
        made = [k for k in kernels(module) if parse_attention_gradient(k) is not None]
        return [f"module {{\n{k.operation.get_asm(use_local_scope=True)}\n}}" for k in made]


@pytest.mark.thorough
def test_what_is_emitted():
    of_queries, of_keys = texts((2, 4, 4, 1024, 1024, 128), causal=True)
    ahead = AttentionGradients(2, 64, order="dynamic", apart=True, ahead=True)
    for text, sums, form in ((of_queries, 1, AttentionGradients(2, 64)), (of_keys, 2, ahead)):
        built = build(text, "attention_gradients", form)
        found, walks = products(built), 3  # of blocks that the diagonal cuts, and of the others
        assert len(found) == walks * (16 + sums * 4) + 8 * form.ahead and set(found) == {"m64n64k16.f32.bf16", "m64n128k16.f32.bf16"}
        assert built.count(r"ex2\.approx\.ftz\.f32") == walks * 32 and built.count("setmaxnreg") == 2
        counted = form.order == "dynamic"  # the counter, which a launch makes 0
        assert built.gpu.count('"inferno.launch"') == 1 + counted and built.count(r"\b(?:atom|red)\.") == 2 * counted
        assert counted == any(a.startswith("st") for a in built.accesses())
        assembled(built)


def test_what_is_emitted_together():
    """Five products: two of scores, one of each result."""
    text, = texts((2, 4, 4, 1024, 1024, 128), passes=TOGETHER)
    built = build(text, "attention_gradients", AttentionGradients(2, 64, apart=True))
    assert len(products(built)) == 16 + 2 * 4 + 4 and built.count("stmatrix.*trans") == 4 and built.gpu.count('"inferno.launch"') == 2
    assembled(built)


@pytest.mark.thorough
def test_what_is_emitted_where_queries_are_added_up():
    """Five products of a block, the first one of a tile apart, and the last block's fifth one behind it; nothing of scores goes to memory."""
    for columns, size, own in ((64, 128, 16 + 2 * 4), (128, 64, 8 + 2 * 8)):
        text, = texts((2, 4, 4, 1024, 1024, size), passes=TOGETHER)
        built = build(text, "attention_gradients", AttentionGradients(columns=columns, adds=2))
        assert len(products(built)) == 2 * own + 2 * 8 and built.gpu.count('"inferno.launch"') == 3 and built.gpu.count("inferno.cooperative") == 1
        assert built.count(r"cp\.reduce\.async\.bulk\.global\S+add\.f32") == 2 and built.count(r"ld\.acquire\.gpu") == 2
        assert not built.resources or built.resources.spills <= 128  # of a tile: a few addresses


def test_turns():
    """Of each block of queries all tiles of keys have one, in the order in which they come to it."""
    for tiles, blocks in ((16, 32), (16, 16), (5, 3), (3, 7), (1, 4), (64, 8)):
        begin = [row * blocks // tiles for row in range(tiles)]
        for block in range(blocks):
            comes = [((block - begin[row]) % blocks, -row) for row in range(tiles)]
            first = ((block + 1) * tiles - 1) // blocks
            turns = [first - row + (tiles if first < row else 0) for row in range(tiles)]  # as ``Order.turn`` has them
            assert sorted(range(tiles), key=lambda row: comes[row]) == sorted(range(tiles), key=lambda row: turns[row])
            assert sorted(turns) == list(range(tiles))


def test_blocks_that_wait_are_not_chosen_where_they_do_not_fit():
    """A GPU with fewer multiprocessors than the target's would not start them."""
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(texts((4, 16, 16, 2048, 2048, 64), passes=TOGETHER)[0])
        kernel = kernels(module)[0]
        waits = choose(kernel, TARGET)
        assert waits.adds and spaces.valid(kernel, waits, TARGET)
        module.operation.attributes[FEW] = ir.UnitAttr.get()
        found = choose(kernel, TARGET)
        assert not (found and found.adds) and not spaces.valid(kernel, waits, TARGET)


@pytest.mark.thorough
def test_the_choice():
    text = texts((2, 4, 2, 512, 512, 128))[1]
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        kernel = kernels(module)[0]
        found = [s for _, s in spaces.space(kernel, TARGET)]
        assert set(candidates(*read(kernel, TARGET), TARGET)) <= set(found) and all(spaces.valid(kernel, s, TARGET) for s in found[::8])
        assert choose(kernel, TARGET) in found and choose(kernel, TARGET).order == "static"
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(texts((2, 16, 16, 2048, 2048, 128), causal=True)[0])
        assert choose(kernels(module)[0], TARGET).order == "dynamic"  # tiles of different lengths
    # Of few columns, where not all of a head's tiles run together, two products are sooner computed than gradients of scores are written.
    for columns, keys, taken in ((64, 2048, 128), (128, 2048, 64), (64, 2040, None), (128, 2040, 0)):
        with idle_context(), ir.Location.unknown():
            module = ir.Module.parse(texts((4, 16, 16, 2048, keys, columns), passes=TOGETHER)[0])
            found = choose(kernels(module)[0], TARGET)
            assert (found and found.adds and found.columns) == taken
    with pytest.raises(CompileError, match="needs more shared memory or registers"):
        build(text, "attention_gradients", AttentionGradients(2, 128))


def test_gradients_of_scores_that_cannot_be_a_result():
    """The copy engine does not write such lines."""
    given = *empty(2, 2, 2, 64, 36, 64), torch.zeros(2, 2, 64), torch.zeros(1, 2, 64, 36)
    with idle_context(), ir.Location.unknown():
        module = fused(learned_backward(0.125), given, f"inferno-fuse,{TOGETHER}")
        kernel, = (k for k in kernels(module) if parse_attention_gradient(k) is not None)
        assert parse_attention_gradient(kernel).of_scores == len(kernel.type.inputs) - 1
        assert not list(spaces.space(kernel, TARGET))


def test_left_alone():
    made = texts((2, 4, 4, 512, 512, 100, 192))
    with idle_context(), ir.Location.unknown():
        for text in made:  # rows that the copy engine does not know
            module = ir.Module.parse(text)
            assert not list(spaces.space(kernels(module)[0], TARGET))
