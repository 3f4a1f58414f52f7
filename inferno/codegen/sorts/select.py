"""The first few of a row's elements in order, or the one at some place, without sorting the row.

The threads of a row hold its items (see ``keys``) in registers, and look for bounds between which no more items are than there are slots for, among
them those that are wanted: by halving, between the least items of each thread first, and between all items only where that does not do.  What lies
between the bounds is then gathered in shared memory and sorted.  Of a longer row every block leaves so much of its part to the next kernel.
"""

from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import lanes_of, load, load_vector, word
from inferno.codegen.builders.gpu_function import Buffer, gpu_function, integers_for, parameters_of
from inferno.codegen.builders.integers import Integers
from inferno.codegen.builders.launcher import launch, launcher, parameter, pointer, temporary
from inferno.codegen.sorts.keys import Keys
from inferno.codegen.sorts.narrowing import Held, at_most
from inferno.codegen.sorts.rows import Rows, rows_there
from inferno.codegen.sorts.team import Team
from inferno.codegen.sorts.tiles import Tiles
from inferno.element_sizes import element_bytes
from inferno.errors import CompileError
from inferno.mlir import arith, func, gpu, ir, memref, scf
from inferno.powers import last_power_of_two
from inferno.schedule.sorts.kernel import SortKernel, parse_sort_kernel
from inferno.schedule.sorts.select import Select
from inferno.symbolic import ceildiv, is_multiple, reach
from inferno.target import Target

_RANKED = 256  # slots up to which each item's place is counted
_THREADS, _HELD = 512, 32  # of the last kernel of a longer row


