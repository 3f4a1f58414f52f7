"""Contractions on the tensor cores of sm_80 and up: mma.sync on tiles that asynchronous copies bring, some slots ahead.

Every warp multiplies its part of the block's tile.  In a step the copies of the tile that is ``stages - 1`` ahead are started, to
the slot that the last step has left; each product's fragments are read while the one before is multiplied, also across steps (but for
f64), so that the one barrier of a step comes before its last product.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import join, lanes_of
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import launch, launcher, pointer, scalar, temporary
from inferno.codegen.builders.multiply_adds import MultiplyAdds
from inferno.codegen.matmul.mma_operand import Loaded, Loader
from inferno.codegen.matmul.mma_tile import Fragments, Lane, Multiplier, Tile, round_to_tf32
from inferno.codegen.matmul.pair_epilogue import PairEpilogue
from inferno.codegen.matmul.tile_order import tile_position
from inferno.codegen.matmul.wgmma import prepare_bodies
from inferno.codegen.nvvm.builder import READ_BUFFER, WRITTEN_BUFFER, Device, Words, device_kernel, device_module, loop, opaque, special_register
from inferno.codegen.nvvm.global_memory import Elements
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir, nvvm
from inferno.passes.shapes import symbol_arguments
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.mma import Mma, precision, supported, ways
from inferno.schedule.tiles.tiling import Axes, Axis, pick_axes
from inferno.symbolic import Symbol, ceildiv
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: Mma, target: Target) -> None:
    """Add the ``gpu.module`` of a contraction and make ``kernel`` its launcher."""
    c = parse_contraction(kernel)
    kinds = precision(kernel, c) if c is not None else None
    axes = pick_axes(c) if kinds is not None and supported(c) else None
    if axes is None:
        raise CompileError(f"@{kernel.name.value} is not a contraction for mma.sync")
    if schedule.shared > target.shared:
        raise CompileError(f"@{kernel.name.value}: {schedule} needs {schedule.shared} bytes of shared memory")
    prepare_bodies(c)
    emitter = _Emitter(kernel.name.value, c, axes, schedule, target, kinds)
    with device_module(kernel) as module:
        emitter.emit(module)
        if schedule.split > 1:
            emitter.emit_second(module)
    with launcher(kernel) as arguments:
        emitter.launch(arguments)


@dataclass
class _Emitter(MultiplyAdds):
    name: str
    contraction: Contraction
    axes: Axes
    schedule: Mma
    target: Target
    kinds: tuple[str, str]

    def __post_init__(self) -> None:
        c, a, s = self.contraction, self.axes, self.schedule
        width = c.lhs.element.width // 8
        self.ways = ways(c, a)
        self.tiles = [Tile(rows, width, way.along_k, s.row) for rows, way in zip((s.tile_m, s.tile_n), self.ways)]
        self.depth = s.row // width
        self.steps = a.k_steps(self.depth)
        self.rows, self.columns = ceildiv(a.m.size, s.tile_m), ceildiv(a.n.size, s.tile_n)
        self.count = a.positions * self.rows * self.columns
        if s.split > 1 and not (
            isinstance(self.steps, int) and isinstance(self.count, int) and (s.split - 1) * ceildiv(self.steps, s.split) < self.steps
        ):
            raise CompileError(f"@{self.name}: {s} cannot split {self.steps} steps")
        if s.stages < 2 or s.warp_m % 16 or s.warp_n % 16 or s.warp_m & s.warp_m - 1 or s.warp_n & s.warp_n - 1:
            raise CompileError(f"@{self.name}: {s} has too few stages, or warps with a part of a tile that is no power of 2")
        self.operands = (c.lhs, c.rhs)
        read = {x.argument: x.element for o in self.operands for x in o.reads}
        late = {x.argument: x.element for x in (*c.extras, *(d.access for d in c.destinations))}
        written = {d.access.argument for d in c.destinations}
        # What the sums and what the results are computed from: argument -> (element, only read).
        self.early = {n: (read[n], True) for n in sorted(read)}
        self.late = {n: (late[n], n not in written) for n in sorted(late)}
        self.sums = s.warp_m // 16 * (s.warp_n // 8)  # of four numbers each

    # The host's side.

    def launch(self, arguments: Sequence[ir.Value]) -> None:
        s, c = self.schedule, self.contraction
        function = c.module.body.operations[0].operation
        sizes = [scalar(arguments[v.arg_number]) for v in symbol_arguments(function).values()]
        early, late = ([pointer(arguments[n]) for n in each] for each in (self.early, self.late))
        block = (s.threads, 1, 1)
        if s.split == 1:
            merged = [pointer(arguments[n]) for n in self.tensors_of(True)]
            launch(f"{self.name}_gpu", self.name, [*merged, *sizes], (self.count, 1, 1), block, shared=s.shared)
            return
        sums = temporary((s.split * self.count * s.tile_m * s.tile_n,), c.accumulator)
        grid = (self.count * s.split, 1, 1)
        launch(f"{self.name}_gpu", self.name, [*early, pointer(sums), *sizes], grid, block, shared=s.shared)
        grid = (self.count * (s.warp_m // 16), 1, 1)
        launch(f"{self.name}_gpu", f"{self.name}_sums", [*late, pointer(sums), *sizes], grid, block)

    @property
    def symbols(self) -> list[Symbol]:
        """The kernel's sizes that vary: its last parameters."""
        return list(symbol_arguments(self.contraction.module.body.operations[0].operation))

    def tensors_of(self, whole: bool) -> dict[int, tuple[ir.Type, bool]]:
        """The tensors of the first kernel, which without a second one has the ``whole`` computation."""
        return dict(sorted({**self.early, **self.late}.items())) if whole else self.early

    # The kernels.

    def emit(self, module: ir.Block) -> None:
        s, whole = self.schedule, self.schedule.split == 1
        tensors = self.tensors_of(whole)
        with device_kernel(module, self.name, self.parameters(tensors, not whole), s.threads, shared=True) as device:
            self.begin(device, tensors, not whole)
            block = special_register("ctaid.x")
            part, number = (0, block) if whole else (self.words.div(block, self.count), self.words.rem(block, self.count))
            grid, m0, n0 = self.tile(number)
            sums = self.multiply(device.shared, grid, m0, n0, part)
            if not whole:
                self.leave(sums, self.words.add(self.words.mul(part, self.count), number))
                return
            epilogue = self.epilogue(grid, m0, n0)
            for i in range(s.warp_m // 16):
                self.finish(epilogue, 16 * i, [sums[i * (s.warp_n // 8) + j] for j in range(s.warp_n // 8)])

    def emit_second(self, module: ir.Block) -> None:
        """The kernel that adds the parts' sums, 16 rows of each warp a block, and applies the epilogue."""
        s, columns = self.schedule, self.schedule.warp_n // 8
        with device_kernel(module, f"{self.name}_sums", self.parameters(self.late, True), s.threads) as device:
            self.begin(device, self.late, True)
            words, block = self.words, special_register("ctaid.x")
            rows = s.warp_m // 16
            number, i = words.div(block, rows), words.rem(block, rows)
            grid, m0, n0 = self.tile(number)

            def part(at: ir.Value, *sums: ir.Value) -> list[ir.Value]:
                tile = words.add(words.mul(at, self.count), number)
                more = [x for j in range(columns) for x in lanes_of(self.read_sums(tile, words.add(words.mul(i, columns), j)))]
                return [self.plus(a, b) for a, b in zip(sums, more)]

            sums = loop(words, 0, s.split, 1, [self.zero()] * (4 * columns), part)
            epilogue = self.epilogue(grid, words.add(m0, words.mul(i, 16)), n0)
            self.finish(epilogue, 0, _in_fours(sums))

    def parameters(self, tensors: dict[int, tuple[ir.Type, bool]], workspace: bool) -> list[str]:
        pointers = [READ_BUFFER if readonly else WRITTEN_BUFFER for _, readonly in tensors.values()]
        return [*pointers, *([WRITTEN_BUFFER] if workspace else []), *["i64"] * len(self.symbols)]

    def begin(self, device: Device, tensors: dict[int, tuple[ir.Type, bool]], workspace: bool) -> None:
        """What all threads need."""
        words = self.words = Words({})
        sizes = device.parameters[len(tensors) + workspace:]
        for symbol, value in zip(self.symbols, sizes):
            words.symbols[symbol] = arith.trunci(words.type, value)
        self.tensors = {n: Elements(words, p, *tensors[n]) for n, p in zip(tensors, device.parameters)}
        self.workspace = Elements(words, device.parameters[len(tensors)], self.contraction.accumulator, False) if workspace else None
        self.thread, self.lane = special_register("tid.x"), Lane.make(words)
        warp = words.shr(self.thread, 5)
        self.warp_row = words.mul(words.div(warp, self.schedule.warps_n), self.schedule.warp_m)
        self.warp_column = words.mul(words.rem(warp, self.schedule.warps_n), self.schedule.warp_n)

    def tile(self, number: Integer) -> tuple[list[Integer], Integer, Integer]:
        """Tile ``number``: its position in the grid's axes, its first row and column."""
        s, words = self.schedule, self.words
        grid, row, column = tile_position(words, number, [a.size for a in self.axes.grid], self.rows, self.columns, s.group)
        n0 = words.mul(column, s.tile_n)
        return grid, words.mul(row, s.tile_m), n0 if isinstance(self.count, int) else opaque(words, n0)

    # The products.

    def multiply(self, shared: ir.Value, grid: Sequence[Integer], m0: Integer, n0: Integer, part: Integer) -> list[list[ir.Value]]:
        """The sums over this part's terms: four for each 16 rows and 8 columns of the warp's part of the tile."""
        c, a, s, words = self.contraction, self.axes, self.schedule, self.words
        rounded = self.kinds[0] == "tf32"
        self.loaders = [
            Loader(words, operand, way, tile, rows, a.k, self.tensors, s.threads, rounded)
            for operand, way, tile, rows in zip(self.operands, self.ways, self.tiles, (a.m, a.n))
        ]
        for loader, first in zip(self.loaders, (m0, n0)):
            loader.place(self.thread, first, dict(zip(a.grid, grid)))
        self.fragments = [
            Fragments(words, tile, self.lane, first, c.lhs.element, rhs) for tile, first, rhs in
            zip(self.tiles, (self.warp_row, self.warp_column), (False, True))
        ]
        self.multiplier = Multiplier(self.kinds, c.accumulator, self.target.capability >= 90)
        self.slot_bytes = sum(t.bytes for t in self.tiles)
        self.shared = shared
        each = ceildiv(self.steps, s.split)
        first = words.mul(part, each) if s.split > 1 else 0
        end = words.min(words.add(first, each), self.steps) if s.split > 1 else self.steps
        for i in range(s.stages - 1):
            step = words.add(first, i)
            with only_if(words.less(step, end)):
                self.store(self.load(i * self.slot_bytes, step), i * self.slot_bytes, step)
            nvvm.CpAsyncCommitGroupOp()
        products, zeros = self.depth // self.fragments[0].terms, [self.zero()] * (4 * self.sums)
        fragments: list[ir.Value] = []
        if self.prefetches:
            self.await_copies()
            fragments = self.read(0, 0)

        def step(number: ir.Value, slot: ir.Value, last: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            sums, current = _in_fours(carried[:4 * self.sums]), list(carried[4 * self.sums:])
            ahead, following = words.add(number, s.stages - 1), self.next(slot)
            if not self.prefetches:
                self.await_copies()
            loaded = self.load_ahead(last, ahead, end)
            for i in range(products):
                if not self.prefetches:
                    current = self.read(slot, i)
                if i + 1 == products:
                    self.store_ahead(loaded, last, ahead, end)
                after: list[ir.Value] = []
                if self.prefetches:
                    if i + 1 == products:
                        self.await_copies()
                    after = self.read(slot, i + 1) if i + 1 < products else self.read(following, 0)
                sums, current = self.products(sums, current), after
            return [following, slot, *(x for four in sums for x in four), *current]

        start = [words.value(0), words.value((s.stages - 1) * self.slot_bytes), *zeros, *fragments]
        _, _, *done = loop(words, first, end, 1, start, step)
        # (Copies may not be under way when a block ends: those that are left are of steps that do not exist, and empty.)
        return _in_fours(done[:4 * self.sums])

    @property
    def prefetches(self) -> bool:
        """Whether a product's fragments are read before the product in front of it.  Those of f64 take longer than the reads, and twice
        the registers."""
        return self.kinds[0] != "f64"

    def zero(self) -> ir.Value:
        type_ = self.contraction.accumulator
        attribute = ir.IntegerAttr.get(type_, 0) if isinstance(type_, ir.IntegerType) else ir.FloatAttr.get(type_, 0.0)
        return arith.ConstantOp(type_, attribute).result

    def next(self, slot: ir.Value) -> ir.Value:
        """The slot behind one."""
        words, after = self.words, self.words.add(slot, self.slot_bytes)
        return words.select(words.equal(after, self.schedule.stages * self.slot_bytes), 0, after)

    def await_copies(self) -> None:
        """Until the next step's tiles are there, for all threads, and all have read what they need of this one's."""
        nvvm.CpAsyncWaitGroupOp(self.schedule.stages - 2)
        nvvm.BarrierOp()

    def place(self, step: Integer) -> tuple[Integer, dict[Axis, Integer]]:
        """The first k of a step, and the positions of the axes of k that are not tiled."""
        a, words = self.axes, self.words
        chunks = ceildiv(a.k.size, self.depth)
        outer, chunk = (words.div(step, chunks), words.rem(step, chunks)) if a.steps else (0, step)
        return words.mul(chunk, self.depth), dict(zip(a.steps, words.split(outer, [x.size for x in a.steps])))

    def slots(self, slot: Integer) -> list[Integer]:
        """The addresses of both tiles of a slot."""
        words = self.words
        base = words.add(self.shared, slot)
        return [base, words.add(base, self.tiles[0].bytes)]

    def load(self, slot: Integer, step: Integer) -> list[Loaded]:
        """Start what brings a step's tiles to a slot; what goes through registers is returned."""
        k0, where = self.place(step)
        loaded = []
        for loader, address in zip(self.loaders, self.slots(slot)):
            if loader.way.copy:
                loader.copy(address, k0, where)
            else:
                loaded.append(loader.fetch(k0, where))
        return loaded

    def store(self, loaded: list[Loaded], slot: Integer, step: Integer) -> None:
        """What ``load`` returned, to the slot."""
        rest, (k0, _) = iter(loaded), self.place(step)
        for loader, address in zip(self.loaders, self.slots(slot)):
            if not loader.way.copy:
                loader.commit(next(rest), address, k0)

    def load_ahead(self, slot: ir.Value, step: Integer, end: Integer) -> list[Loaded]:
        """``load`` for a step that may not exist.  Loads to registers then are of the last one, again."""
        words, last = self.words, self.words.sub(end, 1)
        if any(loader.way.copy for loader in self.loaders):
            with only_if(words.less(step, end)):
                k0, where = self.place(step)
                for loader, address in zip(self.loaders, self.slots(slot)):
                    if loader.way.copy:
                        loader.copy(address, k0, where)
        nvvm.CpAsyncCommitGroupOp()
        k0, where = self.place(words.min(step, last))
        return [loader.fetch(k0, where) for loader in self.loaders if not loader.way.copy]

    def store_ahead(self, loaded: list[Loaded], slot: ir.Value, step: Integer, end: Integer) -> None:
        """``store``, to a slot that nobody reads any more; the last step's again where there is no such step."""
        if loaded:
            self.store(loaded, slot, self.words.min(step, self.words.sub(end, 1)))

    def read(self, slot: Integer, product: int) -> list[ir.Value]:
        """The registers of all fragments of a slot's product."""
        s, registers = self.schedule, []
        counts = (s.warp_m, s.warp_n)
        for fragments, loader, address, count in zip(self.fragments, self.loaders, self.slots(slot), counts):
            for row in range(0, count, 16):
                found = fragments.read(address, row, product)
                if self.kinds[0] == "tf32":  # rounded here, or before they came to the tile
                    found = [self.bits(x) if not loader.way.copy else round_to_tf32(x) for x in found]
                registers += found
        return registers

    def bits(self, value: ir.Value) -> ir.Value:
        return arith.bitcast(self.words.type, value) if isinstance(value.type, ir.F32Type) else value

    def products(self, sums: list[list[ir.Value]], registers: list[ir.Value]) -> list[list[ir.Value]]:
        s = self.schedule
        lhs = [registers[4 * i:4 * i + 4] for i in range(s.warp_m // 16)]
        rest = registers[4 * len(lhs):]
        rhs = [(rest[2 * j], rest[2 * j + 1]) for j in range(s.warp_n // 8)]
        return [self.multiplier.multiply(sums[i * len(rhs) + j], a, b) for i, a in enumerate(lhs) for j, b in enumerate(rhs)]

    # The results.

    def epilogue(self, grid: Sequence[Integer], m0: Integer, n0: Integer) -> PairEpilogue:
        words = self.words
        epilogue = PairEpilogue(words, self.contraction, self.axes, self.schedule, self.tensors)
        row = words.add(words.add(m0, self.warp_row), self.lane.pair)
        epilogue.place_thread(grid, row, words.add(words.add(n0, self.warp_column), words.shl(self.lane.quad, 1)))
        return epilogue

    def finish(self, epilogue: PairEpilogue, down: int, sums: Sequence[Sequence[ir.Value]]) -> None:
        """16 rows of the warp's results, ``down`` rows from its first."""
        epilogue.load([down, down + 8], range(len(sums)))
        results = [[epilogue.apply(down + 8 * h, j, join(four[2 * h:2 * h + 2])) for h in range(2)] for j, four in enumerate(sums)]
        for number, destination in enumerate(self.contraction.destinations):
            for h in range(2):
                pairs, access = [each[h][number] for each in results], destination.access
                if epilogue.in_quads(access):
                    epilogue.write_quads(access, down + 8 * h, 0, pairs, self.lane.quad)
                else:
                    epilogue.write(access, down + 8 * h, 0, pairs)

    # Sums in the workspace: those of 16 rows and 8 columns of all warps of a tile are neighbours.

    def leave(self, sums: list[list[ir.Value]], tile: Integer) -> None:
        for i, four in enumerate(sums):
            self.workspace.write(join(four), self.sums_place(tile, i), aligned=4)

    def read_sums(self, tile: Integer, number: Integer) -> ir.Value:
        return self.workspace.read(self.sums_place(tile, number), 0, 4, 4)

    def sums_place(self, tile: Integer, number: Integer) -> Integer:
        words = self.words
        return words.mul(words.add(words.mul(words.add(words.mul(tile, self.sums), number), self.schedule.threads), self.thread), 4)


def _in_fours(values: Sequence[ir.Value]) -> list[list[ir.Value]]:
    return [list(values[i:i + 4]) for i in range(0, len(values), 4)]
