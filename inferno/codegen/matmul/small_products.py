"""Products of many small matrices on CUDA cores: each thread reads its rows' and columns' terms from memory in as few accesses as their layout allows, and
multiplies them in registers.

Lanes that share terms add their sums up two and two, and each gets those that it finishes, so that all lanes have results to compute and store.
"""

from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import ceil

from inferno.codegen.builders import bytes_to_floats
from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import join, lanes_of, load_vector, splat
from inferno.codegen.builders.expand_math import expand_maps
from inferno.codegen.builders.gpu_function import gpu_function, index_width, integers_for, parameters_of
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.builders.launcher import launch, launcher, parameter
from inferno.codegen.builders.multiply_adds import MultiplyAdds
from inferno.codegen.matmul.simt_epilogue import Epilogue
from inferno.codegen.matmul.simt_operand import group_offset
from inferno.codegen.nvvm.shuffles import exchange
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir
from inferno.powers import next_power_of_two
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.matmul.contraction import Contraction, Group, Operand
from inferno.schedule.matmul.small_products import SmallProducts, parse, pieces, places, supported
from inferno.symbolic import ceildiv, is_multiple, reach
from inferno.target import Target

_IN_A_ROW = 8  # terms that a thread adds one after the other

Block = list[list[ir.Value]]
"""Numbers of a factor: of each row or column its terms."""


def generate(kernel: func.FuncOp, schedule: SmallProducts, target: Target) -> None:
    """Add the ``gpu.module`` of such products and make ``kernel`` its launcher."""
    c, s, name = parse(kernel), schedule, kernel.name.value
    if c is None or not supported(c):
        raise CompileError(f"@{name} is no product of many small matrices")
    if not s.fits(c):
        raise CompileError(f"@{name}: {s} does not fit products of {c.M}x{c.K} and {c.K}x{c.N}")
    expand_maps(c.lhs.prologue, c.rhs.prologue, c.epilogue)
    buffers = parameters_of(kernel, {d.access.argument for d in c.destinations})
    threads = s.groups(c) * s.share
    width = index_width(buffers, reach(threads) + s.threads)
    with gpu_function(kernel, buffers, s.threads, []) as function:
        _Emitter(integers_for(kernel, width, function.buffers), c, s, function.buffers).emit()
    with launcher(kernel) as arguments:
        launch(f"{name}_gpu", name, [parameter(a) for a in arguments], (ceildiv(threads, s.threads), 1, 1), (s.threads, 1, 1))


