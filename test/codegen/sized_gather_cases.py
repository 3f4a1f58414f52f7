"""Elements of tensors whose sizes vary, read where other tensors say: for the simulator and a GPU."""

import torch
from torch.export import Dim

F, A = torch.nn.functional, Dim.AUTO
PICTURES = [(2, 9, 11, 5, 8), (3, 4, 30, 7, 16), (3, 40, 5, 9, 3)]
TABLES = [(2, 9, 11, 5), (4, 30, 7, 16), (3, 5, 40, 33)]
FIRST, SECOND, EVERY = {0: A}, {0: A, 1: A}, {0: A, 1: A, 2: A}


def sampled(**how):
    return lambda x, g: F.grid_sample(x, g, **{"align_corners": False, **how})


def pictures(b, h, w, p, q):
    return torch.randn(b, 3, h, w), torch.rand(b, p, q, 2) * 2.6 - 1.3


def volumes(b, h, w, p, q):
    return torch.randn(b, 3, 4, h, w), torch.rand(b, 2, p, q, 3) * 2.6 - 1.3


def deep(b, h, w, p, q):
    return torch.randn(b, 3, w, h, 6), torch.rand(b, p, q, 2, 3) * 2.6 - 1.3


def places(size, *shape):
    return torch.randint(-size, size, shape)


def pairs(*front, behind=()):
    """A table [*front, h, w, *behind], and as many places along h and w."""
    return lambda b, h, w, n: (torch.randn(*front, h, w, *behind), places(h, n), places(w, n))


def along(dim):
    """A table, and places along one dimension, the others of which are the table's."""
    def inputs(b, h, w, n):
        size = (b, h, w)[dim]
        return torch.randn(b, h, w), torch.randint(size, [n if d == dim else m for d, m in enumerate((b, h, w))])

    return inputs


# The model, what makes its inputs of sizes, what varies, and the sizes; it is compiled for the first.
SAMPLES = {
    **{f"{mode}, {padding}, {corners}": (
        sampled(mode=mode, padding_mode=padding, align_corners=corners), pictures, ({0: A, 2: A, 3: A}, EVERY), PICTURES,
    ) for mode in ("bilinear", "nearest", "bicubic") for padding in ("zeros", "border", "reflection") for corners in (False, True)},
    "volumes": (sampled(padding_mode="reflection"), volumes, ({0: A, 3: A, 4: A}, {0: A, 2: A, 3: A}), PICTURES),
    "volumes of any depth": (sampled(align_corners=True), deep, ({0: A, 2: A, 3: A}, EVERY), PICTURES),
}
PICKS = {
    "pairs": (lambda x, i, j: x[i, j] * 2, pairs(behind=(3,)), (SECOND, FIRST, FIRST), TABLES),
    "behind a slice": (lambda x, i, j: x[:, i, j], pairs(4), ({1: A, 2: A}, FIRST, FIRST), TABLES),
    "apart": (
        lambda x, i, j: x[i, :, j], lambda b, h, w, n: (torch.randn(h, b, w, 2), places(h, n), places(w, n)), (EVERY, FIRST, FIRST), TABLES,
    ),
    "of a part": (
        lambda x, i, j: x[i, j, 1:], lambda b, h, w, n: (torch.randn(h, w, b + 2), places(h, n), places(w, n)), (EVERY, FIRST, FIRST), TABLES,
    ),
    "rows and columns": (
        lambda x, i, j: x[i[:, None], j], lambda b, h, w, n: (torch.randn(h, w), places(h, b), places(w, n)), (SECOND, FIRST, FIRST), TABLES,
    ),
    "of 32 bits": (
        lambda x, i, j: x[i.int(), j], lambda b, h, w, n: (torch.randn(h, w), places(h, n), places(w, b, n)), (SECOND, FIRST, SECOND), TABLES,
    ),
    "three": (
        lambda x, i, j, k: x[i, j, k], lambda b, h, w, n: (torch.randn(b, h, w), places(b, n), places(h, n, 1, 1), places(w, h, 1)),
        (EVERY, FIRST, FIRST, FIRST), TABLES,
    ),
    "bytes": (
        lambda x, i, j: x[i, j], lambda b, h, w, n: (torch.randint(0, 255, (h, w), dtype=torch.uint8), places(h, n), places(w, n)),
        (SECOND, FIRST, FIRST), TABLES,
    ),
    "the last token": (
        lambda x, n: x[torch.arange(x.shape[0], device=x.device), n - 1] + 1,
        lambda b, h, w, n: (torch.randn(b, h, 8), torch.randint(1, h + 1, (b,))), (SECOND, FIRST), TABLES,
    ),
    "each token's word": (
        lambda x, y: x[torch.arange(x.shape[0], device=x.device)[:, None], torch.arange(x.shape[1], device=x.device), y],
        lambda b, h, w, n: (torch.randn(b, h, 9), places(9, b, h)), (SECOND, SECOND), TABLES,
    ),
    "taken along": (lambda x, i: torch.take_along_dim(x, i, 1), along(1), (EVERY, EVERY), TABLES),
    "taken along rows": (
        lambda x, i: x.take_along_dim(i, dim=-1), lambda b, h, w, n: (torch.randn(b, h, w), torch.randint(w, (b, 1, n))), (EVERY, {0: A, 2: A}), TABLES,
    ),
    **{f"gathered along {d}": (lambda x, i, d=d: x.gather(d, i), along(d), (EVERY, EVERY), TABLES) for d in range(3)},
}
RESIZED = {
    f"resized by {factor}, {mode}": (
        lambda x, factor=factor, mode=mode: F.interpolate(x, scale_factor=factor, mode=mode), lambda b, h, w, n: (torch.randn(b, 2, h, w),),
        ({0: A, 2: A, 3: A},), TABLES,
    ) for factor in (2, 0.5, 1.5) for mode in ("bilinear", "bicubic")
}
CASES = {**SAMPLES, **PICKS, **RESIZED}
