"""Outline every group of operations that is one kernel into a private function; ``@main`` becomes the program of calls.

A group is an *anchor*, any operation that computes a tensor, together with what it needs that costs nothing on its own:
constants, ``tensor.empty``, fills and scalar arithmetic, which are cloned into each kernel that uses them, and slices, which are read where
they are.  Reshapes stay
in ``@main``: every tensor is one contiguous buffer, so they are free there.

A kernel function passes destinations: with R results its last R arguments are where they go, in order.  An operation that
has ``outs`` computes into the destination; the value of any other is copied there, which generators turn around.
Kernel functions carry no locations, so that equal kernels are equal text; the calls say where they come from.
"""

from dataclasses import dataclass, replace

from inferno.dialect.sizes import SIZES, sizes_attribute, symbol_attributes
from inferno.errors import PassError
from inferno.mlir import PassManager, arith, func, ir, is_read, is_unread, linalg, owner, tensor, users, walk
from inferno.passes.contraction import is_sum_of_products, pads_convolutions, parse_fused, sums_along_both
from inferno.passes.generics import inputs, is_reduction, maps
from inferno.passes.kernel_names import Names
from inferno.passes.locations import describe
from inferno.passes.programs import MAIN, VIEWS, programs
from inferno.passes.shapes import UnknownSize, function_of, number, shape
from inferno.passes.size_values import SizeValues, materialise, sizes
from inferno.symbolic import Int, Size, Symbol, bounds, divisor, hint, size_of, symbols_of

_KEPT = VIEWS | {"tensor.empty", "func.call", "func.return"}
_STARTS = {"tensor.empty", "linalg.fill", "arith.constant"}
_SCALAR_DIALECTS = ("arith.", "math.", "complex.", "index.", "affine.")
# On a part of what is sorted: it is a kernel, for a sort can leave out what is not read.
_OWN_KERNEL = "inferno.own_kernel"
# On what is read where it is, by all of its readers as they were before one of them became a call.
_IN_PLACE = "inferno.in_place"
# Operations without ``outs`` that change a part of a tensor: the number of the operand that they change.
_UPDATES = {"tensor.insert_slice": 1, "tensor.insert": 1, "tensor.scatter": 1}


@dataclass(frozen=True)
class _Group:
    """The operations of one kernel in order, the anchor last; ``inputs`` are the tensors that they take from ``@main``,
    ``live`` the anchor's results that are used, ``sizes`` those that vary in it, each with the symbol that the kernel knows it by, and ``numbers`` what
    is computed of these, which may be below 0."""

    operations: list[ir.Operation]
    inputs: list[ir.Value]
    live: list[ir.Value]
    sizes: dict[Size, Symbol]
    numbers: list[Size]

    @property
    def anchor(self) -> ir.Operation:
        return self.operations[-1]


def outline_kernels(module: ir.Module) -> None:
    """Outline the kernels of ``@main`` and ``@prepare``.  Raises PassError for sizes that are not known and for operations that have no tensor form."""
    functions = programs(module)
    if not functions or functions[0].name.value != MAIN:
        raise PassError("outline-kernels: the module has no @main")
    names = Names(module)
    for function in functions:
        outline_program(function, names)


def outline_program(main: func.FuncOp, names: Names) -> None:
    """Outline the kernels of one function, whose calls and reshapes stay."""
    if len(main.regions[0].blocks) != 1:
        raise PassError("outline-kernels: @main has branches")
    _check_sizes(main)
    block = main.regions[0].blocks[0]
    _erase_dead(block)
    values = SizeValues(main.operation)
    for part in walk(main, "tensor.extract_slice"):
        if (made := owner(part.operands[0])) is not None and made.name == "tm_tensor.sort":
            part.attributes[_OWN_KERNEL] = ir.UnitAttr.get(main.context)
    for op in block.operations:
        if _is_read_in_place(op.operation):
            op.attributes[_IN_PLACE] = ir.UnitAttr.get(main.context)
    # Clones keep their locations, which would make equal kernels differ.
    strip = PassManager.parse("func.func(strip-debuginfo)")
    strip.enable_verifier(False)  # of a module that is verified when all are outlined
    for op in [o.operation for o in block.operations]:
        if _is_anchor(op) and (live := [r for r in op.results if is_read(r)]):
            strip.run(_outline(main, op, live, names, values).operation)
    _erase_dead(block)
    for op in block.operations:
        if op.operation.name not in _KEPT and not _is_size(op.operation):
            raise PassError(f"outline-kernels: {op.operation.name} cannot be part of a kernel: {str(op)[:200]}")


