"""The sizes of a captured graph that vary: torch's symbolic integers as sizes of ours.

torch names a symbol ``s17`` and knows its range and what it was in the example; what it had to assume while tracing it keeps
as guards.  Here the symbols are numbered in the order in which the inputs have them, ``s0``, ``s1``, ..., and every guard is a
Python expression of those names, which is checked at the call.  One that is always a multiple of a number is that number times a symbol (``residues``), one
that others tell is what they make of it (``equal_sizes``).
"""

import builtins
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch.utils._pytree import tree_leaves
from torch.utils._sympy.functions import (
    CeilToInt, CleanDiv, FloatTrueDiv, FloorDiv, FloorToInt, IntTrueDiv, Max, Min, Mod, PythonMod, ToFloat, TruncToInt,
)
from torch.utils._sympy.printers import PythonPrinter

from inferno.capture.equal_sizes import equations, is_product, solutions
from inferno.capture.nodes import argument
from inferno.capture.residues import residue
from inferno.errors import UnsupportedOperation
from inferno.size_forms import as_python, build, substitute
from inferno.symbolic import UNBOUNDED, Int, Size, Symbol, bounds, floordiv, hint, maximum, minimum, size_of, symbols_of

_ROUNDED = (TruncToInt, FloorToInt, CeilToInt)
_TRACED = 2  # torch's lower bound of a size that varies, whatever the user says
_aten = torch.ops.aten
_TAKE_ELEMENTS = {
    _aten.slice.Tensor, _aten.slice_scatter.default, _aten.select.int, _aten.select_scatter.default, _aten.topk.default, _aten.kthvalue.default,
    _aten.max.dim, _aten.min.dim, _aten.max.default, _aten.min.default, _aten.amax.default, _aten.amin.default, _aten.argmax.default, _aten.argmin.default,
}
_EXACT = 1 << 10  # factors up to which products with sizes are exact as floats, since no tensor has 2**43 elements


