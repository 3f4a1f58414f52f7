"""Turn ``@main`` from a program of calls on tensors into a program of launches on buffers.

Every tensor of ``@main`` is one contiguous buffer: an argument, a result (a trailing argument marked ``inferno.result``),
or a ``memref.alloc`` that ``plan-memory`` places.  Launchers are inlined; a reshape only changes a buffer's type.

What a kernel makes of a tensor by a copy of it, and changes to that, is where the tensor is, if nothing needs that later: a second write to parts of an
argument copies nothing.  What ``place-results`` has inserted into a tensor lies there from the beginning.
"""

from inferno.codegen.builders.launcher import buffer_type
from inferno.dialect import COPIES
from inferno.dialect.sizes import SIZES, integer, sizes_attribute
from inferno.errors import PassError
from inferno.mlir import arith, destination_of, func, ir, is_read, memref, owner, terminator, walk
from inferno.passes.programs import MAIN, PREPARE, VIEWS, callee, operations_in, programs
from inferno.passes.shapes import argument_attributes, begin_together, number, shape, static, symbol_arguments
from inferno.passes.size_values import SizeValues
from inferno.symbolic import Int, product



def plan_launches(module: ir.Module) -> None:
    """Rewrite ``@main``, and ``@prepare`` where there is one; their results are described by ``inferno.results``, one dictionary for each."""
    found = programs(module)
    if not found or found[0].name.value != MAIN:
        raise PassError("plan-launches: the module has no @main")
    launchers = {o.name.value: o for o in module.body.operations if isinstance(o, func.FuncOp) and o.name.value not in (MAIN, PREPARE)}
    for program in found:
        _Planner(program, launchers).run()
    for launcher in launchers.values():
        launcher.operation.erase()


