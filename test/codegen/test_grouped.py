"""Products of groups of rows by one kernel: right on the simulated GPU, whatever the groups are, and assembled without spills."""

import pytest
import torch
from checks import check, scheduled
from choices import generators
from grouped_cases import ENDS, experts, gated, grouped, mixed, operands, weighted
from kernels import TARGET, build
from universal_program import SimulatedModel

import inferno
from inferno.capture import capture
from inferno.mlir import idle_context, ir
from inferno.passes.manager import run_pipeline
from inferno.runtime.workers import jobs
from inferno.schedule.assign import kernels
from inferno.schedule.matmul import grouped as schedules
from inferno.schedule.matmul.grouped import Grouped

PASSES = "fuse-grouped{target=sm_90a always=1}"


def right(function, args, schedule, chunks=(1,)):
    """``chunks``: how many each product of groups has."""
    made = []

    def choose(kernel):
        found = schedules.read(kernel, TARGET)
        if found is None:
            return None
        made.append(1 if found.second is None else 2)
        return schedule

    simulated = SimulatedModel(function, args, choose=choose, passes=PASSES)
    assert tuple(made) == chunks
    assert (found := check(simulated, function, args)).right, str(found)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", ENDS)
def test_groups(name):
    right(grouped, operands(ENDS[name], max(ENDS[name][-1], 160) + 3, 64, 64), Grouped(64, 64, 3, 1))


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("ends, rows", [([0, 1, 1, 5], 5), ([2, 3, 3, 3], 40), ([0, 0, 0, 2], 2)])
def test_few_rows(ends, rows):
    right(grouped, operands(ends, rows, 136, 72), Grouped(64, 64, 3, 1))


@pytest.mark.thorough
@pytest.mark.covering(most=2)
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("schedule", [
    Grouped(128, 64, 3, 2, group=0), Grouped(64, 128, 2, 1, group=0), Grouped(64, 32, 4, 1), Grouped(64, 64, 3, 1, group=2), Grouped(64, 64, 3, 1, group=3),
])
def test_tiles(schedule, transposed):
    """Columns that are no whole tiles, and terms that are no whole steps."""
    right(grouped, operands(ENDS["several"], 150, 136, 168, transposed=transposed), schedule)


def test_weights_of_rows():
    x, w, ends = operands(ENDS["several"], 160, 64, 72, torch.float16)
    right(weighted, (x, w, ends, torch.rand(160)), Grouped(64, 64, 3, 1))


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("schedule", [Grouped(64, 64, 3, 1), Grouped(128, 64, 2, 2), Grouped(64, 128, 2, 1)])
def test_two_chunks(schedule, transposed):
    x, w, _ = operands([160] * 4, 160, 64, 2 * 72, transposed=transposed)
    right(gated, (x, w, torch.randint(0, 4, (160,)).sort()[0]), schedule, (2,))