@dataclass
class SymbolTable:
    """What torch's symbols are, by their names: ``values``.  ``ranges`` are bounds that the user gave, by torch's names too.  A number below 0, as a slice
    may begin at, is the negative of its symbol, one that leaves a known rest is a multiple and that rest, and one that others tell is made of theirs."""

    ranges: dict[Any, Any] = field(default_factory=dict)
    values: dict[str, Int] = field(default_factory=dict)
    environment: Any = None
    asked: list[sympy.Symbol] = field(default_factory=list)  # those that are being found out
    positive: set[str] = field(default_factory=set)  # those of which others say that they are not 0
    plain: "_Plain | None" = None
    zeros: tuple[Size, ...] = ()  # what is assumed to be 0, of the symbols of ``plain``

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
            return self._value(expr)
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

    def _value(self, expr: sympy.Symbol) -> Int:
        known = self.values.get(expr.name)
        if known is None:
            example, low, high = self._range(expr)
            low = max(low, 1) if expr.name in self.positive else low
            known = self._told(expr, example, low) if example >= 0 else None
            name = f"s{len(self.values)}"
            if example < 0:
                known = -size_of(Symbol(name, max(-high, 1), -low, 1, -example))
            elif known is None:
                by, rest = residue(expr, example, self._guards(), lambda *given: self._where(expr, low, high, *given))
                known = _multiple(name, by, rest, low, high, example)
            self.values[expr.name] = known
        return known

    def _guards(self) -> list[sympy.Basic]:
        """What torch assumed, of the symbols that it has not replaced by others."""
        replaced = self.environment.replacements
        return [self.environment.simplify(g.expr) if not replaced.keys().isdisjoint(g.expr.free_symbols) else g.expr for g in self.environment.guards]

    def _told(self, expr: sympy.Symbol, example: int, low: int) -> Int | None:
        """What other symbols say that one is; None where they do not, or not that it is above 0 where it is."""
        if self.plain is None:
            self.plain = _Plain(self.ranges, {}, self.environment)
            self.zeros = equations(self._guards(), self.plain.expression)
        self.asked.append(expr)
        try:
            for found in solutions(self.plain.symbol(expr), self.zeros):
                others = {s: self.plain.names[s] for s in symbols_of(found)}
                if hint(found) != example or any(other in self.asked for other in others.values()):
                    continue
                if bounds(found)[0] < min(low, 1):
                    if not is_product(found) or any(other.name in self.values for other in others.values()):
                        continue
                    self.positive.update(other.name for other in others.values())
                return substitute(found, {s: self._value(other) for s, other in others.items()})
        finally:
            self.asked.remove(expr)
        return None

    def _range(self, expr: sympy.Symbol) -> tuple[int, int, int]:
        """The symbol's value in the example, the least and the largest; not below 0 if the example is not."""
        env = self.environment
        values = env.backed_var_to_val if hasattr(env, "backed_var_to_val") else env.var_to_val  # torch 2.11 has the second
        if expr not in values:
            raise UnsupportedOperation(f"the size {expr} depends on the data")
        found = self.ranges.get(expr, env.var_to_range.get(expr))
        low, high = (_bound(found.lower, -UNBOUNDED), _bound(found.upper, UNBOUNDED)) if found is not None else (0, UNBOUNDED)
        example = int(values[expr])
        if low < 0 and not env.evaluate_expr(expr < 0 if example < 0 else expr >= 0):  # which makes it a guard
            raise UnsupportedOperation(f"the sign of {expr} depends on the data")
        return example, low if example < 0 else max(low, 0), high

    def _where(self, symbol: sympy.Symbol, low: int, high: int, expr: sympy.Expr, by: int, rest: int) -> Int:
        """An expression where one symbol is a multiple of ``by`` and a rest.  ArithmeticError for what is no expression."""
        others = _Plain(self.ranges, {symbol.name: _multiple("n", by, rest, low, high, rest)}, self.environment)
        try:
            return others.expression(expr)
        except UnsupportedOperation as error:
            raise ArithmeticError from error

    def take_assertions(self, graph: torch.fx.Graph) -> list[sympy.Basic]:
        """What ``graph`` asserts of the symbols; the assertions are taken out of it, with what only they need."""
        found = []
        for node in reversed(list(graph.nodes)):
            value = node.meta.get("val")
            if node.target is torch.ops.aten._assert_scalar.default and isinstance(node.args[0], torch.fx.Node):
                says = node.args[0].meta.get("val")
                expr = says.node.expr if isinstance(says, torch.SymBool) else sympy.sympify(says)
                if isinstance(expr, sympy.logic.boolalg.Boolean) and not _mentions_others(expr, self.values):
                    found.append(expr)
                    graph.erase_node(node)
            elif node.op == "call_function" and not node.users and isinstance(value, (torch.SymBool, torch.SymInt)):
                graph.erase_node(node)
        return found[::-1]

    def sizes_from_zero(self, graph: torch.fx.Graph) -> tuple[str, ...]:
        """What has to hold for each tensor of ``graph`` to have a shape and each element that it takes to be there, as ``guards``: torch traces as if
        no size that varies were 0 or 1, where the user may say that it is, and takes ``x[2:]`` to have two rows less, and ``x[:1]`` and ``x[-1]`` for a
        row."""
        values = (v for n in graph.nodes for v in tree_leaves(n.meta.get("val")) if isinstance(v, torch.Tensor))
        least: dict[sympy.Expr, int] = {s.node.expr: 0 for v in values for s in v.shape if isinstance(s, torch.SymInt)}
        for node in graph.nodes:
            for size, needed in _needed_sizes(node) if node.op == "call_function" else ():
                if isinstance(size, torch.SymInt):
                    least[size.node.expr] = max(least.get(size.node.expr, 0), needed)
        found = [(self.expression(e), n) for e, n in least.items() if not _mentions_others(e, self.values)]
        return tuple(dict.fromkeys(f"{as_python(size)} >= {n}" for size, n in found if bounds(size)[0] < n))

    def guards(self, asserted: Sequence[sympy.Basic] = ()) -> tuple[str, ...]:
        """What torch assumed of the symbols, and what the program asserts of them, as Python expressions of our names.

        UnsupportedOperation where one is said by anything else, as a logarithm of a size is: no call could check it."""
        if self.environment is None:
            return ()
        found = []
        deferred = (a.expr for some in self.environment.deferred_runtime_asserts.values() for a in some)  # of which a decomposed graph has not all
        for expr in (*(g.expr for g in self.environment.guards), *asserted, *deferred):
            expr = self.environment.simplify(expr) if _mentions_others(expr, self.values) else expr
            if isinstance(expr, (sympy.logic.boolalg.BooleanTrue, bool)) or _mentions_others(expr, self.values):
                continue
            expr = expr.replace(lambda e: isinstance(e, _ROUNDED), lambda e: _whole(e) or e)
            renamed = expr.xreplace({s: _as_sympy(self.values[s.name]) for s in expr.free_symbols})
            text = PythonPrinter().doprint(renamed)
            names = set(compile(text, "<guard>", "eval").co_names) - {s.name for s in renamed.free_symbols}
            if not all(hasattr(builtins, n) for n in names):
                raise UnsupportedOperation(f"{expr} is assumed of sizes, which is no arithmetic on these")
            found.append(text)
        return tuple(dict.fromkeys(found))


