"""Convert frozen weights to the form that a contraction's kernel reads in ``@prepare``, once, instead of in the kernel at every call.

A float32 weight is split into three bf16 (see ``presplit``); one that the copy engine cannot read gets strides that it can, and one of TF32 whose terms
are not innermost is transposed.  Which form a kernel wants its schedule tells, so this comes after the choice.  The kernel gets a further argument for
it, and keeps the weight.
"""

from typing import Any

from inferno.errors import PassError
from inferno.mlir import clone_onto, func, ir, terminator, walk
from inferno.passes.deduplicate_kernels import deduplicate_kernels
from inferno.passes.hoist_frozen import add_argument, add_prepared, new_prepare
from inferno.passes.kernel_names import Names
from inferno.passes.outline_kernels import outline_program
from inferno.passes.programs import FREEZE, FROZEN, MAIN, PREPARE, PREPARED, callee, programs, root_of
from inferno.passes.shapes import argument_attributes
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.cost import fastest
from inferno.schedule.analysis.kept_operands import COPY, PARTS, kept
from inferno.schedule.assign import assign_schedules, kernels
from inferno.schedule.attributes import ATTRIBUTE, from_attribute, to_attribute
from inferno.schedule.matmul import bf16x6, presplit, wgmma
from inferno.schedule.matmul.contraction import Contraction, oriented
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.operand_forms import Form
from inferno.schedule.matmul.wgmma_cost import copy_time
from inferno.schedule.passes.calls import replace_call
from inferno.schedule.spaces import estimate_of
from inferno.schedule.tiles.tiling import Axis, Tiling, main_read, tile_contraction
from inferno.symbolic import product
from inferno.target import Target, find_target

_READ_ANYWHERE = ("mma", "vectors")  # generators that read what the copy engine cannot: with copies Hopper's own instructions may be faster


def prepare_operands(module: ir.Module, target: str) -> None:
    """Give kernels for Hopper's tensor cores that read frozen weights these in the form that they want."""
    machine, found = find_target(target), programs(module)
    if not found or found[0].name.value != MAIN or FREEZE not in found[0].attributes or machine.kind != "nvptx" or not machine.hopper:
        return
    with module.context, ir.Location.unknown():
        changed = _Prepare(module, found, machine).run()
    if changed:
        assign_schedules(module, target)
        deduplicate_kernels(module)