def _check_sizes(main: func.FuncOp) -> None:
    values = [*main.regions[0].blocks[0].arguments, *(r for op in walk(main) for r in op.results)]
    for value in values:
        if not isinstance(value.type, ir.ShapedType) or isinstance(value.type, ir.VectorType):
            continue
        try:
            known = value.type.has_rank and shape(value) is not None
        except UnknownSize:
            known = False
        if not known:
            raise UnknownSize(f"outline-kernels: a tensor's sizes are no expressions of symbols: {value.type}")


def _is_size(op: ir.Operation) -> bool:
    """Whether an operation computes a size of the symbols."""
    return len(op.results) == 1 and isinstance(op.results[0].type, (ir.IndexType, ir.IntegerType)) and number(op.results[0]) is not None


def _varying(value: ir.Value) -> Size | None:
    """The size that a scalar is, if it varies."""
    if not isinstance(value.type, ir.IndexType):
        return None
    found = number(value)
    return found if isinstance(found, Size) else None


def _is_tensor(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType)


def _is_cheap(op: ir.Operation | None) -> bool:
    """Whether an operation is cloned into its users' kernels instead of being one."""
    if op is None or not len(op.results):
        return False
    if op.name in _STARTS:
        return True
    if op.name in VIEWS:
        return _is_cheap(owner(op.operands[0]))
    return op.name.startswith((*_SCALAR_DIALECTS, "tensor.extract", "tensor.dim")) and not any(_is_tensor(r) for r in op.results)


def _is_read_in_place(op: ir.Operation | None) -> bool:
    """Whether an operation takes a part of a tensor, at places that are numbers or sizes, for operations that can read it where it is."""
    if pads_convolutions(op):
        return True
    if op is None or op.name != "tensor.extract_slice" or any(number(v) is None for v in list(op.operands)[1:]):
        return False
    if _OWN_KERNEL in op.attributes:
        return False
    return all(_reads_parts(user) or _is_read_in_place(user) for user in users(op.results[0]))


def _reads_parts(op: ir.Operation) -> bool:
    """Whether an operation may read a part of a tensor where it is: not a contraction, whose factors are copied by whole tiles, before it is known which
    generator takes it (``fold-slices``).  A sum of squares is a reduction like any other, and so are one of terms that are scaled alike and one of products of
    the same points, of which no tile is read again."""
    if op.name != "linalg.generic":
        return op.name == "tensor.concat"
    if is_reduction(op) and len(inputs(op)) == 2 and (not sums_along_both(op) or maps(op)[0] == maps(op)[1]):
        return True
    found = None if is_sum_of_products(op) else parse_fused(op)
    return not is_sum_of_products(op) and (found is None or (found.value is None and found.lhs == found.rhs))


def _is_anchor(op: ir.Operation) -> bool:
    if op.name in _KEPT or not len(op.results) or _IN_PLACE in op.attributes or _is_size(op):
        return False
    return not _is_cheap(op) or (_is_tensor(op.results[0]) and any(_needs_memory(user) for user in users(op.results[0])))


def _needs_memory(user: ir.Operation) -> bool:
    """Whether a fill or constant that ``user`` uses has to be in memory: it is returned, as it is or reshaped."""
    if user.name in ("func.return", "func.call"):
        return True
    return user.name in VIEWS and any(_needs_memory(next_) for next_ in users(user.results[0]))


def _outline(main: func.FuncOp, anchor: ir.Operation, live: list[ir.Value], names: Names, values: SizeValues) -> func.FuncOp:
    """The kernel of ``anchor``, whose results ``live`` are used, and a call of it in the anchor's place."""
    _forget_unread(anchor)
    taken = _slice(anchor)
    operations = list(taken)
    inputs = _captured(taken)
    group = _Group(operations, inputs, live, *_sizes(taken, [*inputs, *live]))
    kernel = _build(main, names.make(anchor), group)
    types = list(kernel.type.results)
    cheap = _is_cheap(anchor)
    with ir.InsertionPoint(anchor), anchor.location:
        destinations = [
            tensor.EmptyOp([values.get(s) for s in shape(r)] if _is_tensor(r) else [], t.element_type).result for r, t in zip(live, types)
        ]
        call = func.CallOp(kernel, [*map(values.get, group.sizes), *group.inputs, *destinations])
        call.operation.attributes["inferno.source"] = ir.ArrayAttr.get([ir.StringAttr.get(s) for s in describe(anchor.location)])
        new = [result if _is_tensor(old) else _unpack(result, old.type) for old, result in zip(live, call.results, strict=True)]
    for old, value in zip(live, new, strict=True):
        if not cheap:
            old.replace_all_uses_with(value)
            continue
        for user in list(users(old)):  # the others still clone it
            if _needs_memory(user):
                user.replace_uses_of_with(old, value)
    if not cheap:
        anchor.erase()
    return kernel


