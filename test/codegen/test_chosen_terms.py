"""Sums, and largest elements, whose terms are read from the pieces of a concatenation, where they lie."""

import re

import pytest
import torch
from checks import check
from chosen_cases import CASES
from kernels import recorded
from universal_program import SimulatedModel

from inferno.mlir import idle_context, ir
from inferno.schedule import assign
from inferno.schedule.analysis.chosen_terms import chosen_together


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_pieces_are_read_where_they_lie(name, dtype):
    torch.manual_seed(0)
    model, *shapes = CASES[name]
    args = tuple(torch.randn(s).to(dtype) for s in shapes)
    own, chosen = recorded(assign.choose)
    simulated = SimulatedModel(model, args, choose=own, expand=True)
    # Six terms are added up at each point, two sums read what is chosen, and what is made of sums and a norm's totals are kernels of their own here.
    made = {"nested": {"elementwise"}, "two sums": {"elementwise", "reductions"}, "means of parts of rows": {"elementwise", "reductions"}}
    assert {s.generator for s in chosen} == made.get(name, {"reductions"}) and (name in (*made, "scaled by totals") or len(chosen) == 1)
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_places_of_equals_and_of_nan(dim, dtype):
    """The first of equals, in whichever piece, and NaN beyond all."""
    torch.manual_seed(0)
    model = lambda x, y: torch.cat((x, y), dim).max(dim)  # noqa: E731
    args = tuple(torch.randint(-2, 3, s).to(dtype) for s in ((48, 96), (64, 96) if dim == 0 else (48, 32)))
    if dtype.is_floating_point:
        args[0][5, 7], args[1][3, 9], args[1][3, 7], args[1][5, 11] = (torch.nan,) * 4
    own, chosen = recorded(assign.choose)
    simulated = SimulatedModel(model, args, choose=own, expand=True)
    assert [s.generator for s in chosen] == ["reductions"]
    for ours, theirs in zip(simulated(*args), model(*args)):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


def test_sums_of_what_is_flipped_read_what_it_is():
    """Of a norm in 16 bits that is flipped first, a piece of what is added up: no kernel but sums."""
    torch.manual_seed(0)
    model = lambda x, y: torch.cat((torch.layer_norm(x.flip(1), (600,)), y), 1).sum(0)  # noqa: E731
    args = (torch.randn(60, 600).bfloat16(), torch.randn(60, 120).bfloat16())
    own, chosen = recorded(assign.choose)
    simulated = SimulatedModel(model, args, choose=own, expand=True)
    assert [s.generator for s in chosen] == ["reductions"] * 3
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.parametrize("dim, around", [(1, True), (0, False)])
def test_sums_choose_around_their_terms(dim, around):
    """What all terms of a sum choose alike is one branch, in which they are read together; what they choose themselves is a branch of each."""
    args = torch.randn(600, 16), torch.randn(600, 16)
    simulated = SimulatedModel(lambda x, y: torch.cat((x, y), dim).sum(0), args, choose=recorded(assign.choose)[0], expand=True)
    made = set(re.findall(r"scf\.if .*-> \(.*(f\d\d)>?\)", simulated.program.gpu))
    assert made == {"f64" if around else "f32"}  # totals, or terms


@pytest.mark.parametrize("condition, together", [
    ("arith.cmpi ult, %j, %c12 : index", 4), ("arith.cmpi ult, %i, %c12 : index", 16), ("arith.cmpi slt, %j, %c12 : index", 1),
    ("arith.cmpi ult, %less, %c12 : index", 2), ("arith.cmpi eq, %j, %c12 : index", 1), ("arith.cmpi ult, %twice, %c12 : index", 1),
])
def test_how_many_neighbours_are_in_one_piece(condition, together):
    text = f"""func.func private @k(%x: tensor<8x16xf32>, %out: tensor<8x16xf32>) -> tensor<8x16xf32> {{
      %c12 = arith.constant 12 : index
      %c6 = arith.constant 6 : index
      %r = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
          ins(%x : tensor<8x16xf32>) outs(%out : tensor<8x16xf32>) {{
      ^bb0(%a: f32, %b: f32):
        %i = linalg.index 0 : index
        %j = linalg.index 1 : index
        %less = arith.subi %j, %c6 : index
        %twice = arith.addi %j, %j : index
        %c = {condition}
        %v = scf.if %c -> (f32) {{
          %w = arith.addf %a, %a : f32
          scf.yield %w : f32
        }} else {{
          scf.yield %a : f32
        }}
        linalg.yield %v : f32
      }} -> tensor<8x16xf32>
      return %r : tensor<8x16xf32>
    }}"""
    with idle_context():
        module = ir.Module.parse(text)
        assert chosen_together(module.body.operations[0].body.blocks[0].operations[2].operation, 1, 16) == together