class _Prepare:
    def __init__(self, module: ir.Module, found: list[func.FuncOp], target: Target) -> None:
        self.module, self.main, self.target = module, found[0], target
        self.prepare = next((f for f in found if f.name.value == PREPARE), None)
        self.entries = argument_attributes(self.main.operation)
        self.left = ir.IntegerAttr(self.main.attributes[FREEZE]).value
        self.made: dict[tuple[int, Form], ir.Value] = {}  # by argument of @main and form, without the kernel's argument
        self.variants: dict[tuple[str, tuple[Form, ...]], func.FuncOp | None] = {}
        self.names = Names(module)

    def run(self) -> bool:
        """Whether a kernel got a weight in another form."""
        forms = {k.name.value: _forms(k, self.target) for k in kernels(self.module)}
        for call in walk(self.main, "func.call"):
            name = callee(call)
            wanted = tuple(f for f in forms.get(name, ()) if self._frozen(call.operands[f.number]) is not None)
            if wanted and self._pays(call, wanted):
                self._replace(call, wanted)
        called = {callee(c) for c in walk(self.module.operation, "func.call")}
        for kernel in kernels(self.module):
            if kernel.name.value not in called:
                kernel.operation.erase()
        if self.made:
            outline_program(self.prepare, self.names)
            self.main.attributes[FREEZE] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), self.left)
        return bool(self.made)

    def _frozen(self, value: ir.Value) -> int | None:
        """The argument of ``@main`` that a value is, maybe in another shape, if it is a weight or made of weights."""
        value = root_of(value)
        if not isinstance(value, ir.BlockArgument):
            return None
        number = value.arg_number
        fixed = number < len(self.entries) and (FROZEN in self.entries[number] or PREPARED in self.entries[number])
        return number if fixed and value.type.has_static_shape else None

    def _pays(self, call: ir.Operation, wanted: tuple[Form, ...]) -> bool:
        """Whether there is a kernel for these forms, and memory for those that are not made yet."""
        size = 0
        for form in wanted:
            operand = call.operands[form.number]
            if (self._frozen(operand), _bare(form)) not in self.made:
                size += form.bytes(operand.type.element_type)
        if size > self.left or self._variant(call, wanted) is None:
            return False
        self.left -= size
        return True

    def _variant(self, call: ir.Operation, wanted: tuple[Form, ...]) -> func.FuncOp | None:
        """The kernel of a call with arguments for these forms in front of its destinations, and its schedule."""
        name = callee(call)
        if (name, wanted) not in self.variants:
            kernel = next(k for k in kernels(self.module) if k.name.value == name)
            new = _with_forms(kernel, self.names.unique(f"{name}_frozen"), wanted)
            schedule = self._schedule(new, wanted)
            if schedule is None:
                new.operation.erase()
                new = None
            else:
                new.attributes[ATTRIBUTE] = to_attribute(schedule)
            self.variants[name, wanted] = new
        return self.variants[name, wanted]

    def _schedule(self, kernel: func.FuncOp, wanted: tuple[Form, ...]) -> Any | None:
        """The schedule of a kernel with arguments for these forms, which has that of the one without; None where that one is as good."""
        own = from_attribute(kernel.attributes[ATTRIBUTE])
        if any(f.kind == PARTS for f in wanted):
            return presplit.choose(kernel, self.target)
        c = parse_contraction(kernel)
        if own.generator in _READ_ANYWHERE:
            time, schedule = fastest(wgmma.candidates(kernel, c, self.target))
            saved = sum(copy_time(f.bytes(kernel.type.inputs[f.number].element_type)) for f in wanted)
            return schedule if time - saved < estimate_of(kernel, own, self.target) else None
        if _turns_one(own, c):
            return min((item for item in wgmma.candidates(kernel, c, self.target) if not item[1].rewrite), key=lambda item: item[0])[1]
        return own

    def _replace(self, call: ir.Operation, wanted: tuple[Form, ...]) -> None:
        given = [self._make(call.operands[f.number], f) for f in wanted]
        operands, count = list(call.operands), len(call.results)
        first = len(operands) - count
        with ir.InsertionPoint(call), call.location:
            replace_call(call, func.CallOp(self._variant(call, wanted), [*operands[:first], *given, *operands[first:]]))

    def _make(self, operand: ir.Value, form: Form) -> ir.Value:
        """The argument of ``@main`` that is a weight in this form; ``@prepare`` makes it."""
        number = self._frozen(operand)
        key = number, _bare(form)
        if key not in self.made:
            if self.prepare is None:
                self.prepare = new_prepare(self.main, [], [])
                with ir.InsertionPoint(self.prepare.regions[0].blocks[0]):
                    func.ReturnOp([])
            block = self.prepare.regions[0].blocks[0]
            end = terminator(block)
            results = list(end.operands)
            argument = self.main.regions[0].blocks[0].arguments[number]
            if PREPARED in self.entries[number]:
                weight = results[ir.IntegerAttr(self.entries[number][PREPARED]).value]
            else:
                weight = add_argument(self.prepare, self.main, argument)
            with ir.InsertionPoint(end):
                made = form.make(weight)
                func.ReturnOp([*results, made])
            end.erase()
            inputs = [a.type for a in block.arguments]
            self.prepare.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, [*(r.type for r in results), made.type]))
            self.made[key] = add_prepared(self.main, [made.type], len(results))[0]
        return self.made[key]


def _bare(form: Form) -> tuple:
    return form.kind, form.shape, form.transposed, form.line, form.interleaved


