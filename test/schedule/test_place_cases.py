"""Which elements of a scatter stay in their rows, by how their places are computed."""

import pytest

from inferno.mlir import func, idle_context, ir
from inferno.schedule.scatters.kernel import Rows, parse_scatter

# Each is computed of %x, an index that was read, and of %r, %m and %c, the numbers of its row, of it in the row, and of its column.
PLACE = """
      %a = arith.muli %x, %inner : i64
      %b = arith.muli %r, %row : i64
      %d = arith.addi %a, %b : i64
      %e = arith.addi %d, %c : i64"""
CHECK = """
      %f = arith.cmpi sge, %x, %zero : i64
      %g = arith.cmpi slt, %x, %places : i64
      %h = arith.andi %f, %g : i1
      %y = arith.select %h, %e, %total : i64"""
ROWS = {
    "checked": (PLACE + CHECK, True),
    "counted from the end": ("""
      %n = arith.cmpi slt, %x, %zero : i64
      %w = arith.addi %x, %places : i64
      %v = arith.select %n, %w, %x : i64
      %f = arith.cmpi slt, %v, %zero : i64
      %g = arith.cmpi sge, %v, %places : i64
      %h = arith.ori %f, %g : i1""" + PLACE.replace("%x", "%v") + """
      %y = arith.select %h, %total, %e : i64""", True),
    "not checked above": (PLACE + """
      %f = arith.cmpi sge, %x, %zero : i64
      %y = arith.select %f, %e, %total : i64""", False),
    "checked for another size": (PLACE + CHECK.replace("slt", "sle"), False),
    "to the row below": ("""
      %k = arith.addi %r, %one : i64""" + PLACE.replace("%r,", "%k,") + CHECK, False),
    "to other columns": (PLACE.replace("%c", "%m") + CHECK, False),
    "by a number that may wrap around": ("""
      %t = arith.muli %x, %row : i64""" + (PLACE + CHECK).replace("%x", "%t"), True),  # what it is compared as is where it goes
}


MANY = 40  # numbers that are 0 or not, of which each is compared with all before it: more cases than anyone can look at
CHAIN = "%n0 = arith.addi %x, %c : i64\n" + "\n".join(f"""
      %below{k} = arith.cmpi slt, %n{k}, %places : i64
      %less{k} = arith.subi %n{k}, %one : i64
      %more{k} = arith.muli %n{k}, %m : i64
      %n{k + 1} = arith.select %below{k}, %less{k}, %more{k} : i64""" for k in range(MANY)) + f"\n%y = arith.addi %n{MANY}, %zero : i64"


def kernel(body, rows=6, updates=9, places=5, inner=4):
    return f"""
      #same = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
      func.func private @k(%i: tensor<{rows}x{updates}x{inner}xi64>, %u: tensor<{rows * updates * inner}x1xf32>, %out: tensor<{rows * places * inner}xf32>)
          -> tensor<{rows * places * inner}xf32> {{
        %zero = arith.constant 0 : i64
        %one = arith.constant 1 : i64
        %inner = arith.constant {inner} : i64
        %places = arith.constant {places} : i64
        %row = arith.constant {places * inner} : i64
        %total = arith.constant {rows * places * inner} : i64
        %cst = arith.constant 0.0 : f32
        %empty = tensor.empty() : tensor<{rows}x{updates}x{inner}xi64>
        %p = linalg.generic {{indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel"]}}
            ins(%i : tensor<{rows}x{updates}x{inner}xi64>) outs(%empty : tensor<{rows}x{updates}x{inner}xi64>) {{
        ^bb0(%x: i64, %o: i64):
          %r0 = linalg.index 0 : index
          %r = arith.index_cast %r0 : index to i64
          %m0 = linalg.index 1 : index
          %m = arith.index_cast %m0 : index to i64
          %c0 = linalg.index 2 : index
          %c = arith.index_cast %c0 : index to i64
          {body}
          linalg.yield %y : i64
        }} -> tensor<{rows}x{updates}x{inner}xi64>
        %flat = tensor.collapse_shape %p [[0, 1, 2]] : tensor<{rows}x{updates}x{inner}xi64> into tensor<{rows * updates * inner}xi64>
        %table = tensor.expand_shape %flat [[0, 1]] output_shape [{rows * updates * inner}, 1]
            : tensor<{rows * updates * inner}xi64> into tensor<{rows * updates * inner}x1xi64>
        %f = linalg.fill ins(%cst : f32) outs(%out : tensor<{rows * places * inner}xf32>) -> tensor<{rows * places * inner}xf32>
        %s = tm_tensor.scatter {{dimension_map = array<i64: 0>}} unique_indices(false)
            ins(%u, %table : tensor<{rows * updates * inner}x1xf32>, tensor<{rows * updates * inner}x1xi64>) outs(%f : tensor<{rows * places * inner}xf32>) {{
        ^bb0(%a: f32, %b: f32):
          %t = arith.addf %b, %a : f32
          tm_tensor.yield %t : f32
        }} -> tensor<{rows * places * inner}xf32>
        return %s : tensor<{rows * places * inner}xf32>
      }}"""


@pytest.mark.parametrize("inner", [1, 4])
@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("name", ROWS)
def test_rows(name, rows, inner):
    body, stays = ROWS[name]
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(kernel(body, rows=rows, inner=inner))
        (function,) = [o for o in module.body.operations if isinstance(o, func.FuncOp)]
        found = parse_scatter(function)
        assert (found is not None) == stays
        assert found is None or found.rows == Rows(rows, rows, 5, 9, inner)


def test_too_many_cases():
    """A place that comparisons of comparisons choose is not known, which is found out soon."""
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(kernel(CHAIN))
        (function,) = [o for o in module.body.operations if isinstance(o, func.FuncOp)]
        assert parse_scatter(function) is None
