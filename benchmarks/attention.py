"""The suites ``attention`` (whole sequences) and ``decoding`` (one query against a cache), in torch's own form and written by hand."""

from collections.abc import Callable
from functools import partial
from math import sqrt

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.memory_bound import ALL, TYPES, case

F = torch.nn.functional
_WINDOW = 512


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(-2, -1) / sqrt(q.shape[-1]), -1) @ v


def by_hand_with_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(-2, -1) / sqrt(q.shape[-1]) + mask, -1) @ v


def window(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Every query sees itself and the ``_WINDOW`` - 1 keys in front of it."""
    behind = torch.arange(q.shape[-2], device=q.device).unsqueeze(-1) - torch.arange(k.shape[-2], device=q.device)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(behind >= 0) & (behind < _WINDOW))


def soft_capped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """As Gemma 2 has it."""
    scores = (q @ k.transpose(-2, -1)).float() / sqrt(q.shape[-1])
    return torch.softmax(torch.tanh(scores / 50) * 50, -1).to(v.dtype) @ v


_CAUSAL = partial(F.scaled_dot_product_attention, is_causal=True)
_SHARED = partial(F.scaled_dot_product_attention, enable_gqa=True)
_CAUSAL_SHARED = partial(F.scaled_dot_product_attention, is_causal=True, enable_gqa=True)


def _attention(
    group: str, name: str, function: Callable, type_: str, batch: int, heads: int, length: int, columns: int, keys: int = 0, mask: bool = False,
    core: bool = False,
) -> Case:
    """``keys``: the heads of keys and values, if those are others; ``mask``: whether there is one of floats, for all heads."""
    q, k = (batch, heads, length, columns), (batch, keys or heads, length, columns)
    shapes = (q, k, k, (1, 1, length, length)) if mask else (q, k, k)
    shared = f" ({keys} of keys)" if keys else ""
    return Case(
        f"{name}{shared} {batch}x{heads}x{length}x{columns} {type_}",
        lambda device: (function, tuple(torch.randn(s, dtype=TYPES[type_], device=device) for s in shapes), {}),
        ALL if core else ALL[:1], core=core, rate=type_ if function is F.scaled_dot_product_attention else None, group=f"{group} {type_}",
    )


# (batch, heads, length): as many scores as are checked in float64 beside the results.
_SIZES = ((32, 16, 512), (16, 16, 1024), (8, 16, 2048), (4, 16, 4096), (2, 16, 8192), (1, 8, 16384), (1, 2, 32768))
_FORMS = (("full", F.scaled_dot_product_attention, 0, False), ("causal", _CAUSAL, 0, False), ("float mask", F.scaled_dot_product_attention, 0, True),
          ("window", window, 0, False), ("causal, shared keys", _CAUSAL_SHARED, 8, False), ("soft-capped", soft_capped, 0, False))


def _forward() -> list[Case]:
    cases = [_attention("attention", name, f, "bf16", 4, 32, 4096, 128, core=True) for name, f, *_ in _FORMS[:2]]
    for batch, heads, length in _SIZES:
        for columns in (64, 128, 256):
            for name, function, times, mask in _FORMS:
                if times and heads % times:
                    continue
                core = (columns, length) in ((128, 2048), (64, 1024)) and name in ("float mask", "window", "causal, shared keys")
                group = "attention without a kernel of torch's" if name in ("window", "soft-capped") else "attention"
                cases.append(_attention(group, name, function, "bf16", batch, heads, length, columns, heads // times if times else 0, mask, core))
    for type_ in ("bf16", "f32"):
        for length in (32, 64, 128, 197, 256, 512, 1024, 2048, 4096):
            batch = max(1, 8192 // length)
            core = length in (128, 1024)
            cases.append(_attention("by hand", "by hand", by_hand, type_, batch, 12, length, 64, core=core))
            cases.append(_attention("by hand", "by hand, mask", by_hand_with_mask, type_, batch, 12, length, 64, mask=True))
    return cases


def _decoding() -> list[Case]:
    cases = []
    for batch in (1, 8, 64):
        for keys in (8, 4):
            for length in (512, 2048, 8192, 32768):
                cache = (batch, keys, length, 128)
                bytes_ = 2 * batch * keys * length * 128 * 2
                group = "decoding, from 128 MiB on" if bytes_ >= 1 << 27 else "decoding"
                core = (batch, keys, length) in ((1, 8, 2048), (1, 8, 32768), (8, 4, 8192), (64, 8, 2048))
                cases.append(case(group, f"decoding, {keys} heads with a cache of {length},", _SHARED, "bf16", (batch, 32, 1, 128), cache, cache, core=core))
    return cases


SUITES: dict[str, list[Case]] = {"attention": _forward(), "decoding": _decoding()}
