"""As ``wgmma``'s, and with tiles of shorter rows or for few features."""

from collections.abc import Iterator
from dataclasses import fields

from inferno.element_sizes import element_bytes
from inferno.mlir import func
from inferno.schedule.convolution.halo import takes
from inferno.schedule.convolution.im2col import Im2col, at_size, im2col, keeps_to_group, parse_unfolded
from inferno.schedule.matmul.wgmma_schedule import Wgmma, precision
from inferno.schedule.spaces import wgmma
from inferno.schedule.tiles.result_parts import ROW
from inferno.schedule.tiles.tiling import tile_contraction
from inferno.target import Target


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, Im2col]]:
    """Schedules with their estimates; where those are equal the usual one is first."""
    c = parse_unfolded(kernel, target)
    if c is not None and not c.varies:
        yield from at_size(kernel, c, target)
        yield from ((time, im2col(s)) for time, s in wgmma.space_of(kernel, c, target) if keeps_to_group(s, c))


def valid(kernel: func.FuncOp, schedule: Im2col, target: Target) -> bool:
    """Whether the generator takes the kernel with it."""
    c = parse_unfolded(kernel, target)
    if c is None or c.varies or not keeps_to_group(schedule, c):
        return False
    if schedule.patch:
        width = element_bytes(c.lhs.element)
        tiling = tile_contraction(c, width, only_along_k=width == 4)
        return tiling is not None and precision(kernel, c) is not None and takes(schedule, c, tiling) and schedule.shared().total <= target.shared
    alike = schedule.row == ROW and wgmma.valid_for(kernel, c, Wgmma(**{f.name: getattr(schedule, f.name) for f in fields(Wgmma)}), target)
    return alike or any(s == schedule for _, s in at_size(kernel, c, target))
