"""Contractions that read parts of tensors where they lie: name -> (function, makes its arguments of a scale, generators that may take it)."""

import torch

F = torch.nn.functional
TENSOR_CORES = {"wgmma", "mma", "vectors"}
FLOAT32 = {"presplit", "bf16x6", "simt", "vectors"}
REDUCTIONS = {"reductions", "rows", "columns"}


def made(shapes, dtype=torch.bfloat16):
    return lambda scale: [torch.randn(shape).to(dtype) for shape in shapes(scale)]


FACTORS = {
    "columns": (lambda x, w: torch.relu(F.linear(x[:, 32:96], w)), lambda s: ((70 * s, 128), (40, 64))),
    "from the first": (lambda x, w: F.linear(x[:, :64], w), lambda s: ((70 * s, 128), (40 * s, 64))),
    "rows and columns": (lambda x, w: F.linear(x[5:69, 64:], w), lambda s: ((70 * s, 128), (40 * s, 64))),
    "first tokens": (lambda x, w, b: torch.tanh(F.linear(x[:, 0], w, b)), lambda s: ((48 * s, 5, 64), (40, 64), (40,))),
    "last tokens": (lambda x, w: F.linear(x[:, -1], w), lambda s: ((48, 5, 64 * s), (40, 64 * s))),
    "both factors": (lambda x, w: x[:, :64] @ w[64:128, 16:], lambda s: ((70 * s, 128), (128 * s, 80 * s))),
    "transposed": (lambda x, w: x[8:72, 16:].T @ w[:64, 16:], lambda s: ((80 * s, 80), (70 * s, 48 * s))),
    "few columns, by steps": (lambda x, w: F.linear(x[:6], w[8:]), lambda s: ((70, 64 * s), (72 * s, 64 * s))),
    "batches": (lambda x, w: torch.bmm(x[:, :, 64:], w[:, 8:, :64].transpose(1, 2)), lambda s: ((3 * s, 70, 128), (3 * s, 48 * s, 80))),
    "added": (lambda x, w, r: F.linear(x[:, 64:], w) + r[:, 16:56], lambda s: ((70 * s, 128), (40, 64), (70 * s, 64))),
    "signed": (lambda x, w, r: (x[:, 64:] * torch.sign(r[:, 8:9])) @ w, lambda s: ((70 * s, 128), (64, 40 * s), (70 * s, 16))),
}
CASES = {
    **{f"{dtype}, {name}".removeprefix("torch."): (function, made(shapes, dtype), by)
       for dtype, by in ((torch.bfloat16, TENSOR_CORES), (torch.float32, FLOAT32)) for name, (function, shapes) in FACTORS.items()},
    "sums of products": (lambda x, y: (x[:, :64] * y[:, 64:]).sum(-1), made(lambda s: ((70 * s, 128), (70 * s, 128))), REDUCTIONS),
    "sums times a column": (lambda x, y: (x * y[:, 3:4]).sum(-1), made(lambda s: ((70 * s, 128), (70 * s, 16))), REDUCTIONS),
    "sums times a row": (lambda x, y: (x * y[2]).sum(-1), made(lambda s: ((70, 128 * s), (8, 128 * s))), REDUCTIONS | TENSOR_CORES),
    "columns' sums": (lambda x, y: (x[:32] * y[32:64]).sum(0), made(lambda s: ((70, 128 * s), (70, 128 * s))), REDUCTIONS),
}
