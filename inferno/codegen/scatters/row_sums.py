"""Rows that are added to others by an atomic addition for each element; the order of additions differs from run to run.

A kernel in front makes what the rows begin as.  Sums of 16-bit floats are made in float32 elsewhere, of zeros, and one behind adds what the rows began as and
rounds.  The one that adds computes what it adds, as elementwise kernels compute what they store.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import as_vector, lanes_of, load_vector, splat, store_vector
from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.gpu_function import Buffer, gpu_function, index_width, integers_for, parameters_of
from inferno.codegen.builders.integers import Integer, Integers, resize
from inferno.codegen.builders.launcher import launch, launcher, parameter, pointer, temporary
from inferno.codegen.maps.elementwise import Emitter
from inferno.codegen.scatters.flat_elements import Reader
from inferno.element_sizes import element_bytes
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir, llvm, memref
from inferno.passes.shapes import shape, symbol_arguments
from inferno.schedule.maps.elementwise import Elementwise
from inferno.schedule.scatters.added_rows import AddedRows, parse_added_rows
from inferno.schedule.scatters.row_sums import RowSums, in_memory
from inferno.symbolic import Int, bounds, ceildiv, divisor, floordiv, is_multiple, product, reach
from inferno.target import Target

_THREADS = 256  # of the kernels in front and behind
# How an atomic operation is named, and a type: sums of whole numbers are those of numbers without a sign; and a register of it.
_JOINS = {"arith.addf": ("add", "f"), "arith.addi": ("add", "u"), "arith.maxsi": ("max", "s"), "arith.minsi": ("min", "s")}
_REGISTERS = {"f32": "f", "f64": "d", "i32": "r", "i64": "l"}


def generate(kernel: func.FuncOp, schedule: RowSums, target: Target) -> None:
    """Add the ``gpu.module`` of a kernel that adds rows to others, and make ``kernel`` its launcher."""
    c, name = parse_added_rows(kernel), kernel.name.value
    together = c is not None and isinstance(in_memory(c), ir.F32Type) and target.capability >= 90
    if c is None or not is_multiple(c.columns, schedule.vector) or (schedule.vector > 1 and not together):
        raise CompileError(f"@{name} adds no rows to others by {schedule}")
    expand_math(c.updates.generic)
    sums, total = in_memory(c), c.rows * c.columns
    apart, started = sums != c.element, isinstance(c.start, int)
    zero = ir.FloatAttr.get(sums, 0.0) if apart else c.start
    made, begins = Buffer(sums, reach(total), False), [Buffer(c.element, reach(total), True)] if started else []
    lanes = gcd(16 // element_bytes(sums), divisor(total))
    grid = ceildiv(total, lanes * _THREADS), 1, 1
    _flat(kernel, [made] if apart or not started else [*begins, made], "", floordiv(total, lanes), _begin(sums, zero, lanes))
    buffers = parameters_of(kernel, set() if apart else {c.target})
    buffers = [*buffers, made] if apart else buffers
    each = schedule.threads * schedule.vector * schedule.unroll
    blocks = ceildiv(c.count * c.columns, each)
    width = index_width(buffers, _points(kernel, c) + each)
    with gpu_function(kernel, buffers, schedule.threads, suffix="_1") as function:
        target_, ints = function.buffers[-1 if apart else c.target], integers_for(kernel, width, function.buffers)
        _Adder(c.updates, Elementwise(schedule.threads, schedule.vector, schedule.unroll), ints, function.buffers, rows=c, target=target_).emit()
    if apart:
        _flat(kernel, [*begins, made, Buffer(c.element, reach(total), False)], "_2", floordiv(total, lanes), _end(c, lanes))
    with launcher(kernel) as arguments:
        given = [parameter(a) for a in arguments]
        sizes = [given[n] for n in _size_arguments(kernel)]
        sum_, start = pointer(temporary([total], sums)) if apart else given[c.target], [given[c.start]] if started else []
        first = [sum_] if apart else [*start, sum_]
        launch(f"{name}_gpu", name, [*first, *sizes], grid, (_THREADS, 1, 1), copies=len(first) > 1)
        launch(f"{name}_gpu", f"{name}_1", [*given, *([sum_] if apart else [])], (blocks, 1, 1), (schedule.threads, 1, 1))
        if apart:
            launch(f"{name}_gpu", f"{name}_2", [*start, sum_, given[c.target], *sizes], grid, (_THREADS, 1, 1))


def _points(kernel: func.FuncOp, c: AddedRows) -> int:
    """The largest that the number of elements can be that are added.  Where these are in no memory, nobody sees to it that 31 bits count to it."""
    points = c.count * c.columns
    held = any(bounds(product(shape(a)) - points)[0] >= 0 for a in kernel.entry_block.arguments if not isinstance(a.type, ir.IndexType))
    return reach(points) if held else bounds(points)[1]


def _size_arguments(kernel: func.FuncOp) -> list[int]:
    """The numbers of the arguments that are sizes."""
    return [v.arg_number for v in symbol_arguments(kernel.operation).values()]


Body = Callable[[Integers, list[ir.Value], Integer], None]


def _flat(kernel: func.FuncOp, buffers: list[Buffer], suffix: str, count: Int, body: Body) -> None:
    """A kernel of ``count`` threads, each of which does ``body`` with its number and the kernel's buffers; its sizes are behind them."""
    width = index_width(buffers)
    sizes = _size_arguments(kernel)
    with gpu_function(kernel, [*buffers, *[None] * len(sizes)], _THREADS, suffix=suffix) as function:
        ints = integers_for(kernel, width, dict(zip(sizes, function.buffers[len(buffers):])))
        thread = ints.thread(_THREADS)
        block = ints.block()
        number = ints.add(ints.mul(block, _THREADS), thread)
        with only_if(ints.less(number, count)):
            body(ints, function.buffers[:len(buffers)], number)


