"""What a kernel takes of a GPU, as the assembler reports it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Resources:
    """What ptxas says of one kernel: registers a thread, bytes of static shared memory, stack frame and spills."""

    registers: int
    shared: int
    stack: int
    spills: int
