"""Float32 contractions as six products of bf16 whose rhs comes split, as a frozen weight or by a kernel in front: the copy engine brings its tiles of
bf16.

``bf16x6`` without the warps that split the rhs, and without that way through shared memory.
"""

from collections.abc import Sequence

from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import launch, pointer, temporary, tensor_map
from inferno.codegen.matmul import bf16x6
from inferno.codegen.matmul.operand_copy import OperandCopy
from inferno.codegen.matmul.split_ahead import THREADS, SplitAhead
from inferno.codegen.matmul.splitting import PARTS
from inferno.codegen.matmul.wgmma import emit, prepare_bodies
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.mbarriers import Position
from inferno.codegen.nvvm.tensor_core import Tile
from inferno.errors import CompileError
from inferno.mlir import func, ir
from inferno.schedule.analysis.kept_operands import PARTS as SPLIT, kept
from inferno.schedule.matmul.bf16x6 import DEPTH, divides, sources
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.presplit import Presplit, can_be_split, is_interleaved, padded, raw_bytes, tile
from inferno.target import Target

# Registers of a thread of the warpgroup that copies, and of a consumer's: all 384 threads together have 65536.
_REGISTERS = 24, 240


def generate(kernel: func.FuncOp, schedule: Presplit, target: Target) -> None:
    """Add the ``gpu.module`` of a contraction whose rhs has been split, and make ``kernel`` its launcher."""
    c, found = parse_contraction(kernel), kept(kernel, SPLIT)
    tiling = tile(c) if c is not None else None
    if tiling is None or (c.rhs.access.argument not in found and not can_be_split(c, tiling)):
        raise CompileError(f"@{kernel.name.value} is not a float32 contraction whose rhs has been or can be split")
    if not divides(schedule, tiling) or schedule.groups != 1 or schedule.swapped:
        raise CompileError(f"@{kernel.name.value}: {schedule} cannot divide {tiling.k_steps(DEPTH)} steps")
    if not schedule.fits_registers:
        raise CompileError(f"@{kernel.name.value}: {schedule} needs more registers than a thread has")
    prepare_bodies(c)
    emitter = _Emitter(kernel.name.value, c, tiling, schedule, target, "bf16")
    if c.rhs.access.argument in found:
        emitter.parts_argument = found[c.rhs.access.argument]
    else:
        emitter.ahead = SplitAhead(c.rhs.access, tiling.n, tiling.k, is_interleaved(c, tiling))
    emit(kernel, emitter)


class _Emitter(bf16x6._Emitter):
    parts_argument = -1
    ahead: SplitAhead | None = None

    def __post_init__(self) -> None:
        c, t, s = self.contraction, self.tiling, self.schedule
        (self.left, self.left_source), (self.right, self.right_source) = sources(c, t)
        self.depth = DEPTH
        self.lhs = Tile(64, 2, True, 2 * DEPTH)
        self.rhs = Tile(s.tile_n, 2, True, 2 * DEPTH)
        self.raw_bytes = raw_bytes(s, c, t)
        self.rewrites = True  # the lhs's raw tiles, by the consumers
        self.prepare()

    # The host's side.

    def launch(self, arguments: Sequence[ir.Value], copies: dict[str, OperandCopy]) -> None:
        if self.ahead is not None:
            self.split_rhs = temporary(self.ahead.shape, ir.BF16Type.get())
            parameters = [pointer(arguments[self.ahead.access.argument]), pointer(self.split_rhs)]
            launch(f"{self.name}_gpu", f"{self.name}_parts", parameters, (self.ahead.blocks, 1, 1), (THREADS, 1, 1))
        else:
            self.split_rhs = arguments[self.parts_argument]
        super().launch(arguments, copies)

    def operand_maps(self, lhs: ir.Value, rhs: ir.Value) -> list[ir.Value]:
        s, t, left = self.schedule, self.tiling, self.left_source
        size = padded(t.k.size)
        box = (DEPTH, s.tile_m) if left.raw_along_k else (bf16x6.PANEL, DEPTH)
        parts = tensor_map(
            self.split_rhs, sizes=[size, t.n.size, PARTS], strides=[2, 2 * size, 2 * size * t.n.size], box=[DEPTH, s.tile_n, PARTS],
            element="bf16", swizzle=self.rhs.span,
        )
        return [bf16x6.raw_map(lhs, left, box, 128), parts]

    # The kernel.

    def emit(self, module: ir.Block) -> None:
        if self.ahead is not None:
            self.ahead.emit(module, f"{self.name}_parts")
        super().emit(module)

    @property
    def registers(self) -> tuple[int, int]:
        return _REGISTERS

    @property
    def fillers(self) -> int:
        return 1

    @property
    def raw_readers(self) -> int:
        return 4 * self.readers

    @property
    def direct_bytes(self) -> int:
        return PARTS * self.rhs.bytes

    def fill(
        self, grid: Sequence[Integer], m0: Integer, n0: Integer, step: ir.Value, at: Position, raw: Position,
    ) -> list[ir.Value]:
        """Start the copies of one step: the lhs's raw tile, and the three of the rhs as one box."""
        words, ring, source = self.words, self.ring, self.left_source
        where, k0 = self.place(grid, step)
        self.raw.acquire(raw)
        self.raw.full.expect(raw.slot, self.raw_bytes[0])
        outer = [where[a] for a in source.axes[2:]]
        self.copy_raw(self.maps[0], source, outer, m0, k0, self.raw_slot(raw.slot), self.raw.full.at(raw.slot))
        ring.acquire(at)
        ring.full.expect(at.slot, self.direct_bytes)
        slot = words.add(words.add(self.device.shared, self.layout.rhs), words.mul(at.slot, self.direct_bytes))
        tma.load_box(words, self.maps[1], [k0, n0, 0], slot, ring.full.at(at.slot))
        return [*ring.next(at).values, *self.raw.next(raw).values]

    def rewrite(self) -> None:
        """Nothing: the warps behind the first wait for the end."""
