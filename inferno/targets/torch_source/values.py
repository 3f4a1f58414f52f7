"""What the emitters share: expressions of tensors over loops, literals, and the lines of a function."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from inferno.mlir import arith, ir

DTYPES = {
    "f64": "torch.float64", "f32": "torch.float32", "f16": "torch.float16", "bf16": "torch.bfloat16", "i64": "torch.int64",
    "i32": "torch.int32", "i16": "torch.int16", "i8": "torch.int8", "i1": "torch.bool", "index": "torch.int64",
}
SHORT = 60  # a longer expression gets a line of its own


class Inexpressible(Exception):
    """An operation that has no PyTorch form here; the text says which, and why."""


@dataclass(frozen=True)
class Expr:
    """A tensor: ``text`` is a Python expression whose dimensions are ``loops``, ascending; a ``literal`` is a Python number.

    ``atomic``: the text needs no parentheses.
    """

    text: str
    loops: tuple[int, ...] = ()
    literal: bool | int | float | None = None
    atomic: bool = True

    @property
    def operand(self) -> str:
        return self.text if self.atomic else f"({self.text})"


def literal(value: bool | int | float) -> Expr:
    """A number as PyTorch's source has it."""
    if isinstance(value, float) and not math.isfinite(value):
        return Expr("nan" if math.isnan(value) else "inf" if value > 0 else "-inf", literal=value, atomic=not value < 0)
    return Expr(repr(value), literal=value, atomic=not (value < 0 if not isinstance(value, bool) else False))


def element(type_: ir.Type) -> str:
    """The short name of an element type; Inexpressible where PyTorch has none."""
    shaped = isinstance(type_, ir.ShapedType)
    name = str(ir.ShapedType(type_).element_type if shaped else type_)
    if name not in DTYPES:
        raise Inexpressible(f"the element type {name}")
    return name


def shape_of(type_: ir.Type) -> tuple[int, ...]:
    """The sizes of a tensor's type; Inexpressible where one varies."""
    shaped = ir.RankedTensorType(type_)
    if not shaped.has_static_shape:
        raise Inexpressible(f"a size that is not known here: {type_}")
    return tuple(shaped.shape)


def constant_value(attribute: ir.Attribute) -> bool | int | float | None:
    """The number of an attribute; None if it is not one number."""
    if isinstance(attribute, ir.FloatAttr):
        return attribute.value
    if isinstance(attribute, ir.BoolAttr):
        return attribute.value
    if isinstance(attribute, ir.IntegerAttr):
        return bool(attribute.value) if str(attribute.type) == "i1" else attribute.value
    if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
        return constant_value(attribute.get_splat_value())
    return None


@dataclass
class Lines:
    """The lines of a function, the names that they bind, and the dtypes and imports that they need."""

    text: list[str] = field(default_factory=list)
    dtypes: set[str] = field(default_factory=set)
    count: int = 0
    indent: str = "    "

    def add(self, line: str) -> None:
        self.text.append(self.indent + line)

    def comment(self, text: str) -> None:
        self.text.append(f"{self.indent}# {text}")

    def name(self) -> str:
        self.count += 1
        return f"v{self.count - 1}"

    def bind(self, expr: Expr) -> Expr:
        """The expression under a name."""
        if expr.text.isidentifier() or expr.literal is not None:
            return expr
        name = self.name()
        self.add(f"{name} = {expr.text}")
        return Expr(name, expr.loops)

    def dtype(self, type_: ir.Type) -> str:
        name = element(type_)
        name = "i64" if name == "index" else name
        self.dtypes.add(name)
        return name

    def tensor(self, expr: Expr, type_: ir.Type) -> Expr:
        """The expression as a tensor: a literal gets a dtype."""
        return Expr(f"torch.tensor({expr.text}, dtype={self.dtype(type_)})") if expr.literal is not None else expr


def union(exprs: Iterable[Expr]) -> tuple[int, ...]:
    """The loops that any of these go over."""
    return tuple(sorted({d for e in exprs for d in e.loops}))


def align(expr: Expr, loops: Sequence[int]) -> Expr:
    """The expression so that it broadcasts against others over ``loops``: ``None`` where it lacks one."""
    loops = tuple(loops)
    if not expr.loops or expr.loops == loops[len(loops) - len(expr.loops):]:
        return expr
    first = loops.index(expr.loops[0])
    index = ", ".join(":" if d in expr.loops else "None" for d in loops[first:])
    return Expr(f"{expr.operand}[{index}]", expr.loops)


def spread(expr: Expr, loops: Sequence[int], sizes: Sequence[int]) -> Expr:
    """The expression with all of ``loops`` as dimensions of their full sizes."""
    loops = tuple(loops)
    if expr.loops == loops:
        return expr
    shape = ", ".join(str(sizes[d]) for d in loops)
    return Expr(f"{align(expr, loops).operand}.expand({shape})", loops)


def permute(expr: Expr, order: Sequence[int]) -> Expr:
    """Dimensions moved; ``order`` as torch.permute has it."""
    if list(order) == list(range(len(order))):
        return expr
    return Expr(f"{expr.operand}.permute({', '.join(map(str, order))})", expr.loops)


def predicate(op: ir.Operation) -> str:
    """The name of a comparison's predicate: ``olt``, ``ugt``, ``slt``, ``eq``."""
    kind = arith.CmpFPredicate if op.name == "arith.cmpf" else arith.CmpIPredicate
    return kind(ir.IntegerAttr(op.attributes["predicate"]).value).name.lower()
