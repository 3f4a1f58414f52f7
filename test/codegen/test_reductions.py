"""Reductions over any dimensions: their numbers on a simulated GPU, what they are made of, and which schedules they get."""

import re

import pytest
import torch
from checks import check
from gather_cases import CASES as GATHERS
from kernels import recorded
from reduction_cases import CASES, EXTREMA, MAPPED, SCHEDULES, choose, each_extremum, hard, variances
from torch.export import Dim
from universal_program import SimulatedModel, assert_assembles

from inferno.capture import capture
from inferno.errors import CompileError
from inferno.mlir import ir, idle_context
from inferno.passes.manager import run_pipeline
from inferno.runtime.workers import jobs
from inferno.schedule import assign
from inferno.schedule.assign import kernels
from inferno.schedule.reductions import reductions
from inferno.target import find_target

TARGET = find_target("sm_90a")


def right(name, schedule="chosen"):
    torch.manual_seed(0)
    model, *args = CASES[name]()
    simulated = SimulatedModel(model, tuple(args), choose=choose(SCHEDULES[schedule]))
    found = check(simulated, model, tuple(args))
    assert found.right, str(found)
    return simulated


@pytest.mark.covering(most=11)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    right(name)


@pytest.mark.covering
@pytest.mark.parametrize("name", ["last, odd", "middle", "argmax, no numbers", "argmin, first"])
@pytest.mark.parametrize("schedule", [s for s in SCHEDULES if s != "chosen"])
def test_schedules(name, schedule):
    right(name, schedule)


@each_extremum
def test_extrema(name, schedule, dtype, shape):
    torch.manual_seed(0)
    model, x = EXTREMA[name], hard(*shape, dtype)
    simulated = SimulatedModel(model, (x,), choose=choose(SCHEDULES[schedule]))
    for a, b in zip(simulated(x), model(x)):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


def test_what_is_made_of_the_sums_reads_a_term():
    def model(x, y):
        product = x * y
        return (product[:, 1] + 1).exp() / product.square().sum(1)

    x, y = torch.randn(64, 3), torch.randn(64, 3)
    found = check(SimulatedModel(model, (x, y)), model, (x, y))
    assert found.right, str(found)


@pytest.mark.parametrize("name", MAPPED)
def test_a_map_of_each_sum(name):
    """It is part of the kernel that puts chunks together, or of the only one."""
    torch.manual_seed(0)
    model, x = MAPPED[name]()
    simulated = SimulatedModel(model, (x,), choose=choose({}), passes="fuse-reductions{target=sm_90a always=1}")
    steps = [s.kernel for s in simulated.program.plan.steps]
    assert len({s.partition("::")[0] for s in steps}) == 1 and all(s.endswith("_sums") for s in steps[1:])
    found = check(simulated, model, (x,))
    assert found.right, str(found)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", ["all bf16", "first of few", "argmax of all bf16", "any"])
def test_assembles(name):
    assert_assembles(right(name).program.gpu, TARGET)


def picked(function, *shape, dtype=torch.bfloat16):
    """The schedule of a function's kernel, and what it reduces."""
    linalg, _ = jobs.lower_to_linalg(capture(function, (torch.empty(shape, dtype=dtype, device="meta"),)).text)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(linalg)
        run_pipeline(module, "inferno-fuse")
        (c,) = [reductions.read(k, TARGET) for k in kernels(module)]
        return reductions.pick(c, TARGET), c


@pytest.mark.covering
@pytest.mark.parametrize("dims, shape", [((0,), (8192, 8192)), ((1,), (8192, 8192)), ((0, 1), (8192, 8192)), ((1,), (256, 512, 512)), ((0,), (1 << 22, 16))])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_machine_is_full_and_vectors_are_16_bytes(dims, shape, dtype):
    s, c = picked(lambda x: x.sum(dims), *shape, dtype=dtype)
    assert s.vector * dtype.itemsize == 16
    assert s.tiles(c) * s.chunks * s.threads >= 2 * 132 * 256
    assert (s.chunks - 1) * s.share(c) < s.units(c) <= s.chunks * s.share(c)
    assert s.interleaved == (dims == (0, 1))  # one sum's blocks read side by side


@pytest.mark.parametrize("dims, shape, blocks", [((0,), (75, 90), 3), ((0,), (422, 58), 4), ((1,), (4, 3317), 4), ((1,), (32, 2417), 32)])
def test_small_sums_are_not_cut(dims, shape, blocks):
    """A second kernel would take as long as they do."""
    s, c = picked(lambda x: x.sum(dims), *shape)
    assert (s.chunks, s.tiles(c)) == (1, blocks)


