"""Names for kernels: what a kernel computes, in a few words; ``matmul_addf_maximumf``, ``reduce_addf``, ``tm_scan``."""

import re
from collections.abc import Container
from itertools import count

from inferno.mlir import ir, owner, walk
from inferno.passes.contraction import sums_along_both
from inferno.passes.generics import input_count, is_reduction

_LONGEST = 40  # characters of a name, so that tables of kernels stay readable
# What only converts, compares or moves; named where there is nothing else.
_MINOR = {"extf", "truncf", "extsi", "extui", "trunci", "index_cast", "sitofp", "uitofp", "cmpi", "cmpf", "andi", "ori", "select", "index"}
# Arithmetic of places, and of bits.
_WHOLE = {"addi", "subi", "muli", "divui", "remui", "shrui", "shli", "minui"}
_PHILOX = 20  # exclusive ors: no other body mixes bits so often


class Names:
    """Symbols that the module does not have yet."""

    def __init__(self, module: ir.Module) -> None:
        self._taken = {
            ir.StringAttr(op.attributes["sym_name"]).value for op in module.body.operations if "sym_name" in op.attributes
        }
        self._next: dict[str, int] = {}  # the number from which on a name may be free

    def make(self, anchor: ir.Operation) -> str:
        """A new symbol for the kernel of ``anchor``."""
        return self.unique(name_of(anchor))

    def unique(self, base: str) -> str:
        """A new symbol that begins with ``base``."""
        number, name = numbered(base, self._taken, self._next.get(base, 0))
        self._next[base] = number + 1
        self._taken.add(name)
        return name


def free(base: str, taken: Container[str]) -> str:
    """``base``, or with the first number behind it that is not ``taken``."""
    return numbered(base, taken)[1]


def numbered(base: str, taken: Container[str], first: int = 0) -> tuple[int, str]:
    """The first number from ``first`` on with which the name is not ``taken``, and that name; 0 is without a number."""
    return next((n, name) for n in count(first) if (name := f"{base}_{n}" if n else base) not in taken)


def name_of(anchor: ir.Operation) -> str:
    """At most 40 characters; depends on the operation alone, so that equal kernels of two models are called the same."""
    if anchor.name == "linalg.generic":
        words = _generic(anchor)
    elif anchor.name.startswith("linalg."):
        words = [anchor.name.removeprefix("linalg.")]
    elif anchor.name.startswith("tensor."):
        words = [anchor.name.removeprefix("tensor.")]
    else:  # tm_tensor.scan -> tm_scan, scf.for -> scf_for
        words = [anchor.name.replace("tm_tensor.", "tm_").replace(".", "_")]
    name = ""
    for word in words:
        if name and len(name) + 1 + len(word) > _LONGEST:
            break
        name = f"{name}_{word}" if name else word
    return re.sub(r"\W", "_", name)[:_LONGEST]


def _generic(anchor: ir.Operation) -> list[str]:
    body = [o for o in walk(anchor) if o.parent is not None and o.parent.operation == anchor]
    reduces = is_reduction(anchor)
    product = _product(anchor) if reduces and sums_along_both(anchor) else None
    if product is not None:
        at = body.index(product)
        return [*_words(body[:at]), _contraction(anchor), *_words([o for o in body[at + 1:] if not _accumulates(o, product) and not _counts(o)])]
    words = _words(body)
    if not words and len(anchor.operands) == len(anchor.results) and any(o.name == "linalg.index" for o in body):
        return ["iota"]
    if not words:
        words = [o.name.partition(".")[2] for o in body if o.name not in ("linalg.yield", "linalg.index", "arith.constant")][-1:]
    if reduces:
        return ["reduce", *words]
    return words or [_movement(anchor)]


def _words(ops: list[ir.Operation]) -> list[str]:
    """Each kind of operation once, in order."""
    names = ["gather" if o.name == "tensor.extract" else o.name.partition(".")[2] for o in ops]
    if names.count("xori") >= _PHILOX:
        at = names.index("xori")
        names = [*names[:at], "philox", *names[at:]]
        names = [n for n in names if n not in ("xori", "muli", "addi", "subi", "divui", "remui", "shrui", "shrsi", "shli")]
    for sign, word in (("if", "pieces"), ("bitcast", "float8")):
        if sign in names:
            names = [word if n == sign else n for n in names if n not in _WHOLE]
    return list(dict.fromkeys(n for n in names if n not in _MINOR and n not in ("yield", "constant")))


def _counts(op: ir.Operation) -> bool:
    """Whether it computes with a loop's index, as the comparison with the last step does."""
    index = owner(op.operands[0]) if op.name == "arith.addi" else None
    return index is not None and index.name == "linalg.index"


def _product(generic: ir.Operation) -> ir.Operation | None:
    """The multiplication of a contraction: what is added to an accumulator, and multiplies two different values."""
    block = generic.regions[0].blocks[0]
    for accumulator in list(block.arguments)[input_count(generic):]:
        for use in accumulator.uses:
            add = use.owner.operation
            if add.name in ("arith.addf", "arith.addi"):
                for value in add.operands:
                    producer = owner(value)
                    if producer is not None and producer.name in ("arith.mulf", "arith.muli") and _two_inputs(producer):
                        return producer
    return None


def _two_inputs(product: ir.Operation) -> bool:
    left, right = product.operands
    return left != right and (owner(left) is None or owner(right) is None or owner(left) != owner(right))


def _accumulates(op: ir.Operation, product: ir.Operation) -> bool:
    return op.name in ("arith.addf", "arith.addi") and product.results[0] in list(op.operands)


def _maps(generic: ir.Operation) -> list[ir.AffineMap]:
    return [m if isinstance(m, ir.AffineMap) else m.value for m in generic.opview.indexing_maps]


def _contraction(generic: ir.Operation) -> str:
    """matmul, batch_matmul, or conv where an operand is walked by a sum of loops."""
    maps = _maps(generic)
    if any(not isinstance(e, ir.AffineDimExpr) for m in maps[:2] for e in m.results):
        return "conv"
    dims = [{ir.AffineDimExpr(e).position for e in m.results if isinstance(e, ir.AffineDimExpr)} for m in maps]
    return "batch_matmul" if dims[0] & dims[1] & dims[-1] else "matmul"


def _movement(generic: ir.Operation) -> str:
    maps = _maps(generic)
    if len(maps) == 2 and maps[0] != maps[1]:
        return "transpose" if len(maps[0].results) == maps[0].n_dims else "broadcast"
    return "copy"
