"""Kernels for sizes that vary, on the simulated GPU: generated once, right for every size."""

import itertools
from dataclasses import replace

import pytest
import torch
from checks import check
from dynamic_cases import CALLED_WITH, CASES, COMPILED_FOR, ROWS_OF_KNOWN_LENGTH, SCANS_OF_KNOWN_LENGTH
from dynamic_cases import SUMS as LONG
from universal_program import SimulatedModel, assert_assembles

import inferno
from inferno.runtime.plan.plan import at_sizes
from inferno.schedule.composite.size_ranges import BySize
from inferno.schedule.maps import elementwise
from inferno.schedule.matmul import simt
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.rows import rows
from inferno.target import find_target

TARGET = find_target("sm_90a")


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("name", CASES)
def test_right_for_every_size(name):
    torch.manual_seed(0)
    model, inputs, dynamic_shapes, sizes = CASES[name]()
    simulated = SimulatedModel(model, inputs(*sizes[0]), dynamic_shapes)
    for each in sizes:
        found = check(simulated, model, inputs(*each))
        assert found.right, f"{each}: {found}"


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", ["sums of constants", "argmax", "cumulative sums", "no rows"])
def test_compiles_for_a_gpu(name):
    """By all passes and generators of choice."""
    model, inputs, dynamic_shapes, sizes = CASES[name]()
    assert inferno.compile(model, inputs(*sizes[0]), dynamic_shapes=dynamic_shapes, target="sm_90a", fallback=False).explain().launches


def of_choice(kernel):
    """The schedule of the first generator that takes a kernel and whose code the simulator runs."""
    c = parse_contraction(kernel)
    found = [] if c is None else [(time, s) for time, s in simt.candidates(c, TARGET) if s.totals_in_registers]
    return min(found, key=lambda item: item[0])[1] if found else elementwise.choose(kernel, TARGET)


PARTS = ["slices", "halves", "at most"]
ELEMENTWISE = [
    "elementwise", "broadcast", "transposed", "layer norm", "linear", "positions", "gather", *PARTS, "no rows", "attention", "multiples", "neighbours repeated",
]


SCHEDULES = {
    "chosen": {}, "8 rows a block": dict(threads=256, across=32), "a loop": dict(threads=64, across=64, held=False, unroll=2),
    "a cluster": dict(threads=32, across=32, cluster=2, sends=True),
}


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name, schedule", [
    *itertools.product(ROWS_OF_KNOWN_LENGTH, SCHEDULES), *itertools.product(SCANS_OF_KNOWN_LENGTH, [s for s in SCHEDULES if s != "a loop"]),
])
def test_rows_of_which_there_are_any_number(name, schedule):
    torch.manual_seed(0)
    model, inputs, dynamic_shapes, sizes = CASES[name]()
    choose = lambda kernel: replace(rows.choose(kernel, TARGET), **SCHEDULES[schedule])  # noqa: E731
    simulated = SimulatedModel(model, inputs(*sizes[0]), dynamic_shapes, choose, passes="fuse-reductions{target=sm_90a}")
    assert len(simulated.program.plan.steps) == 1
    for each in sizes[:4]:
        found = check(simulated, model, inputs(*each))
        assert found.right, f"{each}: {found}"


SUMS = ["sums of any length", "scaled sums", "products divided by a size"]


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", [*ELEMENTWISE, "matmul", *SUMS])
def test_the_generators_of_choice_are_right_for_every_size(name):
    torch.manual_seed(0)
    model, inputs, dynamic_shapes, sizes = CASES[name]()
    simulated = SimulatedModel(model, inputs(*sizes[0]), dynamic_shapes, of_choice)
    for each in sizes:
        found = check(simulated, model, inputs(*each))
        assert found.right, f"{each}: {found}"


@pytest.mark.parametrize("vector", [1, 4])
def test_several_vectors_a_thread_of_any_number_of_points(vector):
    """Blocks are full or not, which the call decides."""
    torch.manual_seed(0)
    model, inputs, dynamic_shapes, sizes = CASES["elementwise"]()
    choose = lambda kernel: replace(elementwise.choose(kernel, TARGET), threads=64, vector=vector, unroll=2)  # noqa: E731
    simulated = SimulatedModel(model, inputs(*sizes[0]), dynamic_shapes, choose)
    for each in sizes:
        found = check(simulated, model, inputs(*each))
        assert found.right, f"{each}: {found}"


@pytest.mark.parametrize("name", PARTS)
def test_parts_are_read_where_they_lie(name):
    model, inputs, dynamic_shapes, sizes = CASES[name]()
    simulated = SimulatedModel(model, inputs(*sizes[0]), dynamic_shapes, of_choice)
    assert simulated.program.gpu.count('"inferno.launch"') == 1


ASSEMBLED = [*((n, None) for n in ("row sums", "cumulative sums", "attention")), *((n, of_choice) for n in (*ELEMENTWISE[:6], "matmul", "attention", *SUMS))]


@pytest.mark.parametrize("name", SUMS)
def test_what_follows_a_sum_of_any_length_is_part_of_it(name):
    model, inputs, dynamic_shapes, sizes = CASES[name]()
    simulated = SimulatedModel(model, inputs(*sizes[0]), dynamic_shapes, of_choice)
    assert simulated.program.gpu.count('"inferno.launch"') == 1


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("length", COMPILED_FOR)
@pytest.mark.parametrize("name", LONG)
def test_sums_are_as_exact_however_long_the_call_makes_them(name, length):
    """To float32's last bit, whatever eager's error is: it grows with the length on the CPU."""
    torch.manual_seed(0)
    model, inputs, dynamic_shapes = LONG[name]()
    simulated = SimulatedModel(model, inputs(length), dynamic_shapes)
    for each in CALLED_WITH:
        args = inputs(each)
        for i, (ours, exact) in enumerate(zip(simulated(*args), model(args[0].double()))):
            error = ((ours.double() - exact).norm() / exact.norm()).item()
            assert error <= torch.finfo(torch.float32).eps, f"result {i} of {each} terms: {error:.2e}"


def by_size(kernel):
    """Small tiles up to 8 rows, others up to 64, then large ones; every size runs the kernel of its range and no other."""
    if simt.choose(kernel, TARGET) is None:
        return None
    few, some, many = simt.Simt(8, 32, 128, 8, 1, 8, 1), simt.Simt(16, 32, 64, 4, 2, 4), simt.Simt(64, 64, 16, 4, 4)
    return BySize("n0", 8, few, BySize("n0", 64, some, many))


def test_kernels_for_ranges_of_sizes():
    torch.manual_seed(0)
    model, inputs, dynamic_shapes, sizes = CASES["linear"]()
    simulated = SimulatedModel(model, inputs(*sizes[0]), dynamic_shapes, by_size)
    for each in [*sizes[:3], (2, 4), (3, 3), (8, 8), (5, 13)]:
        found = check(simulated, model, inputs(*each))
        assert found.right, f"{each}: {found}"
        steps = at_sizes(simulated.program.plan, dict(zip(("s0", "s1"), each))).steps
        rows = each[0] * each[1]
        assert [s.kernel.split("_size")[1] for s in steps if s.grid[0]] == ["0" if rows <= 8 else "1" if rows <= 64 else "2"]


@pytest.mark.covering(most=2)
@pytest.mark.parametrize(("name", "choose"), ASSEMBLED)
def test_assembles(name, choose):
    model, inputs, dynamic_shapes, sizes = CASES[name]()
    simulated = SimulatedModel(model, inputs(*sizes[0]), dynamic_shapes, choose)
    assert_assembles(simulated.program.gpu, TARGET)
