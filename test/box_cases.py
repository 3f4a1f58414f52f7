"""Programs that read another order in short pieces: for the simulator and for a GPU."""

import torch

randn, bf16 = torch.randn, torch.bfloat16

# The model and its inputs; each is one kernel.
CASES = {
    "taps outermost": (lambda x: x.permute(2, 3, 1, 0).contiguous(), lambda: (randn(128, 68, 2, 2),)),
    "taps outermost, bf16": (lambda x: x.permute(2, 3, 1, 0).contiguous(), lambda: (randn(192, 96, 2, 2).to(bf16),)),
    "a window": (lambda x: x.permute(0, 2, 3, 1).contiguous(), lambda: (randn(9, 1024, 3, 3).to(bf16),)),
    "bytes": (lambda x: (x.permute(0, 3, 1, 2).float() / 255).contiguous(), lambda: (torch.randint(0, 255, (2, 90, 131, 3), dtype=torch.uint8),)),
    "two, and columns": (
        lambda x, y, b: ((x * y).permute(0, 3, 1, 2) + b).contiguous(), lambda: (randn(1, 190, 71, 3), randn(1, 190, 71, 3), randn(3, 190, 71)),
    ),
    "indices": (lambda x: (x.permute(0, 3, 1, 2) * torch.arange(130, device=x.device)).contiguous(), lambda: (randn(1, 90, 130, 3).half(),)),
    "a window flipped": (lambda x: x.transpose(0, 1).flip(2, 3).contiguous(memory_format=torch.channels_last), lambda: (randn(2304, 4, 3, 3).to(bf16),)),
    "transposed in part": (lambda x: (x.flip(1) * 2).permute(1, 2, 3, 0).contiguous(), lambda: (randn(1100, 3, 5, 7),)),
    "from somewhere": (lambda x: x[1:, 2:, :, 1:].permute(3, 0, 2, 1).contiguous() + 1, lambda: (randn(11, 40, 41, 5).to(bf16),)),
    "narrow rows": (lambda x: x.t().contiguous(), lambda: (randn(4001, 18).to(bf16),)),
    "floats that are narrowed": (lambda x: torch.tanh(x).permute(0, 3, 1, 2).half().contiguous(), lambda: (randn(1, 190, 72, 3),)),
    "narrow floats to bytes": (lambda x: (x.t() > 0).contiguous(), lambda: (randn(4004, 18),)),
    "wide ones to bytes": (lambda x, y: (x.t() > y.t()).contiguous(), lambda: (randn(4004, 18, dtype=torch.float64), randn(4004, 18))),
    "float64": (lambda x: x.permute(2, 3, 1, 0).contiguous(), lambda: (randn(128, 68, 2, 2, dtype=torch.float64),)),
    "booleans": (lambda x: x.permute(3, 0, 1, 2).contiguous(), lambda: (randn(30, 40, 41, 5) > 0,)),
    # What is computed of several inputs goes through shared memory.
    "sums of pixels": (lambda x: x.view(8, 16, 4, 16, 4, 16).sum((2, 4)).permute(0, 3, 1, 2).contiguous(), lambda: (randn(8, 64, 64, 16).to(bf16),)),
    "sums of pixels in part": (lambda x: x.view(7, 29, 2, 19, 2, 24).sum((2, 4)).permute(0, 3, 1, 2).contiguous(), lambda: (randn(7, 58, 38, 24),)),
    "two, and one of each column": (
        lambda x, y, b: ((x * y).permute(0, 3, 1, 2) + b[:, None, None]).contiguous(), lambda: (randn(1, 190, 71, 3), randn(1, 190, 71, 3), randn(3)),
    ),
    "two, and indices": (
        lambda x, y: ((x + y).permute(0, 3, 1, 2) * torch.arange(130, device=x.device)).contiguous(),
        lambda: (randn(1, 90, 130, 3).half(), randn(1, 90, 130, 3).half()),
    ),
}
BYTES = {"bytes", "booleans"}  # which are not chosen
