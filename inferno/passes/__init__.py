"""The passes, by name.  Names map to lazy imports, so that listing them costs nothing.

A pass is a function ``(module: ir.Module, **options: str) -> None`` that rewrites the module in place and raises
``PassError`` when it cannot.  One pass a file; later folders' passes (schedule, codegen, runtime) are listed here too, as text.
"""

from collections.abc import Callable
from importlib import import_module

_PASSES = {
    # torch -> linalg
    "import-bitcasts": "inferno.passes.import_bitcasts:import_bitcasts",
    "import-constants": "inferno.passes.import_constants:import_constants",
    "import-roundings": "inferno.passes.import_roundings:import_roundings",
    "import-scans": "inferno.passes.import_scans:import_scans",
    "import-row-extremes": "inferno.passes.import_row_extremes:import_row_extremes",
    "import-gathers": "inferno.passes.import_gathers:import_gathers",
    "name-symbols": "inferno.passes.name_symbols:name_symbols",
    "trim-windows": "inferno.passes.trim_windows:trim_windows",
    "restore-constants": "inferno.passes.restore_constants:restore_constants",
    "bound-shifts": "inferno.passes.bound_shifts:bound_shifts",
    "widen-casts": "inferno.passes.widen_casts:widen_casts",
    "check-import": "inferno.passes.check_import:check_import",
    # linalg -> fused
    "store-float8": "inferno.passes.store_float8:store_float8",
    "remove-asserts": "inferno.passes.remove_asserts:remove_asserts",
    "fold-empty": "inferno.passes.fold_empty:fold_empty",
    "fold-casts": "inferno.passes.fold_casts:fold_casts",
    "lift-constants": "inferno.passes.lift_constants:lift_constants",
    "fold-transposes": "inferno.passes.fold_transposes:fold_transposes",
    "fill-starts": "inferno.passes.fill_starts:fill_starts",
    "fold-fills": "inferno.passes.fold_fills:fold_fills",
    "fold-wraps": "inferno.passes.fold_wraps:fold_wraps",
    "expand-patches": "inferno.passes.expand_patches:expand_patches",
    "skip-zeros": "inferno.passes.skip_zeros:skip_zeros",
    "mark-terms": "inferno.passes.mark_terms:mark_terms",
    "keep-exact": "inferno.passes.mark_terms:keep_exact",
    "mark-convolutions": "inferno.passes.mark_convolutions:mark_convolutions",
    "choose-layouts": "inferno.passes.choose_layouts:choose_layouts",
    "stack-rows": "inferno.passes.stack_rows:stack_rows",
    "pad-channels": "inferno.passes.pad_channels:pad_channels",
    "expand-maps": "inferno.passes.expand_maps:expand_maps",
    "expand-groups": "inferno.passes.expand_groups:expand_groups",
    "refine-reshapes": "inferno.passes.refine_reshapes:refine_reshapes",
    "expand-loops": "inferno.passes.expand_loops:expand_loops",
    "propagate-reshapes": "inferno.passes.propagate_reshapes:propagate_reshapes",
    "merge-scales": "inferno.passes.merge_scales:merge_scales",
    "move-factors": "inferno.passes.move_factors:move_factors",
    "split-frozen": "inferno.passes.split_frozen:split_frozen",
    "hoist-frozen": "inferno.passes.hoist_frozen:hoist_frozen",
    "compose-moves": "inferno.passes.compose_moves:compose_moves",
    "sink-concats": "inferno.passes.sink_concats:sink_concats",
    "join-writes": "inferno.passes.join_writes:join_writes",
    "expand-pieces": "inferno.passes.expand_pieces:expand_pieces",
    "expand-windows": "inferno.passes.expand_windows:expand_windows",
    "order-batches": "inferno.passes.order_batches:order_batches",
    "turn-returned": "inferno.passes.turn_returned:turn_returned",
    "take-rows": "inferno.passes.take_rows:take_rows",
    "unroll-sums": "inferno.passes.unroll_sums:unroll_sums",
    "fuse-elementwise": "inferno.passes.fuse_elementwise:fuse_elementwise",
    "write-slices": "inferno.passes.write_slices:write_slices",
    "join-slices": "inferno.passes.join_slices:join_slices",
    "cut-reshaped": "inferno.passes.cut_reshaped:cut_reshaped",
    "trim-results": "inferno.passes.trim_results:trim_results",
    "hoist-slices": "inferno.passes.hoist_slices:hoist_slices",
    "fuse-gathers": "inferno.passes.fuse_gathers:fuse_gathers",
    "drop-results": "inferno.passes.drop_results:drop_results",
    "fuse-contractions": "inferno.passes.fuse_contractions:fuse_contractions",
    "restore-batches": "inferno.passes.restore_batches:restore_batches",
    "split-contractions": "inferno.passes.split_contractions:split_contractions",
    "join-contractions": "inferno.passes.join_contractions:join_contractions",
    "narrow-comparisons": "inferno.passes.narrow_comparisons:narrow_comparisons",
    "widen-arithmetic": "inferno.passes.widen_arithmetic:widen_arithmetic",
    "widen-sums": "inferno.passes.widen_sums:widen_sums",
    "widen-vectors": "inferno.passes.widen_vectors:widen_vectors",
    "narrow-intermediates": "inferno.passes.narrow_intermediates:narrow_intermediates",
    "sink-transposes": "inferno.passes.sink_transposes:sink_transposes",
    "draw-numbers": "inferno.passes.draw_numbers:draw_numbers",
    "negate-terms": "inferno.passes.negate_terms:negate_terms",
    "outline-kernels": "inferno.passes.outline_kernels:outline_kernels",
    "deduplicate-kernels": "inferno.passes.deduplicate_kernels:deduplicate_kernels",
    # fused -> scheduled
    "fuse-rows": "inferno.schedule.fuse_rows:fuse_rows",
    "fuse-attention": "inferno.schedule.fuse_attention:fuse_attention",
    "fuse-attention-gradients": "inferno.schedule.fuse_attention_gradients:fuse_attention_gradients",
    "fuse-grouped": "inferno.schedule.fuse_grouped:fuse_grouped",
    "roll-steps": "inferno.schedule.roll_steps:roll_steps",
    "fuse-duals": "inferno.schedule.fuse_duals:fuse_duals",
    "fuse-epilogues": "inferno.schedule.fuse_epilogues:fuse_epilogues",
    "split-operands": "inferno.schedule.split_operands:split_operands",
    "split-long-sums": "inferno.schedule.split_long_sums:split_long_sums",
    "fuse-row-epilogues": "inferno.schedule.fuse_row_epilogues:fuse_row_epilogues",
    "split-terms": "inferno.schedule.split_terms:split_terms",
    "split-totals": "inferno.schedule.split_totals:split_totals",
    "fuse-reductions": "inferno.schedule.fuse_reductions:fuse_reductions",
    "fuse-channel-sums": "inferno.schedule.fuse_channel_sums:fuse_channel_sums",
    "fuse-sum-maps": "inferno.schedule.fuse_sum_maps:fuse_sum_maps",
    "fuse-totals": "inferno.schedule.fuse_totals:fuse_totals",
    "recompute-maps": "inferno.schedule.recompute_maps:recompute_maps",
    "merge-maps": "inferno.schedule.merge_maps:merge_maps",
    "merge-reads": "inferno.schedule.merge_reads:merge_reads",
    "hoist-vectors": "inferno.schedule.hoist_vectors:hoist_vectors",
    "merge-softmaxes": "inferno.schedule.merge_softmaxes:merge_softmaxes",
    "merge-sums": "inferno.schedule.merge_sums:merge_sums",
    "merge-variances": "inferno.schedule.merge_variances:merge_variances",
    "fuse-convolutions": "inferno.schedule.fuse_convolutions:fuse_convolutions",
    "shift-scans": "inferno.schedule.shift_scans:shift_scans",
    "fuse-scans": "inferno.schedule.fuse_scans:fuse_scans",
    "fuse-sorts": "inferno.schedule.fuse_sorts:fuse_sorts",
    "fold-places": "inferno.schedule.fuse_scatters:fold_places",
    "fuse-scatters": "inferno.schedule.fuse_scatters:fuse_scatters",
    "fuse-small": "inferno.schedule.fuse_small:fuse_small",
    "batches-first": "inferno.schedule.batches_first:batches_first",
    "order-operands": "inferno.schedule.order_operands:order_operands",
    "order-results": "inferno.schedule.order_results:order_results",
    "fold-slices": "inferno.schedule.fold_slices:fold_slices",
    "order-tables": "inferno.schedule.order_tables:order_tables",
    "split-pieces": "inferno.schedule.split_pieces:split_pieces",
    "split-padding": "inferno.schedule.split_padding:split_padding",
    "write-parts": "inferno.schedule.write_parts:write_parts",
    "assign-schedules": "inferno.schedule.assign:assign_schedules",
    "prepare-operands": "inferno.schedule.prepare_operands:prepare_operands",
    "merge-siblings": "inferno.schedule.merge_siblings:merge_siblings",
    "bundle-kernels": "inferno.schedule.bundle_kernels:bundle_kernels",
    "bundle-updates": "inferno.schedule.bundle_kernels:bundle_updates",
    "write-caches": "inferno.schedule.write_caches:write_caches",
    "merge-writes": "inferno.schedule.merge_writes:merge_writes",
    "mark-overwrites": "inferno.schedule.mark_overwrites:mark_overwrites",
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