def _begin(element: ir.Type, value: int | ir.Attribute, lanes: int) -> Body:
    """What sums begin as: a value, or those of another tensor."""
    def body(ints: Integers, buffers: list[ir.Value], number: Integer) -> None:
        at = ints.mul(number, lanes)
        if isinstance(value, int):
            found = load_vector(ints, buffers[0], at, element, lanes, lanes)
        else:
            found = splat(element, value.value)
        store_vector(ints, as_vector(found, lanes), buffers[-1], at, lanes)

    return body


def _end(c: AddedRows, lanes: int) -> Body:
    """What sums that were made in another type are in the end."""
    def body(ints: Integers, buffers: list[ir.Value], number: Integer) -> None:
        at, wide = ints.mul(number, lanes), ir.VectorType.get([lanes], in_memory(c))
        found = as_vector(load_vector(ints, buffers[-2], at, in_memory(c), lanes, lanes), lanes)
        if isinstance(c.start, int):
            start = as_vector(load_vector(ints, buffers[0], at, c.element, lanes, lanes), lanes)
            found = arith.addf(found, arith.extf(wide, start))
        elif c.start.value:
            found = arith.addf(found, splat(wide, c.start.value))
        store_vector(ints, arith.truncf(ir.VectorType.get([lanes], c.element), found), buffers[-1], at, lanes)

    return body


@dataclass
class _Adder(Emitter):
    """Adds what an elementwise kernel would store to the rows of ``target``."""

    rows: AddedRows | None = None
    target: ir.Value | None = None

    def vectors(self, vector: Integer, steps: range) -> None:
        """Where each goes is read with what it is made of, before any of them is added."""
        ints, s = self.ints, self.schedule
        lanes = s.vector if s.vector > 1 else 0
        starts = [ints.mul(ints.add(vector, u * s.threads), s.vector) for u in steps]
        places = [Reader(ints, self.buffers).read(self.rows.places, ints.div(start, self.rows.columns))[0] for start in starts]
        loaded = [self.load(start, lanes) for start in starts]
        results = [self.body(start, lanes, values) for start, values in zip(starts, loaded)]
        for start, place, (value,) in zip(starts, places, results):
            # In the place's own width: one far outside could be one inside in another.
            rows = self.rows.rows
            limit = arith.constant(place.type, rows) if isinstance(rows, int) else resize(ints.value(rows), place.type.width)
            inside = arith.cmpi(arith.CmpIPredicate.ult, place, limit)
            row = resize(place, ints.width)
            self.add(value, ints.add(ints.mul(row, self.rows.columns), ints.rem(start, self.rows.columns)), inside)

    def add(self, value: ir.Value, at: Integer, inside: ir.Value) -> None:
        """A scalar or a vector to the elements from ``at`` on, if these are ``inside``: no branch, into which LLVM would take what the value is read by."""
        values = [self.rows.combiner.widen(x) for x in lanes_of(as_vector(value, self.schedule.vector) if self.schedule.vector > 1 else value)]
        (join, kind), register = _JOINS[self.rows.combiner.name], _REGISTERS[str(values[0].type)]
        type_ = f"{kind}{values[0].type.width}"
        base = arith.index_cast(ir.IntegerType.get_signless(64), memref.ExtractAlignedPointerAsIndexOp(self.target).result)
        place, offset = ("mad.wide.u32", "r") if self.ints.width == 32 else ("mad.lo.u64", "l")
        names = [f"${i + 3}" for i in range(len(values))]
        what = f"v{len(values)}.{type_} [a], {{{', '.join(names)}}}" if len(values) > 1 else f"{type_} [a], {names[0]}"
        llvm.InlineAsmOp(
            None, [base, self.ints.value(at), inside, *values],
            f"{{ .reg .b64 a; {place} a, $1, {element_bytes(values[0].type)}, $0; @$2 red.relaxed.gpu.global.{join}.{what}; }}",
            ",".join(["l", offset, "b", *[register] * len(values), "~{memory}"]), has_side_effects=True,
        )