class _Planner:
    def __init__(self, main: func.FuncOp, launchers: dict[str, func.FuncOp]) -> None:
        self._main = main
        self._launchers = launchers
        self._buffers: dict[ir.Value, ir.Value] = {}  # a tensor of the old @main -> the buffer that holds it, of any shape
        self._results: dict[ir.Value, int] = {}  # a tensor.empty that is a result -> the result's number
        self._shared: dict[ir.Value, ir.Value] = {}  # a tensor.empty -> the one whose buffer it has
        self._parts: dict[ir.Value, tuple[ir.Value, int]] = {}  # a tensor.empty -> what it is a part of, and from which element on
        self._symbols = list(symbol_arguments(main.operation))
        self._sizes: SizeValues | None = None  # of the new @main

    def run(self) -> None:
        old = self._main.regions[0].blocks[0]
        for op in walk(self._main.operation, "tensor.insert_slice"):
            self._place(op)
        self._share(old)
        inputs = [buffer_type(a.type) for a in old.arguments]
        returned = list(terminator(old).operands)
        descriptions, fresh = self._describe_results(returned, list(old.arguments))
        types = [*inputs, *(buffer_type(returned[i].type) for i in fresh)]
        with ir.InsertionPoint(self._main.operation), self._main.location:
            new = func.FuncOp(f"{self._main.name.value}__plan", (types, []))
            if types:
                marks = [{"inferno.result": integer(i), **self._described(returned[i])} for i in fresh]
                new.attributes["arg_attrs"] = ir.ArrayAttr.get([*argument_attributes(self._main.operation), *map(ir.DictAttr.get, marks)])
        block = new.add_entry_block()
        self._sizes = SizeValues(new.operation)
        self._buffers.update(zip(old.arguments, block.arguments))
        for position, i in enumerate(fresh):
            self._buffers[self._root(returned[i])] = block.arguments[len(inputs) + position]
        with ir.InsertionPoint(block), self._main.location:
            for op in old.operations:
                self._plan(op.operation)
            func.ReturnOp([])
        self._finish(new, descriptions)

    def _describe_results(self, returned: list[ir.Value], arguments: list[ir.Value]) -> tuple[list[ir.DictAttr], list[int]]:
        """For each result where it is: a fresh buffer, an argument, or an earlier result's; and the numbers of the fresh ones."""
        descriptions, fresh, seen = [], [], {}
        uses = self._uses()
        for i, value in enumerate(returned):
            root = self._root(value)
            if root in arguments:
                before = arguments[: arguments.index(root)]  # sizes are arguments of the program's, not of its calls
                entry = {"argument": integer(sum(not isinstance(a.type, ir.IndexType) for a in before))}
            elif root in seen:
                entry = {"result": integer(seen[root])}
            else:
                seen[root] = i
                fresh.append(i)
                entry = {"result": integer(i)}
                if overwritten := self._overwritten(root, arguments, uses):
                    entry["overwrites"] = ir.ArrayAttr.get([integer(a) for a in overwritten])
            entry.update(self._described(value) or {"shape": ir.ArrayAttr.get([integer(s) for s in value.type.shape])})
            descriptions.append(ir.DictAttr.get({**entry, "element": ir.TypeAttr.get(value.type.element_type)}))
        return descriptions, fresh

    def _place(self, op: ir.Operation) -> None:
        """Let what is inserted into a tensor lie there."""
        source, whole, begin = self._tensor(op.operands[0]), self._tensor(op.operands[1]), begin_together(op)
        if begin is None or any(isinstance(v, ir.BlockArgument) for v in (source, whole)) or source in self._parts or source == whole:
            raise PassError(f"plan-launches: {str(op)[:200]} in @main; expected a new tensor that is inserted once, to where its elements lie together")
        self._parts[source] = whole, begin

    def _share(self, block: ir.Block) -> None:
        """Let results lie where what they begin as copies of does, where no kernel reads that later and the program does not return it."""
        operations = [o.operation for o in block.operations]
        returned, uses, wholes = list(operations[-1].operands), self._uses(), {self._root(v) for v in self._parts}
        for place, call in enumerate(operations):
            for result in call.results if call.name == "func.call" else ():
                own = self._root(result)
                for operand in self._begins(call, result):
                    before = self._root(call.operands[operand])
                    if isinstance(before, ir.BlockArgument) or before == own or any(self._root(v) == before for v in returned):
                        continue
                    if before in wholes or own in wholes:
                        continue
                    if _elements(before) == _elements(own) and all(p < place or (p == place and i == operand) for p, _, i in uses[before]):
                        self._shared[own] = before
                        uses[before] += uses.pop(own)
                        break

    def _begins(self, call: ir.Operation, result: ir.Value) -> list[int]:
        """The operands that a result of a call is a copy of at first, and whose place it may take."""
        launcher = self._launchers.get(callee(call))
        copies = _copies(launcher) if launcher is not None else []
        own = len(call.operands) - len(call.results) + list(call.results).index(result)
        return [source for source in self._overwrites(call, self._root(result)) if (source, own) in copies]

    def _uses(self) -> dict[ir.Value, list[tuple[int, ir.Operation, int]]]:
        """Which calls, by their place in ``@main``, have an argument or a ``tensor.empty`` as which operand."""
        uses: dict[ir.Value, list[tuple[int, ir.Operation, int]]] = {}
        for place, op in enumerate(self._main.regions[0].blocks[0].operations):
            if op.operation.name == "func.call":
                for i, operand in enumerate(op.operands):
                    if isinstance(operand.type, ir.RankedTensorType):
                        uses.setdefault(self._root(operand), []).append((place, op.operation, i))
        return uses

    def _overwritten(
        self, result: ir.Value, arguments: list[ir.Value], uses: dict[ir.Value, list[tuple[int, ir.Operation, int]]],
    ) -> list[int]:
        """The numbers of the arguments that a result may take the place of: nothing reads them later than the first kernel that writes the
        result, and that kernel allows it."""
        if not uses.get(result):
            return []
        if any(self._root(part) == result for part in self._parts):
            return []
        size, found, first = _elements(result), [], uses[result][0][0]
        for number_, argument in enumerate(a for a in arguments if isinstance(a.type, ir.RankedTensorType)):
            if _elements(argument) == size and all(
                place < first or (place == first and i in self._overwrites(call, result)) for place, call, i in uses.get(argument, ())
            ):
                found.append(number_)
        return found

    def _overwrites(self, call: ir.Operation, result: ir.Value) -> list[int]:
        """The operands of a call whose place this result of it may take: what its kernel says, and what the result is a copy of at first."""
        launcher = self._launchers.get(callee(call))
        if launcher is None:
            return []
        made = [i for i, v in enumerate(call.operands) if isinstance(v.type, ir.RankedTensorType) and self._root(v) == result]
        found = [source for source, target in _copied(launcher) if made == [target]]
        if "inferno.overwrites" in launcher.attributes and len(made) == 1:
            said, number = launcher.attributes["inferno.overwrites"], made[0] - len(call.operands) + len(call.results)
            found += list(ir.DenseI64ArrayAttr(said[number] if isinstance(said, ir.ArrayAttr) else said))
        return found

    def _described(self, value: ir.Value) -> dict[str, ir.Attribute]:
        """The sizes of a tensor as an attribute, where they vary."""
        return {} if value.type.has_static_shape else {SIZES: sizes_attribute(shape(value), self._symbols)}

    def _root(self, value: ir.Value) -> ir.Value:
        """The argument or ``tensor.empty`` whose memory ``value`` is in."""
        return self._memory(value)[0]

    def _memory(self, value: ir.Value) -> tuple[ir.Value, int]:
        """The same, and from which element on."""
        value, begin = self._tensor(value), 0
        while value in self._parts:
            value, more = self._parts[value]
            begin += more
        return value, begin

    def _tensor(self, value: ir.Value) -> ir.Value:
        """The argument or ``tensor.empty`` that ``value`` is: through calls, to their destinations, and reshapes."""
        while not isinstance(value, ir.BlockArgument):
            op = value.owner.operation
            if op.name in VIEWS:
                value = op.operands[0]
            elif op.name == "tensor.insert_slice":
                value = op.operands[1]
            elif op.name == "func.call":
                value = destination_of(value)
            elif value in self._shared:
                value = self._shared[value]
            elif op.name == "tensor.empty":
                break
            else:
                raise PassError(f"plan-launches: {op.name} in @main; only calls, reshapes and tensor.empty may be there")
        return value

    def _plan(self, op: ir.Operation) -> None:
        if op.name == "func.call":
            self._inline(op)
        elif op.name == "tensor.empty" and op.results[0] not in (*self._shared, *self._parts) and is_read(op.results[0]):
            self._buffer(op.results[0])

    def _buffer(self, root: ir.Value) -> ir.Value:
        """The buffer of an argument or a ``tensor.empty``, which is made where it is first asked for."""
        if root not in self._buffers:
            sizes = [self._sizes.get(s) for s in shape(root)]
            varying = [v for v in sizes if not isinstance(v, int)]
            type_ = ir.MemRefType.get([s if isinstance(s, int) else ir.ShapedType.get_dynamic_size() for s in sizes], root.type.element_type)
            self._buffers[root] = memref.AllocOp(type_, varying, []).memref
        return self._buffers[root]

    def _inline(self, call: ir.Operation) -> None:
        name = callee(call)
        if name not in self._launchers:
            raise PassError(f"plan-launches: @{name} is not defined")
        launcher = self._launchers[name]
        body = launcher.regions[0].blocks[0]
        known = {
            argument: self._argument(operand, argument.type) for argument, operand in zip(body.arguments, call.operands)
        }
        source = call.attributes["inferno.source"] if "inferno.source" in call.attributes else None
        for op in body.operations:
            op = op.operation
            if op.name == "func.return":
                if len(op.operands):
                    raise PassError(f"plan-launches: @{name} returns values; generate-kernels has not run on it")
                continue
            if COPIES in op.attributes and len({_base(known[owner(p).operands[0]]) for p in op.operands if owner(p).name == "inferno.pointer"}) == 1:
                continue  # to itself
            clone = op.clone()
            for i, value in enumerate(clone.operands):
                clone.operands[i] = known.get(value, value)
            known.update(zip(op.results, clone.results))
            if source is not None and clone.name in ("inferno.launch", "inferno.library"):
                clone.attributes["inferno.source"] = source
            if clone.name == "inferno.library":  # a launch names its kernel's code, a library's function is many kernels'
                clone.attributes["inferno.kernel"] = ir.StringAttr.get(name)

    def _argument(self, operand: ir.Value, type_: ir.Type) -> ir.Value:
        """What a launcher gets for an operand of the call: a size, or the buffer of a tensor, seen in the tensor's shape."""
        if isinstance(type_, ir.IndexType):
            size = number(operand)
            if size is None:
                raise PassError(f"plan-launches: a kernel is called with a number that is no size: {str(operand)[:200]}")
            value = self._sizes.get(size)
            return value if isinstance(value, ir.Value) else arith.constant(type_, value)
        (root, begin), wanted = self._memory(operand), shape(operand)
        buffer = self._buffer(root)
        if begin == 0 and buffer.type == type_ and (type_.has_static_shape or shape(buffer) == wanted):
            return buffer
        return self._viewed(buffer, wanted, type_, begin)

    def _viewed(self, buffer: ir.Value, wanted: tuple[Int, ...], type_: ir.Type, begin: int) -> ir.Value:
        """The buffer in another shape, from element ``begin`` on."""
        known = ir.MemRefType(type_)
        if begin:
            type_ = ir.MemRefType.get(known.shape, known.element_type, ir.StridedLayoutAttr.get(begin, known.get_strides_and_offset()[0]))
        sizes = [s if not known.is_dynamic_dim(d) else self._sizes.get(s) for d, s in enumerate(wanted)]
        sizes = [v if isinstance(v, ir.Value) or not known.is_dynamic_dim(d) else arith.constant(ir.IndexType.get(), v) for d, v in enumerate(sizes)]
        strides = [product(wanted[i + 1:]) for i in range(len(wanted))]
        steps = list(known.get_strides_and_offset()[0])  # the type says which of them are numbers
        varying = [self._sizes.get(s) for s, t in zip(strides, steps) if t == ir.ShapedType.get_dynamic_stride_or_offset()]
        varying = [v if isinstance(v, ir.Value) else arith.constant(ir.IndexType.get(), v) for v in varying]
        return memref.ReinterpretCastOp(
            type_, buffer, [], [v for v in sizes if isinstance(v, ir.Value)], varying, [begin], static(list(known.shape)), steps,
        ).result

    def _finish(self, new: func.FuncOp, descriptions: list[ir.DictAttr]) -> None:
        name = self._main.name.value
        self._main.operation.erase()
        new.attributes["sym_name"] = ir.StringAttr.get(name)
        new.attributes["inferno.results"] = ir.ArrayAttr.get(descriptions)
        for launch in walk(new.operation, "memref.dealloc"):
            launch.erase()


