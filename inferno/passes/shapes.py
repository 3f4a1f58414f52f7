"""The sizes of every tensor or buffer of a function, as numbers and expressions of its symbols.

Read off the operations: arguments say their sizes (``inferno.sizes``), everything else has those of its destination, its
reshape, its slice.  An ``index`` or integer that is computed of sizes is such an expression too.  Where anything is not
understood the answer is an error, ``UnknownSize``, never a guess.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

from inferno.dialect.sizes import SIZES, SYMBOL, read_sizes, read_symbol
from inferno.errors import PassError, UnsupportedOperation
from inferno.mlir import arith, destination_of, dim_of, ir, owner
from inferno.symbolic import Int, Symbol, bounds, ceildiv, floordiv, maximum, minimum, product, size_of


_DYNAMIC = ir.ShapedType.get_dynamic_size()
_WRITES = ("tensor.insert_slice", "tensor.parallel_insert_slice")
_CASTS = {"arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast_ui"}


class UnknownSize(PassError, UnsupportedOperation):
    """A size that varies cannot be expressed by the symbols."""


def argument_attributes(function: ir.Operation) -> list[ir.DictAttr]:
    """The attributes of each argument of a function."""
    count = len(function.regions[0].blocks[0].arguments)
    found = [ir.DictAttr(a) for a in function.attributes["arg_attrs"]] if "arg_attrs" in function.attributes else []
    return found + [ir.DictAttr.get({}, function.context)] * (count - len(found))


def symbol_arguments(function: ir.Operation) -> dict[Symbol, ir.Value]:
    """The symbols of a function with the ``index`` arguments that they are."""
    if "arg_attrs" not in function.attributes:
        return {}
    found = _symbols(function.attributes["arg_attrs"])
    arguments = function.regions[0].blocks[0].arguments if found else ()
    return {symbol: arguments[i] for i, symbol in found.items()}


@lru_cache(64)  # reading them takes longer than all else where a function has hundreds of arguments
def _symbols(attributes: ir.ArrayAttr) -> dict[int, Symbol]:
    """The symbols among a function's arguments, by their places."""
    entries = [ir.DictAttr(a) for a in attributes]
    return {i: read_symbol(a) for i, a in enumerate(entries) if SYMBOL in a}


def _entry(function: ir.Operation, number: int) -> ir.DictAttr | dict:
    """The attributes of one argument."""
    attributes = function.attributes
    entries = attributes["arg_attrs"] if "arg_attrs" in attributes else ()
    return ir.DictAttr(entries[number]) if number < len(entries) else {}


def is_dynamic(value: ir.Value) -> bool:
    """Whether a tensor or buffer has a size that varies."""
    return isinstance(value.type, ir.ShapedType) and value.type.has_rank and not value.type.has_static_shape


def shape(value: ir.Value) -> tuple[Int, ...]:
    """The sizes of a tensor or buffer."""
    type_ = value.type
    if type_.has_static_shape:
        return tuple(type_.shape)
    found = _shape(value)
    if found is None or len(found) != type_.rank:
        raise UnknownSize(f"the sizes of {str(value)[:200]} are not known")
    return tuple(s if type_.is_dynamic_dim(d) else type_.shape[d] for d, s in enumerate(found))


def known_shape(value: ir.Value) -> tuple[Int, ...]:
    """The same, with the dynamic marker for sizes that are not known: of a copy whose original says them."""
    try:
        return shape(value)
    except UnknownSize:
        return tuple(value.type.shape)


