"""Contractions followed by operations on the rows of their results, and the way to have both in one kernel wherever that can be."""

from collections.abc import Callable

import torch
from torch import Tensor

from inferno.capture import capture
from inferno.mlir import ir, idle_context
from inferno.passes.manager import run_pipeline
from inferno.runtime.workers import jobs
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import ATTRIBUTE, to_attribute

F = torch.nn.functional


def _several(x, w, b, g, r):
    h = F.linear(x, w, b)
    return h, h.float().logsumexp(-1), torch.softmax(h * g, -1), F.gelu(h).amin(-1, keepdim=True)


# Of x (m, k), w (n, k), b (n,), g (n,), r (m, n); the last name is of the operations' kind.
CASES: dict[str, Callable] = {
    "softmax": lambda x, w, b, g, r: torch.softmax(F.linear(x, w), -1),
    "log_softmax": lambda x, w, b, g, r: torch.log_softmax(F.linear(x, w, b), -1),
    "layer_norm": lambda x, w, b, g, r: F.layer_norm(F.linear(x, w, b), b.shape, g, b),
    "rms_norm": lambda x, w, b, g, r: F.rms_norm(F.linear(x, w) + r, b.shape, g),
    "normalize": lambda x, w, b, g, r: F.normalize(F.linear(x, w), dim=-1),
    "amax": lambda x, w, b, g, r: F.linear(x, w).amax(-1),
    "amin": lambda x, w, b, g, r: (F.linear(x, w) * g).amin(-1, keepdim=True),
    "sum": lambda x, w, b, g, r: F.linear(x, w).sum(-1),
    "product": lambda x, w, b, g, r: (1 + F.linear(x, w).float() / 16).prod(-1),
    "any": lambda x, w, b, g, r: (F.linear(x, w) > 2.5).any(-1),
    "all": lambda x, w, b, g, r: (F.linear(x, w) > -2.5).all(-1),
    "transposed": lambda x, w, b, g, r: torch.softmax((w @ x.t()).t() + r, -1),
    "several": _several,
    "triangle": lambda x, w, b, g, r: torch.softmax(F.linear(x, w).masked_fill(torch.ones_like(r).triu(1).bool(), -torch.inf), -1),
}


def operands(randn: Callable[..., Tensor], m: int, n: int, k: int) -> tuple[Tensor, ...]:
    """x, w, b, g, r of a case; results of the products are about 1."""
    return randn(m, k), randn(n, k) * k**-0.5, randn(n), randn(n), randn(m, n)


def fused(function: Callable, args: tuple[Tensor, ...], always: int = 1) -> str:
    """The ``fused`` stage of a function, with operations on rows in the contractions' kernels as for Hopper."""
    return _text(function, args, f"inferno-fuse,fuse-row-epilogues{{target=sm_90a always={always}}}")


def scheduled(function: Callable, args: tuple[Tensor, ...], always: int = 1, schedule: object = None) -> str:
    """The same with schedules for Hopper; ``schedule`` is every kernel's, if there is one."""
    return _text(function, args, f"inferno-fuse,fuse-row-epilogues{{target=sm_90a always={always}}},assign-schedules{{target=sm_90a}}", schedule)


def _text(function: Callable, args: tuple[Tensor, ...], pipeline: str, schedule: object = None) -> str:
    linalg, _ = jobs.lower_to_linalg(capture(function, args).text)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(linalg)
        run_pipeline(module, pipeline)
        for kernel in kernels(module) if schedule is not None else ():
            kernel.attributes[ATTRIBUTE] = to_attribute(schedule)
        return module.operation.get_asm(enable_debug_info=False)
