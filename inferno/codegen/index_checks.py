"""Indices that are data, checked in native code: what reads or writes at a place that was read from memory first.

A place outside of its buffer is read at 0 instead, is not written, and is reported: the function has a buffer more, its last argument,
whose one number is set then.  Whoever calls it looks there and raises eager's error.  Whether there was one is kept in a register
while the loops run, so that they can still be vectorized.

The import asserts some of this itself, of gathers and embeddings for instance, and not of other operations; ``remove-asserts``
takes it away because a kernel with assertions is no structured one.
"""

from collections.abc import Sequence

from inferno.mlir import arith, func, ir, memref, owner, scf, walk

REPORTS = "inferno.reports"  # a function's attribute: its last argument is the report
_ACCESSES = {"memref.load": 1, "memref.store": 2}  # with the place of the first index among the operands


def check_indices(function: func.FuncOp, sizes: int) -> None:
    """Check the accesses of ``function``, whose first ``sizes`` arguments are sizes; it stays as it is where there is nothing to check."""
    block = function.regions[0].blocks[0]
    given = set(list(block.arguments)[:sizes])
    known: dict[ir.Value, bool] = {}
    found = []
    for op in walk(function, *_ACCESSES):
        first = _ACCESSES[op.name]
        doubtful = [d for d, index in enumerate(list(op.operands)[first:]) if _is_data(index, given, known)]
        if doubtful:
            found.append((op, doubtful))
    if not found:
        return
    bit, index = ir.IntegerType.get_signless(1), ir.IndexType.get()
    with function.location:
        report = block.add_argument(ir.MemRefType.get([1], ir.IntegerType.get_signless(64)), function.location)
        with ir.InsertionPoint.at_block_begin(block):
            cell = memref.AllocaOp(ir.MemRefType.get([1], bit), [], []).memref
            zero = arith.constant(index, 0)
            memref.store(arith.constant(bit, 0), cell, [zero])
        for op, doubtful in found:
            _check(op, doubtful, cell, zero)
        end = block.operations[len(block.operations) - 1]
        with ir.InsertionPoint(end):
            outside = scf.IfOp(memref.load(cell, [zero]))
            with ir.InsertionPoint(outside.then_block):
                memref.store(arith.constant(ir.IntegerType.get_signless(64), 1), report, [zero])
                scf.yield_([])
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([a.type for a in block.arguments], []))
    function.attributes[REPORTS] = ir.UnitAttr.get()


def _is_data(value: ir.Value, given: set[ir.Value], known: dict[ir.Value, bool]) -> bool:
    """Whether an index comes of what was read from memory; the sizes of the call are none of it."""
    if value in known:
        return known[value]
    op = owner(value)
    known[value] = False  # a loop's variable, and what is carried around one
    if op is not None and not any(isinstance(v.type, ir.MemRefType) for v in op.results):
        if op.name == "memref.load":
            known[value] = op.operands[0] not in given
        elif op.name != "memref.dim":
            known[value] = bool(len(op.regions)) or any(_is_data(v, given, known) for v in op.operands)
    return known[value]


def _check(op: ir.Operation, doubtful: Sequence[int], cell: ir.Value, zero: ir.Value) -> None:
    first = _ACCESSES[op.name]
    buffer = op.operands[first - 1]
    type_ = ir.MemRefType(buffer.type)
    with ir.InsertionPoint(op), op.location:
        index, bit = ir.IndexType.get(), ir.IntegerType.get_signless(1)
        outside = None
        for d in doubtful:
            size = memref.DimOp(buffer, arith.constant(index, d)).result if type_.is_dynamic_dim(d) else arith.constant(index, type_.shape[d])
            here = arith.cmpi(arith.CmpIPredicate.uge, op.operands[first + d], size)
            outside = here if outside is None else arith.ori(outside, here)
        memref.store(arith.ori(memref.load(cell, [zero]), outside), cell, [zero])
        if op.name == "memref.load" and all(not type_.is_dynamic_dim(d) and type_.shape[d] for d in doubtful):
            for d in doubtful:
                op.operands[first + d] = arith.select(outside, zero, op.operands[first + d])
            return
        # A store, or a buffer that may have no place 0.
        inside = scf.IfOp(arith.xori(outside, arith.constant(bit, 1)), [r.type for r in op.results], has_else=bool(len(op.results)))
        for block, values in ((inside.then_block, list(op.results)), *([(inside.else_block, None)] if len(op.results) else [])):
            with ir.InsertionPoint(block):
                scf.yield_([_zero(r.type) for r in op.results] if values is None else values)
        for old, new in zip(op.results, inside.results):
            old.replace_all_uses_except(new, inside.then_block.operations[0].operation)
        op.move_before(inside.then_block.operations[0].operation)


def _zero(type_: ir.Type) -> ir.Value:
    return arith.constant(type_, 0.0 if isinstance(type_, ir.FloatType) else 0)
