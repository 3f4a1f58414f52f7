"""The suites ``moves``, which only move data, and ``windows``, pooling and interpolation."""

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.memory_bound import case, permuted, size_of, whole_numbers

F = torch.nn.functional


def embedding(w: Tensor, i: Tensor) -> Tensor:
    return F.embedding(i, w)


def scatter_add(x: Tensor, i: Tensor) -> Tensor:
    """Rows that are added to few others."""
    return x.new_zeros(8192, x.shape[1]).index_add(0, i, x)


def scatter_elements(x: Tensor, i: Tensor) -> Tensor:
    return torch.zeros_like(x).scatter_add(1, i, x)


def put_rows(x: Tensor, i: Tensor, y: Tensor) -> Tensor:
    return x.index_put((i,), y)


def put_and_add(x: Tensor, i: Tensor, y: Tensor) -> Tensor:
    return x.index_put((i,), y, accumulate=True)


def _moves() -> list[Case]:
    cases, square, group = [], (8192, 8192), "moves"
    for t in ("f32", "bf16"):
        rows, few = (65536, 1024), (16384, 1024)
        index = size_of("i64", (65536,))
        main = t == "bf16"
        cases += [
            case(group, "transpose", lambda x: x.t().contiguous(), t, square),
            case(group, "permute 0, 2, 1, 3", lambda x: x.permute(0, 2, 1, 3).contiguous(), t, (8, 4096, 32, 64)),
            case(group, "permute 2, 0, 1", lambda x: x.permute(2, 0, 1).contiguous(), t, (256, 512, 512), core=not main),
            case(group, "permute 2, 1, 0", lambda x: x.permute(2, 1, 0).contiguous(), t, (256, 512, 512), core=False),
            case(group, "to channels-last", lambda x: x.contiguous(memory_format=torch.channels_last), t, (64, 256, 64, 64), core=False),
            case(group, "cat, last", lambda x, y: torch.cat((x, y), -1), t, (8192, 4096), (8192, 4096)),
            case(group, "cat, first", lambda x, y: torch.cat((x, y)), t, (4096, 8192), (4096, 8192), core=False),
            case(group, "stack, last", lambda x, y: torch.stack((x, y), -1), t, (8192, 4096), (8192, 4096), core=False),
            case(group, "embedding", embedding, t, (50257, 1024), whole_numbers(50257, 65536), core=main, moved=index + 2 * size_of(t, rows)),
            case(group, "index_select", lambda x, i: x.index_select(0, i), t, rows, permuted(65536), core=False),
            case(group, "gather", lambda x, i: x.gather(1, i), t, square, whole_numbers(8192, *square), core=main),
            case(group, "index_add", scatter_add, t, rows, whole_numbers(8192, 65536), core=main),
            case(group, "scatter_add", scatter_elements, t, (8192, 4096), whole_numbers(4096, 8192, 4096), core=not main),
            case(group, "index_put", put_rows, t, rows, permuted(16384), few, core=main),
            case(group, "index_put, accumulate", put_and_add, t, rows, whole_numbers(65536, 16384), few, core=False),
            case(group, "flip", lambda x: x.flip(-1), t, square, core=False),
            case(group, "roll", lambda x: x.roll(5, -1), t, square, core=False),
            case(group, "pad, reflect", lambda x: F.pad(x, (3, 3, 3, 3), mode="reflect"), t, (64, 256, 64, 64), core=False),
            case(group, "tril", torch.tril, t, square, core=False),
            case(group, "repeat_interleave", lambda x: x.repeat_interleave(4, 1), t, (8, 8, 2048, 128), core=False),
        ]
    return cases


def _windows() -> list[Case]:
    cases, image = [], (32, 64, 112, 112)
    for t in ("f32", "bf16"):
        cases += [
            case("windows", "max_pool2d 3, 2", lambda x: F.max_pool2d(x, 3, 2, 1), t, image),
            case("windows", "avg_pool2d 2", lambda x: F.avg_pool2d(x, 2), t, image),
            case("windows", "bilinear x2", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), t, (16, 64, 112, 112), core=t == "f32"),
            case("windows", "nearest x2", lambda x: F.interpolate(x, scale_factor=2), t, (16, 64, 112, 112), core=False),
            case("windows", "bicubic x2", lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), t, (16, 64, 112, 112), core=False),
            case("windows", "adaptive_avg_pool2d 1", lambda x: F.adaptive_avg_pool2d(x, 1), t, (256, 1024, 14, 14), core=False, rate="read"),
            case("windows", "adaptive_avg_pool2d 7", lambda x: F.adaptive_avg_pool2d(x, 7), t, image, core=False, rate="read"),
            case("windows", "max_pool1d 3", lambda x: F.max_pool1d(x, 3), t, (64, 256, 4096), core=False),
            case("windows", "avg_pool3d 2", lambda x: F.avg_pool3d(x, 2), t, (16, 32, 32, 64, 64), core=False),
            case("windows", "lp_pool2d 2, 3", lambda x: F.lp_pool2d(x.abs(), 2, 3), t, image, core=False),
            case("windows", "unfold 3", lambda x: F.unfold(x, 3, padding=1), t, (16, 32, 56, 56), core=False),
            case("windows", "local_response_norm 5", lambda x: F.local_response_norm(x, 5), t, image, core=False),
        ]
    return cases


SUITES: dict[str, list[Case]] = {"moves": _moves(), "windows": _windows()}
