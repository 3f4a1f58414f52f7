"""The named pipelines, one for each step between two stages of the IR.  ``docs/passes.md`` has a paragraph on each pass, in this order.

A pipeline is a list of groups of passes; within a group they belong together, and what the group is for stands above it.  ``$target`` is the
pipeline's option.  Names that ``inferno.passes`` does not list are MLIR's or torch-mlir's.
"""

_CLEAN = "func.func(canonicalize,cse)"

_IMPORT = (
    # What torch-mlir does not import, or imports wrong, becomes operations on builtin tensors first.
    "func.func(torch-match-quantized-custom-ops)", "import-bitcasts", "import-roundings", "import-constants", "import-scans", "import-row-extremes",
    "import-gathers", "import-scatters",
    # torch-mlir's lowering of the torch dialect to linalg on tensors.
    "torchdynamo-export-to-torch-backend-pipeline{extra-library=}",
    "torch-backend-to-linalg-on-tensors-backend-pipeline{allow-non-finites=true}",
    # Its results are corrected, sizes that vary get names, and the program is checked.
    "restore-constants", "bound-shifts", "widen-casts", "name-symbols", "trim-windows", "check-import",
)

_FUSE = (
    # Normal form: no 8-bit floats, assertions, empty loops or tensor constants; data movement as indexing maps where it can be one.
    "store-float8", "mark-terms", "remove-asserts", "fold-empty", _CLEAN, "join-writes", "fold-casts", "lift-constants", "fold-transposes",
    # Convolutions, and the layout of the whole program, which follows from them.
    "skip-zeros", "mark-convolutions", "func.func(linalg-fold-unit-extent-dims,canonicalize,cse)",
    "trim-results{windows=1}", "fold-wraps", "expand-patches",
    "choose-layouts", "stack-rows", "pad-channels",
    # Reshapes move out of the way of fusion: behind elementwise operations, or into the loops of a contraction.
    "propagate-reshapes", _CLEAN, "fold-transposes", "expand-loops", "expand-groups", "refine-reshapes", _CLEAN, "fold-fills", "fold-scans", "fold-transposes",
    # What is not needed is not computed; what frozen weights alone decide moves to @prepare.
    "trim-results", _CLEAN, "merge-scales", "move-factors", "split-frozen", "hoist-frozen",
    # Data movement (rolls, concatenations, paddings, writes to slices, poolings, gathers of rows) becomes elementwise, or goes to its readers.
    "merge-phases", "compose-moves", "split-concats", "sink-concats", "join-writes", "expand-pieces", "transpose-returned", "split-windows",
    "expand-windows", "take-rows", "sink-gathers", "lift-slices", "expand-maps", "turn-maps",
    # Elementwise fusion, and the slices and gathers that are left behind it.
    "fuse-elementwise", "unroll-sums", "write-slices", "join-slices", "hoist-slices", "join-slices", "cut-reshaped", "drop-results",
    "fold-reductions", "fuse-gathers", "drop-results",
    # Which type values are computed in, and which they have in memory.
    "narrow-comparisons", "widen-arithmetic", "widen-sums", "fold-wraps", _CLEAN, "widen-vectors", "narrow-intermediates", "sink-transposes",
    # Contractions take their prologues and epilogues.
    "fuse-contractions", "order-batches", "restore-batches", "draw-numbers", "fill-starts", _CLEAN, "negate-terms", "keep-exact",
    # Each group of operations that is left is a kernel: a private function.
    "outline-kernels", "deduplicate-kernels",
)

_SCHEDULE = (
    # Kernels that follow each other become one: on the CPU rows, on a GPU recurrences, attention, products with what surrounds them.
    "fuse-rows{target=$target}", "roll-steps{target=$target}", "fuse-attention{target=$target}", "fuse-attention-gradients{target=$target}",
    "fuse-grouped{target=$target}", "split-operands{target=$target}", "fuse-duals{target=$target}", "fuse-row-epilogues{target=$target}",
    "fuse-epilogues{target=$target}", "split-long-sums{target=$target}",
    # Reductions, and the maps before and after them.
    "split-terms{target=$target}", "split-totals{target=$target}", "merge-softmaxes{target=$target}", "fuse-reductions{target=$target}",
    "merge-variances{target=$target}", "merge-sums{target=$target}", "fuse-channel-sums{target=$target}", "fuse-totals{target=$target}",
    "recompute-maps{target=$target}", "recompute-results{target=$target}", "hoist-vectors{target=$target}", "compute-gathered{target=$target}",
    "fuse-sum-maps{target=$target}",
    # Sorts, scans, scatters and the CPU's convolutions take the maps around them.
    "fuse-sorts{target=$target}", "shift-scans{target=$target}", "fuse-scans{target=$target}", "fuse-scatters{target=$target}",
    "fuse-convolutions{target=$target}",
    # Kernels that read the same tensors, and small ones, become one.
    "fold-slices{target=$target}", "join-steps{target=$target}", "merge-maps{target=$target}", "fuse-small{target=$target}", "merge-reads{target=$target}",
    # Layouts that kernels cannot read, or read slowly, are changed in front of them.
    "split-padding{target=$target}", "split-pieces{target=$target}", "order-tables{target=$target}", "order-results{target=$target}",
    "batches-first{target=$target}", "order-operands{target=$target}", "write-parts{target=$target}",
    # The cost model picks a generator and a schedule for each kernel.
    "assign-schedules{target=$target}", "prepare-operands{target=$target}",
    # By their schedules, independent kernels share a launch.
    "merge-siblings{target=$target}", "bundle-kernels{target=$target}", "write-caches{target=$target}", "merge-writes{target=$target}",
    "fold-places{target=$target}", "mark-overwrites", "bundle-updates{target=$target}", "place-results{target=$target}",
    "turn-back{target=$target}", "mark-successors", "explain-boundaries",
)

_GENERATE = ("generate-kernels{target=$target}", "plan-launches", "plan-memory")

# Loops, vectors and memory accesses of every gpu.module to the LLVM dialect; what is left is llvm, nvvm and the module.
# No arith-expand: it would spell maximumf, which is one instruction, as two comparisons and two selections.
_LOWER = (
    "gpu.module(convert-nvgpu-to-nvvm)", "convert-vector-to-scf",
    "gpu.module(fold-memref-alias-ops,expand-strided-metadata,memref-expand,lower-affine,math-expand-ops{ops=fpowi},canonicalize,cse,"
    "convert-scf-to-cf)",
    "convert-math-to-nvvm",
    "gpu.module(convert-gpu-to-nvvm{use-bare-ptr-memref-call-conv=1 has-redux=1},convert-vector-to-llvm{reassociate-fp-reductions=0},"
    "convert-math-to-llvm,convert-index-to-llvm,convert-arith-to-llvm,convert-complex-to-llvm)",
    "finalize-memref-to-llvm", "convert-cf-to-llvm", "convert-ub-to-llvm", "gpu.module(convert-nvvm-to-llvm)", "reconcile-unrealized-casts",
    "canonicalize", "cse",
)

PIPELINES = {
    "inferno-import": ",".join(_IMPORT),  # torch -> linalg
    "inferno-fuse": ",".join(_FUSE),  # linalg -> fused
    "inferno-schedule": ",".join(_SCHEDULE),  # fused -> scheduled
    "inferno-generate": ",".join(_GENERATE),  # scheduled -> gpu
    "inferno-lower": ",".join(_LOWER),  # gpu -> llvm, for each kernel on its own
}
