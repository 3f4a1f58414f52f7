"""Blocks of kernels that begin early share a multiprocessor only where they have to."""

from dataclasses import replace

import pytest

from inferno.runtime.launch import driver
from inferno.runtime.launch.spread_blocks import Multiprocessors, spread_blocks
from inferno.runtime.plan.plan import Launch, LibraryCall, Plan, at_sizes
from inferno.symbolic import Symbol, reach, size_of
from inferno.target import RESERVED_SHARED

H200 = Multiprocessors(132, 228 << 10, 227 << 10)
LAUNCH = Launch("k::k", (100, 1, 1), (256, 1, 1), (1, 1, 1), 0, ())


@pytest.mark.parametrize("static", [0, 9000, 48 << 10])
@pytest.mark.parametrize("blocks", [4, 80, 132, 133, 300, 528])
def test_no_more_on_a_multiprocessor_than_have_to_be(blocks, static):
    each = -(-blocks // H200.at_once(1))
    block = H200.apart(each, static) + static + RESERVED_SHARED
    assert each * block <= H200.shared < (each + 1) * block


def test_what_one_block_may_have():
    assert Multiprocessors(100, 100 << 10, 48 << 10).apart(1, 5000) == (48 << 10) - 5000
    assert H200.apart(4, 48 << 10) == 0  # as much as it has in any case


@pytest.fixture
def resident(monkeypatch):
    """How many blocks a multiprocessor has room for, by kernel."""
    found = {"k": (1000, 8)}
    monkeypatch.setattr(driver, "multiprocessors", lambda device: (132, 228 << 10, 227 << 10))
    monkeypatch.setattr(driver, "occupancy", lambda module, name, threads, shared: found[name])
    return found


def spread(*steps):
    return spread_blocks(Plan(steps, (), (), 0), {"k": None}, 0).steps


@pytest.mark.parametrize("grid", [(100, 1, 1), (11, 12, 4)])
def test_crowded(resident, grid):
    step = replace(LAUNCH, grid=grid)
    call = LibraryCall("matmul", {}, ())
    assert spread(step, call) == (replace(step, shared=H200.apart(-(-grid[0] * grid[1] * grid[2] // 132), 1000)), call)


@pytest.mark.parametrize("cluster, blocks, each", [(2, 132, 1), (2, 134, 2), (8, 120, 1), (8, 128, 2), (16, 112, 1)])
def test_clusters(resident, cluster, blocks, each):
    """Of which not as many run at once as blocks do, one a multiprocessor."""
    step = replace(LAUNCH, grid=(blocks, 1, 1), cluster=(cluster, 1, 1))
    assert spread(step) == (replace(step, shared=H200.apart(each, 1000)),)


@pytest.mark.parametrize("step", [
    replace(LAUNCH, grid=(15, 1, 1)),  # few
    replace(LAUNCH, grid=(529, 1, 1)),  # many
    replace(LAUNCH, grid=(size_of(Symbol("n", 2, 9, 4)), 1, 1)),
    replace(LAUNCH, grid=(size_of(Symbol("n", 600, 4000, 800)), 1, 1)),
    replace(LAUNCH, grid=(532, 1, 1), cluster=(4, 1, 1)),
    replace(LAUNCH, cooperative=True),
    replace(LAUNCH, shared=200 << 10),  # which keeps them apart already
])
def test_as_they_were(resident, step):
    assert spread(step) == (step,)


def test_no_more_fit_in_any_case(resident):
    resident["k"] = 1000, 1
    assert spread(LAUNCH) == (LAUNCH,)


def test_few_multiprocessors(resident, monkeypatch):
    monkeypatch.setattr(driver, "multiprocessors", lambda device: (14, 228 << 10, 227 << 10))
    assert spread(LAUNCH) == (LAUNCH,)


@pytest.mark.parametrize("blocks", [1, 15, 16, 131, 132, 133, 264, 265, 395, 397, 528, 529, 100000])
@pytest.mark.parametrize("room", [1, 3, 8])
@pytest.mark.parametrize("cluster", [1, 2])
def test_a_number_that_varies_is_spread_as_it_is(resident, blocks, room, cluster):
    resident["k"] = 1000, room
    step = replace(LAUNCH, shared=500, grid=(size_of(Symbol("n", 1, 1 << 20, 4)), 1, 1), cluster=(cluster, 1, 1))
    (varying,), (known,) = spread(step), spread(replace(step, grid=(blocks, 1, 1)))
    assert at_sizes(varying, {"n": blocks}) == known and known.shared <= reach(varying.shared) <= H200.most
