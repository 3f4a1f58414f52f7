"""The named pipelines: one for each step between two stages.  ``$name`` is an option of the pipeline."""

PIPELINES = {
    "inferno-import": (
        "func.func(torch-match-quantized-custom-ops),import-bitcasts,import-roundings,import-constants,import-scans,import-row-extremes,import-gathers,"
        "torchdynamo-export-to-torch-backend-pipeline{extra-library=},"
        "torch-backend-to-linalg-on-tensors-backend-pipeline{allow-non-finites=true},"
        "restore-constants,bound-shifts,widen-casts,name-symbols,trim-windows,check-import"
    ),
    "inferno-fuse": (
        "store-float8,mark-terms,remove-asserts,fold-empty,func.func(canonicalize,cse),join-writes,fold-casts,lift-constants,"
        "fold-transposes,skip-zeros,mark-convolutions,func.func(linalg-fold-unit-extent-dims,canonicalize,cse),trim-results{windows=1},fold-wraps,expand-patches,choose-layouts,stack-rows,pad-channels,"
        "propagate-reshapes,func.func(canonicalize,cse),fold-transposes,expand-loops,expand-groups,refine-reshapes,func.func(canonicalize,cse),fold-fills,fold-transposes,"
        "trim-results,func.func(canonicalize,cse),merge-scales,move-factors,split-frozen,hoist-frozen,compose-moves,sink-concats,join-writes,expand-pieces,turn-returned,expand-windows,take-rows,expand-maps,fuse-elementwise,unroll-sums,write-slices,join-slices,hoist-slices,join-slices,cut-reshaped,drop-results,fuse-gathers,drop-results,narrow-comparisons,widen-arithmetic,widen-sums,fold-wraps,"
        "func.func(canonicalize,cse),widen-vectors,narrow-intermediates,sink-transposes,fuse-contractions,order-batches,restore-batches,"
        "draw-numbers,fill-starts,func.func(canonicalize,cse),negate-terms,"
        "keep-exact,outline-kernels,deduplicate-kernels"
    ),
    "inferno-schedule": (
        "fuse-rows{target=$target},roll-steps{target=$target},fuse-attention{target=$target},fuse-attention-gradients{target=$target},"
        "fuse-grouped{target=$target},split-operands{target=$target},fuse-duals{target=$target},fuse-row-epilogues{target=$target},fuse-epilogues{target=$target},split-long-sums{target=$target},"
        "split-terms{target=$target},split-totals{target=$target},merge-softmaxes{target=$target},fuse-reductions{target=$target},merge-variances{target=$target},merge-sums{target=$target},fuse-channel-sums{target=$target},fuse-totals{target=$target},recompute-maps{target=$target},hoist-vectors{target=$target},fuse-sum-maps{target=$target},fuse-sorts{target=$target},"
        "shift-scans{target=$target},fuse-scans{target=$target},fuse-scatters{target=$target},fuse-convolutions{target=$target},fold-slices{target=$target},merge-maps{target=$target},fuse-small{target=$target},merge-reads{target=$target},split-padding{target=$target},split-pieces{target=$target},order-tables{target=$target},order-results{target=$target},batches-first{target=$target},order-operands{target=$target},write-parts{target=$target},assign-schedules{target=$target},prepare-operands{target=$target},merge-siblings{target=$target},"
        "bundle-kernels{target=$target},write-caches{target=$target},merge-writes{target=$target},fold-places{target=$target},mark-overwrites,bundle-updates{target=$target},turn-back{target=$target},explain-boundaries"
    ),
    "inferno-generate": "generate-kernels{target=$target},plan-launches,plan-memory",
    # Loops, vectors and memory accesses of every gpu.module to the LLVM dialect; what is left is llvm, nvvm and the module.
    # No arith-expand: it would spell maximumf, which is one instruction, as two comparisons and two selections.
    "inferno-lower": (
        "gpu.module(convert-nvgpu-to-nvvm),convert-vector-to-scf,"
        "gpu.module(fold-memref-alias-ops,expand-strided-metadata,memref-expand,lower-affine,math-expand-ops{ops=fpowi},canonicalize,cse,"
        "convert-scf-to-cf),convert-math-to-nvvm,"
        "gpu.module(convert-gpu-to-nvvm{use-bare-ptr-memref-call-conv=1 has-redux=1},convert-vector-to-llvm{reassociate-fp-reductions=0},"
        "convert-math-to-llvm,convert-index-to-llvm,convert-arith-to-llvm,convert-complex-to-llvm),"
        "finalize-memref-to-llvm,convert-cf-to-llvm,convert-ub-to-llvm,"
        "gpu.module(convert-nvvm-to-llvm),reconcile-unrealized-casts,canonicalize,cse"
    ),
}
