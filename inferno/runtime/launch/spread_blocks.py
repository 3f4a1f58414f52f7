"""Blocks of kernels that begin early are spread over the multiprocessors.

A kernel that begins under the end of another one is given the multiprocessors that are free first, as many of its blocks as each has room for, while others
have none.  Shared memory that a block asks for, and does not use, keeps more of them off a multiprocessor than have to share one.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from inferno.runtime.launch import driver
from inferno.runtime.plan.plan import Launch, Plan
from inferno.symbolic import Int, bounds, maximum, minimum, product, reach
from inferno.target import CLUSTERS, RESERVED_SHARED, clusters_at_once

log = logging.getLogger(__name__)

# Blocks, and how many of them share a multiprocessor where they are spread.  On an H200 96 drawn programs of several kernels each took 2.8% less in the mean
# so than without, 14 of them 5% to 35% less and none more than 5% more, MobileNetV2 of one image in float32 8% less, EfficientNet-B0 of 32 in bf16 2%.  Where
# another block more was let in, for what begins early behind these, it was 1.0%, with twice as many 1.3%.  A sort of 80 rows of 2048 behind a scatter had taken
# 52 us, and took 12.  A kernel of 4 blocks took 0.5 us more so, of 7 and 13 blocks 4% more.
_FEWEST, _MOST = 16, 4


@dataclass(frozen=True)
class Multiprocessors:
    """Of a GPU ``count``, bytes of shared memory of each, and the most that a block may have."""

    count: int
    shared: int
    most: int

    def at_once(self, cluster: int) -> int:
        """Blocks that run at once, in clusters of ``cluster``, if none shares a multiprocessor with another one."""
        return cluster * max(1, clusters_at_once(cluster, self.count))

    def apart(self, each: int, static: int) -> int:
        """Bytes of dynamic shared memory that keep more blocks than ``each`` off one, beside ``static`` bytes that a block has in any case."""
        return max(0, min(self.shared // (each + 1) + 1 - RESERVED_SHARED, self.most) - static)


def spread_blocks(plan: Plan, modules: Mapping[str, Any], device: int) -> Plan:
    """The plan with shared memory for what would crowd; ``modules`` are the loaded kernels, on the device of that number, which is the current one."""
    machine = Multiprocessors(*driver.multiprocessors(device))
    return replace(plan, steps=tuple(_spread(s, machine, modules) if isinstance(s, Launch) else s for s in plan.steps))


def _spread(step: Launch, machine: Multiprocessors, modules: Mapping[str, Any]) -> Launch:
    blocks, cluster = product(step.grid), prod(step.cluster)
    at_once = machine.at_once(cluster) if cluster in CLUSTERS else 0
    if step.cooperative or at_once < _FEWEST or not isinstance(step.shared, int) or reach(blocks) < _FEWEST or bounds(blocks)[0] > _MOST * at_once:
        return step
    module, name = step.kernel.split("::")
    static, resident = driver.occupancy(modules[module], name, prod(step.block), step.shared)
    wanted = [max(step.shared, machine.apart(each, static)) for each in range(1, min(_MOST + 1, resident))]
    shared = _by_blocks(blocks, at_once, wanted, step.shared)
    if shared != step.shared:
        log.debug("%s: %s bytes of shared memory keep %d of its %s blocks off each other", step.kernel, shared, resident, blocks)
    return replace(step, shared=shared)


def _by_blocks(blocks: Int, at_once: int, wanted: Sequence[int], usual: int) -> Int:
    """Of ``wanted`` by how many blocks have to share a multiprocessor, one at first; the usual where they are few, or more have to than there are numbers."""
    shared, before = usual, usual
    for least, bytes_ in zip((_FEWEST, *(at_once * (i + 1) + 1 for i in range(len(wanted)))), (*wanted, usual)):
        from_here_on = maximum(0, minimum(1, blocks - (least - 1)))
        shared, before = shared + (bytes_ - before) * from_here_on, bytes_
    return shared
