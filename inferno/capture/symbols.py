"""The sizes of a captured graph that vary: torch's symbolic integers as sizes of ours.

torch names a symbol ``s17`` and knows its range and what it was in the example; what it had to assume while tracing it keeps
as guards.  Here the symbols are numbered in the order in which the inputs have them, ``s0``, ``s1``, ..., and every guard is a
Python expression of those names, which is checked at the call.
"""

import builtins
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch.utils._pytree import tree_leaves
from torch.utils._sympy.functions import (
    CeilToInt, CleanDiv, FloatTrueDiv, FloorDiv, FloorToInt, IntTrueDiv, Max, Min, Mod, PythonMod, ToFloat, TruncToInt,
)
from torch.utils._sympy.printers import PythonPrinter

from inferno.errors import UnsupportedOperation
from inferno.symbolic import UNBOUNDED, Int, Symbol, as_python, bounds, floordiv, maximum, minimum, size_of

_ROUNDED = (TruncToInt, FloorToInt, CeilToInt)
_EXACT = 1 << 10  # factors up to which products with sizes are exact as floats, since no tensor has 2**43 elements


@dataclass
class SymbolTable:
    """Symbols by torch's names.  ``ranges`` are bounds that the user gave, by torch's names too.  A number below 0, as a slice may begin at, is the negative
    of its symbol: ``negated`` are those, by torch's names."""

    ranges: dict[Any, Any] = field(default_factory=dict)
    symbols: dict[str, Symbol] = field(default_factory=dict)
    negated: set[str] = field(default_factory=set)
    environment: Any = None

    def size(self, value: Any) -> Int:
        """A size of a fake tensor, or a symbolic integer.  UnsupportedOperation for what only the data tells."""
        if isinstance(value, int):
            return value
        self.environment = value.node.shape_env
        return self.expression(value.node.expr)

    def shape(self, tensor: torch.Tensor) -> tuple[Int, ...]:
        return tuple(self.size(s) for s in tensor.shape)

    def expression(self, expr: sympy.Expr) -> Int:
        """A sympy expression of symbols as a size."""
        if isinstance(expr, sympy.Integer):
            return int(expr)
        if isinstance(expr, sympy.Symbol):
            return size_of(self._symbol(expr)) * self._sign(expr)
        if isinstance(expr, sympy.Add):
            return sum((self.expression(a) for a in expr.args), start=0)
        if isinstance(expr, sympy.Mul):
            return math.prod([self.expression(a) for a in expr.args])
        if isinstance(expr, sympy.Pow) and isinstance(expr.args[1], sympy.Integer) and int(expr.args[1]) > 0:
            return math.prod([self.expression(expr.args[0])] * int(expr.args[1]))
        if isinstance(expr, (FloorDiv, CleanDiv)):
            return floordiv(*(self.expression(a) for a in expr.args))
        if isinstance(expr, (Mod, PythonMod)):
            a, b = (self.expression(a) for a in expr.args)
            return a - floordiv(a, b) * b
        if isinstance(expr, (Max, Min, sympy.Max, sympy.Min)):
            pick = minimum if isinstance(expr, (Min, sympy.Min)) else maximum
            sizes = [self.expression(a) for a in expr.args]
            total = sizes[0]
            for other in sizes[1:]:
                total = pick(total, other)
            return total
        if isinstance(expr, _ROUNDED) and (whole := _whole(expr)) is not None:
            return self.expression(whole)
        raise UnsupportedOperation(f"a size is {expr}, which is no arithmetic on sizes")

    def _sign(self, expr: sympy.Symbol) -> int:
        return -1 if expr.name in self.negated else 1

    def _symbol(self, expr: sympy.Symbol) -> Symbol:
        known = self.symbols.get(expr.name)
        if known is None:
            env = self.environment
            values = env.backed_var_to_val if hasattr(env, "backed_var_to_val") else env.var_to_val  # torch 2.11 has the second
            if expr not in values:
                raise UnsupportedOperation(f"the size {expr} depends on the data")
            found = self.ranges.get(expr, env.var_to_range.get(expr))
            low, high = (_bound(found.lower, -UNBOUNDED), _bound(found.upper, UNBOUNDED)) if found is not None else (0, UNBOUNDED)
            example = int(values[expr])
            if low < 0 and not env.evaluate_expr(expr < 0 if example < 0 else expr >= 0):  # which makes it a guard
                raise UnsupportedOperation(f"the sign of {expr} depends on the data")
            if example < 0:
                self.negated.add(expr.name)
                low, high = max(-high, 1), -low
            known = Symbol(f"s{len(self.symbols)}", max(low, 0), high, 1, abs(example))
            self.symbols[expr.name] = known
        return known

    def take_assertions(self, graph: torch.fx.Graph) -> list[sympy.Basic]:
        """What ``graph`` asserts of the symbols; the assertions are taken out of it, with what only they need."""
        found = []
        for node in reversed(list(graph.nodes)):
            value = node.meta.get("val")
            if node.target is torch.ops.aten._assert_scalar.default and isinstance(node.args[0], torch.fx.Node):
                says = node.args[0].meta.get("val")
                expr = says.node.expr if isinstance(says, torch.SymBool) else sympy.sympify(says)
                if isinstance(expr, sympy.logic.boolalg.Boolean) and not _mentions_others(expr, self.symbols):
                    found.append(expr)
                    graph.erase_node(node)
            elif node.op == "call_function" and not node.users and isinstance(value, (torch.SymBool, torch.SymInt)):
                graph.erase_node(node)
        return found[::-1]

    def sizes_from_zero(self, graph: torch.fx.Graph) -> tuple[str, ...]:
        """What has to hold for each tensor of ``graph`` to have a shape and each element that it selects to be there, as ``guards``: torch traces as if
        no size that varies were 0 or 1, where the user may say that it is, and takes ``x[2:]`` to have two rows less, and ``x[-1]`` for a row."""
        values = (v for n in graph.nodes for v in tree_leaves(n.meta.get("val")) if isinstance(v, torch.Tensor))
        least: dict[sympy.Expr, int] = {s.node.expr: 0 for v in values for s in v.shape if isinstance(s, torch.SymInt)}
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.select.int):
            x, dim, index = node.args
            if isinstance(size := x.meta["val"].shape[dim], torch.SymInt) and isinstance(index, int):
                least[size.node.expr] = max(least[size.node.expr], index + 1 if index >= 0 else -index)
        found = [(self.expression(e), n) for e, n in least.items() if not _mentions_others(e, self.symbols)]
        return tuple(dict.fromkeys(f"{as_python(size)} >= {n}" for size, n in found if bounds(size)[0] < n))

    def guards(self, asserted: Sequence[sympy.Basic] = ()) -> tuple[str, ...]:
        """What torch assumed of the symbols, and what the program asserts of them, as Python expressions of our names.

        UnsupportedOperation where one is said by anything else, as a logarithm of a size is: no call could check it."""
        if self.environment is None:
            return ()
        found = []
        for expr in (*(g.expr for g in self.environment.guards), *asserted):
            expr = self.environment.simplify(expr) if _mentions_others(expr, self.symbols) else expr
            if isinstance(expr, (sympy.logic.boolalg.BooleanTrue, bool)) or _mentions_others(expr, self.symbols):
                continue
            expr = expr.replace(lambda e: isinstance(e, _ROUNDED), lambda e: _whole(e) or e)
            renamed = expr.xreplace({s: self._sign(s) * sympy.Symbol(self.symbols[s.name].name, integer=True) for s in expr.free_symbols})
            text = PythonPrinter().doprint(renamed)
            names = set(compile(text, "<guard>", "eval").co_names) - {s.name for s in renamed.free_symbols}
            if not all(hasattr(builtins, n) for n in names):
                raise UnsupportedOperation(f"{expr} is assumed of sizes, which is no arithmetic on these")
            found.append(text)
        return tuple(dict.fromkeys(found))


