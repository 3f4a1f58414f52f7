"""Sizes that vary, as attributes: a function's symbols, and the sizes of its arguments as expressions of them.

``inferno.symbols`` on a function lists its symbols before they are arguments; after that each is an ``index`` argument with
``inferno.symbol`` (its name), ``inferno.range``, ``inferno.divisor`` and ``inferno.hint``.  ``inferno.sizes`` on an argument is
an affine map without dimensions from the symbols, in order, to the argument's sizes: ``affine_map<()[s0, s1] -> (s0, s1, 768)>``.
Sizes that no such map can hold, minima and maxima, are text: ``["min(s0, s1)", "768"]``.
"""

from collections.abc import Sequence

from torch_mlir import ir

from inferno.errors import UnsupportedOperation
from inferno.size_forms import as_python, build, from_python
from inferno.symbolic import Int, Symbol, floordiv, has_extreme, size_of

SYMBOLS, SYMBOL, RANGE, DIVISOR, HINT = "inferno.symbols", "inferno.symbol", "inferno.range", "inferno.divisor", "inferno.hint"
SIZES = "inferno.sizes"


def symbol_attributes(symbol: Symbol) -> dict[str, ir.Attribute]:
    """What an argument says of the symbol that it is."""
    return {
        SYMBOL: ir.StringAttr.get(symbol.name), RANGE: ir.ArrayAttr.get([integer(symbol.low), integer(symbol.high)]),
        DIVISOR: integer(symbol.divisor), HINT: integer(symbol.hint),
    }


def read_symbol(entry: ir.DictAttr) -> Symbol:
    """The symbol that an argument's attributes describe, as ``symbol_attributes`` writes them."""
    low, high = (ir.IntegerAttr(v).value for v in ir.ArrayAttr(entry[RANGE]))
    return Symbol(
        ir.StringAttr(entry[SYMBOL]).value, low, high,
        ir.IntegerAttr(entry[DIVISOR]).value if DIVISOR in entry else 1, ir.IntegerAttr(entry[HINT]).value if HINT in entry else low,
    )


def symbols_attribute(symbols: Sequence[Symbol]) -> ir.ArrayAttr:
    """Symbols as an attribute, in order."""
    return ir.ArrayAttr.get([ir.DictAttr.get(symbol_attributes(s)) for s in symbols])


def sizes_attribute(shape: Sequence[Int], symbols: Sequence[Symbol]) -> ir.AffineMapAttr | ir.ArrayAttr:
    """The sizes as expressions of ``symbols``."""
    if any(has_extreme(s) for s in shape):
        return ir.ArrayAttr.get([ir.StringAttr.get(as_python(s)) for s in shape])
    numbers = {s: i for i, s in enumerate(symbols)}

    def apply(kind: str, a: ir.AffineExpr, b: ir.AffineExpr) -> ir.AffineExpr:
        return ir.AffineExpr.get_floor_div(a, b)

    exprs = [
        build(s, lambda symbol: ir.AffineSymbolExpr.get(numbers[symbol]), lambda a, b: a + b, lambda a, b: a * b, apply, ir.AffineConstantExpr.get)
        for s in shape
    ]
    return ir.AffineMapAttr.get(ir.AffineMap.get(0, len(symbols), exprs))


def read_sizes(attribute: ir.Attribute, symbols: Sequence[Symbol]) -> tuple[Int, ...]:
    """The inverse of ``sizes_attribute``."""
    if isinstance(attribute, ir.ArrayAttr):
        named = {s.name: s for s in symbols}
        return tuple(from_python(ir.StringAttr(s).value, named) for s in attribute)
    return tuple(_read(e, symbols) for e in ir.AffineMapAttr(attribute).value.results)


def _read(expr: ir.AffineExpr, symbols: Sequence[Symbol]) -> Int:
    if isinstance(expr, ir.AffineConstantExpr):
        return ir.AffineConstantExpr(expr).value
    if isinstance(expr, ir.AffineSymbolExpr):
        return size_of(symbols[ir.AffineSymbolExpr(expr).position])
    parts = ir.AffineBinaryExpr(expr)
    a, b = _read(parts.lhs, symbols), _read(parts.rhs, symbols)
    if isinstance(expr, ir.AffineAddExpr):
        return a + b
    if isinstance(expr, ir.AffineMulExpr):
        return a * b
    if isinstance(expr, ir.AffineFloorDivExpr):
        return floordiv(a, b)
    if isinstance(expr, ir.AffineCeilDivExpr):
        return floordiv(a + b - 1, b)
    if isinstance(expr, ir.AffineModExpr):
        return a - floordiv(a, b) * b
    raise UnsupportedOperation(f"a size is {expr}, which is not understood")


def integer(value: int) -> ir.IntegerAttr:
    """A number as an attribute of 64 bits."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