def _shape(value: ir.Value) -> Sequence[Int] | None:
    if isinstance(value, ir.BlockArgument):
        function = value.owner.owner
        if function is None or function.operation.name != "func.func":
            return None
        function = function.operation
        entry = _entry(function, value.arg_number)
        return read_sizes(entry[SIZES], list(_symbols(function.attributes["arg_attrs"]).values())) if SIZES in entry else None
    op = value.owner.operation
    name, type_ = op.name, value.type
    if name == "inferno.sized_workspace":
        return _mixed(type_.shape, list(op.operands)[1:])
    if name in ("tensor.empty", "memref.alloc", "memref.alloca", "tensor.splat"):
        operands = list(op.operands)[1:] if name == "tensor.splat" else list(op.operands)
        return _mixed(type_.shape, operands)
    if name.startswith(("linalg.", "tm_tensor.")) or name == "func.call":
        return shape(destination_of(value))
    if name in ("tensor.cast", "memref.cast", "bufferization.to_tensor", "bufferization.to_buffer"):
        return shape(op.operands[0])
    if name in (*_WRITES, "tensor.insert", "tensor.scatter"):
        return shape(op.operands[1])
    if name in ("tensor.collapse_shape", "memref.collapse_shape"):
        source = shape(op.operands[0])
        return [math.prod([source[d] for d in group]) for group in reassociation(op)]
    if name in ("tensor.expand_shape", "memref.expand_shape"):
        return _mixed(list(ir.DenseI64ArrayAttr(op.attributes["static_output_shape"])), list(op.operands)[1:])
    if name in ("tensor.extract_slice", "memref.subview"):
        return _slice_shape(op)
    if name == "memref.reinterpret_cast":
        return _mixed(list(ir.DenseI64ArrayAttr(op.attributes["static_sizes"])), _segment(op, 2))
    if name == "tensor.pad":
        low = _mixed(list(ir.DenseI64ArrayAttr(op.attributes["static_low"])), _segment(op, 1))
        high = _mixed(list(ir.DenseI64ArrayAttr(op.attributes["static_high"])), _segment(op, 2))
        return [a + s + b for a, s, b in zip(low, shape(op.operands[0]), high)]
    if name == "tensor.concat":
        dim = dim_of(op)
        parts = [shape(v) for v in op.operands]
        return [sum((p[d] for p in parts), start=0) if d == dim else parts[0][d] for d in range(type_.rank)]
    if name == "tensor.reshape":
        made = owner(op.operands[1])
        if made is None or made.name != "tensor.from_elements":
            return None
        return [known_size(v) for v in made.operands]
    if name == "tensor.generate":
        return _mixed(type_.shape, list(op.operands))
    return None


def _mixed(static: Sequence[int], operands: Sequence[ir.Value]) -> list[Int]:
    """Static sizes with operands in the places of those that are not."""
    rest = iter(operands)
    return [known_size(next(rest)) if s == _DYNAMIC else s for s in static]


def _segment(op: ir.Operation, number: int) -> list[ir.Value]:
    """The operands of one segment of an operation with several."""
    sizes = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    begin = sum(sizes[:number])
    return list(op.operands)[begin : begin + sizes[number]]


def slice_parts(op: ir.Operation) -> tuple[list[Int], list[Int], list[Int]]:
    """Offsets, sizes and steps of a slice, or of what is written to one, for each dimension of what it is a part of."""
    names = ("static_offsets", "static_sizes", "static_strides")
    first = 2 if op.name in _WRITES else 1
    return tuple(_mixed(list(ir.DenseI64ArrayAttr(op.attributes[name])), _segment(op, first + i)) for i, name in enumerate(names))


def begin_together(op: ir.Operation) -> int | None:
    """From which element on what a slice has, or what is written to one, lies together in the whole tensor; None where it does not, or that is not known."""
    whole = (op.results[0] if op.name in _WRITES else op.operands[0]).type
    if not whole.has_static_shape or len(op.operands) > (2 if op.name in _WRITES else 1):
        return None
    begin, step, whole_behind = 0, 1, True
    for offset, size, by, n in reversed(list(zip(*slice_parts(op), whole.shape))):
        if size != 1 and (by != 1 or not whole_behind):
            return None
        begin, step, whole_behind = begin + offset * step, step * n, whole_behind and size == n
    return begin


def _slice_shape(op: ir.Operation) -> list[Int]:
    sizes = slice_parts(op)[1]
    return [sizes[d] for d in kept_dimensions(op)]


def kept_dimensions(op: ir.Operation) -> list[int]:
    """The dimensions of a slice that its own tensor has, too: some of size 1 may be none of it, no matter which of those that lie beside each other."""
    own = op.operands[0] if op.name in _WRITES else op.results[0]
    found: list[int] = []
    for d, size in enumerate(ir.DenseI64ArrayAttr(op.attributes["static_sizes"])):
        if size != 1 or own.type.shape[len(found):len(found) + 1] == [1]:
            found.append(d)
    return found