def _whole(expr: sympy.Expr) -> sympy.Expr | None:
    """A float that is rounded down or up, of a size times 0.5 or 1.25 or divided by a number, in integers."""
    inner, times, by = expr.args[0], 1, 1
    if isinstance(inner, sympy.Mul) and len(inner.args) == 2 and isinstance(inner.args[0], sympy.Float):
        (times, by), inner = float(inner.args[0]).as_integer_ratio(), inner.args[1]
    elif isinstance(inner, IntTrueDiv) and isinstance(inner.args[1], sympy.Integer):
        by = int(inner.args[1])
    elif isinstance(inner, FloatTrueDiv) and isinstance(inner.args[1], sympy.Float):
        (by, times), inner = float(inner.args[1]).as_integer_ratio(), inner.args[0]
    size = inner.args[0] if isinstance(inner, (ToFloat, IntTrueDiv)) else None
    if size is None or not size.is_nonnegative or not is_exact(times, by):
        return None
    return FloorDiv(size * times + (by - 1 if isinstance(expr, CeilToInt) else 0), by)


def is_exact(times: int, by: int) -> bool:
    """Whether size * times / by, computed with floats, is rounded to the whole number that the exact quotient is, of any size."""
    return 0 < times <= _EXACT and 0 < by <= _EXACT


def _mentions_others(expr: sympy.Basic, symbols: dict[str, Symbol]) -> bool:
    return any(s.name not in symbols for s in expr.free_symbols)


def _bound(value: Any, unknown: int) -> int:
    """An end of a range; infinite ones, of which torch has several kinds, are ``unknown``."""
    return min(int(value), UNBOUNDED) if isinstance(value, (int, sympy.Integer)) else unknown
