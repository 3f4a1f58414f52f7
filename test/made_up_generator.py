"""A GPU's random number generator that is made up, with torch's kernels played thread by thread."""

import itertools

import numpy as np
import torch

MOST_THREADS = 512
WORD = 0xFFFFFFFF


def philox(counter, key):
    """Philox4x32-10 as its paper has it, in whole numbers of any size."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & WORD, (a >> 32) ^ c[3] ^ k[1], a & WORD]
        k = [(k[0] + 0x9E3779B9) & WORD, (k[1] + 0xBB67AE85) & WORD]
    return c


def words_of(seed, offset, thread):
    """What one thread gets, four words at a time."""
    for block in itertools.count(offset // 4):
        yield philox((block & WORD, block >> 32, thread, 0), (seed & WORD, seed >> 32))


def to_float(word):
    return np.float32(word) * np.float32(2**-32) + np.float32(2**-33)


def to_double(low, high):
    return float(low ^ (high << 21)) * 2.0**-53 + 2.0**-54


class MadeUp:
    """A GPU's generator.  ``rand`` and the others are torch's kernels, a loop over their threads; what is compiled gets its states
    by ``advance``."""

    device, most_threads = torch.device("cpu"), MOST_THREADS

    def __init__(self, seed=2**63 + 2**40 + 17, offset=2**34 - 4):
        self.seed, self.offset = seed, offset

    def draws_alike(self, kind):
        return True

    def dropout_vector(self, dtype):
        return {8: 2, 4: 4, 2: 8}[dtype.itemsize]

    def advance(self, increments):
        offsets = itertools.accumulate(increments, initial=self.offset)
        found = [self.seed - 2**64 if self.seed >= 2**63 else self.seed, *itertools.islice(offsets, len(increments))]
        self.offset += sum(increments)
        return list(torch.tensor([[n, 0] for n in found])[:, 0].unbind())

    def grid(self, count, a_block, numbers):
        """``numbers(words)`` for each element, which a grid of threads goes over one by one; ``a_block`` of them a block."""
        threads = min(-(-count // 256) * 256, MOST_THREADS)
        made = [None] * count
        for t in range(min(threads, count)):
            blocks = words_of(self.seed, self.offset, t)
            for first in range(t, count, threads * a_block):
                for i, value in enumerate(numbers(next(blocks))):
                    if first + i * threads < count:
                        made[first + i * threads] = value
        self.offset += 4 * (-(-count // (threads * a_block)))
        return made

    def vectors(self, count, size):
        """Numbers in (0, 1] of a kernel whose threads take ``size`` neighbours at a time."""
        threads = min(-(-count // 256) * 256, MOST_THREADS)
        made = [None] * count
        for t in range(threads):
            blocks = words_of(self.seed, self.offset, t)
            for first in range(t * size, count, threads * size):
                drawn = [to_float(w) for _ in range(-(-size // 4)) for w in next(blocks)]
                made[first : first + size] = drawn[:size]
        self.offset += 4 * (-(-count // (threads * 4)))
        return made

    def uniform(self, count, dtype=torch.float32):
        if dtype == torch.float64:
            return torch.tensor(self.grid(count, 2, lambda w: [to_double(*w[:2]), to_double(*w[2:])]), dtype=dtype)
        return torch.tensor(np.array(self.grid(count, 4, lambda w: [to_float(x) for x in w])))

    def rand(self, *shape, dtype=torch.float32):
        value = self.uniform(int(np.prod(shape)), dtype).to(dtype)
        return torch.where(value == 1, 0, value).view(shape)

    def randint(self, low, high, shape):
        return torch.tensor(self.grid(int(np.prod(shape)), 4, lambda w: [x % (high - low) + low for x in w])).view(shape)

    def dropout(self, x, p):
        """(result, mask) of a contiguous tensor."""
        vector = self.dropout_vector(x.dtype)
        while vector > 1 and x.numel() % vector:
            vector //= 2
        u = torch.tensor(np.array(self.vectors(x.numel(), vector))) if vector > 1 else self.uniform(x.numel())
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        keep = torch.tensor(1 - p, dtype=wide)
        mask = (u.to(wide) < keep).view(x.shape)
        return (x.to(wide) * mask.to(wide) * (1 / keep.double()).to(wide)).to(x.dtype), mask
