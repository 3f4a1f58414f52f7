"""Kernels that go over rows side by side: their numbers on a simulated GPU, and what they are made of."""

import pytest
import torch
from checks import check, scheduled
from choices import generators
from column_cases import CASES, GROUPED, NORMS, ODD, ONCE, SCHEDULES, SHORT, TRANSPOSED, choose
from row_kernel_cases import PASSES
from universal_program import SimulatedModel, assert_assembles

import inferno
from inferno.capture import capture
from inferno.errors import CompileError
from inferno.mlir import idle_context, ir
from inferno.passes.manager import run_pipeline
from inferno.runtime.workers import jobs
from inferno.schedule.rows import short_rows
from inferno.target import find_target


HELD = 'approximate = true, cluster = 1 : i64, generator = "columns", held = true, kept = 0 : i64, longest = 0 : i64, once = false, reciprocals = true'


def right(name, schedule="chosen", cases=CASES):
    torch.manual_seed(0)
    model, args = cases[name]()
    simulated = SimulatedModel(model, args, choose=choose(SCHEDULES[schedule]), passes=PASSES)
    assert len(simulated.program.plan.steps) == 1
    found = check(simulated, model, args)
    assert found.right, str(found)
    return simulated


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    right(name)


@pytest.mark.parametrize("name", ["few points", "two points", "a pick of each row", "a pick of odd rows"])
def test_threads_have_whole_rows(monkeypatch, name):
    """They meet nobody."""
    monkeypatch.setitem(SCHEDULES, "whole", {**SCHEDULES["held"], "threads": 64, "across": 64, "cluster": 1})
    code = str(right(name, "whole").program.gpu)
    assert "gpu.barrier" not in code and "gpu.shuffle" not in code and "workgroup" not in code


@pytest.mark.covering(most=1, also=lambda name: name in ("an odd number of rows", "of two types", "a product of integers", "a pick", "float64"))
@pytest.mark.parametrize("name", SHORT)
def test_short_rows(name):
    torch.manual_seed(0)
    model, args = SHORT[name]()
    simulated = SimulatedModel(model, args, choose=lambda kernel: short_rows.choose(kernel, find_target("sm_90a")), passes=PASSES)
    assert generators(model, args) == ["columns"]
    found = check(simulated, model, args)
    assert found.right and len(simulated.program.plan.steps) == 1, str(found)
    assert "gpu.barrier" not in str(simulated.program.gpu)


def test_short_rows_are_read_by_vectors():
    """Of 8 rows of 3 numbers of 16 bits, which are three vectors of 16 bytes, a thread has all, by way of shared memory."""
    ptx = inferno.compile(lambda x: torch.softmax(x, -1), (randn_of(1 << 20, 3),), target="sm_90a").ir("ptx")
    assert ptx.count("cp.async.cg") == 3 and ptx.count("ld.shared.v4.b32") == 6 and ptx.count("st.global.v4.b32") == 3, ptx


def randn_of(*shape):
    return torch.randn(shape).to(torch.bfloat16)


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("name", ["softmax bf16", "softmax, middle", "variance and mean"])
@pytest.mark.parametrize("schedule", [s for s in SCHEDULES if s != "chosen"])
def test_schedules(name, schedule):
    right(name, schedule)


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed(unmeasured, name):
    right(name, cases=TRANSPOSED)


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", ["bf16", "float32", "threads of no row", "to float32"])
@pytest.mark.parametrize("run", [2, 4])
def test_transposed_in_runs(unmeasured, monkeypatch, name, run):
    """What a thread writes of a row are neighbours; of 35 points there are none."""
    monkeypatch.setitem(SCHEDULES, "run", {"unroll": 4, "run": run, "kept": 1})
    if name == "bf16":
        with pytest.raises(CompileError, match="does not fit"):
            right(name, "run", TRANSPOSED)
    else:
        assert "vector.store" in str(right(name, "run", TRANSPOSED).program.gpu)


def test_transposed_by_two_blocks(unmeasured):
    simulated = right("threads of no row", "two blocks", TRANSPOSED)
    assert_assembles(simulated.program.gpu, find_target("sm_90a"))


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", GROUPED)
def test_groups(unmeasured, name):
    right(name, cases=GROUPED)


@pytest.mark.parametrize("images", [3, 40])
def test_groups_of_an_odd_number_of_channels(images):
    """Of 17 lanes side by side threads are 17 warps, or whatever has fewer to do."""
    schedules = scheduled(lambda x: x - x.sum((0, 2), keepdim=True), (torch.empty(images, 65536, 17),)).ir("scheduled")
    assert schedules.count("generator") == 1 and ("across = 17" in schedules) == (images > 32)