def test_experts():
    x, first, ends = operands(ENDS["several"], 160, 64, 2 * 64)
    second = torch.randn(len(ENDS["several"]), 72, 64, dtype=torch.bfloat16).transpose(1, 2)
    right(experts, (x, first, second, ends, torch.rand(160), torch.randperm(160)), Grouped(64, 64, 3, 1), (2, 1))


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("together", [1, 20])
def test_rows_in_any_order(together):
    """Also so many that there are fewer tiles of all rows with every matrix."""
    x, w, _ = operands([160] * 4, 160, 64, 64)
    right(mixed, (x, w, torch.randint(0, 4, (160 // together,)).repeat_interleave(together)), Grouped(64, 64, 3, 1))


def test_more_rows_than_threads():
    x, w, ends = operands([1, 500, 501, 1040], 1050, 64, 64)
    right(grouped, (x, w, ends), Grouped(128, 64, 3, 2))


def kernel_of(function, args):
    """The text of its kernel for groups."""
    linalg, _ = jobs.lower_to_linalg(capture(function, args).text)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(linalg)
        run_pipeline(module, f"inferno-fuse,{PASSES}")
        return next(str(k) for k in kernels(module) if schedules.read(k, TARGET) is not None)


def empty(*shape, dtype=torch.bfloat16):
    return torch.empty(shape, dtype=dtype, device="meta")


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("function", [gated, mixed])
@pytest.mark.parametrize("transposed", [True, False])
def test_assembles_without_spills(function, transposed):
    """The tiles that are tried, the smallest, the largest, and one between."""
    w = empty(8, 512, 1024).transpose(1, 2) if transposed else empty(8, 1024, 512)
    text = kernel_of(function, (empty(512, 1024), w, empty(512, dtype=torch.int64)))
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        tried = [s for _, s in schedules.candidates(schedules.read(kernels(module)[0], TARGET), TARGET)]
    assert len(tried) >= 6
    tried.sort(key=lambda s: s.tile_m * s.tile_n)
    for schedule in (tried[0], tried[len(tried) // 2], tried[-1]):
        built = build(text, "grouped", schedule)
        assert built.resources is None or built.resources.spills == built.resources.stack == 0, schedule


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("rows, terms, columns, groups, tile_m", [(512, 3584, 1024, 8, 128), (4096, 3584, 1024, 8, 128), (2048, 768, 2048, 64, 64)])
def test_chosen(rows, terms, columns, groups, tile_m):
    args = empty(rows, terms), empty(groups, columns, terms).transpose(1, 2), empty(groups, dtype=torch.int32)
    report = scheduled(lambda x, w, ends: torch._grouped_mm(x, w, offs=ends), args).ir("scheduled")
    assert report.count('generator = "grouped"') == 1 and f"tile_m = {tile_m} : i64" in report


@pytest.mark.parametrize("unmeasured", [False, True])
def test_more_rows_than_l2_keeps(monkeypatch, unmeasured):
    """Some at a time meet all columns, once that has been measured; until then all of them, and where torch's library may, it multiplies."""
    monkeypatch.setenv("INFERNO_UNMEASURED", str(int(unmeasured)))
    args = empty(16384, 2048), empty(64, 1536, 2048).transpose(1, 2), empty(64, dtype=torch.int32)
    function = lambda x, w, ends: torch._grouped_mm(x, w, offs=ends) * 2  # noqa: E731
    made = inferno.compile(function, args, target="sm_90a", fallback=False)
    (row,) = [r for r in made.explain().rows if r.generator == "grouped"]
    assert f"group={15 if unmeasured else 0}," in row.schedule
    left = [f.target for f in inferno.compile(function, args, target="sm_90a").fallbacks]
    assert left == ([] if unmeasured else ["aten._grouped_mm.default"])


AROUND = {
    "another order": lambda y, i, r: y.t().contiguous(), "rows of its rows": lambda y, i, r: y[i], "weighted rows of them": lambda y, i, r: (y * r[:, None])[i],
    "sums of two": lambda y, i, r: y.view(256, 2, 2048).sum(1), "weighted": lambda y, i, r: (y * r[:, None]).view(256, 2, 2048).sum(1),
    "biases": lambda y, i, r: y + torch.ones(8, 2048, device=y.device)[i], "behind others": lambda y, i, r: torch.cat([torch.zeros_like(y), y]),
    "every other column": lambda y, i, r: y[:, ::2] * y[:, 1::2],
    "four chunks": lambda y, i, r: torch.cat([a * b for a, b in (y.chunk(4, -1)[:2], y.chunk(4, -1)[2:])]),
    "chunks apart": lambda y, i, r: (y[:, :1024] * 2, y[:, 1024:].t().contiguous()), "one chunk": lambda y, i, r: y[:, 1024:] + 1,
}


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", AROUND)
def test_whatever_follows(name):
    """Nothing that is done with the rows makes a product of all with all of it."""
    args = empty(512, 1024), empty(8, 2048, 1024).transpose(1, 2), empty(8, dtype=torch.int32), empty(512, dtype=torch.int64), empty(512)
    found = generators(lambda x, w, ends, i, r: AROUND[name](torch._grouped_mm(x, w, offs=ends), i, r), args)
    assert found.count("grouped") == 1 and "wgmma" not in found


def pairs(y):
    return y.view(512, 1024, 2).sum(-1)


@pytest.mark.covering(most=3, also=lambda between: between is pairs)
@pytest.mark.parametrize("between", [
    lambda y: torch.nn.functional.silu(y[:, :1024]) * y[:, 1024:], lambda y: y[:, ::2] * y[:, 1::2], lambda y: y[:, 5:1029] * y[:, :1024] + y[:, 1024:],
    lambda y: y[:, :1024], pairs,
])
def test_whatever_is_between(between):
    """Two products of groups, of rows whose numbers they share."""
    args = empty(512, 1024), empty(8, 2048, 1024).transpose(1, 2), empty(8, 1024, 1024).transpose(1, 2), empty(8, dtype=torch.int32)
    found = generators(lambda x, w, v, ends: torch._grouped_mm(between(torch._grouped_mm(x, w, offs=ends)), v, offs=ends), args)
    assert found.count("grouped") == 2 and "wgmma" not in found


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("change", [lambda x, w, r: (x * 2, w), lambda x, w, r: ((x * r[:, None]), w), lambda x, w, r: (x, w * r[:8, None, None])])
def test_computed_factors(change):
    args = empty(512, 1024), empty(8, 2048, 1024).transpose(1, 2), empty(8, dtype=torch.int32), empty(512)

    def function(x, w, ends, r):
        x, w = change(x, w, r)
        return torch._grouped_mm(x, w, offs=ends)

    assert generators(function, args).count("grouped") == 1


def test_two_that_meet():
    args = empty(512, 1024), *[empty(8, 2048, 1024).transpose(1, 2) for _ in range(2)], empty(8, dtype=torch.int32)
    made = scheduled(lambda x, w, v, ends: torch._grouped_mm(x, w, offs=ends) * torch._grouped_mm(x, v, offs=ends), args)
    assert made.ir("scheduled").count('generator = "grouped"') == 2


@pytest.mark.thorough
def test_two_that_meet_are_right():
    """The second one's end reads the first one's rows."""
    x, w, ends = operands(ENDS["several"], 160, 64, 72)
    v = torch.randn(len(ENDS["several"]), 72, 64, dtype=torch.bfloat16).transpose(1, 2)
    right(lambda x, w, v, ends: torch.nn.functional.silu(grouped(x, w, ends)) * grouped(x, v, ends), (x, w, v, ends), Grouped(64, 64, 3, 1), (1, 1))


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", ["another order", "rows of its rows", "biases", "weighted rows of them"])
def test_what_follows_is_right(name):
    x, w, ends = operands(ENDS["several"], 160, 64, 72)
    b = torch.randn(len(ENDS["several"]), 72)
    follow = {**AROUND, "biases": lambda y, i, r: y + b[i % len(b)]}[name]
    right(lambda x, w, ends, i, r: follow(grouped(2 * x, w, ends), i, r), (x, w, ends, torch.randint(0, 160, (160,)), torch.rand(160)), Grouped(64, 64, 3, 1))


def test_chunks_of_one_are_right():
    x, w, ends = operands(ENDS["several"], 160, 64, 2 * 72)

    def function(x, w, ends):
        gate, up = grouped(x, w, ends).chunk(2, -1)
        return torch.nn.functional.silu(gate) * up

    right(function, (x, w, ends), Grouped(64, 64, 3, 1), (2,))
