"""Convolutions whose windows lie side by side, as models have them: for the simulator and for a GPU."""

import torch

F, randn, bf16 = torch.nn.functional, torch.randn, torch.bfloat16


def embed(x, w, b):
    """A vision transformer's: patches are rows."""
    return F.conv2d(x, w, b, w.shape[-1]).flatten(2).transpose(1, 2)


def halve(x, w, b):
    """A ConvNeXt's: channels last around it, in float32."""
    return F.conv2d(x.permute(0, 3, 1, 2), w, b, 2).permute(0, 2, 3, 1)


CASES = {
    "patches of 16x16": lambda: (embed, (randn(2, 3, 64, 48).to(bf16), randn(32, 3, 16, 16).to(bf16), randn(32).to(bf16))),
    "patches of 4x4": lambda: (embed, (randn(2, 3, 32, 16), randn(24, 3, 4, 4), randn(24))),
    "2x2": lambda: (F.conv2d, (randn(2, 16, 12, 8).to(bf16), randn(32, 16, 2, 2).to(bf16), randn(32).to(bf16), 2)),
    "2x2, channels last": lambda: (halve, (randn(2, 12, 8, 16), randn(32, 16, 2, 2), randn(32))),
    "without a bias": lambda: (lambda x, w: F.conv1d(x, w, None, 8), (randn(2, 4, 64), randn(16, 4, 8))),
}