@dataclass
class _Emitter(MultiplyAdds):
    ints: Integers
    contraction: Contraction
    schedule: SmallProducts
    buffers: list[ir.Value]

    def emit(self) -> None:
        c, s, ints = self.contraction, self.schedule, self.ints
        thread = ints.thread(s.threads)
        thread = ints.add(ints.mul(ints.block(), s.threads), thread)
        step, groups = s.step(c), s.groups(c)
        place = ints.rem(ints.div(thread, step), s.share)
        number = ints.add(ints.mul(ints.div(thread, step * s.share), step), ints.rem(thread, step))
        there = None if is_multiple(groups * s.share, s.threads) else ints.less(number, groups)
        number = number if there is None else ints.min(number, groups - 1)  # threads beyond the last help with it
        if s.beside:
            m, n, batch = ints.split(number, (c.M // s.rows, c.N // s.columns, c.B))
        else:
            batch, m, n = ints.split(number, (c.B, c.M // s.rows, c.N // s.columns))
        m, n = ints.mul(m, s.rows), ints.mul(n, s.columns)
        self.finish(batch, m, n, place, step, self.sums(batch, m, n, place), [] if there is None else [there])

    def sums(self, batch: Integer, m: Integer, n: Integer, place: Integer) -> list[ir.Value]:
        """This thread's part of its results, row by row."""
        c, s, ints = self.contraction, self.schedule, self.ints
        sides = ((c.lhs, c.m, m, s.rows), (c.rhs, c.n, n, s.columns))
        bases = [[self.base(a, group, batch, at) for a in operand.reads] for operand, group, at, _ in sides]
        parts: list[list[tuple[int, ir.Value]]] = [[] for _ in range(s.rows * s.columns)]
        units, together = c.K // s.terms, max(1, _IN_A_ROW // s.terms)
        for first in range(0, s.units(c), together):
            read: tuple[Block, Block] = [[] for _ in range(s.rows)], [[] for _ in range(s.columns)]
            for i in range(first, min(first + together, s.units(c))):
                unit = ints.add(place, i * s.share)
                beyond = (i + 1) * s.share > units
                inside = ints.less(unit, units) if beyond else None
                term = ints.mul(ints.min(unit, units - 1) if beyond else unit, s.terms)
                for made, (operand, group, _, count), base in zip(read, sides, bases):
                    for line, more in zip(made, self.block(operand, group, count, base, term, inside)):
                        line += more
            for made, (row, column) in zip(parts, product(*read)):
                for i in range(0, len(row), _IN_A_ROW):
                    self.add(made, self.dot(row[i:i + _IN_A_ROW], column[i:i + _IN_A_ROW]))
        return [reduce(self.plus, (x for _, x in reversed(made))) for made in parts]

    def add(self, parts: list[tuple[int, ir.Value]], value: ir.Value) -> None:
        """Sums of 2^n parts, each with its n, with one more: equal ones are added as soon as there are two, or registers would hold all parts."""
        level = 0
        while parts and parts[-1][0] == level:
            level, value = level + 1, self.plus(parts.pop()[1], value)
        parts.append((level, value))

    def dot(self, left: list[ir.Value], right: list[ir.Value]) -> ir.Value:
        total, rounds = splat(left[0].type, 0), self.contraction.rounds
        for x, y in zip(left, right):
            total = self.fma(x, y, total) if rounds is None else self.plus(total, arith.extf(x.type, arith.truncf(rounds, arith.mulf(x, y))))
        return total

    def base(self, access: Access, group: Group, batch: Integer, at: Integer) -> Integer:
        ints = self.ints
        return ints.add(ints.add(group_offset(ints, self.contraction.batch, access, batch), group_offset(ints, group, access, at)), access.offset)

    # A factor.

    def block(self, operand: Operand, group: Group, count: int, bases: list[Integer], term: Integer, inside: ir.Value | None) -> Block:
        """``count`` neighbours' terms from ``term`` on, with the prologue and widened; zero if they are not ``inside``."""
        c, s, ints = self.contraction, self.schedule, self.ints
        read: list[dict[int, ir.Value]] = []
        for a, base in zip(operand.reads, bases):
            offset, found = ints.add(base, group_offset(ints, c.k, a, term)), {}
            for begin, width in pieces(a, c, group, count, s.terms):
                value = load_vector(ints, self.buffers[a.argument], offset, a.element, width, width, begin)
                value = value if operand.prologue is not None else self.widen(operand, value)
                found.update(zip(range(begin, begin + width), lanes_of(value)))
            read.append(found)
        at = [places(a, c, group, count, s.terms) for a in operand.reads]
        known: dict[tuple[int, ...], ir.Value] = {}
        for i in range(count):
            for j in range(s.terms):
                key = tuple(x[i][j] for x in at)
                if key not in known:
                    values = [found[x] for found, x in zip(read, key)]
                    known[key] = self.keep(values[0] if operand.prologue is None else self.compute(operand, values), inside)
        return [[known[tuple(x[i][j] for x in at)] for j in range(s.terms)] for i in range(count)]

    def compute(self, operand: Operand, values: list[ir.Value]) -> ir.Value:
        rest = iter(values)
        unused = arith.constant(ir.IntegerType.get_signless(1), 0)
        arguments = [unused if source is None else next(rest) for source in operand.prologue.sources]
        return self.widen(operand, inline_body(operand.prologue.block, arguments, (), 0, bytes_to_floats.CUSTOM)[0])

    def widen(self, operand: Operand, value: ir.Value) -> ir.Value:
        if operand.extend is None:
            return value
        element = self.contraction.accumulator
        type_ = ir.VectorType.get(value.type.shape, element) if isinstance(value.type, ir.VectorType) else element
        return ir.Operation.create(operand.extend, results=[type_], operands=[value]).results[0]

    # Results.

    def finish(self, batch: Integer, m: Integer, n: Integer, place: Integer, step: int, sums: list[ir.Value], conditions: list[ir.Value]) -> None:
        """Put the sums of lanes that share terms together, and store the results that are this one's."""
        c, s, ints = self.contraction, self.schedule, self.ints
        epilogue = Epilogue(ints, c, self.buffers, batch, False, False)
        if s.share == 1:
            with only_if(*conditions):
                for i in range(s.rows):
                    self.store(epilogue, ints.add(m, i), n, sums[i * s.columns:(i + 1) * s.columns])
            return
        holders = min(s.share, next_power_of_two(len(sums)))  # lanes that have results of their own
        each = ceil(len(sums) / holders)
        own = self.exchanged(sums, place, step, holders, each)
        mine = ints.rem(place, holders)
        if holders < s.share:
            conditions = [*conditions, ints.less(place, holders)]
        if s.columns % each == 0:
            first = ints.mul(mine, each)
            conditions = conditions if holders * each == len(sums) else [*conditions, ints.less(first, len(sums))]
            with only_if(*conditions):
                self.store(epilogue, ints.add(m, ints.div(first, s.columns)), ints.add(n, ints.rem(first, s.columns)), own)
            return
        for i, total in enumerate(own):
            number = ints.add(ints.mul(mine, each), i)
            beyond = holders * each != len(sums)
            with only_if(*conditions, ints.less(number, len(sums)) if beyond else None):
                self.store(epilogue, ints.add(m, ints.div(number, s.columns)), ints.add(n, ints.rem(number, s.columns)), [total])

    def exchanged(self, sums: list[ir.Value], place: Integer, step: int, holders: int, each: int) -> list[ir.Value]:
        """The ``each`` sums of this lane, the remainder of ``place`` and ``holders``: each time half of what a lane has goes to another one, and as many
        come; beyond as many lanes as have results, parts of the same ones meet."""
        ints, distance = self.ints, holders // 2
        sums = sums + [splat(sums[0].type, 0)] * (holders * each - len(sums))
        while distance:
            upper = ints.equal(ints.rem(ints.div(place, distance), 2), 1)
            pairs = list(zip(sums[:distance * each], sums[distance * each:]))
            sums = [self.plus(arith.select(upper, b, a), exchange(arith.select(upper, a, b), distance * step)) for a, b in pairs]
            distance //= 2
        distance = holders
        while distance < self.schedule.share:
            sums = [self.plus(x, exchange(x, distance * step)) for x in sums]
            distance *= 2
        return sums

    def store(self, epilogue: Epilogue, m: Integer, n: Integer, sums: list[ir.Value]) -> None:
        """Neighbours along n, together if they are a power of two."""
        if len(sums) & (len(sums) - 1) == 0:
            epilogue.emit(m, n, join(sums))
            return
        for i, x in enumerate(sums):
            epilogue.emit(m, self.ints.add(n, i), join([x]))
