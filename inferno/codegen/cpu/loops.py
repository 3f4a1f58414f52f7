"""The generator of the cpu target: a kernel function as native loops that threads share.

The kernel is bufferized, and each structured operation in it becomes a function ``(buffers..., begin, end)`` that does the
items ``begin`` to ``end`` of a range; ``inferno.launch``'s grid is that range.  What is not structured (scans, sorts, loops
around tensors) makes the kernel one function that does everything, by upstream's loops.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.codegen.builders import launcher as host
from inferno.codegen.cpu.loop_nests import Nest, read_nest
from inferno.codegen.cpu.loop_operands import root_of
from inferno.codegen.cpu.loop_rows import Rows, read_rows
from inferno.codegen.cpu.loop_scan import Scan, read_scan
from inferno.codegen.cpu.loop_scope import Scope, read_by, taken_by
from inferno.codegen.cpu.loop_sorts import merge_sorts
from inferno.codegen.cpu.native_checks import add_checks
from inferno.codegen.cpu.register_accumulators import register_accumulators
from inferno.codegen.cpu.running_values import combine, narrow, widen
from inferno.codegen.cpu.vector_math import expand_vector_math
from inferno.codegen.universal.to_buffers import to_buffers
from inferno.mlir import arith, func, ir, isolated_copy, memref, owner, run_upstream, scf, walk
from inferno.passes.generics import PARALLEL, kinds
from inferno.passes.shapes import is_dynamic, shape, static, symbol_arguments
from inferno.passes.size_values import materialise
from inferno.passes.split_contractions import split_contractions
from inferno.schedule.cpu.loops import Loops
from inferno.schedule.matmul.contraction_parts import Temporary
from inferno.schedule.passes.fuse_rows import ROWS
from inferno.symbolic import Int, Symbol, product
from inferno.target import Target

_VIEWS = {"memref.subview", "memref.cast", "memref.reinterpret_cast", "memref.expand_shape", "memref.collapse_shape", "memref.get_global"}
_SCALARS = ("arith.", "math.", "index.", "complex.")
_SMALL = 1024  # elements that one chunk adds up at the end of a reduction in parts


@dataclass(frozen=True)
class Step:
    """One native function and what it is called on: numbers of the kernel's arguments, and temporaries.  A size that varies is an
    argument too, which the function gets as the address of its 64 bits."""

    entry: str
    buffers: tuple[int | Temporary, ...]
    extent: Int


def generate(kernel: func.FuncOp, schedule: Loops, target: Target) -> None:
    """Put the kernel's native functions in a module next to it and make the kernel their launcher."""
    name = kernel.name.value
    if all(0 in t.shape for t in kernel.type.results):
        with host.launcher(kernel):
            return  # nothing to compute
    holder, steps = build(kernel, f"{name}__loops")
    ir.InsertionPoint(kernel.operation).insert(code_module(name, holder))
    with host.launcher(kernel) as arguments:
        emit_launches(name, steps, arguments)


def code_module(name: str, *parts: ir.Module) -> ir.Operation:
    """The module ``@<name>_code`` with the functions and globals of ``parts``."""
    holder = ir.Operation.create("builtin.module", regions=1, attributes={"sym_name": ir.StringAttr.get(f"{name}_code")})
    holder.regions[0].blocks.append()
    for part in parts:
        for op in part.body.operations:
            holder.regions[0].blocks[0].append(op.operation.clone(ip=False))
    return holder


def emit_launches(name: str, steps: Sequence[Step], arguments: Sequence[ir.Value]) -> None:
    """The launches of ``steps``, at the insertion point."""
    made: dict[int, ir.Value] = {}
    for step in steps:
        parameters = []
        for buffer in step.buffers:
            if isinstance(buffer, Temporary):
                if id(buffer) not in made:
                    made[id(buffer)] = host.temporary(buffer.shape, buffer.element)
                parameters.append(host.pointer(made[id(buffer)]))
            else:
                parameters.append(host.parameter(arguments[buffer]))
        host.launch(f"{name}_code", step.entry, parameters, (step.extent, 1, 1), (1, 1, 1))


