"""``inferno.random``: an argument of ``@main`` that no caller gives: its elements are random numbers, functions of their positions.

The attribute holds the fields of a ``Draw``, and which arguments have the generator's seed and offset (``tensor<i64>``).
"""

from inferno.mlir import ir
from inferno.philox import Draw

RANDOM = "inferno.random"


def random_attribute(draw: Draw, seed: int, offset: int) -> ir.DictAttr:
    """The attribute of an argument; ``seed`` and ``offset`` are argument numbers."""
    numbers = {"seed": seed, "offset": offset, "threads": draw.threads, "vector": draw.vector, "span": draw.span, "base": draw.base}
    i64 = ir.IntegerType.get_signless(64)
    return ir.DictAttr.get({"kind": ir.StringAttr.get(draw.kind), **{k: ir.IntegerAttr.get(i64, v) for k, v in numbers.items()}})


def read_random(attribute: ir.Attribute, type_: ir.Type) -> tuple[Draw, int, int]:
    """What ``random_attribute`` was made of, for an argument of this type."""
    entries = ir.DictAttr(attribute)
    value = {k: ir.IntegerAttr(entries[k]).value for k in ("seed", "offset", "threads", "vector", "span", "base")}
    shape = tuple(ir.RankedTensorType(type_).shape)
    draw = Draw(ir.StringAttr(entries["kind"]).value, shape, value["threads"], value["vector"], value["span"], value["base"])
    return draw, value["seed"], value["offset"]
