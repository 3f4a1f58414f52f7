"""Sizes that vary made into something else: text, operations, other sizes; and read from text again."""

import ast
from collections.abc import Callable, Mapping
from typing import Any

from inferno.errors import UnsupportedOperation
from inferno.symbolic import Int, Symbol, apply, floordiv, size_of


def build(
    value: Int, of: Callable[[Symbol], Any], add: Callable, multiply: Callable, apply: Callable[[str, Any, Any], Any], constant: Callable[[int], Any],
) -> Any:
    """The size as whatever the functions make: ``apply(kind, a, b)`` as ``Apply`` says."""
    if isinstance(value, int):
        return constant(value)
    total = None
    for monomial, coefficient in value.terms:
        term = None
        for atom in monomial:
            if isinstance(atom, Symbol):
                made = of(atom)
            else:
                made = apply(atom.kind, *(build(v, of, add, multiply, apply, constant) for v in (atom.a, atom.b)))
            term = made if term is None else multiply(term, made)
        if term is None:
            term = constant(coefficient)
        elif coefficient != 1:
            term = multiply(term, constant(coefficient))
        total = term if total is None else add(total, term)
    return total


def substitute(value: Int, sizes: Mapping[Symbol, Int]) -> Int:
    """``value`` with its symbols replaced by other sizes."""
    return build(value, lambda s: sizes[s], lambda a, b: a + b, lambda a, b: a * b, apply, lambda c: c)


def as_python(value: Int) -> str:
    """The size as a Python expression of the symbols' names."""
    return build(
        value, lambda s: s.name, lambda a, b: f"({a} + {b})", lambda a, b: f"{a} * {b}",
        lambda kind, a, b: f"({a} // max({b}, 1))" if kind == "floordiv" else f"{kind}({a}, {b})", str,
    )


def from_python(text: str, symbols: Mapping[str, Symbol]) -> Int:
    """The inverse of ``as_python``; UnsupportedOperation for other text."""
    def read(node: ast.expr) -> Int:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name) and node.id in symbols:
            return size_of(symbols[node.id])
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult, ast.FloorDiv)):
            a, b = read(node.left), read(node.right)
            return a + b if isinstance(node.op, ast.Add) else a * b if isinstance(node.op, ast.Mult) else floordiv(a, b)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max") and len(node.args) == 2:
            return apply(node.func.id, *map(read, node.args))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -read(node.operand)
        raise UnsupportedOperation(f"a size is {text}, which is not understood")

    return read(ast.parse(text, mode="eval").body)
