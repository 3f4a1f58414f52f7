"""Round the accumulated gradients of queries, which lie in memory in the layout of the tensor core's registers, thread by thread."""

from inferno.codegen.attention.cluster_shares import load_floats
from inferno.codegen.attention.gradients_consumer import result_of, stored
from inferno.codegen.attention.results import Results
from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import lanes_of
from inferno.codegen.matmul.wgmma_epilogue import Warpgroup
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import Words, special_register, uniform, widen_pointer
from inferno.codegen.nvvm.global_memory import Elements
from inferno.mlir import ir
from inferno.schedule.attention.attention_gradients import GradientTiling
from inferno.schedule.attention.gradient_kernel import AttentionGradient
from inferno.schedule.attention.kept_scores import QuerySums
from inferno.schedule.attention.schedule import LINE, lines


class Rounded:
    """Blocks of one warpgroup round 64 queries of a head each.  ``gradient`` and ``tiling`` are of queries."""

    threads = 128

    def __init__(self, words: Words, gradient: AttentionGradient, tiling: GradientTiling) -> None:
        self.words, self.gradient, self.tiling = words, gradient, tiling
        self.form = QuerySums(consumers=1)
        self.shared = 64 * LINE * lines(gradient.depth.size) * 2

    @property
    def blocks(self) -> int:
        return self.tiling.heads * self.tiling.rows.size // 64

    def emit(self, shared: ir.Value, sums: ir.Value, tensors: dict[int, Elements], stores: dict[int, ir.Value]) -> None:
        words, g, t = self.words, self.gradient, self.tiling
        thread, block = special_register("tid.x"), special_register("ctaid.x")
        warp = uniform(words, words.shr(thread, 5))
        group = Warpgroup(0, thread, warp, words.mask(thread, 31), shared)
        count = g.depth.size // 2
        first = words.add(words.mul(block, 128 * count), words.shl(thread, 2))
        found = [load_floats(widen_pointer(words, sums, first, 2048 * i, ir.F32Type.get()), 4) for i in range(count // 4)]
        axes, finished = result_of(t, self.form, 0, bool(stores))
        result = Results(words, stored(g, 0), axes, finished, tensors, group, stores)
        rows = t.rows.size // 64
        grid = words.split(words.div(block, rows), [a.size for a in t.grid])
        result.begin(grid, words.mul(words.rem(block, rows), 64), 0)
        result.emit([[x for each in found for x in lanes_of(each)]])
        with only_if(words.equal(thread, 0)):
            tma.await_stores(0, read=True)