def _forms(kernel: func.FuncOp, target: Target) -> tuple[Form, ...]:
    """The forms in which a scheduled kernel wants operands that it reads as they are."""
    schedule = from_attribute(kernel.attributes[ATTRIBUTE])
    if schedule.generator not in ("bf16x6", "presplit", "wgmma", *_READ_ANYWHERE) or kept(kernel, PARTS) or kept(kernel, COPY):
        return ()
    c = parse_contraction(kernel)
    if c is None:
        raise PassError(f"prepare-operands: @{kernel.name.value} is scheduled as a contraction and is none")
    if schedule.generator in _READ_ANYWHERE:
        schedule = fastest(wgmma.candidates(kernel, c, target))[1]
        if schedule is None or not wgmma.copies(schedule, c):
            return ()
    if schedule.generator != "wgmma":
        tiling = presplit.tile(c) if not schedule.swapped else None
        c = oriented(c, schedule.swapped)
        if tiling is not None and (found := _matrix_of(c.rhs.access, tiling.n, tiling.k)) is not None:
            shape, along_k = found
            return (Form(PARTS, c.rhs.access.argument, shape, not along_k, presplit.padded(tiling.k.size), presplit.is_interleaved(c, tiling)),)
        tiling = bf16x6.tile(c)
    else:
        width = c.lhs.element.width // 8
        tiling = tile_contraction(c, width, only_along_k=width == 4, rewrite=schedule.rewrite and not _turns_one(schedule, c))
    return _copies(c, tiling) if tiling is not None else ()


def _turns_one(schedule: Any, c: Contraction) -> bool:
    """Whether all that is done to tiles in shared memory is transposing those of one operand, which a copy of it saves."""
    if schedule.generator != "wgmma" or not schedule.rewrite or c.lhs.element.width != 32:
        return False
    tiling = tile_contraction(c, 4, only_along_k=True)
    others = [s for s in (tiling.lhs, tiling.rhs) if s.raw is not None or s.copied]
    return len(others) == 1 and others[0].is_transposed and not others[0].prologue


def _copies(c: Contraction, tiling: Tiling) -> tuple[Form, ...]:
    """The operands that the kernel's launcher would copy."""
    found = []
    for operand, source, rows in ((c.lhs, tiling.lhs, tiling.m), (c.rhs, tiling.rhs, tiling.n)):
        if not source.copied or operand.prologue is not None or len(source.axes) != 2 or any(not isinstance(s, int) for s in source.shape):
            continue
        access = main_read(operand)
        if access.offset == 0 and (matrix := _matrix_of(access, rows, tiling.k)) is not None:
            shape, along_k = matrix
            found.append(Form(COPY, access.argument, shape, along_k != source.along_k, source.shape[-1]))
    return tuple(found)


def _matrix_of(access: Access, rows: Axis, terms: Axis) -> tuple[tuple[int, int], bool] | None:
    """The weight as a matrix in memory: its shape, and whether the terms are innermost; None if it is none."""
    if product(access.shape) != rows.size * terms.size:
        return None
    if (terms.size == 1 or terms.stride(access) == 1) and (rows.size == 1 or rows.stride(access) == terms.size):
        return (rows.size, terms.size), True
    if (rows.size == 1 or rows.stride(access) == 1) and (terms.size == 1 or terms.stride(access) == rows.size):
        return (terms.size, rows.size), False
    return None


def _with_forms(kernel: func.FuncOp, name: str, wanted: tuple[Form, ...]) -> func.FuncOp:
    """The kernel with an argument for each form in front of its destinations."""
    inputs, results = list(kernel.type.inputs), list(kernel.type.results)
    first = len(inputs) - len(results)
    extra = [f.type(inputs[f.number].element_type) for f in wanted]
    entries = argument_attributes(kernel.operation)
    marks = [ir.DictAttr.get({f.kind: ir.IntegerAttr.get(ir.IntegerType.get_signless(64), f.number)}) for f in wanted]
    with ir.InsertionPoint(kernel.operation):
        new = func.FuncOp(name, ([*inputs[:first], *extra, *inputs[first:]], results), visibility="private")
    for attribute in kernel.attributes:
        if attribute not in ("sym_name", "function_type", "sym_visibility", "arg_attrs"):
            new.attributes[attribute] = kernel.attributes[attribute]
    new.attributes["arg_attrs"] = ir.ArrayAttr.get([*entries[:first], *marks, *entries[first:]])
    block = new.add_entry_block()
    arguments = list(block.arguments)
    known = dict(zip(kernel.regions[0].blocks[0].arguments, [*arguments[:first], *arguments[first + len(extra):]]))
    with ir.InsertionPoint(block):
        for op in kernel.regions[0].blocks[0].operations:
            clone_onto(op.operation, known)
    return new
