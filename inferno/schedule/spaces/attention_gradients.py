"""Everything that the generator of attention's gradients takes: blocks of rows and columns, and slots."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

from inferno.mlir import func
from inferno.schedule.attention.attention_gradients import AttentionGradients, brought_masks, candidates, estimate, fits, orders, read, runs
from inferno.schedule.attention.masks import widths
from inferno.target import Target


def space(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, AttentionGradients]]:
    """Schedules with their estimates; where those are equal the usual one is first."""
    found = read(kernel, target)
    if found is None:
        return
    brought = widths(brought_masks(*found))
    sizes = itertools.product((2, 1, 3), (32, 48, 64, 80, 96, 112, 128), (2, 3, 4))
    forms = [AttentionGradients(*size, masks=masks) for size in sizes for masks in dict.fromkeys(("", brought))]
    further = itertools.product(forms, (False, True), ((False, False), (False, True), (True, False)))
    rest = (
        replace(s, order=order, apart=apart, turns=turns, ahead=ahead)
        for s, apart, (turns, ahead) in further for order in orders(s, *found, target)
    )
    adding = (AttentionGradients(columns=columns, turns=turns, adds=adds) for columns in (64, 128) for turns in (False, True) for adds in (1, 2))
    for s in dict.fromkeys((*candidates(*found, target), *rest, *adding)):
        if fits(s, found[0], target) and runs(s, kernel):
            yield estimate(s, *found, target), s


def valid(kernel: func.FuncOp, schedule: AttentionGradients, target: Target) -> bool:
    """Whether the generator takes the kernel with it."""
    found = read(kernel, target)
    return found is not None and fits(schedule, found[0], target) and runs(schedule, kernel)
