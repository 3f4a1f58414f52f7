"""A contraction and the elementwise work around it become one ``linalg.generic``: matmul + bias + GELU is one kernel.

After: the elementwise reader of the result, if it is the only one.  Before: what makes an operand, if it is cheap (it is
done again for every tile) and reads no more than it writes: casts, scales, dequantisation.  What lies between two contractions is the
epilogue of the first.
"""

from collections.abc import Callable
from dataclasses import dataclass

from inferno.mlir import ir, owner, rewrite, users, walk
from inferno.passes.contraction import CONVOLUTIONS, build_fused, can_fuse, has_windows, is_contraction, parse_fused
from inferno.passes.fuse_elementwise import bytes_of, is_cheap
from inferno.passes.generics import dims, inputs, is_copy, is_elementwise, is_widening, knows_sizes, kinds, loop_sizes, maps, only_user
from inferno.passes.greedy import rewrite_greedily
from inferno.passes.programs import VIEWS, wants_library
from inferno.passes.selected_products import is_selected
from inferno.symbolic import hint, product

_MANY = 1 << 20  # bytes: 64K labels of 64 classes, encoded, times a matrix in bf16 took an H200 195 us by one kernel, torch's two 10
_LITTLE = 1 << 14  # bytes of a factor, of fewer of which a launch takes longer than reading it again: 64 labels of 16 classes
_MATRIX = 8  # rows that meet each element of the other factor, so that this is a matrix


@dataclass(frozen=True)
class _Rules:
    """Whether it pays that a producer (and its contraction) or an epilogue is fused."""

    before: Callable[[ir.Operation, ir.Operation], bool] = lambda producer, contraction: True
    after: Callable[[ir.Operation], bool] = lambda epilogue: True


def fuse_contractions(module: ir.Module) -> None:
    """Fuse every contraction of the module with its prologues and its epilogue.  Where a library is to multiply (``inferno.matmul``), which
    reads its operands from memory, a prologue is a widening alone, and an epilogue nothing that no library does."""
    if wants_library(module):
        _apply(module, _Rules(lambda producer, _: is_cheap(producer) and (is_widening(producer) or not _is_static(producer)), _ends_library))
    else:
        _apply(module, _Rules(lambda p, contraction: _is_prologue(p) and not _is_masked(p, contraction), lambda e: not (_ends_total(e) or _branches(e))))
    if CONVOLUTIONS in module.operation.attributes:
        del module.operation.attributes[CONVOLUTIONS]


def _is_prologue(producer: ir.Operation) -> bool:
    """Whether a contraction had better compute for each tile what makes an operand."""
    return is_cheap(producer) and not _is_returned(producer) and not _is_numbered(producer)


def _ends_total(epilogue: ir.Operation) -> bool:
    """Whether it makes something of one number and others: a total of all points is cut for all processors, and what puts it together knows nothing else."""
    return not kinds(epilogue) and len(inputs(epilogue)) > 1


def _branches(epilogue: ir.Operation) -> bool:
    """Whether it computes functions that branch for large numbers, one number after the other: the few warps of a tile wait for each branch, those of a map
    do not (an H200, bf16, 4096x256x1000 to float32: cosine 30.6 us as an epilogue, 13 by itself; arc cosine, which has no branch, 11.9 and 14)."""
    return bool(walk(epilogue, "math.sin", "math.cos", "math.tan"))


def join(module: ir.Module) -> None:
    """The same without asking whether it pays: what split-contractions took apart."""
    _apply(module, _Rules())


def _apply(module: ir.Module, rules: _Rules) -> None:
    patterns = rewrite.RewritePatternSet(module.context)
    patterns.add("linalg.generic", lambda op, rewriter: _fuse(op.operation, rewriter, rules))
    rewrite_greedily(module, patterns)


def _fuse(op: ir.Operation, rewriter, rules: _Rules) -> bool:
    """Root: the epilogue, or a contraction that has none."""
    if not knows_sizes(op):
        return True
    if is_elementwise(op):
        for number, value in enumerate(inputs(op)):
            if _fits_after(owner(value), op, number, rules):
                return _replace(owner(value), op, number, rewriter, rules)
        return True
    if is_contraction(op) and can_fuse(op) and any(_prologues(op, rules)):
        if _has_epilogue(op, rules):
            return True  # the epilogue's turn takes the prologues along
        return _replace(op, None, -1, rewriter, rules)
    return True


def _has_epilogue(contraction: ir.Operation, rules: _Rules) -> bool:
    user = only_user(contraction.results[0])
    return is_elementwise(user) and knows_sizes(user) and any(
        _fits_after(contraction, user, n, rules) for n, v in enumerate(inputs(user)) if v == contraction.results[0]
    )


