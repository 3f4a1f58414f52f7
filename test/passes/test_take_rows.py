"""Rows that are taken of what goes over rows, and where they are not taken first."""

import pytest
import torch
from checks import assert_close_to_float64
from choices import generators
from torch import Tensor
from torch.nn.functional import layer_norm, log_softmax, normalize, softmax

import inferno

ONE = {
    "log_softmax": lambda x, y, rows: log_softmax(x, -1)[rows].tanh().square(),
    "sum": lambda x, y, rows: softmax(x, -1)[rows].sum(-1),
    "of two": lambda x, y, rows: layer_norm(x * y, x.shape[1:])[rows[:20]],
    "by select": lambda x, y, rows: normalize(x + y.sum(-1, keepdim=True), dim=-1).index_select(0, rows % 40),
    "another reads what is reduced": lambda x, y, rows: softmax(x.tanh(), -1)[rows] * x.tanh(),
    "twice": lambda x, y, rows: softmax(softmax(x, -1)[rows] * y, -1)[rows.flip(0)],
    "planes": lambda x, y, rows: softmax(x.view(8, 5, 48), -1)[:, rows[:3] % 5],
}
MORE = {
    "all rows are read": lambda x, y, rows: (s := softmax(x, -1))[rows] + s,
    "more rows": lambda x, y, rows: softmax(x, -1)[torch.cat([rows, rows])],
    "columns": lambda x, y, rows: softmax(x, 0)[rows],
    "rows of rows": lambda x, y, rows: softmax((s := softmax(x, -1))[rows] + s, -1)[rows],
    "of itself": lambda x, y, rows: softmax(x[rows] + x, -1)[rows.flip(0)],
    "transposed": lambda x, y, rows: softmax(x, -1).t()[rows % 48],
    "scanned": lambda x, y, rows: softmax(x, -1).cumsum(-1)[rows],
    "a product": lambda x, y, rows: softmax(x @ y.t(), -1)[rows],
}


def drawn() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(40, 48), torch.randn(40, 48), torch.randint(-40, 40, (40,))


@pytest.mark.covering(most=5)
@pytest.mark.parametrize("name", [*ONE, *MORE])
def test_rows_are_those_that_are_taken(name):
    function, args = (ONE | MORE)[name], drawn()
    assert_close_to_float64(inferno.compile(function, args, target="cpu", fallback=False)(*args), function, args)


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", [n for n in ONE if n != "planes"])
def test_one_kernel_reads_them_in_place(name):
    assert generators(ONE[name], drawn()) == ["rows"]


@pytest.mark.parametrize("shape, transposes", [((85, 176384), True), ((85, 400), False)])
def test_rows_of_what_is_transposed_are_neighbours(shape, transposes):
    def program(x, rows):
        return layer_norm(x, x.shape[1:]).t()[rows]

    args = torch.empty(shape, dtype=torch.bfloat16), torch.empty(shape[1], dtype=torch.int64)
    found = [str(row.schedule) for row in inferno.compile(program, args, target="sm_90a").explain().rows]
    assert any("tile=64" in s for s in found) == transposes, found
