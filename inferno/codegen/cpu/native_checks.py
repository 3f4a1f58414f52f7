"""What eager refuses at run time, checked in native code: indices out of range, and division of integers by zero.

A place outside of its buffer, told by an index that was read from memory, is read at 0 instead and is not written; what is divided
by zero is divided by 1, and the lowest integer over -1, at which the processor stops too, is itself.  The first two are
reported: the function has a buffer more, its last argument, whose one number is set then.  Whoever calls it looks there
and raises eager's error.  Whether there was one is kept in a register while the loops run, so that they can still be vectorized.

The import asserts some of this itself, of gathers and embeddings for instance, and not of other operations; ``remove-asserts``
takes it away because a kernel with assertions is no structured one.
"""

from collections.abc import Sequence

from inferno.codegen.builders.conditions import only_if
from inferno.mlir import arith, constant_number, func, ir, memref, owner, scf, terminator, walk

REPORTS = "inferno.reports"  # a function's attribute: its last argument is the report
OUT_OF_RANGE, BY_ZERO = 1, 2  # what it says; the first, where there are both
_ACCESSES = {"memref.load": 1, "memref.store": 2}  # with the place of the first index among the operands
_QUOTIENTS, _REMAINDERS = ("arith.divsi", "arith.floordivsi", "arith.ceildivsi"), ("arith.remsi",)
_UNSIGNED = ("arith.divui", "arith.ceildivui", "arith.remui")


def add_checks(function: func.FuncOp, sizes: int) -> None:
    """Check the accesses and divisions of ``function``, whose first ``sizes`` arguments are sizes; it stays as it is where there is
    nothing to check."""
    block = function.regions[0].blocks[0]
    given = set(list(block.arguments)[:sizes])
    known: dict[ir.Value, bool] = {}
    accesses = []
    for op in walk(function, *_ACCESSES):
        doubtful = [d for d, index in enumerate(list(op.operands)[_ACCESSES[op.name]:]) if _is_data(index, given, known)]
        if doubtful:
            accesses.append((op, doubtful))
    divisions = [op for op in walk(function, *_QUOTIENTS, *_REMAINDERS, *_UNSIGNED) if _may_stop(op)]
    if not accesses and not divisions:
        return
    bit, number = ir.IntegerType.get_signless(1), ir.IntegerType.get_signless(64)
    with function.location:
        report = block.add_argument(ir.MemRefType.get([1], number), function.location)
        cells = {}
        with ir.InsertionPoint.at_block_begin(block):
            zero = arith.constant(ir.IndexType.get(), 0)
            for kind, found in ((OUT_OF_RANGE, accesses), (BY_ZERO, divisions)):
                if found:
                    cells[kind] = memref.AllocaOp(ir.MemRefType.get([1], bit), [], []).memref
                    memref.store(arith.constant(bit, 0), cells[kind], [zero])
        for op, doubtful in accesses:
            _check_access(op, doubtful, cells[OUT_OF_RANGE], zero)
        for op in divisions:
            _check_division(op, cells[BY_ZERO], zero)
        with ir.InsertionPoint(terminator(block)):
            for kind in sorted(cells, reverse=True):
                with only_if(memref.load(cells[kind], [zero])):
                    memref.store(arith.constant(number, kind), report, [zero])
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([a.type for a in block.arguments], []))
    function.attributes[REPORTS] = ir.UnitAttr.get()


def _may_stop(op: ir.Operation) -> bool:
    """Whether it divides integers that are data by what may be 0 or -1."""
    if isinstance(op.operands[0].type, ir.IndexType):
        return False
    return constant_number(op.operands[1]) in (None, 0, -1)


def _check_division(op: ir.Operation, cell: ir.Value, zero: ir.Value) -> None:
    with ir.InsertionPoint(op), op.location:
        number, divisor = op.operands
        equals = lambda v: arith.cmpi(arith.CmpIPredicate.eq, divisor, arith.constant(divisor.type, v))  # noqa: E731
        by_zero = equals(0)
        memref.store(arith.ori(memref.load(cell, [zero]), by_zero), cell, [zero])
        minus = None if op.name in _UNSIGNED else equals(-1)
        replaced = by_zero if minus is None else arith.ori(by_zero, minus)
        op.operands[1] = arith.select(replaced, arith.constant(divisor.type, 1), divisor)
        negative = arith.subi(arith.constant(number.type, 0), number) if op.name in _QUOTIENTS else None
    if negative is not None:  # remainders are 0 either way
        with ir.InsertionPoint.after(op), op.location:
            found = arith.select(minus, negative, op.results[0])
        op.results[0].replace_all_uses_except(found, owner(found))


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


def _check_access(op: ir.Operation, doubtful: Sequence[int], cell: ir.Value, zero: ir.Value) -> None:
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
    if isinstance(type_, ir.ComplexType):
        parts = ir.ArrayAttr.get([ir.FloatAttr.get(type_.element_type, 0.0)] * 2)
        return ir.Operation.create("complex.constant", results=[type_], attributes={"value": parts}).result
    return arith.constant(type_, 0.0 if isinstance(type_, ir.FloatType) else 0)