def _copied(launcher: func.FuncOp) -> list[tuple[int, int]]:
    """The arguments that another one is a copy of at first, where nothing else is read of them: in their place it is that without a copy."""
    taken = [each for _, each in _steps(launcher)]
    return [(source, target) for source, target in _copies(launcher) if sum(each.count(source) for each in taken) == 1]


def _copies(launcher: func.FuncOp) -> list[tuple[int, int]]:
    """The arguments that another one is a copy of at first."""
    steps, found = _steps(launcher), []
    for i, (step, taken) in enumerate(steps):
        if COPIES in step.attributes and None not in taken and not any(taken[1] in each for _, each in steps[:i]):
            found.append((taken[0], taken[1]))
    return found


def _steps(launcher: func.FuncOp) -> list[tuple[ir.Operation, list[int | None]]]:
    """What a launcher starts, with the numbers of the arguments that each gets."""
    steps = [o for o in operations_in(launcher) if o.name in ("inferno.launch", "inferno.library")]
    return [(step, [_buffer(p) for p in step.operands if owner(p).name != "inferno.scalar"]) for step in steps]


def _base(buffer: ir.Value) -> tuple[ir.Value, int]:
    """The buffer that one is, maybe in another shape, and from which element on."""
    begin = 0
    while (op := owner(buffer)) is not None and op.name == "memref.reinterpret_cast":
        begin += ir.DenseI64ArrayAttr(op.attributes["static_offsets"])[0]
        buffer = op.operands[0]
    return buffer, begin


def _buffer(parameter: ir.Value) -> int | None:
    """The number of the launcher's argument that a launch's parameter is in."""
    made = owner(parameter)
    value = made.operands[0] if made is not None and len(made.operands) else None
    while value is not None and (made := owner(value)) is not None:
        value = made.operands[0] if len(made.operands) else None
    return ir.BlockArgument(value).arg_number if value is not None else None


def _elements(value: ir.Value) -> tuple[Int, ir.Type]:
    """How many elements a tensor has, and of which type."""
    return product(shape(value)), value.type.element_type