def test_long_terms_have_more_blocks():
    functions = [lambda x: x.amax(0), lambda x: torch.tanh(torch.tanh(x) / torch.tanh(x + 1)).amax(0)]
    plain, long = [s.tiles(c) for s, c in (picked(f, 75, 90) for f in functions)]
    assert plain < long


def test_long_offsets_have_64_bits():
    def offsets(rows):
        x = torch.empty(rows, 65536, dtype=torch.int8, device="meta")
        return set(re.findall(r"arith\.(?:div|rem)ui .* : (i\d+)", SimulatedModel(lambda x: x.sum(0), (x,), choose=choose({})).program.gpu))

    assert (offsets(40000), offsets(4000)) == ({"i64"}, {"i32"})


def test_schedules_that_do_not_fit():
    with pytest.raises(CompileError, match="does not fit"):
        model, *args = CASES["last, odd"]()
        SimulatedModel(model, tuple(args), choose=choose({"vector": 2}))


@pytest.mark.covering
@pytest.mark.parametrize("model, launches", [
    (lambda x: (x.sum(0), x.amax(0)), 1), (lambda x: (x.sum(-1), x.amax(-1), (x * x).sum(-1)), 1), (lambda x: (x.sum(0), (x * x).sum(0)), 1),
    (lambda x: (x.sum(0), x.argmax(0)), 2), (lambda x: (x.sum(0), x.sum(1)), 2),
])
def test_what_reads_the_same_reads_it_once(model, launches):
    torch.manual_seed(0)
    x = torch.randn(700, 300).to(torch.bfloat16)
    simulated = SimulatedModel(model, (x,), choose=choose({}), passes="fuse-reductions{target=sm_90a always=1}")
    assert len(simulated.program.plan.steps) == launches
    found = check(simulated, model, (x,))
    assert found.right, str(found)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dtype, mean", [(torch.float32, 1000), (torch.bfloat16, 1000), (torch.float16, 0)])
def test_variances_by_one_read(dtype, mean):
    torch.manual_seed(0)
    for model, args in variances((torch.randn(3, 16, 5, 7) + mean).to(dtype)):
        simulated = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes="merge-variances{target=sm_90a}")
        assert "reduce_squares" in simulated.program.gpu
        found = check(simulated, model, args)
        assert found.right, str(found)


@pytest.mark.parametrize("model", [lambda x: x.var(), lambda x: torch.std_mean(x, correction=0), lambda x: (x - x.mean()) / x.std()])
def test_a_whole_tensor_is_read_once_for_its_variance(model):
    torch.manual_seed(0)
    x = torch.randn(90, 70) + 100
    passes = "fuse-reductions{target=sm_90a},merge-variances{target=sm_90a},fuse-sum-maps{target=sm_90a}"
    simulated = SimulatedModel(model, (x,), choose=lambda k: assign.choose(k, TARGET), passes=passes)
    assert sum("reduce" in s.kernel and not s.kernel.endswith("_sums") for s in simulated.program.plan.steps) == 1
    found = check(simulated, model, (x,))
    assert found.right, str(found)


def chosen(model, *args):
    found = []

    def pick(kernel):
        found.append(assign.choose(kernel, TARGET))
        return found[-1]

    SimulatedModel(model, args, choose=pick)
    return found


@pytest.mark.parametrize("dtype, unroll", [(torch.float32, 8), (torch.bfloat16, 4)])
def test_terms_that_a_thread_reads_at_once(dtype, unroll):
    (s,) = chosen(lambda x: x.sum((0, -1)), torch.empty(256, 512, 512, dtype=dtype))
    assert (s.across, s.along, s.unroll, s.chunks) == (1, 256, unroll, 1)


@pytest.mark.parametrize("beside", ["", ",fuse-sum-maps{target=sm_90a}"])
def test_what_channels_have_in_common_is_computed_once(beside):
    """By a kernel in front of the one that reads it, or where their sums are."""
    (model, args), _ = variances(torch.randn(3, 16, 5, 7).to(torch.bfloat16) + 2)
    passes = "merge-variances{target=sm_90a},hoist-vectors{target=sm_90a always=1}" + beside
    simulated = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes=passes)
    assert ("_vectors" in simulated.program.gpu) == (not beside)
    assert len({s.kernel.partition("::")[0] for s in simulated.program.plan.steps}) == 2 or not beside
    found = check(simulated, model, args)
    assert found.right, str(found)


