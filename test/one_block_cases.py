"""Small programs that are one block's: for the simulator and for a GPU."""

import torch

from inferno.schedule.attributes import ATTRIBUTE, from_attribute
from inferno.schedule.composite.one_block import OneBlock

F, randn, bf16 = torch.nn.functional, torch.randn, torch.bfloat16
PASSES = "fuse-small{target=sm_90a always=1},assign-schedules{target=sm_90a}"

# The model, its inputs, and threads; each is one launch.
CASES = {
    "a scan between rows": (lambda x, y: (F.rms_norm((x * y[:, :1]).cumsum(-1), x.shape[1:]) + 4).mean(), lambda: (randn(4, 91), randn(4, 91)), 256),
    "a scan across rows": (lambda x: torch.softmax(x.cumsum(0), 0).flip(0), lambda: (randn(50, 6).to(bf16),), 64),
    "a long scan": (lambda x: (x.cumsum(-1) + 1, x.logcumsumexp(-1).amax(-1)), lambda: (randn(3, 1000),), 128),
    "columns": (lambda x, y: (x - x.mean(0, keepdim=True)) * y.sum(-1, keepdim=True), lambda: (randn(40, 48).half(), randn(40, 48).half()), 128),
    "rows by their numbers": (lambda x, i: torch.softmax(x[i], -1).t().contiguous(), lambda: (randn(9, 33), torch.randint(0, 9, (7,))), 64),
    "pieces": (lambda x, y: torch.log_softmax(torch.cat((x, torch.tanh(y)), -1).flip(-1), -1), lambda: (randn(3, 37), randn(3, 20)), 32),
    "integers": (lambda x: (x.cumsum(-1) * (x.amax(0) > 2), (x < 0).any(-1)), lambda: (torch.randint(-9, 9, (5, 70)),), 64),
    "float64": (lambda x: F.normalize(x, dim=-1).flip(0).amax(), lambda: (randn(6, 40, dtype=torch.float64),), 64),
    "more than shared memory has": (lambda x: ((x.cumsum(-1) * 2).flip(-1).cumsum(-1), x.sum()), lambda: (randn(2, 9000),), 512),
}


def choose(threads):
    """What each kernel has, and so many threads for a block that has a program."""
    def own(kernel):
        schedule = from_attribute(kernel.attributes[ATTRIBUTE])
        return OneBlock(threads) if isinstance(schedule, OneBlock) else schedule

    return own