def _fits_after(contraction: ir.Operation | None, epilogue: ir.Operation, number: int, rules: _Rules) -> bool:
    """Whether the elementwise operation reads a contraction's result once for each point, as the only reader, and no tensor element by element."""
    if len(epilogue.results) != 1 or not is_contraction(contraction) or not knows_sizes(contraction) or not can_fuse(contraction):
        return False
    if only_user(contraction.results[0]) is None or not (has_windows(contraction) or rules.after(epilogue)):
        return False
    read = maps(epilogue)[number]
    order = dims(read)
    if walk(epilogue, "tensor.extract"):
        return False
    if order is None or len(order) != len(kinds(epilogue)):
        return False
    if has_windows(contraction) and maps(epilogue)[-1] != read:  # whose kernels write the order that they compute in
        return False
    return all(m == read for v, m in zip(inputs(epilogue), maps(epilogue)) if v == contraction.results[0])


def _prologues(contraction: ir.Operation, rules: _Rules) -> list[ir.Operation | None]:
    if has_windows(contraction):
        return [None, None]  # an element is read once for each window that it is in, by an engine that only copies
    found: list[ir.Operation | None] = []
    gathered = is_selected(contraction)  # what only copies brings their factors
    for value in inputs(contraction):
        producer = owner(value)
        fits = is_elementwise(producer) and knows_sizes(producer) and len(producer.results) == 1 and not is_copy(producer)
        fits = fits and (not gathered or is_widening(producer))
        found.append(producer if fits and not _ends_contraction(producer, rules) and rules.before(producer, contraction) else None)
    return found


def _is_numbered(op: ir.Operation) -> bool:
    """Whether an operation tells many elements by their numbers, of tensors of fewer dimensions, as a one-hot encoding: tensor cores read what is in memory."""
    whole = any(len(set(dims(m) or ())) == len(kinds(op)) for m in maps(op)[: len(inputs(op))])
    return not whole and bool(walk(op, "linalg.index")) and bytes_of(op.results[0]) > _MANY


def _is_masked(producer: ir.Operation, contraction: ir.Operation) -> bool:
    """Whether a product of matrices of 32 bits or more has a factor of which an element's place tells whether it counts, as a triangle: no kernel that
    multiplies tiles of these computes that.  (Others read both factors again for each result: of 2048x2048 that is 32768 blocks.)"""
    if not walk(producer, "linalg.index") or producer.results[0].type.element_type.width < 32 or bytes_of(producer.results[0]) <= _LITTLE:
        return False
    sizes, own = loop_sizes(contraction), producer.results[0]
    read = [dims(m) or () for v, m in zip(inputs(contraction), maps(contraction)) if v == own]
    return any(product(hint(n) for d, n in enumerate(sizes) if d not in loops and n is not None) >= _MATRIX for loops in read)


def _is_returned(op: ir.Operation) -> bool:
    """Whether an operation's result is the program's too, such as a cache of keys: it is in memory in any case."""
    pending = list(op.results)
    while pending:
        for user in users(pending.pop()):
            if user.name == "func.return":
                return True
            if user.name in VIEWS:
                pending += user.results
    return False


# What the epilogues of libraries are made of: sums of scaled tensors, and GELU by tanh of what is rounded to 16 bits.
_SUMS = {f"arith.{name}" for name in ("addf", "subf", "mulf", "divf", "negf", "addi", "subi", "muli", "extf", "extsi", "truncf", "constant")} | {"linalg.yield"}
_GELU = {"math.tanh", "math.fpowi", "math.powf"}


def _ends_library(op: ir.Operation) -> bool:
    """Whether an epilogue may be a library's, as far as its operations tell; of sizes that vary none is."""
    if not _is_static(op):
        return True
    operations = [o.operation for o in op.regions[0].blocks[0].operations]
    names = {o.name for o in operations}
    if "math.tanh" in names:
        return names <= _SUMS | _GELU and str(op.results[0].type.element_type) in ("bf16", "f16")
    scales = (o for o in operations if o.name in ("arith.mulf", "arith.divf", "arith.muli"))
    return names <= _SUMS and all(any((made := owner(v)) is not None and made.name == "arith.constant" for v in o.operands) for o in scales)


def _is_static(op: ir.Operation) -> bool:
    return all(t.has_static_shape for t in (v.type for v in op.operands) if isinstance(t, ir.RankedTensorType))


def _ends_contraction(op: ir.Operation, rules: _Rules) -> bool:
    """Whether an elementwise operation may be the epilogue of another contraction, where it is done once for each element."""
    return any(_fits_after(owner(value), op, number, rules) for number, value in enumerate(inputs(op)))


def _replace(contraction: ir.Operation, epilogue: ir.Operation | None, number: int, rewriter, rules: _Rules) -> bool:
    prologues = _prologues(contraction, rules)
    root = contraction if epilogue is None else epilogue
    with rewriter.ip, root.location:
        new = build_fused(contraction, prologues, epilogue, number)
    rewriter.replace_op(root, [new.results[len(new.results) - 1]])
    return False


__all__ = ["fuse_contractions", "join", "parse_fused"]
