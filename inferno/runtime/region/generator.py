"""torch's random number generator of a GPU: its state as tensors for kernels that compute the numbers, and how its own kernels draw.

How they draw follows from torch's source, but differs from version to version (how many neighbours a thread of dropout takes, for
instance), so it is found out, once a process: torch draws, and where its numbers are not those that ours would be, its
operations stay in eager.
"""

import functools
import itertools
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from inferno.capture.draws import draw_seeds, numbers_at
from inferno.philox import BLOCK, Draw, threads_of

log = logging.getLogger(__name__)

_STATE = threading.Lock()  # reading the offset and moving it on are two calls
_SEED = 0x1234567890ABCDEF  # both words count
_STEP = 61  # a prime: the positions that are compared come to every lane and thread of a warp


@dataclass(frozen=True)
class CudaGenerator:
    """The default generator of ``device``, which holds ``most_threads`` threads at once."""

    device: torch.device
    most_threads: int

    def advance(self, increments: tuple[int, ...]) -> list[Tensor]:
        """The seed, and an offset for each draw; the state moves on as torch would move it, without waiting for the GPU.

        While a stream is being captured they are drawn, by an operation of torch's that draws anew in each replay: torch gives the state of a replay to
        its own kernels alone.  They are none that torch would have then.
        """
        if torch.cuda.is_current_stream_capturing():
            return draw_seeds(self.device, 1 + len(increments))
        generator = torch.cuda.default_generators[self.device.index]
        with _STATE:
            seed, offset = generator.initial_seed(), generator.get_offset()
            generator.set_offset(offset + sum(increments))
        numbers = [seed - 2**64 if seed >= 2**63 else seed, *itertools.accumulate(increments[:-1], initial=offset)]
        # 16 bytes apart: kernels want tensors aligned.  Not pinned: so few bytes are copied away at once, in 15 us instead of 20 whether the GPU is busy or
        # not, and pinned memory would be allocated anew while it is.
        host = torch.tensor([[n, 0] for n in numbers], dtype=torch.int64, device="cpu")
        return list(host.to(self.device, non_blocking=True)[:, 0].unbind())

    def draws_alike(self, kind: str) -> bool:
        return _draws_alike(self, kind)

    def dropout_vector(self, dtype: torch.dtype) -> int:
        return _dropout_vector(self, dtype)

    def agrees(self, draw: Draw, theirs: Callable[[], Tensor], ours: Callable[[Tensor], Tensor]) -> bool:
        """Whether what torch draws, and how it moves its state, is ``ours`` of the draw's numbers; the generator stays as it is."""
        generator = torch.cuda.default_generators[self.device.index]
        with torch.no_grad(), torch.random.fork_rng(devices=[self.device.index]), torch.cuda.device(self.device):
            generator.manual_seed(_SEED)
            generator.set_offset(2**34 + 4)
            expected = theirs()
            moved = generator.get_offset() - (2**34 + 4)
        positions = torch.arange(0, draw.count, _STEP, device=self.device)
        seed, offset = (torch.full((), n, dtype=torch.int64, device=self.device) for n in (_SEED, 2**34 + 4))
        found = moved == draw.increment and torch.equal(ours(numbers_at(draw, seed, offset, positions)), expected[positions])
        if not found:
            log.debug("torch draws otherwise than %s", draw)
        return found


@functools.cache
def _draws_alike(generator: CudaGenerator, kind: str) -> bool:
    threads = threads_of(2**62, generator.most_threads)
    count = 9 * threads + 777  # more than two rounds of all threads

    def theirs() -> Tensor:
        if kind == "integer":
            return torch.randint(-300, 700, (count,), device=generator.device)
        return torch.rand(count, dtype=getattr(torch, kind), device=generator.device)

    draw = Draw(kind, (count,), threads, span=1000, base=-300)
    return generator.agrees(draw, theirs, lambda n: n if kind == "integer" else torch.where(n >= 1, 0.0, n))


@functools.cache
def _dropout_vector(generator: CudaGenerator, dtype: torch.dtype) -> int:
    threads = threads_of(2**62, generator.most_threads)
    count = 2 * 8 * threads + 72 * BLOCK  # more than two rounds of vectors of 8

    def alike(vector: int, count: int) -> bool:
        ones = torch.ones(count, dtype=dtype, device=generator.device)
        draw = Draw("float32", (count,), threads, vector)
        return generator.agrees(draw, lambda: torch.ops.aten.native_dropout(ones, 0.5, True)[1], lambda n: n < 0.5)

    return next((v for v in (8, 4, 2) if alike(v, count)), 0) if alike(0, count + 1) else 0


def generator_of(device: torch.device) -> CudaGenerator | None:
    """The generator whose numbers kernels for ``device`` can compute; None where there is none, and while a stream is being captured,
    when a state is no number that can be read."""
    if device.type != "cuda" or torch.version.hip is not None or torch.cuda.is_current_stream_capturing():
        return None
    index = torch.cuda.current_device() if device.index is None else device.index
    properties = torch.cuda.get_device_properties(index)
    most = properties.multi_processor_count * (properties.max_threads_per_multi_processor // BLOCK) * BLOCK
    return CudaGenerator(torch.device("cuda", index), most)
