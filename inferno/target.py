"""Targets: what a machine to compile for can do, as data."""

from dataclasses import dataclass

from inferno.errors import OptionError

# What all NVIDIA GPUs have in common.
WARP = 32  # threads
SECTOR = 32  # bytes that memory and the L2 cache move at least
STATIC_SHARED = 48 * 1024  # bytes of shared memory that a kernel has without asking for more
RESERVED_SHARED = 1024  # bytes of it that a multiprocessor needs for each block beside what that has
# Clusters that run at the same time by their blocks, a block a multiprocessor: what cuOccupancyMaxActiveClusters says on an H200, whose 132 are in groups of up
# to 18, so that not every one can be part of a cluster.
CLUSTERS = {1: 132, 2: 66, 3: 39, 4: 30, 5: 22, 6: 17, 7: 15, 8: 15, 16: 7}


def clusters_at_once(blocks: int, multiprocessors: int) -> int:
    """Clusters of so many blocks that run at the same time, a block a multiprocessor; other GPUs are taken to be like an H200."""
    return CLUSTERS[blocks] * multiprocessors // CLUSTERS[1]


@dataclass(frozen=True)
class Target:
    """One machine.  ``shared`` is the dynamic shared memory that a block can have, in bytes; ``ptx`` is the PTX ISA
    version that code is written for (driver 580 reads at most 9.0); ``multiprocessors`` sizes persistent grids."""

    name: str
    kind: str  # "nvptx" or "cpu"
    multiprocessors: int = 0
    shared: int = 0
    ptx: int = 0

    @property
    def features(self) -> str:
        return f"+ptx{self.ptx}"

    @property
    def capability(self) -> int:
        """Compute capability times ten: 90 for sm_90a."""
        return int("".join(c for c in self.name if c.isdigit())) if self.kind == "nvptx" else 0

    @property
    def early_launch(self) -> bool:
        """Whether a kernel may be launched before the one in front of it has ended (programmatic dependent launch)."""
        return self.capability >= 90

    @property
    def hopper(self) -> bool:
        """wgmma, setmaxnreg and TMA as Hopper has them: only the architecture-specific sm_90a."""
        return self.name == "sm_90a"


# Shared memory per block from NVIDIA's compute capability table; multiprocessors of the largest part of each kind.
TARGETS = {
    t.name: t
    for t in (
        Target("sm_80", "nvptx", 108, 163 * 1024, 83),
        Target("sm_86", "nvptx", 84, 99 * 1024, 83),
        Target("sm_89", "nvptx", 128, 99 * 1024, 83),
        Target("sm_90a", "nvptx", 132, 227 * 1024, 86),
        Target("sm_100", "nvptx", 148, 227 * 1024, 86),
        Target("sm_120", "nvptx", 170, 99 * 1024, 87),
        Target("cpu", "cpu"),
    )
}


def find_target(name: str) -> Target:
    """The target called ``name``; OptionError lists the known ones."""
    if name not in TARGETS:
        raise OptionError(f"unknown target {name!r}; the targets are {', '.join(TARGETS)}")
    return TARGETS[name]