def layout(value: ir.Value) -> tuple[tuple[Int, ...], Int]:
    """Strides and offset of a buffer in the memory that it is a view of, in elements.  UnknownSize where they are not known."""
    strides, offset = value.type.get_strides_and_offset()
    unknown = ir.ShapedType.get_dynamic_stride_or_offset()
    if unknown not in (*strides, offset):
        return tuple(strides), offset
    if "strided<" not in str(value.type):
        return row_major(shape(value)), 0
    op = owner(value)
    if op is None:
        raise UnknownSize(f"the strides of {value.type} are not known")
    if op.name == "memref.cast":
        return layout(op.operands[0])
    if op.name == "memref.subview":
        before, begin = layout(op.operands[0])
        offsets, _, steps = slice_parts(op)
        own = tuple(before[d] * steps[d] for d in kept_dimensions(op))
        return own, sum((o * s for o, s in zip(offsets, before)), start=begin)
    raise UnknownSize(f"the strides of {str(op)[:200]} are not known")


def row_major(sizes_: Sequence[Int]) -> tuple[Int, ...]:
    """Strides of a contiguous tensor, in elements."""
    return tuple(product(sizes_[d + 1:]) for d in range(len(sizes_)))


def reassociation(op: ir.Operation) -> list[list[int]]:
    """The groups of dimensions that a reshape collapses into one, or expands one into."""
    return [[ir.IntegerAttr(i).value for i in ir.ArrayAttr(g)] for g in ir.ArrayAttr(op.attributes["reassociation"])]


def reassociation_attribute(groups: Sequence[Sequence[int]]) -> ir.ArrayAttr:
    """The same as an attribute."""
    i64 = ir.IntegerType.get_signless(64)
    return ir.ArrayAttr.get([ir.ArrayAttr.get([ir.IntegerAttr.get(i64, d) for d in g]) for g in groups])


def known_size(value: ir.Value) -> Int:
    """An ``index`` or integer as an expression of the symbols; UnknownSize where it is none."""
    found = number(value)
    if found is None:
        raise UnknownSize(f"a size is computed in a way that is not understood: {str(value)[:200]}")
    return found


def number(value: ir.Value) -> Int | None:
    """The same, None where it is none."""
    if isinstance(value, ir.BlockArgument):
        function = value.owner.owner
        if function is None or function.operation.name != "func.func":
            return None
        if not isinstance(value.type, ir.IndexType) or "arg_attrs" not in function.operation.attributes:
            return None
        symbol = _symbols(function.operation.attributes["arg_attrs"]).get(value.arg_number)
        return None if symbol is None else size_of(symbol)
    op = value.owner.operation
    name, operands = op.name, list(op.operands)
    if name == "arith.constant":
        attribute = op.attributes["value"]
        return ir.IntegerAttr(attribute).value if isinstance(attribute, ir.IntegerAttr) else None
    if name in ("tensor.dim", "memref.dim"):
        d = number(operands[1])
        return shape(operands[0])[d] if isinstance(d, int) else None
    if name in ("affine.apply", "affine.min", "affine.max"):
        return _affine(op)
    if name in _CASTS:
        return _cast(op)
    if name == "arith.select":
        return _select(op)
    if len(operands) != 2 or not name.startswith("arith."):
        return None
    a = number(operands[0])
    b = number(operands[1]) if a is not None else None  # one look is enough: there may be many ways to the same value
    return None if a is None or b is None else _arithmetic(name, a, b)


def _cast(op: ir.Operation) -> Int | None:
    """What is cast, if the type has it for all sizes."""
    inner, type_ = number(op.operands[0]), op.results[0].type
    if inner is None:
        return None
    low, high = bounds(inner)
    width = type_.width if isinstance(type_, ir.IntegerType) else 64
    return inner if -(2 ** (width - 1)) <= low and high < 2 ** (width - 1) and (low >= 0 or not op.name.endswith(("ui", "_ui"))) else None


def _arithmetic(name: str, a: Int, b: Int) -> Int | None:
    """What an operation makes of two sizes; None for others, and of what it may round in another way."""
    if name == "arith.addi":
        return a + b
    if name == "arith.subi":
        return a - b
    if name == "arith.muli":
        return a * b
    if name in ("arith.maxsi", "arith.minsi"):
        return maximum(a, b) if name == "arith.maxsi" else minimum(a, b)
    if name in ("arith.divsi", "arith.divui", "arith.floordivsi", "arith.ceildivsi", "arith.ceildivui", "arith.remsi", "arith.remui"):
        if name.endswith("ui"):  # what is read without a sign has none: the length of a last piece, of which no bound says so
            a = maximum(a, 0)
        if bounds(b)[0] < 1 or (bounds(a)[0] < 0 and name != "arith.floordivsi"):
            return None
        if "ceil" in name:
            return ceildiv(a, b)
        return a % b if "rem" in name else floordiv(a, b)
    return None