def _needed_sizes(node: torch.fx.Node) -> list[tuple[Any, int]]:
    """(a size of what an operation reads, what it has to be at least) where torch, for which it is 2 or more, does not ask."""
    target = node.target
    if target not in _TAKE_ELEMENTS or not isinstance(x := node.args[0].meta.get("val"), torch.Tensor) or not x.dim():
        return []
    if target in (_aten.slice.Tensor, _aten.slice_scatter.default):
        ends = [abs(n) for n in (argument(node, "start"), argument(node, "end")) if isinstance(n, int)]
        return [(x.shape[argument(node, "dim")], max((n for n in ends if n <= _TRACED), default=0))]
    if target in (_aten.select.int, _aten.select_scatter.default):
        return [(x.shape[argument(node, "dim")], n + 1 if n >= 0 else -n)] if isinstance(n := argument(node, "index"), int) else []
    if target in (_aten.topk.default, _aten.kthvalue.default):
        return [(x.shape[argument(node, "dim")], k)] if isinstance(k := argument(node, "k"), int) else []
    dims = argument(node, "dim")
    dims = [dims] if isinstance(dims, int) else dims or range(x.dim())
    return [(x.shape[d], 1) for d in dims]


@dataclass
class _Plain(SymbolTable):
    """The same, of which nothing is known but ranges: ``names`` are torch's symbols by ours."""

    names: dict[Symbol, sympy.Symbol] = field(default_factory=dict)

    def symbol(self, expr: sympy.Symbol) -> Symbol:
        """Ours for torch's; of a number below 0 its negative's."""
        return next(iter(symbols_of(self.expression(expr))), Symbol(expr.name))

    def _value(self, expr: sympy.Symbol) -> Int:
        if expr.name not in self.values:
            example, low, high = self._range(expr)
            symbol = Symbol(expr.name, max(-high, 1), -low, 1, -example) if example < 0 else Symbol(expr.name, low, high, 1, example)
            self.names[symbol] = expr
            self.values[expr.name] = -size_of(symbol) if example < 0 else size_of(symbol)
        return self.values[expr.name]


def _multiple(name: str, by: int, rest: int, low: int, high: int, example: int) -> Int:
    """What is from ``low`` to ``high`` and leaves a rest if divided, as a multiple of a symbol and that rest."""
    most = UNBOUNDED if high >= UNBOUNDED else (high - rest) // by
    return size_of(Symbol(name, max(-((rest - low) // by), 0), most, 1, (example - rest) // by)) * by + rest


def _as_sympy(value: Int) -> sympy.Expr:
    applied = {"floordiv": FloorDiv, "min": Min, "max": Max}
    return build(value, lambda s: sympy.Symbol(s.name, integer=True), operator.add, operator.mul, lambda kind, a, b: applied[kind](a, b), sympy.Integer)


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


def _mentions_others(expr: sympy.Basic, symbols: Mapping[str, Int]) -> bool:
    return any(s.name not in symbols for s in expr.free_symbols)


def _bound(value: Any, unknown: int) -> int:
    """An end of a range; infinite ones, of which torch has several kinds, are ``unknown``."""
    return min(int(value), UNBOUNDED) if isinstance(value, (int, sympy.Integer)) else unknown