def _forget_unread(anchor: ir.Operation) -> None:
    """Let ``outs`` that the anchor does not read be new tensors: what they were is no input."""
    if not anchor.name.startswith("linalg.") or len(anchor.regions) != 1:
        return
    arguments = anchor.regions[0].blocks[0].arguments
    if len(arguments) != len(anchor.operands):
        return
    for place in range(len(anchor.operands) - len(anchor.results), len(anchor.operands)):
        value = anchor.operands[place]
        if not is_read(arguments[place]):
            with ir.InsertionPoint(anchor), anchor.location:
                anchor.operands[place] = tensor.EmptyOp(sizes(value, function_of(anchor)), value.type.element_type).result


def _unpack(result: ir.Value, type_: ir.Type) -> ir.Value:
    """The scalar that a kernel computed: read where it is used, inside of other kernels."""
    value = tensor.ExtractOp(result, []).result
    return value if value.type == type_ else arith.index_cast(type_, value)


def _slice(anchor: ir.Operation) -> dict[ir.Operation, list[ir.Value]]:
    """The cheap operations that ``anchor`` needs, in order of definition, and the anchor, with what each and all inside it take."""
    found: dict[ir.Operation, list[ir.Value]] = {}
    _visit(anchor, anchor.block, found)
    return found


def _visit(op: ir.Operation, block: ir.Block, found: dict[ir.Operation, list[ir.Value]]) -> None:
    operands = _operands(op)
    for value in operands:
        producer = None if _varying(value) is not None else owner(value)
        if producer is not None and producer not in found and (_is_cheap(producer) or _IN_PLACE in producer.attributes) and producer.block == block:
            _visit(producer, block, found)
    found[op] = operands


def _operands(op: ir.Operation) -> list[ir.Value]:
    """The operands of an operation and of all inside its regions."""
    return [v for o in walk(op) for v in o.operands] if len(op.regions) else list(op.operands)


def _captured(taken: dict[ir.Operation, list[ir.Value]]) -> list[ir.Value]:
    """The tensors that operations read, which are ``taken`` by them, and do not make; the anchor's first, in its order."""
    inside: set[ir.Value] = set()
    for op in taken:
        for o in walk(op):
            inside.update(o.results)
            inside.update(a for region in o.regions for block in region.blocks for a in block.arguments)
    *_, anchor = taken
    found = dict.fromkeys(v for op in (anchor, *taken) for v in taken[op] if v not in inside and _varying(v) is None)
    for value in found:
        if not _is_tensor(value):
            raise PassError(f"outline-kernels: a kernel needs {value.type}, which is not a tensor, from outside: {str(anchor)[:200]}")
    return list(found)


def _sizes(taken: dict[ir.Operation, list[ir.Value]], tensors: list[ir.Value]) -> tuple[dict[Size, Symbol], list[Size]]:
    """The sizes that vary, of the kernel's arguments and of what its operations are computed with; and the numbers that may be below 0, which no
    argument is: the kernel has the sizes that they are made of.  (Where a tensor is cut, a number is none wherever the program may be called.)"""
    found = [s for v in tensors if _is_tensor(v) for s in shape(v)]
    found += [s for op in taken if op.name.startswith("tensor.") for v in op.operands if (s := _varying(v)) is not None]
    given = {s for s in found if isinstance(s, Size)}
    others = dict.fromkeys(s for operands in taken.values() for v in operands if (s := _varying(v)) is not None and s not in given)
    numbers = [s for s in others if bounds(s)[0] < 0]
    found += [s for s in others if s not in numbers] + [size_of(symbol) for s in numbers for symbol in symbols_of(s)]
    named: dict[Size, Symbol] = {}
    for size in found:
        if isinstance(size, Size) and size not in named:
            low, high = bounds(size)
            named[size] = Symbol(f"n{len(named)}", max(low, 0), high, divisor(size), hint(size))
    return named, numbers


