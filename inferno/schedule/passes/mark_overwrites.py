"""Mark which inputs a kernel's result may overwrite (``inferno.overwrites``, argument numbers), and order calls so that arguments of ``@main`` can be
overwritten when nothing needs their old value any more.

An elementwise kernel reads an input's element where it writes the result's, and nowhere else, so both can be one element in memory.  That is said
only of kernels of one operation, or of one for each result: what computes the result's element has then read all that it needs before it writes.
So has a kernel of sums that stores what it makes of points.

A cache that a token is written to is read by attention as it was, with the token in its place: fusion has made two readers of it.  The one that
writes the new cache goes behind the other.
"""

from inferno.mlir import backward_slice, func, ir, owner, terminator, users
from inferno.passes.generics import body, is_elementwise, maps, yielded
from inferno.passes.programs import VIEWS, callee, find_main, readers, root_of, whole_of
from inferno.passes.shapes import UnknownSize, shape
from inferno.schedule.analysis.cost import example_bytes
from inferno.schedule.analysis.written_parts import writes_parts
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import ATTRIBUTE, from_attribute
from inferno.schedule.maps.pointwise import parse_pointwise
from inferno.schedule.reductions.parser import parse_reduction, parse_varying
from inferno.schedule.scatters.added_rows import parse_added_rows
from inferno.schedule.scatters.kernel import parse_scatter

OVERWRITES = "inferno.overwrites"
# What a call that moves may keep alive until then, next to what its result takes; and bytes that are nothing.
_KEPT, _FEW = 1 / 4, 1 << 16


def mark_overwrites(module: ir.Module) -> None:
    """Mark the kernels of a module at the ``scheduled`` stage, and put the calls of ``@main`` in order."""
    marks: dict[str, list[int]] = {}
    with module.context:
        for kernel in kernels(module):
            if found := mark(kernel):
                marks[kernel.name.value] = found
    main = find_main(module)
    if marks and main is not None:
        _move(main, marks)


def mark(kernel: func.FuncOp) -> list[int]:
    """Say it of one kernel; the arguments whose place its result may take, where it has one."""
    found = [overwritable(kernel, number) for number in range(len(kernel.type.results))]
    if any(found):
        lists = [ir.DenseI64ArrayAttr.get(each) for each in found]
        kernel.attributes[OVERWRITES] = lists[0] if len(lists) == 1 else ir.ArrayAttr.get(lists)
    return found[0] if len(found) == 1 else []


def overwritable(kernel: func.FuncOp, result: int = 0) -> list[int]:
    """The arguments whose place a result may take."""
    generator = from_attribute(kernel.attributes[ATTRIBUTE]).generator if ATTRIBUTE in kernel.attributes else ""
    if generator == "reductions":
        return stored_at(kernel, result)
    if writes_parts(kernel):
        return begins_to_overwrite(kernel, result) if generator == "elementwise" else []
    if (begin := _begins_as(kernel, generator)) is not None:
        return begin
    block, count = kernel.regions[0].blocks[0], len(kernel.type.results)
    operations = [o.operation for o in block.operations if o.operation.name not in ("arith.constant", "func.return") and not _is_part_read(o.operation)]
    if not count or sum(len(o.results) for o in operations) != count or not all(map(is_elementwise, operations)):
        return []
    if len(operations) > 1 and (not _is_bundle(kernel) or any(r in o.operands for o in operations for p in operations for r in p.results)):
        return []  # which may read again what it computes the next result of
    arguments, returned = list(block.arguments), list(terminator(block).operands)
    op, destination = owner(returned[result]), arguments[len(arguments) - count + result]
    if op is None or op not in operations:
        return []
    operands, accesses, place = list(op.operands), maps(op), list(op.results).index(returned[result])
    own = len(operands) - len(op.results) + place
    if operands[own] != destination:
        return []
    found = [
        i for i, argument in enumerate(arguments[:-count])
        if are_alike(argument, destination) and all(user == op for user in users(argument))
        and all(m == accesses[own] for v, m in zip(operands, accesses) if v == argument)
    ]
    needed = _needed(op, place) if found and len(op.results) > 1 else ()
    return [i for i in found if len(op.results) == 1 or any(v == arguments[i] for v in needed)]


def _is_part_read(op: ir.Operation) -> bool:
    """Whether an operation is a part of an argument, or the argument in another shape: it computes nothing, and that argument is none to overwrite."""
    return op.name in (*VIEWS, "tensor.extract_slice") and isinstance(whole_of(op.operands[0]), ir.BlockArgument)


def are_alike(one: ir.Value, other: ir.Value) -> bool:
    """Whether two tensors have elements of one type and one shape, whatever the sizes are that vary."""
    try:
        return one.type == other.type and shape(one) == shape(other)
    except UnknownSize:
        return False


def _needed(generic: ir.Operation, result: int) -> list[ir.Value]:
    """The operands whose elements a result's element is computed of: they were read before it is written, where others may be read later."""
    seen = _made_of(generic, result)
    return [v for v, argument in zip(generic.operands, body(generic).arguments) if argument in seen]


