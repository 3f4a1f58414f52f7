"""Kernels that go over rows: their numbers on a simulated GPU, what they are made of, and which schedules they get."""

import pytest
import torch
from checks import check
from row_kernel_cases import CASES, F, PASSES, PERSISTENT, RAGGED, RAGGED_SCHEDULES, SCHEDULES, choose, choose_ragged, softmax
from universal_program import SimulatedModel, assert_assembles

from inferno.capture import capture
from inferno.capture.decompositions.normalisation import transposed_group_norm
from inferno.errors import CompileError
from inferno.mlir import ir, idle_context
from inferno.passes.manager import run_pipeline
from inferno.runtime.workers import jobs
from inferno.schedule import assign
from inferno.schedule.assign import kernels
from inferno.schedule.rows import rows
from inferno.target import find_target

TARGET = find_target("sm_90a")


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    torch.manual_seed(0)
    model, args, launches = CASES[name]()
    simulated = SimulatedModel(model, args, choose=choose({}), passes=PASSES)
    assert len(simulated.program.plan.steps) == launches
    found = check(simulated, model, args)
    assert found.right, str(found)


def test_as_many_reductions_as_a_program_has_are_one_kernel():
    torch.manual_seed(0)

    def norms(x):
        for i in range(6):
            x = torch.softmax(3 * x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5), -1) if i % 2 else F.layer_norm(x, x.shape[-1:])
        return x

    simulated = SimulatedModel(norms, (torch.randn(3, 96),), choose=choose({}), passes=PASSES)
    assert len(simulated.program.plan.steps) == 1
    found = check(simulated, norms, (torch.randn(3, 96),))
    assert found.right, str(found)


def test_rows_in_another_order_than_memorys():
    """Queries and keys of one tensor are normalized head by head: one kernel reads both where they lie."""
    torch.manual_seed(0)
    args = torch.randn(2, 9, 192).to(torch.bfloat16), torch.randn(16), torch.randn(16)

    def norms(x, w, b):
        return tuple(F.layer_norm(t, w.shape, w, b) for t in x.unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)[:2])

    simulated = SimulatedModel(norms, args, choose=lambda k: assign.choose(k, TARGET), passes=PASSES, expand=True)
    assert [step.kernel.startswith("rows_") for step in simulated.program.plan.steps] == [True]
    found = check(simulated, norms, args)
    assert found.right, str(found)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_groups_of_channels_last_to_channels_first(dtype):
    """One kernel reads the image for its statistics, one makes those of channels, and one applies and turns."""
    args = torch.randn(2, 32, 5, 8).to(dtype).contiguous(memory_format=torch.channels_last), torch.randn(32).to(dtype), torch.randn(32).to(dtype)
    simulated = SimulatedModel(lambda x, w, b: F.silu(transposed_group_norm(x, 2, w, b, 1e-5)), args, choose=lambda k: assign.choose(k, TARGET), passes=PASSES)
    assert len(simulated.program.plan.steps) == 4
    found = check(simulated, lambda x, w, b: F.silu(F.group_norm(x, 2, w, b)), args)
    assert found.right, str(found)


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", ["softmax bf16", "batch_norm, odd sizes", "what neighbours share"])
@pytest.mark.parametrize("schedule", [s for s in SCHEDULES if s != "chosen"])
def test_schedules(name, schedule):
    torch.manual_seed(0)
    model, args, _ = CASES[name]()
    simulated = SimulatedModel(model, args, choose=choose(SCHEDULES[schedule]), passes=PASSES)
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name, columns, schedule", [
    *(("softmax", n, "held") for n in (57, 1001, 1002, 1007)), *((name, 1003, "held") for name in RAGGED if name != "softmax"),
    ("softmax", 2001, "a loop"), ("layer_norm", 1001, "kept by a cluster"), ("softmax f32", 515, "kept by a cluster"),
])
def test_rows_that_begin_anywhere(name, columns, schedule):
    torch.manual_seed(0)
    model, args = RAGGED[name](columns)
    simulated = SimulatedModel(model, args, choose=choose_ragged(RAGGED_SCHEDULES[schedule]), passes=PASSES)
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name, schedule", [
    ("softmax bf16", "blocks"), ("softmax", "a part"), ("layer_norm", "clusters"), ("residual and rms_norm", "weights"),
])
def test_blocks_that_go_over_all_rows(name, schedule):
    torch.manual_seed(0)
    model, args, _ = CASES[name]()
    simulated = SimulatedModel(model, args, choose=choose(PERSISTENT[schedule]), passes=PASSES)
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.parametrize("schedule", [{**PERSISTENT["clusters"], "kept": 3}, {**PERSISTENT["weights"], "persistent": 4}])
def test_blocks_that_go_over_rows_that_begin_anywhere(schedule):
    """Of the last row's last vector only what there is is read; weights lie with the rows of a block."""
    torch.manual_seed(0)
    model, (x, *weights) = RAGGED["layer_norm"](1003)
    args = (x.repeat(2, 1) * torch.arange(1, 2 * len(x) + 1)[:, None], *weights)
    simulated = SimulatedModel(model, args, choose=choose_ragged(schedule), passes=PASSES)
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("shift", [0.0, -300.0, 1e30])
def test_exponentials_below_the_largest(shift):
    """Also where numbers are large, and where a row is minus infinity."""
    x = torch.randn(4, 3000) * 20 + shift
    x[1, 7], x[2] = -torch.inf, -torch.inf
    for model in (lambda x: torch.logsumexp(x, -1), lambda x: torch.softmax(x, -1), lambda x: torch.softmax(x, -1).half()):
        simulated = SimulatedModel(model, (x,), choose=choose({"approximate": True}), passes=PASSES)
        torch.testing.assert_close(simulated(x), model(x), equal_nan=True)


