"""Which blocks share long rows: in registers, in shared memory, or going over all rows, as was timed."""

import pytest
import torch
from checks import scheduled

F = torch.nn.functional


def schedule_of(program, *shapes, dtype=torch.float32):
    text = str(scheduled(program, tuple(torch.empty(s, dtype=dtype) for s in shapes)).stages["scheduled"])
    assert text.count("inferno.schedule") == 1
    found = text[text.index("inferno.schedule"):].split("}")[0]
    return dict(item.strip().removeprefix("inferno.schedule = {").split(" = ") for item in found.split(","))


def norm_of_a_sum(x, y):
    return F.layer_norm(x + y, x.shape[1:])


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("shape, dtype", [((113, 92372), torch.float32), ((304, 42514), torch.float32), ((113, 92372), torch.bfloat16)], ids=str)
def test_rows_whose_threads_have_different_numbers_of_pieces_are_held(shape, dtype):
    found = schedule_of(norm_of_a_sum, shape, shape, dtype=dtype)
    assert found["held"] == "true" and int(found["cluster"].split()[0]) in (4, 8, 16) and found["threads"].startswith("512")


def test_even_rows_that_memory_bounds_are_gone_over():
    found = schedule_of(norm_of_a_sum, (256, 131072), (256, 131072))
    assert found["held"] == "false" and found["persistent"].startswith("21")


def test_much_arithmetic_is_done_once():
    found = schedule_of(lambda x, y: F.layer_norm(F.silu(x) * torch.tanh(y), x.shape[1:]), (256, 131072), (256, 131072), dtype=torch.bfloat16)
    assert found["held"] == "true"


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("rows, columns, cluster, threads", [(4, 65536, 8, 256), (4, 16384, 8, 256), (4, 8192, 1, 256), (4, 4096, 1, 128), (40, 65536, 8, 512)])
def test_few_rows_have_many_blocks_of_few_threads(rows, columns, cluster, threads):
    found = schedule_of(lambda x: torch.softmax(x, -1), (rows, columns))
    assert [found[k].split()[0] for k in ("held", "cluster", "threads")] == ["true", str(cluster), str(threads)]


@pytest.mark.parametrize("begin, columns, ragged", [(0, 1001, True), (0, 545, False), (3, 1001, False), (3, 9001, True)])
def test_vectors_lie_as_memory_does(begin, columns, ragged):
    """In rows that are long and written as they are read."""
    found = schedule_of(lambda x: torch.softmax(x[:, begin:begin + columns], -1), (4000, columns + begin), dtype=torch.float16)
    assert found["ragged"].startswith("true") == ragged
