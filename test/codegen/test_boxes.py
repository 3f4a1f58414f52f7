"""Elementwise kernels that read another order in short pieces, by boxes: numbers on a simulated GPU, what they access, and what is left to others."""

import pytest
import torch
from box_cases import BYTES, CASES
from checks import check
from choices import generators
from kernels import build, choose, elementwise
from races import watched
from universal_program import SimulatedModel

from inferno.errors import CompileError
from inferno.schedule.maps.boxes import Boxes


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    torch.manual_seed(0)
    model, make = CASES[name]
    args = make()
    assert generators(model, args) == ["elementwise" if name in BYTES else "boxes"]
    with watched():
        found = check(SimulatedModel(model, args, choose=lambda kernel: Boxes(), expand=True), model, args)
    assert found.right, str(found)


def permuted(shape, order, element="f32"):
    """A copy in another order of dimensions."""
    names = "abcdef"[:len(shape)]
    result = tuple(shape[d] for d in order)
    source = ",".join(names[order.index(d)] for d in range(len(shape)))
    return elementwise([(shape, element)], (result, element), [source, ",".join(names)], names, f"linalg.yield %x0 : {element}")


def test_lines_of_both_sides():
    """A box of weights is brought by 64 neighbours, four of 16 bits at a time, and stored by as many, two at a time."""
    built = build(permuted((1024, 512, 2, 2), (2, 3, 1, 0), "bf16"), "boxes", Boxes())
    assert built.count(r"ld\.global") == 2 and built.count(r"st\.global") == 4
    assert built.accesses() == {"ld.global.nc.v4.b16", "st.global.b32"}
    assert "bra" not in built.ptx  # boxes that fit need no guards
    if built.resources:
        assert built.resources.registers <= 40 and built.resources.spills == 0


@pytest.mark.parametrize("shape, order", [
    ((4096, 4096), (1, 0)),  # tiles of two dimensions
    ((64, 4096, 64), (1, 0, 2)),  # lines on both sides
    ((64, 64, 4096, 2), (1, 0, 3, 2)),  # of every sector half is read
    ((8, 8, 2, 2), (2, 3, 1, 0)),  # as long as a launch
])
def test_left_to_others(shape, order):
    assert choose(permuted(shape, order), "boxes") is None


def test_bytes_are_left_to_others():
    """A cache line has so many that neighbours find it in the L1 cache."""
    shape, order = (32, 1024, 1024, 3), (0, 3, 1, 2)
    assert choose(permuted(shape, order, "i8"), "boxes") is None and choose(permuted(shape, order, "bf16"), "boxes") is not None


def test_what_is_no_box_is_refused():
    with pytest.raises(CompileError, match="reads short pieces"):
        build(permuted((4096, 4096), (0, 1)), "boxes", Boxes())
