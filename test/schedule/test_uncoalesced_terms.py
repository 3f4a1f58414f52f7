"""What it costs a reduction to read and write tensors in other orders than its threads go."""


import pytest
from inferno.mlir import ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.reductions.uncoalesced_terms import elements, uncoalesced_time

SIZES = (32, 56, 56, 144)  # images, rows, columns and channels
LAST, FIRST, CHANNEL = (56 * 56 * 144, 56 * 144, 144, 1), (144 * 56 * 56, 56, 1, 56 * 56), (0, 0, 0, 1)


def access(strides, element="f32"):
    with ir.Context():
        return Access(0, ir.Type.parse(element), strides)


@pytest.mark.parametrize("strides, inner, uncoalesced", [
    (LAST, 3, False), (FIRST, 3, True), (LAST, 2, True), (FIRST, 2, False), (CHANNEL, 3, False), (CHANNEL, 2, False), ((0, 0, 0, 9), 3, False),
])
def test_uncoalesced_are_neighbours_of_other_sectors(strides, inner, uncoalesced):
    assert (uncoalesced_time(SIZES, inner, [access(strides)], []) > 0) == uncoalesced


def test_few_neighbours_share_a_sector():
    """Colours of a pixel are read soon one after the other."""
    colours = access((3 * 64 * 64, 3 * 64, 3, 1))
    assert uncoalesced_time((8, 64, 64, 3), 2, [colours], []) == 0


def test_writes_take_longer_and_a_tensor_counts_once():
    one = access(FIRST)
    assert 4 * uncoalesced_time(SIZES, 3, [one], []) < uncoalesced_time(SIZES, 3, [], [one])
    assert uncoalesced_time(SIZES, 3, [one, one, None], []) == uncoalesced_time(SIZES, 3, [one], [])
    assert elements(SIZES, one) == 32 * 144 * 56 * 56 and elements(SIZES, access(CHANNEL)) == 144