@pytest.mark.covering
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("schedule", ONCE)
def test_moments(unmeasured, monkeypatch, name, schedule):
    monkeypatch.setitem(SCHEDULES, "once", {"across": 2, "threads": 64, "unroll": 4, "run": 1, **ONCE[schedule]})
    right(name, "once", NORMS)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("deviation, mean", [(1, 1000), (1e-3, 1)])
def test_moments_are_as_exact_as_two_sums(unmeasured, monkeypatch, deviation, mean):
    """Where the mean is much larger than the deviation: its rounding to float32 is what is seen of either."""
    torch.manual_seed(0)
    x = (torch.randn(3, 8, 6, 6) * deviation + mean).contiguous(memory_format=torch.channels_last)
    model, errors = torch.nn.functional.instance_norm, []
    exact = model(x.double())
    for change in ({"kept": 1, "cluster": 4}, {"kept": 1, "cluster": 4, "once": True, "sends": True}):
        monkeypatch.setitem(SCHEDULES, "moments", {"across": 2, "threads": 64, "unroll": 4, "run": 1, **change})
        simulated = SimulatedModel(model, (x,), choose=choose(SCHEDULES["moments"]), passes=PASSES)
        errors.append(((simulated(x) - exact).norm() / exact.norm()).item())
    assert errors[1] <= 1.01 * errors[0]


def test_assembles():
    assert_assembles(right("channels last").program.gpu, find_target("sm_90a"))


def test_schedules_that_do_not_fit():
    model, args = CASES["softmax, odd sizes"]()
    with pytest.raises(CompileError, match="does not fit"):
        SimulatedModel(model, args, choose=choose({"vector": 8}), passes=PASSES)


@pytest.mark.covering
@pytest.mark.parametrize("model, shape, expected", [
    (torch.nn.functional.instance_norm, (8, 320, 64, 64), True),
    (torch.nn.functional.instance_norm, (4, 256, 64, 64), True),
    (torch.nn.functional.instance_norm, (3, 320, 64, 64), False),  # fewer points than were timed
    (torch.nn.functional.instance_norm, (1, 128, 32, 32), True),
    (lambda x: x.flatten(2).softmax(-1), (8, 320, 64, 64), False),  # no norm
])
def test_transposed_by_default(monkeypatch, model, shape, expected):
    monkeypatch.delenv("INFERNO_UNMEASURED", raising=False)
    image = torch.empty(shape, dtype=torch.bfloat16, device="meta").contiguous(memory_format=torch.channels_last)
    linalg, _ = jobs.lower_to_linalg(capture(model, (image,)).text)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(linalg)
        run_pipeline(module, "inferno-fuse,inferno-schedule{target=sm_90a}")
        assert ('generator = "columns"' in str(module)) == expected


@pytest.mark.covering
@pytest.mark.parametrize("points, across", [(2, 128), (4, 128), (8, 128), (9, 128), (24, 16), (64, 16), (300, 8)])
def test_few_points_have_more_rows_side_by_side(points, across):
    """Threads that have no point of a row would idle: of 256x2x1024 14 of 16; of few points a thread has all."""
    def norm(x):
        return torch.softmax(x, 1)

    linalg, _ = jobs.lower_to_linalg(capture(norm, (torch.empty(256, points, 1024, device="meta"),)).text)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(linalg)
        run_pipeline(module, "inferno-fuse,inferno-schedule{target=sm_90a}")
        assert f'across = {across} : i64, approximate = true, cluster = 1 : i64, generator = "columns"' in str(module)


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("shape, channels_first, expected", [
    ((4, 19, 256, 512), False, f"across = 128 : i64, {HELD}, run = 1 : i64, sends = false, threads = 128 : i64, unroll = 19 : i64, vector = 2"),
    ((1, 19, 128, 128), False, f"across = 8 : i64, {HELD}, run = 1 : i64, sends = false, threads = 64 : i64, unroll = 3"),
    ((2, 19, 16, 16), False, f"across = 8 : i64, {HELD}, run = 1 : i64, sends = false, threads = 64 : i64, unroll = 3"),
    # Few points of an odd number of rows: each row is a thread's alone.
    ((1, 4, 9, 59), False, f"across = 128 : i64, {HELD}, run = 1 : i64, sends = false, threads = 128 : i64, unroll = 4 : i64, vector = 1"),
    ((1, 40, 9, 59), False, f"across = 4 : i64, {HELD}, run = 1 : i64, sends = false, threads = 64 : i64, unroll = 3 : i64, vector = 1"),
    ((2, 80, 32, 32), False, f"across = 8 : i64, {HELD}, run = 1 : i64, sends = false, threads = 128 : i64, unroll = 5"),
    ((1, 96, 56, 56), True, f"across = 4 : i64, {HELD}, run = 2 : i64, sends = false, threads = 64 : i64, unroll = 6"),
])
def test_threads_have_points(shape, channels_first, expected):
    """Of 19 points 16 threads had one each, and then three of them another; two blocks shared rows of which half as many side by side have as many."""
    def softmax(x):
        return torch.softmax(x, 1)

    def norm(x):
        return torch.nn.functional.layer_norm(x.permute(0, 2, 3, 1), shape[1:2])

    linalg, _ = jobs.lower_to_linalg(capture(norm if channels_first else softmax, (torch.empty(shape, device="meta"),)).text)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(linalg)
        run_pipeline(module, "inferno-fuse,inferno-schedule{target=sm_90a}")
        assert expected in str(module), str(module)[-1500:]


