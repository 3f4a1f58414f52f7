"""The passes, by name, in the order in which the pipelines run them.

Names map to lazy imports, so that listing them costs nothing.
A pass is a function ``(module: ir.Module, **options: str) -> None`` that rewrites the module in place and raises ``PassError``
when it cannot.  One pass a file; later packages' passes (schedule, codegen, runtime) are listed here too, as text.

This package holds the passes of ``inferno-import`` and ``inferno-fuse``, which take no target (where they need to know, the
module has attributes).  To read them in order, start with
``pipelines.py`` (which passes, and what each group is for) and ``manager.py`` (how a pipeline runs).  What passes share:

* ``generics`` (reading and building ``linalg.generic``), ``contraction`` and ``convolution`` (what such an operation computes),
  ``shapes`` (sizes as expressions of symbols), ``programs`` (``@main`` and its kernels), ``parts`` (slices), ``greedy``
  (rewriting to a fixed point);
* ``orders`` and ``reorderings`` (layouts, for ``choose_layouts``), ``movements`` (operations that only move data), ``picks``,
  ``places`` and ``neighbours`` (gathers), ``few_terms``, ``moved_norms`` and ``reversals`` (rewrites that a pass of another name
  applies).
"""

from collections.abc import Callable
from importlib import import_module

_PASSES = {
    # torch -> linalg
    "import-bitcasts": "inferno.passes.import_bitcasts:import_bitcasts",
    "import-roundings": "inferno.passes.import_roundings:import_roundings",
    "import-constants": "inferno.passes.import_constants:import_constants",
    "import-scans": "inferno.passes.import_scans:import_scans",
    "import-gathers": "inferno.passes.import_gathers:import_gathers",
    "restore-constants": "inferno.passes.restore_constants:restore_constants",
    "bound-shifts": "inferno.passes.bound_shifts:bound_shifts",
    "widen-casts": "inferno.passes.widen_casts:widen_casts",
    "name-symbols": "inferno.passes.name_symbols:name_symbols",
    "trim-windows": "inferno.passes.trim_windows:trim_windows",
    "check-import": "inferno.passes.check_import:check_import",
    # linalg -> fused
    "store-float8": "inferno.passes.store_float8:store_float8",
    "mark-terms": "inferno.passes.mark_terms:mark_terms",
    "remove-asserts": "inferno.passes.remove_asserts:remove_asserts",
    "fold-empty": "inferno.passes.fold_empty:fold_empty",
    "join-writes": "inferno.passes.join_writes:join_writes",
    "fold-casts": "inferno.passes.fold_casts:fold_casts",
    "lift-constants": "inferno.passes.lift_constants:lift_constants",
    "fold-transposes": "inferno.passes.fold_transposes:fold_transposes",
    "skip-zeros": "inferno.passes.skip_zeros:skip_zeros",
    "mark-convolutions": "inferno.passes.mark_convolutions:mark_convolutions",
    "fold-wraps": "inferno.passes.fold_wraps:fold_wraps",
    "expand-patches": "inferno.passes.expand_patches:expand_patches",
    "choose-layouts": "inferno.passes.choose_layouts:choose_layouts",
    "stack-rows": "inferno.passes.stack_rows:stack_rows",
    "pad-channels": "inferno.passes.pad_channels:pad_channels",
    "propagate-reshapes": "inferno.passes.propagate_reshapes:propagate_reshapes",
    "expand-loops": "inferno.passes.expand_loops:expand_loops",
    "expand-groups": "inferno.passes.expand_groups:expand_groups",
    "refine-reshapes": "inferno.passes.refine_reshapes:refine_reshapes",
    "fold-fills": "inferno.passes.fold_fills:fold_fills",
    "trim-results": "inferno.passes.trim_results:trim_results",
    "merge-scales": "inferno.passes.merge_scales:merge_scales",
    "move-factors": "inferno.passes.move_factors:move_factors",
    "split-frozen": "inferno.passes.split_frozen:split_frozen",
    "hoist-frozen": "inferno.passes.hoist_frozen:hoist_frozen",
    "compose-moves": "inferno.passes.compose_moves:compose_moves",
    "sink-concats": "inferno.passes.sink_concats:sink_concats",
    "expand-pieces": "inferno.passes.expand_pieces:expand_pieces",
    "turn-returned": "inferno.passes.turn_returned:turn_returned",
    "expand-windows": "inferno.passes.expand_windows:expand_windows",
    "take-rows": "inferno.passes.take_rows:take_rows",
    "expand-maps": "inferno.passes.expand_maps:expand_maps",
    "fuse-elementwise": "inferno.passes.fuse_elementwise:fuse_elementwise",
    "unroll-sums": "inferno.passes.unroll_sums:unroll_sums",
    "write-slices": "inferno.passes.write_slices:write_slices",
    "join-slices": "inferno.passes.join_slices:join_slices",
    "hoist-slices": "inferno.passes.hoist_slices:hoist_slices",
    "cut-reshaped": "inferno.passes.cut_reshaped:cut_reshaped",
    "drop-results": "inferno.passes.drop_results:drop_results",
    "fuse-gathers": "inferno.passes.fuse_gathers:fuse_gathers",
    "narrow-comparisons": "inferno.passes.narrow_comparisons:narrow_comparisons",
    "widen-arithmetic": "inferno.passes.widen_arithmetic:widen_arithmetic",
    "widen-sums": "inferno.passes.widen_sums:widen_sums",
    "widen-vectors": "inferno.passes.widen_vectors:widen_vectors",
    "narrow-intermediates": "inferno.passes.narrow_intermediates:narrow_intermediates",
    "sink-transposes": "inferno.passes.sink_transposes:sink_transposes",
    "fuse-contractions": "inferno.passes.fuse_contractions:fuse_contractions",
    "split-contractions": "inferno.passes.split_contractions:split_contractions",
    "join-contractions": "inferno.passes.join_contractions:join_contractions",
    "order-batches": "inferno.passes.order_batches:order_batches",
    "restore-batches": "inferno.passes.restore_batches:restore_batches",
    "draw-numbers": "inferno.passes.draw_numbers:draw_numbers",
    "fill-starts": "inferno.passes.fill_starts:fill_starts",
    "negate-terms": "inferno.passes.negate_terms:negate_terms",
    "keep-exact": "inferno.passes.mark_terms:keep_exact",
    "outline-kernels": "inferno.passes.outline_kernels:outline_kernels",
    "deduplicate-kernels": "inferno.passes.deduplicate_kernels:deduplicate_kernels",
    # fused -> scheduled
    "fuse-rows": "inferno.schedule.fuse_rows:fuse_rows",
    "roll-steps": "inferno.schedule.roll_steps:roll_steps",
    "fuse-attention": "inferno.schedule.fuse_attention:fuse_attention",
    "fuse-attention-gradients": "inferno.schedule.fuse_attention_gradients:fuse_attention_gradients",
    "fuse-grouped": "inferno.schedule.fuse_grouped:fuse_grouped",
    "split-operands": "inferno.schedule.split_operands:split_operands",
    "fuse-duals": "inferno.schedule.fuse_duals:fuse_duals",
    "fuse-row-epilogues": "inferno.schedule.fuse_row_epilogues:fuse_row_epilogues",
    "fuse-epilogues": "inferno.schedule.fuse_epilogues:fuse_epilogues",
    "split-long-sums": "inferno.schedule.split_long_sums:split_long_sums",
    "split-terms": "inferno.schedule.split_terms:split_terms",
    "split-totals": "inferno.schedule.split_totals:split_totals",
    "merge-softmaxes": "inferno.schedule.merge_softmaxes:merge_softmaxes",
    "fuse-reductions": "inferno.schedule.fuse_reductions:fuse_reductions",
    "merge-variances": "inferno.schedule.merge_variances:merge_variances",
    "merge-sums": "inferno.schedule.merge_sums:merge_sums",
    "fuse-channel-sums": "inferno.schedule.fuse_channel_sums:fuse_channel_sums",
    "fuse-totals": "inferno.schedule.fuse_totals:fuse_totals",
    "recompute-maps": "inferno.schedule.recompute_maps:recompute_maps",
    "hoist-vectors": "inferno.schedule.hoist_vectors:hoist_vectors",
    "fuse-sum-maps": "inferno.schedule.fuse_sum_maps:fuse_sum_maps",
    "fuse-sorts": "inferno.schedule.fuse_sorts:fuse_sorts",
    "shift-scans": "inferno.schedule.shift_scans:shift_scans",
    "fuse-scans": "inferno.schedule.fuse_scans:fuse_scans",
    "fuse-scatters": "inferno.schedule.fuse_scatters:fuse_scatters",
    "fuse-convolutions": "inferno.schedule.fuse_convolutions:fuse_convolutions",
    "fold-slices": "inferno.schedule.fold_slices:fold_slices",
    "merge-maps": "inferno.schedule.merge_maps:merge_maps",
    "fuse-small": "inferno.schedule.fuse_small:fuse_small",
    "merge-reads": "inferno.schedule.merge_reads:merge_reads",
    "split-padding": "inferno.schedule.split_padding:split_padding",
    "split-pieces": "inferno.schedule.split_pieces:split_pieces",
    "order-tables": "inferno.schedule.order_tables:order_tables",
    "order-results": "inferno.schedule.order_results:order_results",
    "batches-first": "inferno.schedule.batches_first:batches_first",
    "order-operands": "inferno.schedule.order_operands:order_operands",
    "write-parts": "inferno.schedule.write_parts:write_parts",
    "assign-schedules": "inferno.schedule.assign:assign_schedules",
    "prepare-operands": "inferno.schedule.prepare_operands:prepare_operands",
    "merge-siblings": "inferno.schedule.merge_siblings:merge_siblings",
    "bundle-kernels": "inferno.schedule.bundle_kernels:bundle_kernels",
    "write-caches": "inferno.schedule.write_caches:write_caches",
    "merge-writes": "inferno.schedule.merge_writes:merge_writes",
    "fold-places": "inferno.schedule.fuse_scatters:fold_places",
    "mark-overwrites": "inferno.schedule.mark_overwrites:mark_overwrites",
    "bundle-updates": "inferno.schedule.bundle_kernels:bundle_updates",
    "turn-back": "inferno.schedule.turn_back:turn_back",
    "explain-boundaries": "inferno.schedule.explain_boundaries:explain_boundaries",
    # scheduled -> gpu
    "generate-kernels": "inferno.codegen.generate:generate_kernels",
    "plan-launches": "inferno.runtime.plan.launches:plan_launches",
    "plan-memory": "inferno.runtime.plan.memory:plan_memory",
    # llvm
    "await-kernels": "inferno.passes.await_kernels:await_kernels",
}


def pass_names() -> list[str]:
    return list(_PASSES)


def modules() -> list[str]:
    """The modules that the passes are in."""
    return list(dict.fromkeys(place.partition(":")[0] for place in _PASSES.values()))


def find_pass(name: str) -> Callable:
    module, function = _PASSES[name].split(":")
    return getattr(import_module(module), function)


def summary(name: str) -> str:
    """The first sentence of a pass's documentation."""
    return (find_pass(name).__doc__ or "").strip().partition("\n")[0]
