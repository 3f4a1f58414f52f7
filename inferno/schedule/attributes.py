"""Schedules as attributes: ``inferno.schedule = {generator = "simt", tile_m = 64 : i64, ...}`` on a kernel function.

A schedule is a frozen dataclass whose fields are integers, booleans, strings, schedules or tuples of schedules; its class attribute ``generator``
names the generator that takes it.
"""

from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

from inferno.errors import PassError
from inferno.mlir import ir

ATTRIBUTE = "inferno.schedule"

# The class of each generator's schedules.
GENERATORS = {
    "universal": "inferno.schedule.universal:Universal",
    "elementwise": "inferno.schedule.elementwise:Elementwise",
    "boxes": "inferno.schedule.boxes:Boxes",
    "rows": "inferno.schedule.rows:Rows",
    "grid_rows": "inferno.schedule.grid_rows:GridRows",
    "columns": "inferno.schedule.columns:Columns",
    "reductions": "inferno.schedule.reductions:Reductions",
    "scans": "inferno.schedule.scans:Scans",
    "short_sorts": "inferno.schedule.short_sorts:ShortSorts",
    "sorts": "inferno.schedule.sorts:Sorts",
    "row_sums": "inferno.schedule.row_sums:RowSums",
    "sorted_rows": "inferno.schedule.sorted_rows:SortedRows",
    "scatters": "inferno.schedule.scatters:Scatters",
    "select": "inferno.schedule.select:Select",
    "simt": "inferno.schedule.simt:Simt",
    "vectors": "inferno.schedule.vectors:Vectors",
    "short_vectors": "inferno.schedule.short_vectors:ShortVectors",
    "short_attention": "inferno.schedule.short_attention:ShortAttention",
    "small_products": "inferno.schedule.small_products:SmallProducts",
    "windows": "inferno.schedule.windows:Windows",
    "staged_windows": "inferno.schedule.staged_windows:StagedWindows",
    "band_windows": "inferno.schedule.band_windows:BandWindows",
    "tap_sums": "inferno.schedule.tap_sums:TapSums",
    "group_windows": "inferno.schedule.group_windows:GroupWindows",
    "wgmma": "inferno.schedule.wgmma_schedule:Wgmma",
    "im2col": "inferno.schedule.im2col:Im2col",
    "channel_sums": "inferno.schedule.channel_sums:ChannelSums",
    "pixel_sums": "inferno.schedule.pixel_sums:PixelSums",
    "dual": "inferno.schedule.dual:Dual",
    "grouped": "inferno.schedule.grouped:Grouped",
    "attention": "inferno.schedule.attention_schedule:Attention",
    "attention_gradients": "inferno.schedule.attention_gradients:AttentionGradients",
    "dual_bf16x6": "inferno.schedule.dual_bf16x6:DualBf16x6",
    "dual_vectors": "inferno.schedule.dual_vectors:DualVectors",
    "wgmma_rows": "inferno.schedule.wgmma_rows:WgmmaRows",
    "mma": "inferno.schedule.mma:Mma",
    "bf16x6": "inferno.schedule.bf16x6:Bf16x6",
    "presplit": "inferno.schedule.presplit:Presplit",
    "direct": "inferno.schedule.direct:Direct",
    "direct_bf16x6": "inferno.schedule.direct_bf16x6:DirectBf16x6",
    "loops": "inferno.schedule.loops:Loops",
    "library": "inferno.schedule.library:Library",
    "cublaslt": "inferno.schedule.cublaslt:CublasLt",
    "by_size": "inferno.schedule.by_size:BySize",
    "siblings": "inferno.schedule.siblings:Siblings",
    "one_block": "inferno.schedule.one_block:OneBlock",
    "bundle": "inferno.schedule.bundle:Bundle",
    "recurrence": "inferno.schedule.recurrence:Recurrence",
}


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
