"""Schedules as attributes: ``inferno.schedule = {generator = "simt", tile_m = 64 : i64, ...}`` on a kernel function.

A schedule is a frozen dataclass whose fields are integers, booleans, strings, schedules or tuples of schedules; its class attribute ``generator``
names the generator that takes it.
"""

from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

from inferno.errors import PassError
from inferno.mlir import ir
from inferno.passes.generic_attributes import read_once

ATTRIBUTE = "inferno.schedule"

# The class of each generator's schedules.
GENERATORS = {
    "universal": "inferno.schedule.universal.universal:Universal",
    "elementwise": "inferno.schedule.maps.elementwise:Elementwise",
    "boxes": "inferno.schedule.maps.boxes:Boxes",
    "rows": "inferno.schedule.rows.row_schedule:Rows",
    "grid_rows": "inferno.schedule.rows.grid_rows:GridRows",
    "columns": "inferno.schedule.rows.column_schedule:Columns",
    "transposed_rows": "inferno.schedule.rows.transposed_rows:TransposedRows",
    "reductions": "inferno.schedule.reductions.reduction_schedule:Reductions",
    "scans": "inferno.schedule.scans.scan_schedule:Scans",
    "short_sorts": "inferno.schedule.sorts.short_sorts:ShortSorts",
    "sorts": "inferno.schedule.sorts.sorts:Sorts",
    "matched_rows": "inferno.schedule.scatters.matched_rows:MatchedRows",
    "row_sums": "inferno.schedule.scatters.row_sums:RowSums",
    "sorted_rows": "inferno.schedule.scatters.sorted_rows:SortedRows",
    "scatters": "inferno.schedule.scatters.scatters:Scatters",
    "select": "inferno.schedule.sorts.select:Select",
    "simt": "inferno.schedule.matmul.simt:Simt",
    "vectors": "inferno.schedule.matmul.vectors:Vectors",
    "short_vectors": "inferno.schedule.matmul.short_vectors:ShortVectors",
    "short_attention": "inferno.schedule.attention.short_attention:ShortAttention",
    "small_products": "inferno.schedule.matmul.small_products:SmallProducts",
    "windows": "inferno.schedule.convolution.windows:Windows",
    "staged_windows": "inferno.schedule.convolution.staged_windows:StagedWindows",
    "band_windows": "inferno.schedule.convolution.band_windows:BandWindows",
    "tap_sums": "inferno.schedule.convolution.tap_sums:TapSums",
    "group_windows": "inferno.schedule.convolution.group_windows:GroupWindows",
    "wgmma": "inferno.schedule.matmul.wgmma_schedule:Wgmma",
    "im2col": "inferno.schedule.convolution.im2col:Im2col",
    "channel_sums": "inferno.schedule.convolution.channel_sums:ChannelSums",
    "pixel_sums": "inferno.schedule.convolution.pixel_sums:PixelSums",
    "dual": "inferno.schedule.matmul.dual:Dual",
    "grouped": "inferno.schedule.matmul.grouped:Grouped",
    "attention": "inferno.schedule.attention.schedule:Attention",
    "attention_gradients": "inferno.schedule.attention.attention_gradients:AttentionGradients",
    "dual_bf16x6": "inferno.schedule.matmul.dual_bf16x6:DualBf16x6",
    "dual_vectors": "inferno.schedule.matmul.dual_vectors:DualVectors",
    "wgmma_rows": "inferno.schedule.matmul.wgmma_rows:WgmmaRows",
    "mma": "inferno.schedule.matmul.mma:Mma",
    "bf16x6": "inferno.schedule.matmul.bf16x6:Bf16x6",
    "presplit": "inferno.schedule.matmul.presplit:Presplit",
    "direct": "inferno.schedule.matmul.direct:Direct",
    "direct_bf16x6": "inferno.schedule.matmul.direct_bf16x6:DirectBf16x6",
    "loops": "inferno.schedule.cpu.loops:Loops",
    "library": "inferno.schedule.cpu.library:Library",
    "cublaslt": "inferno.schedule.matmul.cublaslt:CublasLt",
    "by_size": "inferno.schedule.composite.size_ranges:BySize",
    "siblings": "inferno.schedule.composite.siblings:Siblings",
    "one_block": "inferno.schedule.composite.one_block:OneBlock",
    "bundle": "inferno.schedule.composite.bundle:Bundle",
    "recurrence": "inferno.schedule.recurrence.recurrence:Recurrence",
}


def group_of(generator: str) -> str:
    """The kind of kernels that a generator makes: the subpackage of ``schedule`` and of ``codegen`` that it is in."""
    return GENERATORS[generator].split(".")[2]


def module_of(generator: str, package: str = "schedule") -> str:
    """The module of the generator's name: what chooses its schedule, or in ``codegen`` what writes its code."""
    return f"inferno.{package}.{group_of(generator)}.{generator}"


def to_attribute(schedule: Any) -> ir.DictAttr:
    """The dictionary that stands for ``schedule`` in the IR."""
    entries: dict[str, ir.Attribute] = {"generator": ir.StringAttr.get(schedule.generator)}
    for field in fields(schedule):
        value = getattr(schedule, field.name)
        if is_dataclass(value):
            entries[field.name] = to_attribute(value)
        elif isinstance(value, tuple):
            entries[field.name] = ir.ArrayAttr.get([to_attribute(v) for v in value])
        elif isinstance(value, bool):
            entries[field.name] = ir.BoolAttr.get(value)
        elif isinstance(value, int):
            entries[field.name] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
        else:
            entries[field.name] = ir.StringAttr.get(str(value))
    return ir.DictAttr.get(entries)


@read_once
def from_attribute(attribute: ir.Attribute) -> Any:
    """The schedule that ``attribute`` stands for; PassError names a generator or knob that does not exist."""
    values: dict[str, Any] = {}
    for entry in ir.DictAttr(attribute):
        values[entry.name] = _value(entry.attr)
    generator = values.pop("generator", None)
    if generator not in GENERATORS:
        raise PassError(f"unknown generator {generator!r} in {attribute}; the generators are {', '.join(GENERATORS)}")
    module, name = GENERATORS[generator].split(":")
    cls = getattr(import_module(module), name)
    known = {f.name for f in fields(cls)}
    if unknown := set(values) - known:
        raise PassError(f"{generator} has no knob {', '.join(sorted(unknown))}; it has {', '.join(sorted(known)) or 'none'}")
    return cls(**values)


def stands_for(text: str, attribute: ir.Attribute) -> bool:
    """Whether ``text`` says the same schedule as ``attribute``, maybe with fewer knobs: those that its version did not have are as usual."""
    try:
        return from_attribute(ir.Attribute.parse(text, attribute.context)) == from_attribute(attribute)
    except (PassError, ir.MLIRError, ValueError, TypeError):
        return False


def _value(attribute: ir.Attribute) -> Any:
    if isinstance(attribute, ir.DictAttr):
        return from_attribute(attribute)
    if isinstance(attribute, ir.ArrayAttr):
        return tuple(map(_value, attribute))
    if isinstance(attribute, ir.BoolAttr):
        return attribute.value
    if isinstance(attribute, ir.IntegerAttr):
        return attribute.value
    return ir.StringAttr(attribute).value