def test_which_rows_are_read_is_computed_once():
    """Of rows that are taken of a table and summed: not for each of their columns."""
    torch.manual_seed(0)
    args = torch.randn(90, 71).to(torch.bfloat16), torch.randn(200, 71).to(torch.bfloat16)
    model = lambda x, y: x[(y[:, 0].abs() * 100).long() % 90].tanh().square().mean()  # noqa: E731
    passes = "fuse-reductions{target=sm_90a always=1},hoist-vectors{target=sm_90a always=1}"
    simulated = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes=passes)
    assert len(simulated.program.plan.steps) == 2 and "arith.remsi" not in simulated.program.gpu.rpartition("gpu.module")[2]
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [300, 9000])
def test_deviations_by_one_read(rows, dtype):
    torch.manual_seed(0)
    model, x = lambda x: (x.std(0), x.var(0, correction=0)), (torch.randn(rows, 24) + 30).to(dtype)
    x[7, 3], x[9, 4] = torch.nan, torch.inf
    passes = "merge-variances{target=sm_90a},fuse-sum-maps{target=sm_90a}"
    simulated = SimulatedModel(lambda x: model(x)[0], (x,), choose=lambda k: assign.choose(k, TARGET), passes=passes)
    assert {s.kernel.partition("::")[0] for s in simulated.program.plan.steps} == {"reduce_squares_squared_distances_divf_sq_gpu"}
    found = check(simulated, lambda x: model(x)[0], (x,))
    assert found.right, str(found)
    both = SimulatedModel(model, (x,), choose=lambda k: assign.choose(k, TARGET), passes=passes)
    found = check(both, model, (x,))
    assert found.right, str(found)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("model", [lambda x: x.sum(-1), lambda x: (x.amax(-1), (x * x).sum(-1)), lambda x: x.argmax(-1), lambda x: x.view(-1, 50).sum(-1)])
def test_sums_whose_number_varies(model):
    torch.manual_seed(0)
    simulated = SimulatedModel(model, (torch.randn(5, 100),), ({0: Dim("n", min=1, max=4096)},), choose=choose({}))
    for rows in (5, 1, 64, 333):
        found = check(simulated, model, (torch.randn(rows, 100),))
        assert found.right, f"{rows}: {found}"


@pytest.mark.parametrize("dims, shape, along", [((1,), (24369, 1026), 32), ((1,), (24369, 2052), 64), ((1,), (250951, 258), 16), ((1,), (24369, 2048), 64)])
def test_threads_have_enough_of_sums_of_odd_lengths(dims, shape, along):
    """Of vectors that are narrow more are a thread's: two bytes each for threads of a block of their own left most of the time to launches."""
    s, c = picked(lambda x: x.sum(dims), *shape)
    assert s.along == along
    assert s.units(c) * s.vector * 2 / s.along >= 24


def test_narrow_columns_have_more_under_way():
    odd, even = (picked(lambda x: x.sum(0), 250951, n)[0] for n in (1025, 1024))
    assert (odd.vector, odd.unroll, even.vector, even.unroll) == (1, 16, 8, 8)


def test_what_computes_much_has_less_under_way_and_is_cut_later():
    """Registers of several tensors' vectors would leave a multiprocessor few threads, and a second launch takes longer than few blocks do."""
    silu = lambda x: (torch.nn.functional.silu(x) * x.sin()).sum(0)  # noqa: E731
    (narrow, _), (even, _), (plain, _) = picked(silu, 9859, 1202), picked(silu, 20000, 768), picked(lambda x: x.sum(0), 9859, 1202)
    assert (narrow.vector, narrow.unroll, even.vector, even.unroll, plain.unroll) == (2, 4, 4, 4, 16)
    s, c = picked(lambda x: torch.tanh(torch.tanh(torch.tanh(x))).sum(0), 39, 10752)
    assert s.chunks == 1 and s.tiles(c) >= TARGET.multiprocessors


def test_maps_that_each_reader_computes():
    """Also where a reader takes what another one makes."""
    def model(x, y):
        return torch.softmax(torch.softmax(x, 0) * y, 0).sum(0)

    torch.manual_seed(0)
    args = torch.randn(60, 33), torch.randn(60, 33) * 50
    simulated = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes="recompute-maps{target=sm_90a}")
    kept = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET))
    assert len(simulated.program.plan.steps) < len(kept.program.plan.steps)
    found = check(simulated, model, args)
    assert found.right, str(found)


