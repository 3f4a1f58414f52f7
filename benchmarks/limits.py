"""What this GPU can do at most: the bytes that a copy moves, those that a sum reads, and the operations of cuBLAS' largest matmuls, measured when asked for.

A case's share of the limit is the time that its bytes and operations take at these rates, the longer of the two, divided by
the time that it took.
"""

import functools
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from inferno.tools.timing import call_times, device_times

_BYTES = 1 << 30
_SIZE = {"bf16": 8192, "f16": 8192, "tf32": 8192, "f32": 4096}
_DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "tf32": torch.float32, "f32": torch.float32}


@functools.cache
def copy_bandwidth() -> float:
    """Bytes a microsecond, read and written, of a copy of 1 GiB.

    By a stream of calls, of float32: on an H200 that moves 4.2 TB/s, bytes 3.8, and a CUDA graph's own copies 2.7.
    """
    source = torch.empty(_BYTES // 4, device="cuda")
    target = torch.empty_like(source)
    return 2 * _BYTES / call_times({"copy": lambda: target.copy_(source)}, source.device)["copy"]


@functools.cache
def read_bandwidth() -> float:
    """Bytes a microsecond, read, of the fastest of torch's reductions of 1 GiB to a number."""
    source = torch.zeros(_BYTES // 8, dtype=torch.int64, device="cuda")
    versions = {"i64": source.sum, "f32": source.view(torch.float32).sum, "max": source.view(torch.float32).amax}
    return _BYTES / min(call_times(versions, source.device).values())


@functools.cache
def matmul_rate(kind: str) -> float:
    """Operations a microsecond of torch.mm on random normal data, for as long as a case is timed: a GPU that is warm is slower;
    ``kind`` is bf16, f16, tf32 or f32."""
    size = _SIZE[kind]
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if kind == "tf32" else "highest")
    try:
        x, y = (torch.randn(size, size, dtype=_DTYPES[kind], device="cuda") for _ in range(2))
        return 2 * size**3 / device_times({"mm": lambda: torch.mm(x, y)})["mm"]
    finally:
        torch.set_float32_matmul_precision(before)


def count_work(model: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[int, int]:
    """(bytes of inputs, parameters and results, each once, but for tables of which rows are taken; operations of the matmuls)."""
    # Fused attention has no count where heads of queries share those of keys.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        results = model(*args, **kwargs)
    state = _state(model) if isinstance(model, torch.nn.Module) else []
    tensors = [t for t in tree_leaves((args, kwargs, results, state)) if isinstance(t, torch.Tensor)]
    return sum(t.nbytes for t in tensors), counter.get_total_flops()


def _state(model: torch.nn.Module) -> list[torch.Tensor]:
    """Parameters and buffers that are read whole."""
    tables = {id(m.weight) for m in model.modules() if isinstance(m, torch.nn.Embedding)}
    tables -= {id(m.weight) for m in model.modules() if isinstance(m, torch.nn.Linear)}
    return [t for t in [*model.parameters(), *model.buffers()] if id(t) not in tables]


def least_time(kind: str, bytes_: int, flops: int) -> tuple[float, str]:
    """Microseconds, and what limits: "copy", "read" or "matmul"; ``kind`` is a matmul's, or "copy" or "read" for what does not multiply."""
    if kind in ("copy", "read"):
        return bytes_ / (copy_bandwidth() if kind == "copy" else read_bandwidth()), kind
    return max((bytes_ / copy_bandwidth(), "copy"), (flops / matmul_rate(kind), "matmul"))