def build(kernel: func.FuncOp, prefix: str) -> tuple[ir.Module, list[Step]]:
    """A module with the native functions of ``kernel``, called ``prefix`` and ``prefix_1``..., and how to run them in order.

    A name of their own: a kernel called @powf must not take the place of libm's function.
    """
    rows = ir.IntegerAttr(kernel.attributes[ROWS]).value if ROWS in kernel.attributes else 0
    with kernel.context, ir.Location.unknown():
        copy = isolated_copy(kernel)
        split_contractions(copy)
        buffers = to_buffers(copy.body.operations[0])
        function = next(o for o in buffers.body.operations if isinstance(o, func.FuncOp))
        expand_vector_math(function)
        steps = _Builder(buffers, function, prefix, rows).run()
    return buffers, steps


class _Builder:
    def __init__(self, module: ir.Module, function: func.FuncOp, prefix: str, rows: int) -> None:
        self._module, self._function, self._prefix, self._rows = module, function, prefix, rows
        self._block = function.regions[0].blocks[0]
        self._symbols = symbol_arguments(function.operation)
        self._temporaries: dict[ir.Value, Temporary] = {}
        self._steps: list[Step] = []

    def run(self) -> list[Step]:
        whole = self._function.operation.clone(ip=False)  # reading the operations changes their bodies
        self._find_temporaries()
        if not self._structured([o.operation for o in self._block.operations]):
            self._function.operation.erase()
            self._module.body.append(whole)
            self._function = next(o for o in self._module.body.operations if isinstance(o, func.FuncOp))
            self._block = self._function.regions[0].blocks[0]
            self._symbols = symbol_arguments(self._function.operation)
            merge_sorts(self._function)
            self._find_temporaries()
            self._steps = [self._serial()]
        else:
            self._function.operation.erase()
        run_upstream(self._module, "canonicalize,cse")
        for function in self._module.body.operations:
            if isinstance(function, func.FuncOp) and not function.is_external:
                add_checks(function, len(self._symbols))
        return self._steps

    def _find_temporaries(self) -> None:
        self._temporaries = {}
        for op in self._block.operations:
            if op.operation.name == "memref.alloc":
                value = op.operation.results[0]
                self._temporaries[value] = Temporary(shape(value), ir.MemRefType(value.type).element_type)

    def _structured(self, operations: list[ir.Operation]) -> bool:
        """A function for each structured operation; False, with nothing made, if the kernel holds anything else."""
        plan: list[Nest | Scan] = []
        starts: dict[ir.Value, ir.Value] = {}
        pending: dict[ir.Value, Nest] = {}
        for op in operations:
            if op.name in ("func.return", "memref.alloc", "memref.dealloc") or op.name in _VIEWS:
                continue
            if op.name.startswith(_SCALARS) or (op.name == "memref.load" and self._read_only(root_of(op.operands[0]))):
                continue
            if op.name not in ("linalg.generic", "tm_tensor.scan"):
                return False
            touched = {root_of(v) for inner in walk(op) for v in inner.operands if isinstance(v.type, ir.MemRefType)}
            nest = read_nest(op, starts, self._dead) if op.name == "linalg.generic" else read_scan(op)
            if nest is None:
                if op.name != "linalg.generic":
                    return False
                if all(self._dead(root_of(v), op) for v in op.opview.outputs):
                    continue
                return False
            plan += self._filled_before(op, nest, pending, touched)
            for result in nest.results:
                starts.pop(result.operand.root, None)
            if isinstance(nest, Scan):
                for root in touched:
                    starts.pop(root, None)
            value = _filled(op)
            if value is not None and op.opview.outputs[0] == root_of(op.opview.outputs[0]):
                root = op.opview.outputs[0]
                starts[root], pending[root] = value, nest
            else:
                plan.append(nest)
        plan += [n for root, n in pending.items() if root not in self._temporaries]
        by_rows = read_rows(plan, self._rows, set(self._temporaries)) if self._rows else None
        if by_rows is not None:
            self._emit_rows(by_rows)
            return True
        for nest in plan:
            if nest.extent != 0:
                self._emit(nest)
        return True

    def _filled_before(self, op: ir.Operation, nest: Nest | Scan, pending: dict[ir.Value, Nest], touched: set[ir.Value]) -> list[Nest]:
        """Of the fills that are ``pending``, those of what an operation touches, which then are not any more: the ones that have to be done in front of it, and
        not those that nothing reads, or that it starts from as a number or writes over."""
        own, found = {r.operand.root: r for r in nest.results}, []
        read = {root_of(v) for v in op.opview.inputs} if op.name == "linalg.generic" else set()  # an input may be in a result's buffer
        for root in [r for r in pending if r in touched]:
            fill, mine = pending.pop(root), own.get(root)
            unused = root not in nest.roots and self._dead(root, op)
            covers = mine is not None and mine.start is not None and self._covers(mine.operand, nest)
            replaced = mine is not None and root not in read and (not mine.stored or covers)
            if not unused and not replaced:
                found.append(fill)
        return found

    def _emit_rows(self, by_rows: Rows) -> None:
        """One function that does all of a row before the next one."""
        touched = [r for nest in by_rows.nests for r in (*nest.roots, *read_by(nest))]
        roots = [r for r in dict.fromkeys(touched) if r not in by_rows.local and (owner(r) is None or r in self._temporaries)]
        function, arguments, known = self._function_for(roots)
        with ir.InsertionPoint(function.regions[0].blocks[0]):
            parts = {root: memref.AllocaOp(type_, [], [], alignment=64).memref for root, type_ in by_rows.types().items()}
            scope = Scope({**known, **parts}, function.regions[0].blocks[0])
            loop = scf.ForOp(*arguments[-2:], arith.constant(ir.IndexType.get(), 1))
            with ir.InsertionPoint(loop.body):
                for nest in by_rows.nests:
                    for value in taken_by(nest):
                        new = scope.value(value)
                        for inner in walk(nest.op):
                            if inner != nest.op:
                                inner.replace_uses_of_with(value, new)
                    nest.emit_row(loop.induction_variable, scope.flat, scope.value, by_rows.loops(nest))
                scf.YieldOp([])
            func.ReturnOp([])
        self._step(function, roots, self._rows)

    def _covers(self, operand, nest: Nest) -> bool:
        return product(shape(operand.value)) == product([s for s, k in zip(nest.sizes, _parallel(nest.op)) if k])

    def _read_only(self, root: ir.Value) -> bool:
        """Whether the kernel never writes to this buffer."""
        if root in self._temporaries:
            return False
        for op in walk(self._function):
            if op.name == "linalg.generic":
                written = [root_of(v) for v in op.opview.outputs]
            elif op.name == "memref.store":
                written = [root_of(op.operands[1])]
            elif op.name.startswith("tm_tensor."):
                written = [root_of(v) for v in op.operands]
            else:
                continue
            if root in written:
                return False
        return True

    def _dead(self, root: ir.Value, op: ir.Operation) -> bool:
        """Whether a temporary is written by ``op`` and fills before it, and read by nothing else."""
        if root not in self._temporaries:
            return False
        for use in root.uses:
            user = use.owner.operation
            if user == op:
                if use.operand_number < len(op.opview.inputs):
                    return False
            elif user.name == "memref.dealloc":
                continue
            elif user.name != "linalg.generic" or _filled(user) is None:
                return False
        return True

    def _function_for(self, buffers: Sequence[ir.Value | Temporary]) -> tuple[func.FuncOp, list[ir.Value], dict[ir.Value, ir.Value]]:
        """A new function of the sizes that vary, of ``buffers`` and of a range; what it has for buffers and range; and what stands in
        it for the kernel's values."""
        types = [b.type if isinstance(b, ir.Value) else ir.MemRefType.get(list(b.shape), b.element) for b in buffers]
        given = [_number_type()] * len(self._symbols) + [t if t.has_static_shape else ir.MemRefType.get([], t.element_type) for t in types]
        name = self._prefix if not self._steps else f"{self._prefix}_{len(self._steps)}"
        index = ir.IndexType.get()
        with ir.InsertionPoint(self._module.body):
            function = func.FuncOp(name, ([*given, index, index], []))
        block = function.add_entry_block()
        first, arguments = len(self._symbols), list(block.arguments)
        with ir.InsertionPoint(block):
            self._values = {s: _read_number(a) for s, a in zip(self._symbols, arguments)}
            made = [a if t.has_static_shape else _typed(a, b, self._values) for a, b, t in zip(arguments[first:], buffers, types)]
        known = {v: self._values[s] for s, v in self._symbols.items()}
        known.update({b: m for b, m in zip(buffers, made) if isinstance(b, ir.Value)})
        return function, [*made, *arguments[-2:]], known

    def _number(self, size: Int) -> ir.Value:
        """A size as a value, in the function that was begun last."""
        return materialise(size, self._values)

    def _step(self, function: func.FuncOp, buffers: Sequence[ir.Value | Temporary], extent: Int) -> None:
        places = (*(v.arg_number for v in self._symbols.values()), *(self._place(b) for b in buffers))
        self._steps.append(Step(function.name.value, places, extent))

    def _place(self, buffer: ir.Value | Temporary) -> int | Temporary:
        if isinstance(buffer, Temporary):
            return buffer
        return self._temporaries[buffer] if buffer in self._temporaries else ir.BlockArgument(buffer).arg_number

    def _emit(self, nest: Nest | Scan) -> None:
        """The function of one structured operation; for a reduction in parts, also the one that adds the parts up."""
        taken = taken_by(nest)
        roots = [r for r in dict.fromkeys([*nest.roots, *read_by(nest)]) if owner(r) is None or r in self._temporaries]
        partials = [Temporary((nest.order.parts * size,), element) for size, element in nest.partial_sizes]
        function, arguments, known = self._function_for([*roots, *partials])
        scope = Scope(known, function.regions[0].blocks[0], self._number)
        nest.numbers = self._number
        with ir.InsertionPoint(function.regions[0].blocks[0]):
            for value in taken:
                new = scope.value(value)
                for inner in walk(nest.op):
                    if inner != nest.op:
                        inner.replace_uses_of_with(value, new)
            nest.emit(*arguments[-2:], scope.flat, scope.value, arguments[len(roots):-2])
            func.ReturnOp([])
        self._step(function, [*roots, *partials], nest.extent)
        for number, partial in enumerate(partials):
            self._add_parts(nest, number, partial)

    def _add_parts(self, nest: Nest, number: int, partial: Temporary) -> None:
        result, size = nest.results[number], nest.partial_sizes[number][0]
        root = result.operand.root
        function, arguments, known = self._function_for([root, partial])
        scope = Scope(known, function.regions[0].blocks[0])
        constant = lambda v: arith.constant(ir.IndexType.get(), v)  # noqa: E731
        with ir.InsertionPoint(function.regions[0].blocks[0]):
            target, parts = scope.flat(root), arguments[1]
            begin, end = (arith.minui(arith.muli(a, constant(_SMALL)), constant(size)) for a in arguments[-2:])
            loop = scf.ForOp(begin, end, constant(1))
            with ir.InsertionPoint(loop.body):
                place = loop.induction_variable
                start = scope.value(result.start) if result.start is not None else memref.load(target, [place])
                each = scf.ForOp(constant(0), constant(nest.order.parts), constant(1), [widen(start, result.running)])
                with ir.InsertionPoint(each.body):
                    value = memref.load(parts, [arith.addi(arith.muli(each.induction_variable, constant(size)), place)])
                    scf.YieldOp([combine(result.combiner, each.inner_iter_args[0], value)])
                memref.store(narrow(each.results_[0], result.element), target, [place])
                scf.YieldOp([])
            func.ReturnOp([])
        self._step(function, [root, partial], -(-size // _SMALL))

    def _unpack_arguments(self, block: ir.Block, sizes: dict[ir.Value, Sequence[Int]]) -> None:
        """Let the function's arguments be what native code gets: sizes and buffers whose sizes vary as addresses."""
        old = list(block.arguments)
        values: dict[Symbol, ir.Value] = {}
        symbols = {v: s for s, v in self._symbols.items()}
        with ir.InsertionPoint.at_block_begin(block):
            types = [_number_type() if a in symbols else ir.MemRefType.get([], a.type.element_type) if a in sizes else a.type for a in old]
            new = [block.add_argument(t, self._function.location) for t in types]
            values.update({symbols[a]: _read_number(n) for a, n in zip(old, new) if a in symbols})
            for a, n in zip(old, new):
                a.replace_all_uses_with(values[symbols[a]] if a in symbols else _reshaped(n, sizes[a], values) if a in sizes else n)
        for number in reversed(range(len(old))):
            block.erase_argument(number)

    def _serial(self) -> Step:
        """The whole kernel as one function, which upstream's passes make."""
        function, block = self._function, self._block
        temporaries, arguments = list(self._temporaries), len(block.arguments)
        sizes = {v: shape(v) for v in (*block.arguments, *temporaries) if is_dynamic(v)}
        for value in temporaries:
            op = owner(value)
            new = block.add_argument(value.type, op.location)
            value.replace_all_uses_with(new)
            if value in sizes:
                sizes[new] = sizes[value]
            op.erase()
        if self._symbols:
            self._unpack_arguments(block, sizes)
        index = ir.IndexType.get()
        for _ in range(2):
            block.add_argument(index, function.location)
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([a.type for a in block.arguments], []))
        if "arg_attrs" in function.attributes:
            del function.attributes["arg_attrs"]
        function.attributes["sym_name"] = ir.StringAttr.get(self._prefix)
        run_upstream(
            self._module, "func.func(tm-tensor-to-loops,refback-munge-memref-copy,linalg-generalize-named-ops,convert-linalg-to-loops),canonicalize,cse",
        )
        register_accumulators(next(o for o in self._module.body.operations if isinstance(o, func.FuncOp)))
        return Step(self._prefix, (*range(arguments), *(self._temporaries[v] for v in temporaries)), 1)


def _number_type() -> ir.MemRefType:
    """How a native function gets a size."""
    return ir.MemRefType.get([], ir.IntegerType.get_signless(64))


def _read_number(argument: ir.Value) -> ir.Value:
    return arith.index_cast(ir.IndexType.get(), memref.load(argument, []))


def _typed(argument: ir.Value, buffer: ir.Value | Temporary, values: dict[Symbol, ir.Value]) -> ir.Value:
    """The memory that a native function gets as one element, in the buffer's shape."""
    sizes = shape(buffer) if isinstance(buffer, ir.Value) else buffer.shape
    return _reshaped(argument, sizes, values)


def _reshaped(argument: ir.Value, sizes: Sequence[Int], values: dict[Symbol, ir.Value]) -> ir.Value:
    type_ = ir.MemRefType.get(static(sizes), argument.type.element_type)
    steps, unknown = list(type_.get_strides_and_offset()[0]), ir.ShapedType.get_dynamic_stride_or_offset()
    extents = [materialise(s, values) for s in sizes if not isinstance(s, int)]
    strides = [materialise(product(sizes[d + 1:]), values) for d, s in enumerate(steps) if s == unknown]
    return memref.ReinterpretCastOp(type_, argument, [], extents, strides, [0], static(sizes), steps).result


def _filled(op: ir.Operation) -> ir.Value | None:
    """The scalar that a generic fills its one result with."""
    if op.name != "linalg.generic" or len(op.opview.outputs) != 1 or not all(_parallel(op)):
        return None
    block = op.regions[0].blocks[0]
    value = block.operations[0].operands[0] if len(list(block.operations)) == 1 else None
    if value is None:
        return None
    if isinstance(value, ir.BlockArgument) and value.owner == block:
        if value.arg_number >= len(op.opview.inputs):
            return None
        value = op.operands[value.arg_number]
        return None if isinstance(value.type, ir.MemRefType) else value
    return value


def _parallel(op: ir.Operation) -> list[bool]:
    return [kind == PARALLEL for kind in kinds(op)]
