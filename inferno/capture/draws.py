"""Random numbers in a graph: ``states = draw_states(generator, increments)``, which runs in eager, and ``philox(seed, offset, draw)``,
a pure function of tensors, which is compiled.  What they are on tensors is here; ``replace_draws`` puts them into a graph."""

import math
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.fx import Node

from inferno.capture.dimensions import as_dimension
from inferno.philox import SCORES, Draw, number, score_words

_WORD = 0xFFFFFFFF
SEEDS = 1 << 62  # of as many one is drawn; int64 holds each
_LIBRARY = torch.library.Library("inferno", "FRAGMENT")
_LIBRARY.define("score_numbers(Tensor seed, SymInt[] shape) -> Tensor")


class Generator(Protocol):
    """Where random numbers come from: torch's generator of one GPU."""

    device: torch.device
    most_threads: int

    def draws_alike(self, kind: str) -> bool:
        """Whether torch's numbers of a kind ("float32", "float64", "integer") are those of ``Draw``."""

    def dropout_vector(self, dtype: torch.dtype) -> int:
        """The most neighbours that one thread of torch's dropout takes; 0 where its numbers are not those of ``Draw``."""

    def advance(self, increments: tuple[int, ...]) -> list[Tensor]:
        """The seed, and an offset for each draw, int64 tensors without dimensions on the device; the generator's state moves on."""


def draw_states(generator: Generator, increments: tuple[int, ...]) -> list[Tensor]:
    """The generator's state for consecutive draws; see ``Generator.advance``."""
    return generator.advance(increments)


def philox(seed: Tensor, offset: Tensor, draw: Draw) -> Tensor:
    """The numbers of a draw, by tensor operations: the meaning of what is compiled."""
    if draw.kind == SCORES:
        return _scores(seed, draw.shape)
    return numbers_at(draw, seed, offset, torch.arange(draw.count, device=seed.device)).view(draw.shape)


def _scores(seed: Tensor, shape: tuple[int, ...]) -> Tensor:
    """``inferno.philox.score`` of all scores, each block once."""
    (*heads, queries, keys), m = shape, _TensorWords()
    tiles, blocks = -(-queries // 16), -(-keys // 16)
    places = (torch.arange(n, device=seed.device) for n in (math.prod(heads), 8 * tiles, 4 * blocks))
    head, row, pair = (as_dimension(n, d, 3) for d, n in enumerate(places))
    words = torch.stack([w.to(torch.int32) for w in score_words(m, m.split(seed), head, row, pair)])  # which wrap around
    halves = torch.stack([words & 0xFFFF, words >> 16 & 0xFFFF]).view(2, 2, 2, -1, tiles, 8, blocks, 4)  # by upper keys, odd ones, second queries
    whole = halves.permute(3, 4, 2, 5, 6, 0, 7, 1).reshape(-1, 16 * tiles, 16 * blocks)
    return whole[:, :queries, :keys].to(torch.float32).reshape(shape)


def numbers_at(draw: Draw, seed: Tensor, offset: Tensor, positions: Tensor) -> Tensor:
    """The numbers of some elements; ``positions`` are int64, in row-major order."""
    return number(_TensorWords(), draw, seed, offset, positions)


def score_numbers(seed: Tensor, shape: list[int]) -> Tensor:
    """Numbers of attention's scores, [..., queries, keys], as float32; ``seed``: of 64 bits, without dimensions."""
    return philox(seed, seed, Draw(SCORES, tuple(shape), 0))


_LIBRARY.impl("score_numbers", score_numbers, "CompositeExplicitAutograd")
torch.library.register_fake("inferno::score_numbers", lambda seed, shape: seed.new_empty(shape, dtype=torch.float32), lib=_LIBRARY)
_SAME = (torch.ops.aten.alias.default, torch.ops.aten.detach.default)  # as a checkpoint's seeds come
_SCORE_NUMBERS = torch.ops.inferno.score_numbers.default


def draw_seeds(device: torch.device, count: int) -> list[Tensor]:
    """So many seeds, which torch's generator draws."""
    return list(torch.randint(SEEDS, (count, 2), device=device)[:, 0].unbind())  # 16 bytes apart: kernels want tensors aligned


def is_philox(node: Node) -> bool:
    """Whether a node computes random numbers from a seed that it is given."""
    return node.op == "call_function" and node.target in (philox, _SCORE_NUMBERS)


def seed_of(node: Node) -> Node:
    """What a seed is the same as."""
    while node.target in _SAME:
        node = node.args[0]
    return node


def drawn(node: Node) -> tuple[Node, Node, Draw]:
    """The seed, the offset and the draw of such a node."""
    if node.target is philox:
        return node.args
    seed, shape = node.args
    seed = seed_of(seed)
    return seed, seed, Draw(SCORES, tuple(shape), 0)


def is_drawing(node: Node) -> bool:
    """Whether the node takes states or seeds from a generator, which has to stay in order with all else that draws."""
    return node.op == "call_function" and node.target in (draw_states, draw_seeds)


class _TensorWords:
    """``Words`` on int64 tensors that hold 0 to 2**32 - 1."""

    def divide(self, a: Tensor, by: int) -> tuple[Tensor, Tensor]:
        return a // by, a % by

    def add(self, a: Any, b: int) -> Any:
        return (a + b) & _WORD

    def multiply(self, a: Any, by: int) -> tuple[Any, Any]:
        product = a * by  # modulo 2**64
        return (product >> 32) & _WORD, product & _WORD

    def xor(self, a: Any, b: Any) -> Any:
        return a ^ b

    def select(self, which: Tensor, values: list[Tensor]) -> Tensor:
        found = values[-1]
        for i, value in enumerate(values[:-1]):
            found = torch.where(which == i, value, found)
        return found

    def split(self, number: Tensor) -> tuple[Tensor, Tensor]:
        return number & _WORD, (number >> 32) & _WORD

    def block(self, offset: Tensor, ahead: Any) -> Tensor:
        return (offset >> 2) + ahead

    def convert(self, draw: Draw, words: list[Tensor]) -> Tensor:
        if draw.kind == "float32":
            return words[0].to(torch.float32) * 2.0**-32 + 2.0**-33
        if draw.kind == "float64":
            return (words[0] ^ (words[1] << 21)).to(torch.float64) * 2.0**-53 + 2.0**-54
        return words[0] % draw.span + draw.base
