"""A plan in chunks, so that its memory is held no longer than it is needed.

One native call for a whole plan holds every argument until its end and every result from its beginning.  For the backward
of a large model that is all saved activations and all gradients at once.  So a plan of many bytes is run in a few calls: results are made
before the first chunk that writes them, and arguments that the caller has given away are let go after the last that reads them.
All is in the order of one stream, so torch's allocator can give out again at once what was let go.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from inferno.runtime.plan.plan import Buffer, Plan, TensorMap
from inferno.runtime.plan.data import ELEMENT_BYTES

# What an H200 moves in 7 us at its 4.8 TB/s; a chunk costs the host a few, so the GPU does not wait for it.  With a quarter of a GB the
# backward of an 8-layer Llama needs 520 MB beside its weights, with this 463, which half of it does not change.
CHUNK_BYTES = 1 << 25
_MOST_CHUNKS = 32  # of a call (no measurement chose it)
_LEAST_SAVED = 1 / 16  # of what one call would hold


@dataclass(frozen=True)
class Chunk:
    """Steps from ``begin`` up to ``end``; the numbers of the ``results`` that they write first and of the ``arguments`` that they
    read last."""

    begin: int
    end: int
    results: tuple[int, ...]
    arguments: tuple[int, ...]


def cut(plan: Plan, given: Collection[int]) -> list[Chunk]:
    """The chunks of a plan whose caller gives the arguments with the numbers ``given`` away: each makes and frees about as many bytes.  One
    chunk where more would not save anything."""
    first, last = _uses(plan)
    kept = {o.argument for o in plan.outputs}
    made = {i: first.get(("result", i), 0) for i, o in enumerate(plan.outputs) if o.result == i}
    freed = {i: last.get(("argument", i), 0) for i in sorted(given) if i not in kept}
    at = [0] * max(1, len(plan.steps))  # bytes that each step makes or frees
    for index, step in made.items():
        at[step] += _bytes(plan.outputs[index])
    for index, step in freed.items():
        at[step] += _bytes(plan.arguments[index])
    count = min(_MOST_CHUNKS, sum(at) // CHUNK_BYTES, len(plan.steps))
    chunks = _chunks(_ends(at, max(1, count)), made, freed)
    alive = most = sum(_bytes(plan.arguments[i]) for i in freed)
    for chunk in chunks:
        alive += sum(_bytes(plan.outputs[i]) for i in chunk.results)
        most = max(most, alive)
        alive -= sum(_bytes(plan.arguments[i]) for i in chunk.arguments)
    return chunks if most <= (1 - _LEAST_SAVED) * sum(at) else _chunks(_ends(at, 1), made, freed)


def _chunks(ends: Sequence[int], made: Mapping[int, int], freed: Mapping[int, int]) -> list[Chunk]:
    chunks, begin = [], 0
    for end in ends:
        chunks.append(Chunk(
            begin, end, tuple(i for i, s in made.items() if begin <= s < end), tuple(i for i, s in freed.items() if begin <= s < end),
        ))
        begin = end
    return chunks


def _uses(plan: Plan) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
    """The first and the last step that touches each argument and result."""
    first: dict[tuple[str, int], int] = {}
    last: dict[tuple[str, int], int] = {}
    for number, step in enumerate(plan.steps):
        for parameter in step.parameters:
            buffer = parameter.buffer if isinstance(parameter, TensorMap) else parameter
            if isinstance(buffer, Buffer) and buffer.place != "workspace":
                first.setdefault((buffer.place, buffer.index), number)
                last[buffer.place, buffer.index] = number
    return first, last


def _bytes(buffer) -> int:
    return math.prod(buffer.shape) * ELEMENT_BYTES[buffer.element]


def _ends(at: Sequence[int], count: int) -> list[int]:
    """Where to cut, so that the parts have about the same sum; the last end is the number of steps."""
    ends, total, sum_ = [], sum(at), 0
    for step, size in enumerate(at[:-1], 1):
        sum_ += size
        if sum_ * count >= total * (len(ends) + 1) and len(ends) < count - 1:
            ends.append(step)
    return [*ends, len(at)]


def run_chunks(
    chunks: Sequence[Chunk], natives: Sequence[Callable[[int], None]], base: int, make: Callable[[int], None], failed: Callable[[int], bool],
    arguments: list,
) -> None:
    """Run the chunks on the state at ``base``.  ``make(i)`` makes result i and puts its address there; ``failed(begin)`` says whether
    the chunk that begins there left an error, and then nothing after it runs; ``arguments`` are let go from the list."""
    for chunk, native in zip(chunks, natives):
        for i in chunk.results:
            make(i)
        native(base)
        if failed(chunk.begin):
            return
        for i in chunk.arguments:
            arguments[i] = None