def _build(main: func.FuncOp, name: str, group: _Group) -> func.FuncOp:
    """The kernel function: the group on arguments, its results computed into the trailing arguments."""
    results = [r.type if _is_tensor(r) else _packed(r.type) for r in group.live]
    index = [ir.IndexType.get()] * len(group.sizes)
    types = [*index, *(v.type for v in group.inputs), *results]
    with ir.InsertionPoint(main.operation.block), ir.Location.unknown():
        kernel = func.FuncOp(name, (types, results), visibility="private")
        block = kernel.add_entry_block()
        first = len(group.sizes)
        known = dict(zip(group.inputs, list(block.arguments)[first:]))
        numbers = dict(zip(group.sizes, block.arguments))
        destinations = list(block.arguments)[first + len(group.inputs):]
        with ir.InsertionPoint(block):
            for size in group.numbers:
                numbers[size] = materialise(size, {s: numbers[size_of(s)] for s in symbols_of(size)})
            for op in group.operations:
                clone = op.clone()
                for mark in (_OWN_KERNEL, _IN_PLACE):
                    if mark in clone.attributes:
                        del clone.attributes[mark]
                for o in walk(clone):
                    for i, value in enumerate(o.operands):
                        if value in known:
                            o.operands[i] = known[value]
                        elif numbers and (size := _varying(value)) is not None and size in numbers:
                            o.operands[i] = numbers[size]
                known.update(zip(op.results, clone.results))
            outputs = []
            for old, destination in zip(group.live, destinations):
                outputs.append(_into(known[old], destination))
            func.ReturnOp(outputs)
    _erase_dead(block)
    if group.sizes:
        _drop_unused_sizes(kernel, group)
        _describe_sizes(kernel, group)
    return kernel


def _drop_unused_sizes(kernel: func.FuncOp, group: _Group) -> None:
    """Forget the sizes of what was computed into the kernel's destinations after all."""
    block = kernel.regions[0].blocks[0]
    needed = {s for v in (*group.inputs, *group.live) if _is_tensor(v) for s in shape(v)}
    for place, size in reversed(list(enumerate(group.sizes))):
        if size not in needed and not is_read(block.arguments[place]):
            block.erase_argument(place)
            del group.sizes[size]
    for place, size in enumerate(group.sizes):
        group.sizes[size] = replace(group.sizes[size], name=f"n{place}")
    kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([a.type for a in block.arguments], list(kernel.type.results)))


def _describe_sizes(kernel: func.FuncOp, group: _Group) -> None:
    """Say of each argument what symbol it is, or what its sizes are."""
    symbols = list(group.sizes.values())

    def named(value: ir.Value) -> list[Int]:
        return [s if isinstance(s, int) else size_of(group.sizes[s]) for s in shape(value)] if _is_tensor(value) else []

    entries = [symbol_attributes(s) for s in symbols]
    for value in (*group.inputs, *group.live):
        found = named(value)
        entries.append({SIZES: sizes_attribute(found, symbols)} if any(isinstance(s, Size) for s in found) or _has_unknown(value) else {})
    kernel.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(e) for e in entries])


def _has_unknown(value: ir.Value) -> bool:
    return _is_tensor(value) and not value.type.has_static_shape


def _packed(type_: ir.Type) -> ir.RankedTensorType:
    """The tensor that a scalar leaves a kernel in."""
    return ir.RankedTensorType.get([], ir.IntegerType.get_signless(64) if isinstance(type_, ir.IndexType) else type_)


def _into(value: ir.Value, destination: ir.Value) -> ir.Value:
    """Have ``value`` computed into ``destination``: changes the operation that makes it, or copies."""
    if not _is_tensor(value):
        element = destination.type.element_type
        scalar = value if value.type == element else arith.index_cast(element, value)
        return linalg.fill(scalar, outs=[destination])
    op = owner(value)
    if op.name in _UPDATES:
        number = _UPDATES[op.name]
    elif op.name.startswith(("linalg.", "tm_tensor.")):
        number = len(op.operands) - len(op.results) + list(op.results).index(value)
    else:
        return linalg.copy(value, outs=[destination])
    start = op.operands[number]
    producer = owner(start)
    with ir.InsertionPoint(op):
        if producer is not None and producer.name == "tensor.empty":
            op.operands[number] = destination
        elif producer is not None and producer.name == "linalg.fill":
            op.operands[number] = linalg.fill(producer.operands[0], outs=[destination])
        else:
            op.operands[number] = linalg.copy(start, outs=[destination])
    return value


def _erase_dead(block: ir.Block) -> None:
    """Erase what has results of which none is used.  Operations on tensors have no other effect; calls stay."""
    for op in reversed([o.operation for o in block.operations]):
        if len(op.results) and op.name != "func.call" and is_unread(op):
            op.erase()