@dataclass(frozen=True)
class Stage:
    """A kernel of ``schedule`` on rows of ``length`` elements, the first, or items that the one before left; ``parts`` of each row."""

    schedule: Select
    length: int
    first: bool

    @property
    def parts(self) -> int:
        return -(-self.length // self.schedule.tile)


def stages(c: SortKernel, schedule: Select) -> list[Stage]:
    """The kernels, in order; the last has whole rows."""
    found = [Stage(schedule, c.length, True)]
    while found[-1].parts > 1:
        s, length = schedule, found[-1].parts * schedule.slots
        if length <= _THREADS * _HELD:
            threads = next(t for t in (128, 256, 512) if length <= t * _HELD)
            s = Select(threads, threads, -(-length // threads), schedule.slots)
        found.append(Stage(s, length, False))
    return found


def generate(kernel: func.FuncOp, schedule: Select, target: Target) -> None:
    """Add the ``gpu.module`` of a kernel that selects, and make ``kernel`` its launcher."""
    c, name = parse_sort_kernel(kernel), kernel.name.value
    if c is None or c.bits > 32 or (c.begin and (c.count > 1 or c.length > schedule.tile)) or 2 * c.count > schedule.slots:
        raise CompileError(f"@{name} is no selection for {schedule}")
    if schedule.team not in (32, schedule.threads) or (c.length > schedule.tile and schedule.tile < 2 * schedule.slots):
        raise CompileError(f"@{name}: {schedule} does not divide rows of {c.length}")
    keys = Keys(c.element, c.descending, c.length.bit_length())
    (word,) = keys.types
    found = stages(c, schedule)
    own = parameters_of(kernel, {k.argument for k in c.kept})
    sizes = [c.rows * s.parts * s.schedule.slots for s in found[:-1]]
    largest = max([reach(c.rows * (s.length + s.parts * s.schedule.tile)) for s in found] + [b.count for b in own if b is not None])
    grids = []
    for number, stage in enumerate(found):
        s = stage.schedule
        buffers = [*own, *(Buffer(word, reach(sizes[i]), i < number) for i in (number - 1, number) if 0 <= i < len(sizes))]
        shared = [(s.threads // s.team * s.slots if s.slots <= _RANKED else Tiles.size(s.threads, s.slots // s.threads), word)]
        shared += [(s.threads // s.team, ir.IntegerType.get_signless(32)), (s.threads // 32, ir.IntegerType.get_signless(32))]
        with gpu_function(kernel, buffers, s.threads, shared, suffix=f"_{number}" if number else "") as function:
            ints = integers_for(kernel, 32 if largest < 2**31 else 64, function.buffers)
            _Emitter(c, stage, keys, ints, function.buffers, function.shared, len(own), number + 1 == len(found)).emit()
        grids.append(ceildiv(c.rows * stage.parts, s.threads // s.team))
    with launcher(kernel) as arguments:
        left = [temporary([n], word) for n in sizes]
        for number, stage in enumerate(found):
            parameters = [*(parameter(a) for a in arguments), *(pointer(left[i]) for i in (number - 1, number) if 0 <= i < len(left))]
            launch(f"{name}_gpu", name + (f"_{number}" if number else ""), parameters, (grids[number], 1, 1), (stage.schedule.threads, 1, 1))


@dataclass
class _Emitter:
    c: SortKernel
    stage: Stage
    keys: Keys
    ints: Integers
    buffers: list[ir.Value]
    shared: list[ir.Value]
    arguments: int
    last: bool

    def emit(self) -> None:
        ints, s, c, stage = self.ints, self.stage.schedule, self.c, self.stage
        thread = ints.thread(s.threads)
        block = ints.block()
        self.team = Team(ints, thread, s.team, self.shared[2])
        self.lane, self.thread = self.team.lane, thread
        teams = s.threads // s.team
        own = ints.div(thread, s.team) if teams > 1 else 0
        number = ints.add(ints.mul(block, teams), own)
        self.there = ints.less(number, c.rows * stage.parts)
        number = number if is_multiple(c.rows * stage.parts, teams) else ints.min(number, c.rows * stage.parts - 1)
        self.row, self.part, self.number = ints.div(number, stage.parts), ints.rem(number, stage.parts), number
        self.slots, self.counter = ints.mul(own, s.slots) if teams > 1 else 0, own
        (self.word,) = self.keys.types
        with only_if(ints.equal(self.lane, 0)):
            memref.store(word(0), self.shared[1], [ints.index(self.counter)])
        gpu.barrier()
        self.none = arith.constant(self.word, -1)
        items = self.read()
        mine = items[0]
        for item in items[1:]:
            mine = arith.minui(mine, item)
        held = Held(items, mine, self.team)
        low, high, before = held.bounds(c.begin, c.count, s.slots)
        self.gather(held, low, high)
        if not self.last:
            self.leave()
        elif s.slots <= _RANKED:
            self.rank(before)
        else:
            self.sort()

    # Items.

    def read(self) -> list[ir.Value]:
        """The thread's items; what is behind the row's end is none."""
        ints, s, c, stage = self.ints, self.stage.schedule, self.c, self.stage
        rows = Rows(c, self.keys, ints, self.buffers)
        element = c.element if stage.first else self.word
        lanes = max(1, min(16 // element_bytes(element), last_power_of_two(s.items)))
        while lanes > 1 and (stage.length % lanes or (stage.first and c.inner != 1)):
            lanes //= 2
        start = ints.mul(self.part, s.tile)
        vectors = -(-s.items // lanes)
        if stage.parts > 1 and vectors * lanes != s.items:
            raise CompileError(f"{s} does not divide rows of {stage.length} into vectors of {lanes}")
        places = [ints.add(start, ints.mul(ints.add(ints.mul(i, s.team), self.lane), lanes)) for i in range(vectors)]
        loaded = []
        for place in places:
            at = ints.min(place, stage.length - lanes)
            offset = rows.offset(self.row, at, stage.length) if stage.first else ints.add(ints.mul(self.row, stage.length), at)
            buffer = self.buffers[c.source] if stage.first else self.buffers[self.arguments]
            loaded.append(lanes_of(load_vector(ints, buffer, offset, element, lanes, lanes)) if lanes > 1 else [load(ints, buffer, offset, element)])
        items = []
        for place, values in zip(places, loaded):
            inside = ints.less(place, stage.length) if (stage.parts * s.tile != stage.length or vectors * lanes != s.items) else None
            for lane, value in enumerate(values):
                item = self.keys.item(self.keys.key(value), ints.add(place, lane), ints)[0] if stage.first else value
                items.append(item if inside is None else arith.select(inside, item, self.none))
        return items

    def gather(self, held: Held, low: ir.Value, high: ir.Value) -> None:
        """Bring the items between the bounds to the row's slots, in any order."""
        ints = self.ints
        kind = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 1)  # addition
        with only_if(at_most(held.mine, high)):
            for item in held.items:
                inside = at_most(item, high)
                if self.c.begin:
                    inside = arith.andi(inside, at_most(low, item))
                with only_if(inside):
                    slot = memref.AtomicRMWOp(kind, word(1), self.shared[1], [ints.index(self.counter)]).result
                    slot = arith.extui(ints.type, slot) if ints.width == 64 else slot
                    memref.store(item, self.shared[0], [ints.index(ints.add(self.slots, slot))])
        gpu.barrier()
        count = memref.load(self.shared[1], [ints.index(self.counter)])
        self.gathered = arith.extui(ints.type, count) if ints.width == 64 else count

    # What becomes of them.

    def leave(self) -> None:
        """Store them for the next kernel, with what is no element in the slots that are left."""
        ints, s = self.ints, self.stage.schedule
        target = self.buffers[-1]
        for i in range(0, s.slots, s.team):
            slot = ints.add(self.lane, i)
            with only_if(ints.less(slot, s.slots)):
                item = memref.load(self.shared[0], [ints.index(slot)])
                item = arith.select(ints.less(slot, self.gathered), item, self.none)
                memref.store(item, target, [ints.index(ints.add(ints.mul(self.number, s.slots), slot))])

    def rank(self, before: ir.Value) -> None:
        """Count for each item how many are before it, and store it there."""
        ints, s = self.ints, self.stage.schedule
        before = arith.extui(ints.type, before) if ints.width == 64 else before
        rows = Rows(self.c, self.keys, ints, self.buffers)
        for i in range(0, s.slots, s.team):
            slot = ints.add(self.lane, i)
            with only_if(arith.andi(self.there, ints.less(slot, self.gathered))):
                item = memref.load(self.shared[0], [ints.index(ints.add(self.slots, slot))])
                loop = scf.ForOp(ints.value(0), self.gathered, ints.value(1), [before])
                with ir.InsertionPoint(loop.body):
                    other = memref.load(self.shared[0], [ints.index(ints.add(self.slots, loop.induction_variable))])
                    smaller = arith.cmpi(arith.CmpIPredicate.ult, other, item)
                    scf.yield_([arith.addi(loop.inner_iter_args[0], arith.extui(ints.type, smaller))])
                rows.write(self.row, loop.results[0], (item,))

    def sort(self) -> None:
        """Sort them by merging."""
        ints, s = self.ints, self.stage.schedule
        each = s.slots // s.threads
        tiles = Tiles(ints, [self.shared[0]], self.thread, s.threads, each)
        first = ints.mul(self.thread, each)
        items = []
        for i in range(each):
            slot = ints.add(first, i)
            item = memref.load(self.shared[0], [ints.index(slot)])
            items.append((arith.select(ints.less(slot, self.gathered), item, self.none),))
        gpu.barrier()
        rows = Rows(self.c, self.keys, ints, self.buffers)
        items = tiles.sort(items, s.slots)
        with rows_there(ints, self.number, self.c.rows):
            for i, item in enumerate(items):
                rows.write(self.row, ints.add(first, i), item)
