"""Sums of many terms of 16 bits, which would stop growing if they were rounded with each: they are made in a wider type."""

import pytest
import torch
from checks import assert_right, check
from universal_program import SimulatedModel

_TERMS = 6000
NEGATED = {
    "negated": lambda x: (-x).sum(),
    "negated, of rows": lambda x: (-x).sum(0),
    "negated behind others": lambda x: x.sub(1).neg().sum(0, keepdim=True),
}
SCATTERED = {
    "rows": lambda z, i, x: z.index_add(0, i, x),
    "rows, scaled": lambda z, i, x: z.index_add(0, i, x, alpha=-2),
    "elements": lambda z, i, x: z.scatter_add(0, i[:, None].expand_as(x), x),
    "by places": lambda z, i, x: z.index_put((i,), x, accumulate=True),
    "reduced": lambda z, i, x: z.scatter_reduce(0, i[:, None].expand_as(x), x, "sum", include_self=False),
    "means": lambda z, i, x: z.scatter_reduce(0, i[:, None].expand_as(x), x, "mean"),
}


@pytest.fixture(params=[torch.bfloat16, torch.float16], ids=str)
def terms(request):
    torch.manual_seed(0)
    return (torch.rand(_TERMS, 3) + 1).to(request.param)


@pytest.mark.parametrize("name", NEGATED)
def test_negated(name, terms):
    assert_right(NEGATED[name], (terms,))


@pytest.mark.parametrize("name", NEGATED)
def test_negated_by_the_last_generator(name, terms):
    found = check(SimulatedModel(NEGATED[name], (terms[:700],)), NEGATED[name], (terms[:700],))
    assert found.right, str(found)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", SCATTERED)
def test_scattered(name, terms):
    """As near to what they are as a result of 16 bits is; eager's own may be far off."""
    start, place = torch.ones(2, 3, dtype=terms.dtype), torch.arange(_TERMS) % 2
    compiled = assert_right(SCATTERED[name], (start, place, terms))
    exact = SCATTERED[name](start.double(), place, terms.double())
    assert torch.allclose(compiled(start, place, terms).double(), exact, rtol=torch.finfo(terms.dtype).eps)


def test_a_table_s_gradient(terms):
    table, place = torch.zeros(2, 3, dtype=terms.dtype), torch.arange(_TERMS) % 2

    def gradient(terms, place):
        return torch.ops.aten.embedding_dense_backward(terms, place, len(table), -1, False)

    exact = gradient(terms.double(), place)
    assert torch.allclose(assert_right(gradient, (terms, place))(terms, place).double(), exact, rtol=torch.finfo(terms.dtype).eps)