def _affine(op: ir.Operation) -> Int | None:
    map_ = ir.AffineMapAttr(op.attributes["map"]).value
    values = [number(v) for v in op.operands]
    if any(v is None for v in values):
        return None
    results = [_expression(e, values, map_.n_dims) for e in map_.results]
    if any(r is None for r in results):
        return None
    total = results[0]
    for r in results[1:]:
        total = minimum(total, r) if op.name == "affine.min" else maximum(total, r)
    return total


def _expression(expr: ir.AffineExpr, values: list[Int], dims: int) -> Int | None:
    if isinstance(expr, ir.AffineConstantExpr):
        return ir.AffineConstantExpr(expr).value
    if isinstance(expr, ir.AffineDimExpr):
        return values[ir.AffineDimExpr(expr).position]
    if isinstance(expr, ir.AffineSymbolExpr):
        return values[dims + ir.AffineSymbolExpr(expr).position]
    parts = ir.AffineBinaryExpr(expr)
    a, b = _expression(parts.lhs, values, dims), _expression(parts.rhs, values, dims)
    if a is None or b is None:
        return None
    if isinstance(expr, ir.AffineAddExpr):
        return a + b
    if isinstance(expr, ir.AffineMulExpr):
        return a * b
    if bounds(b)[0] < 1:
        return None
    if isinstance(expr, ir.AffineFloorDivExpr):
        return floordiv(a, b)
    if isinstance(expr, ir.AffineCeilDivExpr):
        return ceildiv(a, b)
    return a % b if isinstance(expr, ir.AffineModExpr) else None


# By a comparison's predicate, whether it says that the left side is less (-1) or more.
_ORDERS = {"slt": -1, "ult": -1, "sle": -1, "ule": -1, "sgt": 1, "ugt": 1, "sge": 1, "uge": 1}


def _select(op: ir.Operation) -> Int | None:
    """A choice that the ranges decide, or one that is the smaller or the larger of the two."""
    condition, a = owner(op.operands[0]), number(op.operands[1])
    b = number(op.operands[2]) if a is not None else None
    if a is None or b is None:
        return None
    if a == b:
        return a
    if condition is None:
        return None
    if condition.name == "arith.constant":
        return a if ir.IntegerAttr(condition.attributes["value"]).value else b
    decided = truth(op.operands[0])
    if decided is not None:
        return a if decided else b
    if condition.name != "arith.cmpi":
        return None
    order = _ORDERS.get(arith.CmpIPredicate(ir.IntegerAttr(condition.attributes["predicate"]).value).name)
    x, y = number(condition.operands[0]), number(condition.operands[1])
    if order is None or x is None or y is None:
        return None
    if (x, y) == (b, a):
        order = -order
    elif (x, y) != (a, b):
        return None
    return minimum(a, b) if order < 0 else maximum(a, b)


def truth(value: ir.Value) -> bool | None:
    """Whether a condition on sizes holds for all of them, for none (False), or neither (None)."""
    op = owner(value)
    if op is None:
        return None
    if op.name == "arith.constant":
        return bool(ir.IntegerAttr(op.attributes["value"]).value)
    if op.name in ("arith.andi", "arith.ori"):
        parts = [truth(v) for v in op.operands]
        if op.name == "arith.andi":
            return False if False in parts else None if None in parts else True
        return True if True in parts else None if None in parts else False
    if op.name != "arith.cmpi":
        return None
    x, y = number(op.operands[0]), number(op.operands[1])
    if x is None or y is None:
        return None
    low, high = bounds(x - y)
    name = arith.CmpIPredicate(ir.IntegerAttr(op.attributes["predicate"]).value).name
    if name in ("eq", "ne"):
        same = True if x == y else False if low > 0 or high < 0 else None
        return same if same is None or name == "eq" else not same
    if name.startswith("u") and min(bounds(x)[0], bounds(y)[0]) < 0:
        return None
    return {
        "lt": True if high < 0 else False if low >= 0 else None, "le": True if high <= 0 else False if low > 0 else None,
        "gt": True if low > 0 else False if high <= 0 else None, "ge": True if low >= 0 else False if high < 0 else None,
    }[name[1:]]


def function_of(op: ir.Operation) -> ir.Operation:
    """The function that an operation is in."""
    while op.name != "func.func":
        op = op.parent.operation
    return op


def static(sizes_: Sequence[Int]) -> list[int]:
    """Sizes as a type has them: the dynamic marker where they vary."""
    return [s if isinstance(s, int) else _DYNAMIC for s in sizes_]
