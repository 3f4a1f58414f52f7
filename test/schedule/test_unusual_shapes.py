"""What shapes that are not usual are made by: no thread idles, and no kernel is left to one block."""

import pytest
import torch
from unusual_shapes import PROGRAMS, one_hot

import inferno
from inferno.schedule.rows.column_schedule import Columns

F = torch.nn.functional


@pytest.mark.covering
@pytest.mark.parametrize("name", [n for n, (_, _, made) in PROGRAMS.items() if made])
def test_generators(name):
    model, make, expected = PROGRAMS[name]
    args = make(64)
    rows = inferno.compile(model, args, target="sm_90a").explain().rows
    assert [r.generator for r in rows] == expected
    assert all(r.grid[0] >= 100 for r in rows)


def schedule_of(model, *args):
    (row,) = inferno.compile(model, args, target="sm_90a").explain().rows
    return row.schedule


def test_many_rows_of_a_vector_have_a_thread_each():
    """Each had a block of 512 threads."""
    assert schedule_of(lambda x: x.softmax(-1), torch.randn(1 << 22, 4)).startswith("across=1,")


def test_vectors_of_what_is_only_written():
    assert "unroll=2, vector=4" in schedule_of(lambda a, b: a[:, None] + b, torch.randn(8192), torch.randn(2048))
    assert "unroll=1, vector=4" in schedule_of(lambda a, b: a + b, torch.randn(8192, 2048), torch.randn(8192, 2048))


def test_stacked_vectors_have_an_element_of_each():
    assert "vector=8" in schedule_of(lambda *x: torch.stack(x, -1), *[torch.randn(1 << 18)] * 8)


def test_losses_of_images_read_them_once():
    args = torch.randn(4, 19, 256, 512), torch.randint(0, 19, (4, 256, 512))
    rows = inferno.compile(F.cross_entropy, args, target="sm_90a").explain().rows
    assert [r.generator for r in rows].count("columns") == 1
    assert sum(r.bytes for r in rows) < 1.6 * sum(a.nbytes for a in args)


def test_a_small_encoding_is_computed_where_it_is_read():
    args = torch.randint(0, 16, (64,)), torch.randn(16, 32)
    assert len(inferno.compile(one_hot, args, target="sm_90a").explain().rows) == 1


def test_shared_memory_bounds_threads_that_scan_alone():
    """Of float64 a block of 512 would leave more than there is."""
    assert schedule_of(lambda x: x.cumsum(0), torch.randn(4, 1 << 20)).endswith("threads=256, vector=4")


def test_groups_leave_no_more_than_a_block_has(caplog):
    """Of 480 threads each would leave sums and squares of 80 channels."""
    args = torch.randn(8, 320, 64, 64).bfloat16().contiguous(memory_format=torch.channels_last), torch.randn(320).bfloat16(), torch.randn(320).bfloat16()
    rows = inferno.compile(lambda x, w, b: F.silu(F.group_norm(x, 32, w, b)), args, target="sm_90a").explain().rows
    assert [r.generator for r in rows] == ["columns"] and not caplog.records, caplog.text


def test_rows_of_threads_alone():
    assert Columns(threads=128, across=128, vector=4).along == 1