def test_odd_numbers_of_short_rows(caplog):
    """Of which one is a vector, and no more are side by side than threads of a warp."""
    compiled = inferno.compile(lambda x: torch.softmax(x, 0), (torch.randn(4, 57445).half(),), target="sm_90a")
    (row,) = compiled.explain().rows
    assert row.generator == "columns" and not caplog.records, caplog.text


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name, expected", [
    ("softmax", "across=32, held=true, threads=256, unroll=9"), ("bf16", "across=32, held=true, threads=256, unroll=9"),
    ("norm, middle", "across=32, held=true, threads=512, unroll=9"), ("a sum of products", "across=32, held=true, threads=512, unroll=19"),
    ("more than the L2 cache has", "across=128, held=true, threads=128, unroll=41"),
])
def test_many_rows_of_an_odd_number(caplog, name, expected):
    (row,) = inferno.compile(*ODD[name](), target="sm_90a").explain().rows
    chosen = [part for part in str(row.schedule).split(", ") if part.split("=")[0] in ("across", "held", "threads", "unroll")]
    assert row.generator == "columns" and ", ".join(chosen) == expected and not row.spills and not caplog.records, caplog.text


@pytest.mark.parametrize("shape, expected", [
    ((128, 512, 28, 28), "across = 4 : i64, approximate = true, cluster = 1 : i64"),
    ((64, 256, 64, 64), "across = 8 : i64, approximate = true, cluster = 8 : i64"),
    ((32, 64, 128, 128),
     "kept = 1 : i64, longest = 0 : i64, once = true, reciprocals = true, run = 4 : i64, sends = true, threads = 512 : i64, unroll = 8 : i64"),
    ((32, 64, 128, 128), "across = 4 : i64, approximate = true, cluster = 16 : i64"),
])
def test_fewer_rows_beside_each_other_rather_than_two_blocks(shape, expected):
    x = torch.empty(shape, device="meta").to(memory_format=torch.channels_last)
    linalg, _ = jobs.lower_to_linalg(capture(torch.nn.functional.instance_norm, (x,)).text)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(linalg)
        run_pipeline(module, "inferno-fuse,inferno-schedule{target=sm_90a}")
        assert expected in str(module), str(module)[-1500:]


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("shape, groups", [
    ((2, 960, 64, 64), 32), ((8, 960, 16, 16), 16), ((1, 1920, 32, 32), 32), ((2, 1920, 48, 48), 32), ((2, 480, 7, 7), 32),
])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_groups_of_any_channels(shape, groups, dtype):
    """Groups whose channels are no whole vectors of theirs, of images with channels last, fit what a block has."""
    x = torch.empty(shape, dtype=dtype).contiguous(memory_format=torch.channels_last)
    w = torch.empty(shape[1], dtype=dtype)
    compiled = inferno.compile(lambda x, w: torch.nn.functional.silu(torch.nn.functional.group_norm(x, groups, w, w)), (x, w), target="sm_90a")
    assert [row.generator for row in compiled.explain().rows] != ["universal"]


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_norm_in_front_of_exponentials_is_part_of_their_kernel(weighted):
    x, y = torch.randn(181, 27840), torch.rand(27840, 181)

    def model(x, y):
        h = torch.rms_norm(x.t(), (181,))
        return torch.logsumexp(h * y.sum(-1, keepdim=True) if weighted else h, -1)

    rows = inferno.compile(model, (x, y), target="sm_90a", fallback=False).explain().rows
    assert [r.generator for r in rows] == (["reductions", "columns"] if weighted else ["columns"])