@pytest.mark.thorough
@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "cross_entropy"])
@pytest.mark.parametrize("approximate", [False, True])
def test_sums_taken_with_the_largest(name, approximate):
    """Online, rows are read once less, and what is infinite or no number is as it was."""
    torch.manual_seed(0)
    x = torch.randn(6, 200) * 30
    x[0, 5], x[1, 7], x[2, 3], x[3], x[4] = torch.nan, torch.inf, -torch.inf, -torch.inf, x[4] * 1e5
    model = {"cross_entropy": lambda x: F.cross_entropy(x[4:], torch.tensor([3, 7]))}.get(name) or (lambda x: getattr(torch, name)(x, -1))
    online = {"threads": 64, "across": 32, "held": False, "unroll": 2, "online": True, "approximate": approximate}
    for dtype in (torch.float32, *((torch.bfloat16 if approximate else torch.float16,) if name == "softmax" else ())):
        given = x.clamp(-3e4, 3e4).to(dtype) if dtype == torch.float16 else x.to(dtype)
        plain, once = (SimulatedModel(model, (given,), choose=choose({**online, "online": o}), passes=PASSES) for o in (False, True))
        assert once.program.gpu.count("scf.for") < plain.program.gpu.count("scf.for")
        torch.testing.assert_close(once(given), model(given), equal_nan=True)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("rows, columns", [(40, 70), (530, 8200), (520, 8193)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses(rows, columns, reduction):
    """Cross entropy, whose kernel takes each row's element at its target, too."""
    def model(x, t):
        return F.cross_entropy(x, t, reduction=reduction)

    torch.manual_seed(0)
    args = torch.randn(rows, columns), torch.randint(0, columns, (rows,)).index_fill(0, torch.tensor([3]), -100)
    passes = "split-terms{target=sm_90a},fuse-reductions{target=sm_90a}"
    simulated = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes=passes)
    assert len(simulated.program.plan.steps) == (1 if reduction == "none" else 2)
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.thorough
def test_only_exponentials_below_the_largest_are_approximate():
    def functions(model, dtype):
        x = torch.empty(4, 512, dtype=dtype, device="meta")
        gpu = SimulatedModel(model, (x,), choose=choose({"approximate": True}), passes=PASSES).program.gpu
        return "math.exp" in gpu, "ex2.approx" in gpu

    assert functions(softmax, torch.bfloat16) == (False, True)
    assert functions(softmax, torch.float32) == (True, False)
    assert functions(lambda x: torch.logsumexp(x, -1), torch.float32) == (False, True)
    assert functions(lambda x: torch.exp(x - x.mean(-1, keepdim=True)), torch.bfloat16) == (True, False)


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("name", ["residual and rms_norm", "batch_norm"])
@pytest.mark.parametrize("schedule", ["chosen", "a loop of a cluster", "kept by a cluster"])
def test_assembles(name, schedule):
    model, args, _ = CASES[name]()
    assert_assembles(SimulatedModel(model, args, choose=choose(SCHEDULES[schedule]), passes=PASSES).program.gpu, TARGET)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name, columns, schedule", [("softmax bf16", 0, "a part"), ("residual and rms_norm", 0, "weights"), ("layer_norm", 1003, "blocks")])
def test_persistent_assembles(name, columns, schedule):
    model, args = RAGGED[name](columns) if columns else CASES[name]()[:2]
    chosen = choose_ragged(PERSISTENT[schedule]) if columns else choose(PERSISTENT[schedule])
    assert_assembles(SimulatedModel(model, args, choose=chosen, passes=PASSES).program.gpu, TARGET)


@pytest.mark.parametrize("scale", [1e-42, 1.0, 3e38])
def test_reciprocals_of_any_size(scale):
    x = (torch.rand(5, 64) + 0.5) * scale
    x[1, 3], x[2], x[3, 7] = torch.inf, 0, torch.nan

    def model(x):
        return (x / x.amax(-1, keepdim=True)).to(torch.bfloat16)

    simulated = SimulatedModel(model, (x,), choose=choose({"reciprocals": True}), passes=PASSES)
    torch.testing.assert_close(simulated(x), model(x), equal_nan=True)

    def quotients(x):
        return x / (x.amax(-1, keepdim=True) * 0.7), x / x.amin(-1, keepdim=True)

    simulated = SimulatedModel(quotients, (x,), choose=choose({"reciprocals": True}), passes=PASSES)
    torch.testing.assert_close(simulated(x), quotients(x), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("rows, columns", [(2, 36), (300, 64), (7, 33)])
def test_sums_of_short_rows_are_rounded_once(rows, columns):
    torch.manual_seed(0)
    x = torch.empty(rows, columns).uniform_(-9, 9)

    def model(x):
        total = x.sum(-1, keepdim=True)
        return total, x - total

    simulated = SimulatedModel(model, (x,), choose=choose({}), passes=PASSES)
    assert torch.equal(simulated(x)[0], x.double().sum(-1, keepdim=True).float())


def test_not_a_number_and_infinity():
    x = torch.randn(6, 100)
    x[0, 5], x[1, 7], x[2, 3], x[3] = torch.nan, torch.inf, -torch.inf, -torch.inf
    simulated = SimulatedModel(lambda x: torch.softmax(x, -1), (x,), choose=choose({}), passes=PASSES)
    torch.testing.assert_close(simulated(x), torch.softmax(x, -1), equal_nan=True)


def picked(function, *shapes, dtype=torch.bfloat16):
    """The schedules of a function's kernels, of those that go over rows."""
    linalg, _ = jobs.lower_to_linalg(capture(function, tuple(torch.empty(s, dtype=dtype, device="meta") for s in shapes)).text)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(linalg)
        run_pipeline(module, f"inferno-fuse,{PASSES}")
        return [rows.choose(k, TARGET) for k in kernels(module)]


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("columns, held, clusters, ragged", [
    (64, True, 1, False), (8192, True, 1, False), (32768, False, 1, False), (65536, False, 2, False), (1 << 20, False, 16, False), (50257, False, 4, True),
])
def test_long_rows_are_several_blocks(columns, held, clusters, ragged):
    (s,) = picked(lambda x: torch.softmax(x, -1), ((1 << 27) // columns, columns))
    assert (s.held, s.cluster, s.vector, s.ragged) == (held, clusters, 8, ragged)
    assert s.held or s.kept


def test_few_rows_use_the_machine():
    (many,), (few,) = (picked(lambda x: torch.softmax(x, -1), (n, 32768)) for n in (4096, 4))
    assert few.across * few.cluster > many.across * many.cluster


@pytest.mark.covering
@pytest.mark.parametrize("rows, columns, dtype, weights, across, packed", [
    (16384, 4096, torch.float32, 0, 512, False), (13108, 5120, torch.float32, 2, 512, False), (32768, 2048, torch.float32, 2, 64, False),
    (8192, 16384, torch.bfloat16, 2, 128, True), (65536, 784, torch.bfloat16, 0, 32, False), (65536, 1024, torch.bfloat16, 0, 64, False),
], ids=str)
def test_threads_of_many_rows(rows, columns, dtype, weights, across, packed):
    """Four-byte numbers have 512 where each has two vectors, long weighted rows of 16 bits stay as they were read, what fills no power of two is a warp's."""
    shapes = [(rows, columns), *[(columns,)] * weights]
    (s,) = picked(lambda x, *w: F.layer_norm(x, (columns,), *w), *shapes, dtype=dtype)
    assert (s.across, s.packed) == (across, packed)


@pytest.mark.parametrize("columns, across", [(45, 8), (185, 32), (401, 32)])
def test_threads_of_odd_rows(columns, across):
    """Numbers of 16 bits that are read one by one are few a thread, as far as a warp goes."""
    (s,) = picked(lambda x: x.log_softmax(-1), (137936, columns))
    assert (s.vector, s.across, s.threads) == (1, across, 256)


def test_threads_of_rows_that_are_narrowed():
    """As many where results are narrower than what is read: a residual, and its norm in 16 bits."""
    shapes = (8192, 8192), (8192, 8192), (8192,)
    (s,) = picked(lambda x, r, w: ((h := x + r), F.rms_norm(h, w.shape, w).to(torch.bfloat16)), *shapes, dtype=torch.float32)
    assert s.across == s.threads == 512


def test_what_computes_much_computes_it_once():
    """Long rows are kept, and computed anew in each phase, only where memory takes longer than that."""
    def gated(x, y, w):
        x = torch.log_softmax(F.silu(F.layer_norm(torch.log_softmax(x, -1), w.shape, w)) * y, -1)
        return torch.logsumexp(x, -1)

    shape = (440, 24768)
    found = [s for s in picked(gated, shape, shape, shape[1:], dtype=torch.float32) if s is not None]
    assert [s.held for s in found] == [True]
    (plain,) = picked(lambda x, y: torch.softmax(x + y, -1), (440, 49152), (440, 49152), dtype=torch.float32)
    assert plain.kept and not plain.held


@pytest.mark.covering
@pytest.mark.parametrize("widths, dtype, schedule", [
    ((40, 44), torch.float32, {}), ((2, 6), torch.float64, {}),
    ((16, 8, 136), torch.bfloat16, {"threads": 64, "across": 32, "held": False, "kept": 0, "unroll": 2}),
])
def test_concatenations_are_read_in_place(widths, dtype, schedule):
    """Also parts of tensors, and with operations on what was put together."""
    def model(*pieces):
        x = torch.cat((pieces[0][:, : widths[0]], *pieces[1:]), -1)
        return torch.log_softmax(F.silu(x) * 3, -1)

    torch.manual_seed(0)
    pieces = [torch.randn(37, n + 8 * (i == 0)).to(dtype) for i, n in enumerate(widths)]
    simulated = SimulatedModel(model, tuple(pieces), choose=choose(schedule), passes=PASSES, expand=True)
    assert len(simulated.program.plan.steps) == 1
    found = check(simulated, model, tuple(pieces))
    assert found.right, str(found)


@pytest.mark.parametrize("model", [
    lambda x, w: (F.layer_norm(x, w.shape, w) ** 2).mean(), lambda x, w: ((y := F.normalize(x, dim=-1) + w), (y * 3).sum()),
])
def test_totals_are_of_rows(model):
    torch.manual_seed(0)
    args, fused = (torch.randn(301, 72), torch.randn(72)), "fuse-reductions{target=sm_90a}"
    simulated, apart = (
        SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes=p) for p in (f"{fused},fuse-totals{{target=sm_90a always=1}}", fused)
    )
    assert simulated.program.gpu != apart.program.gpu and len(simulated.program.plan.steps) <= len(apart.program.plan.steps)
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.thorough
def test_schedules_that_do_not_fit():
    model, args, _ = CASES["layer_norm"]()
    with pytest.raises(CompileError, match="does not keep what is read"):
        model, args = RAGGED["layer_norm"](1003)  # of which a block's next row begins elsewhere
        SimulatedModel(model, args, choose=choose_ragged({**PERSISTENT["weights"], "persistent": 3}), passes=PASSES)
    model, args, _ = CASES["layer_norm"]()
    with pytest.raises(CompileError, match="does not keep what is read"):
        SimulatedModel(model, args, choose=choose({**PERSISTENT["blocks"], "persistent": 6}), passes=PASSES)
    with pytest.raises(CompileError, match="does not fit"):
        SimulatedModel(model, args, choose=choose({"vector": 2, "ragged": False}), passes=PASSES)
    with pytest.raises(CompileError, match="does not fit"):  # no vector lies as memory does where rows begin anywhere
        SimulatedModel(model, args, choose=choose({"vector": 1, "ragged": True}), passes=PASSES)
    model, args, _ = CASES["batch_norm, odd sizes"]()
    with pytest.raises(CompileError, match="does not fit"):  # nor where a row's points are not neighbours, however many they are
        SimulatedModel(model, args, choose=choose({"vector": 3, "ragged": True}), passes=PASSES)