def _made_of(generic: ir.Operation, result: int) -> set[ir.Value]:
    """The values of a body that it makes a result of."""
    return set(backward_slice([yielded(generic)[result]]))


def stored_at(kernel: func.FuncOp, result: int) -> list[int]:
    """The arguments that a kernel of sums reads only where it stores a result beside them, and of whose element it makes that."""
    c = parse_reduction(kernel) or parse_varying(kernel)
    arguments, number = list(kernel.entry_block.arguments), len(kernel.type.inputs) - len(kernel.type.results) + result
    place = next((i for i, at in enumerate(c.stored) if at.argument == number), None) if c is not None else None
    if place is None:
        return []
    at, taken = c.stored[place], _made_of(c.generic, len(c.combiners) + place)
    needed = {a.argument for a, point in zip(c.sources, c.block.arguments) if a is not None and point in taken}
    elsewhere = {a.argument for a in c.sources if a is not None and (a.strides, a.offset) != (at.strides, at.offset)}
    return [i for i in sorted(needed - elsewhere) if are_alike(arguments[i], arguments[number])]


def begins_to_overwrite(kernel: func.FuncOp, result: int) -> list[int]:
    """The argument that the result of an elementwise kernel begins as a copy of, where of that no element is read but those which are written, each for what
    is written there."""
    point = parse_pointwise(kernel, views=True, parts=True)
    target = len(kernel.type.inputs) - len(kernel.type.results) + result
    begin = next((b for b in point.begins if b.target == target), None) if point is not None else None
    if begin is None or any(argument == begin.source for _, argument in point.tables):
        return []
    needed = [_made_of(point.generic, n) for n in range(len(point.destinations))]
    for source, element in zip(point.sources, point.block.arguments):
        if source is not None and source.argument == begin.source:
            at = [n for n, d in enumerate(point.destinations) if d.argument == target and (d.strides, d.offset) == (source.strides, source.offset)]
            if not any(element in needed[n] for n in at):
                return []
    return [begin.source]


def _begins_as(kernel: func.FuncOp, generator: str) -> list[int] | None:
    """The argument that the result of a scatter begins as, each part of which is read by who then writes it; None where it is no such kernel."""
    parse = {"scatters": parse_scatter, **dict.fromkeys(("matched_rows", "row_sums", "sorted_rows"), parse_added_rows)}.get(generator)
    c = parse(kernel) if parse is not None else None
    if c is None:
        return None
    arguments = kernel.entry_block.arguments
    alone = isinstance(c.start, int) and are_alike(arguments[c.start], arguments[c.target]) and len(list(users(arguments[c.start]))) == 1
    return [c.start] if alone else []


def updated(call: ir.Operation, kernel: func.FuncOp) -> list[int]:
    """The arguments of ``kernel`` that are the program's own and whose place its result may take, where the program returns that: a cache, a weight.
    A kernel that does more could not write there."""
    if len(kernel.type.results) != 1 or not any(u.name == "func.return" for r in call.results for u in readers(r)):
        return []
    able = {n for n, v in enumerate(call.operands) if v.type == kernel.type.results[0] and isinstance(root_of(v), ir.BlockArgument)}
    return [n for n in overwritable(kernel) if n in able] if able else []


def _is_bundle(kernel: func.FuncOp) -> bool:
    return ATTRIBUTE in kernel.attributes and from_attribute(kernel.attributes[ATTRIBUTE]).generator == "bundle"


def _move(main: func.FuncOp, marks: dict[str, list[int]]) -> None:
    block = main.regions[0].blocks[0]
    operations = [o.operation for o in block.operations]
    end, last = operations[-1], {}
    for place, op in enumerate(operations):
        for operand in op.operands:
            root = root_of(operand)
            if op.name == "func.call" and isinstance(root, ir.BlockArgument):
                last[root] = place
    for place, op in enumerate(operations):
        if op.name != "func.call" or len(op.results) != 1:
            continue
        overwritten = marks.get(callee(op), [])
        later = any(last.get(root, place) > place for i in overwritten if isinstance(root := root_of(op.operands[i]), ir.BlockArgument))
        views = _only_returned(op.results[0])
        if later and views is not None and _holds_little(op):
            for moved in (op, *views):
                moved.move_before(end)


def _only_returned(value: ir.Value) -> list[ir.Operation] | None:
    """The views between a value and the return, in order; None where anybody else uses it."""
    found: list[ir.Operation] = []
    for user in users(value):
        if user.name in VIEWS:
            further = _only_returned(user.results[0])
            if further is None:
                return None
            found += [user, *further]
        elif user.name != "func.return":
            return None
    return found


def _holds_little(call: ir.Operation) -> bool:
    """Whether what a call reads of other kernels' results is little next to its own."""
    operands = list(call.operands)
    read = [v for v in operands[:-1] if isinstance(v.type, ir.RankedTensorType) and not isinstance(root_of(v), ir.BlockArgument)]
    return sum(map(example_bytes, read)) <= max(_FEW, _KEPT * example_bytes(operands[-1]))
