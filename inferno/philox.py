"""torch's random numbers on an NVIDIA GPU, as a function of the element: Philox4x32 with ten rounds.

A kernel of torch's gives thread t of its launch the subsequence t of the seed's numbers, from the generator's offset on, and each
thread takes blocks of four words from it.  Which thread comes to which element depends on how many there are and on the
GPU alone, so that any kernel can compute the number of any element by itself, without a state.

``number`` is written once for whoever computes it: ``Words`` has the arithmetic, on tensors (``capture/draws.py``) or as IR
(``passes/draw_numbers.py``).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

# Philox4x32-10's numbers, of the same paper.
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_FEWEST_ROUNDS = 7  # that pass BigCrush (Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", 2011)
SCORES = "scores"
BLOCK = 256  # threads a block in all of torch's kernels that draw


@dataclass(frozen=True)
class Draw:
    """One number for each element of a contiguous tensor of ``shape``.

    ``kind``: "float32" and "float64" are uniform in (0, 1], "integer" is an int64, a word modulo ``span`` plus ``base``; SCORES are none of torch's:
    see ``score``.
    ``threads``: of torch's launch.  ``vector``: neighbours that a thread takes at a time; with 0 those of a thread are ``threads``
    elements apart.
    """

    kind: str
    shape: tuple[int, ...]
    threads: int
    vector: int = 0
    span: int = 1
    base: int = 0

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def words(self) -> int:
        """Words that make a number."""
        return 2 if self.kind == "float64" else 1

    @property
    def increment(self) -> int:
        """How far torch moves the generator's offset."""
        return 4 * (-(-self.count // (self.threads * (4 // self.words))))


def threads_of(count: int, most: int) -> int:
    """The threads of torch's launch for so many elements, on a GPU that holds ``most`` at once."""
    return min(-(-count // BLOCK) * BLOCK, most // BLOCK * BLOCK)


class Words(Protocol):
    """Arithmetic on unsigned words of 32 bits, which wraps around."""

    def divide(self, a: Any, by: int) -> tuple[Any, Any]:
        """Quotient and remainder."""

    def add(self, a: Any, b: int) -> Any: ...

    def multiply(self, a: Any, by: int) -> tuple[Any, Any]:
        """The high and the low word of the product."""

    def xor(self, a: Any, b: Any) -> Any: ...

    def select(self, which: Any, values: list[Any]) -> Any:
        """``values[which]``."""

    def split(self, number: Any) -> tuple[Any, Any]:
        """The low and the high word of an integer of 64 bits."""

    def block(self, offset: Any, ahead: Any) -> Any:
        """The integer of 64 bits that counts blocks of four words: the offset's, and ``ahead`` more, a word or a number."""

    def convert(self, draw: Draw, words: list[Any]) -> Any:
        """The number that one or two words make."""


def number(m: Words, draw: Draw, seed: Any, offset: Any, position: Any, within: Any = None) -> Any:
    """The number of the element at ``position`` (a word) of a tensor, for a generator at ``seed`` and ``offset`` (64 bits).  With
    ``within``, ``position`` counts vectors, and it is the element's place in one."""
    thread, ahead, lane = _place(m, draw, position, within)
    low, high = m.split(m.block(offset, ahead))
    words = _block(m, [low, high, thread, 0], m.split(seed), _ROUNDS)
    found = [words[i : i + draw.words] for i in range(0, 4, draw.words)]
    chosen = found[lane] if isinstance(lane, int) else [m.select(lane, list(each)) for each in zip(*found)]
    return m.convert(draw, chosen)


def score(m: Words, draw: Draw, seed: Any, head: Any, query: Any, key: Any) -> Any:
    """The number of a score of attention, 0 to 65535, for what a kernel of ours draws in attention itself.

    A block's halves of words are for the eight scores that one thread has of the tensor core's results: two queries 8 apart, and two times two keys that
    are neighbours, 8 apart; where keys are rows, half of them are another thread's.
    """
    (tile, inside), (block, place) = m.divide(query, 16), m.divide(key, 16)
    (second, row), (upper, column) = m.divide(inside, 8), m.divide(place, 8)
    pair, odd = m.divide(column, 2)
    words = score_words(m, m.split(seed), head, m.xor(m.multiply(tile, 8)[1], row), m.xor(m.multiply(block, 4)[1], pair))
    high, low = m.divide(m.select(m.xor(_twice(m, odd), second), words), 1 << 16)
    return m.convert(draw, [m.select(upper, [low, high])])


def score_words(m: Words, seed: Sequence[Any], head: Any, row: Any, pair: Any) -> list[Any]:
    """The block of ``row``, the queries 16a + r and 8 more with 8a + r, and of ``pair``, the keys 16b + 2c, one more, and 8 more with 4b + c: the words
    are those of the first key and the first query, the first and the second, the second and the first, the second and the second, and keys 8 more are in the
    upper halves.  ``seed``: its two words."""
    return _block(m, [pair, row, head, 0], seed, _FEWEST_ROUNDS)


def _block(m: Words, counter: list[Any], key: Sequence[Any], rounds: int) -> list[Any]:
    """Four words."""
    for _ in range(rounds):
        first_high, first_low = m.multiply(counter[0], _MULTIPLIERS[0])
        second_high, second_low = m.multiply(counter[2], _MULTIPLIERS[1])
        counter = [
            m.xor(m.xor(second_high, counter[1]), key[0]), second_low, m.xor(m.xor(first_high, counter[3]), key[1]), first_low,
        ]
        key = [m.add(k, step) for k, step in zip(key, _KEY_STEPS)]
    return counter


def _place(m: Words, draw: Draw, position: Any, within: Any) -> tuple[Any, Any, Any]:
    """The thread that draws for an element, how many blocks of its subsequence it draws before, and which number of the block it is."""
    if not draw.vector:
        turn, thread = _divide(m, position, draw.count, draw.threads)
        ahead, lane = _divide(m, turn, -(-draw.count // draw.threads), 4 // draw.words)
        return thread, ahead, lane
    group, lane = _divide(m, position, draw.count, draw.vector) if within is None else (position, within)
    step, thread = _divide(m, group, -(-draw.count // draw.vector), draw.threads)
    if draw.vector <= 4:
        return thread, step, lane
    inner, lane = _divide(m, lane, draw.vector, 4)  # a thread draws for a vector of 8 two blocks at a time
    return thread, _plus(m, _twice(m, step), inner), lane


def _divide(m: Words, a: Any, below: int, by: int) -> tuple[Any, Any]:
    """Quotient and remainder of a number below ``below``."""
    if isinstance(a, int):
        return a // by, a % by
    return (0, a) if below <= by else m.divide(a, by)


def _twice(m: Words, a: Any) -> Any:
    return 2 * a if isinstance(a, int) else m.multiply(a, 2)[1]


def _plus(m: Words, a: Any, b: Any) -> Any:
    return m.add(b, a) if isinstance(a, int) else m.xor(a, b)  # a is even and b is 0 or 1