def test_a_reduction_of_nothing_but_a_constant_is_none():
    """What ``all`` becomes of rows of which one is known to be false."""
    text = """func.func private @k(%x: tensor<4x8xi32>, %out: tensor<4xi1>) -> tensor<4xi1> {
      %false = arith.constant false
      %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
          ins(%x : tensor<4x8xi32>) outs(%out : tensor<4xi1>) {
      ^bb0(%a: i32, %b: i1):
        linalg.yield %false : i1
      } -> tensor<4xi1>
      return %r : tensor<4xi1>
    }"""
    with idle_context():
        module = ir.Module.parse(text)
        assert reductions.read(module.body.operations[0], find_target("sm_90a")) is None


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("name", GATHERS)
def test_terms_from_tables(name):
    torch.manual_seed(0)
    model, make = GATHERS[name]
    args = make(1)
    own, chosen = recorded(assign.choose)
    simulated = SimulatedModel(model, args, choose=own)
    assert "reductions" in {s.generator for s in chosen} and "universal" not in {s.generator for s in chosen}
    found = check(simulated, model, args)
    assert found.right, str(found)


# Threads of a warp along sums that are neighbours: fewer and more than lanes of a vector, one warp alone, warps that meet once and by halves.
BESIDE = [(1, 32, 8), (1, 256, 8), (2, 16, 8), (2, 512, 4), (4, 8, 2), (8, 32, 4), (16, 2, 8), (16, 16, 4), (2, 128, 1), (32, 4, 2)]
SIDE_BY_SIDE = {
    "sum": (lambda x: x.sum(0), torch.bfloat16), "sum of squares in float32": (lambda x: (x * x).sum(0), torch.float32),
    "largest": (lambda x: x.amax(0), torch.float16), "place": (lambda x: x.argmax(0), torch.bfloat16), "any": (lambda x: (x > 2).any(0), torch.float32),
    "logarithm": (lambda x: x.logsumexp(0), torch.float32), "moments": (lambda x: torch.var_mean(x, 0), torch.float32),
    "integers": (lambda x: (x * 8).long().sum(0), torch.float32), "outside": (lambda x: x.view(7, -1, x.shape[1]).sum(1), torch.bfloat16),
}


@pytest.mark.covering(most=24)
@pytest.mark.parametrize("across, along, vector", BESIDE)
@pytest.mark.parametrize("name", SIDE_BY_SIDE)
def test_threads_of_a_warp_along_sums(name, across, along, vector):
    torch.manual_seed(0)
    function, dtype = SIDE_BY_SIDE[name]
    x = torch.randn(7 * 83, 40).to(dtype)
    simulated = SimulatedModel(function, (x,), choose=choose({"across": across, "along": along, "vector": vector, "unroll": 2, "chunks": 1, "rows": 0}))
    found = check(simulated, function, (x,))
    assert found.right, str(found)


@pytest.mark.parametrize("function, shapes, dtype", [
    (lambda x, y: (x * y).sum(0), ((8, 30, 56, 56), (30, 56, 1)), torch.bfloat16),
    (lambda x, y: (x + y).amax(1), ((300, 6, 7, 40), (7, 1)), torch.float32),
    (lambda x, y: (x * y).argmax(1), ((3000, 5, 7, 24), (7, 1)), torch.float32),
    (lambda x, y: torch.var_mean(x * y, 0), ((5, 3001, 24), (3001, 1)), torch.float32),
])
def test_threads_go_on_where_neighbours_end(function, shapes, dtype):
    """Which are few: of 56 columns, whose rows have a factor each."""
    torch.manual_seed(0)
    args, schedules = tuple(torch.randn(s).to(dtype) for s in shapes), []

    def chosen(kernel):
        if (c := reductions.read(kernel, TARGET)) is None:
            return None
        schedules.append((reductions.pick(c, TARGET), c))
        return schedules[-1][0]

    simulated = SimulatedModel(function, args, choose=chosen)
    ((s, c),) = schedules
    assert s.spans(c) and s.threads >= 128 and s.tiles(c) == -(-c.count // (s.vector * s.across))
    found = check(simulated, function, args)
    assert found.right, str(found)
