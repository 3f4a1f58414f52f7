"""The suite ``shapes``: what is common at sizes that are not: rows of a few numbers, images of a few channels, odd lengths, products of tall matrices."""

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.memory_bound import case, whole_numbers

F = torch.nn.functional
_POINTS = 1 << 24
_ODD = (4099, 4099)


def _rows(k: int) -> tuple[int, int]:
    return _POINTS // k, k


def _images(k: int) -> tuple[int, int, int, int]:
    return _POINTS // k // 4096, k, 64, 64


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.var_mean(x, -1)


def _to_last(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).contiguous()


def _transposed(x: Tensor) -> Tensor:
    return x.transpose(1, 2).contiguous()


def _channel_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x.permute(0, 2, 3, 1), w.shape, w, b).permute(0, 3, 1, 2)


def _one_hot(i: Tensor, w: Tensor) -> Tensor:
    return F.one_hot(i, w.shape[0]).to(w.dtype) @ w


def _scaled_blocks(x: Tensor) -> Tensor:
    return x / x.abs().amax(-1, keepdim=True).clamp_min(1e-6)


def _cases() -> list[Case]:
    group, cases = "unusual shapes", []
    for t in ("f32", "bf16"):
        for k in (2, 3, 4, 8, 17):
            cases += [
                case(group, f"softmax of rows of {k}", lambda x: x.softmax(-1), t, _rows(k), core=k == 3),
                case(group, f"sums of rows of {k}", lambda x: x.sum(-1), t, _rows(k), rate="read", core=False),
                case(group, f"moments of rows of {k}", _moments, t, _rows(k), core=False),
                case(group, f"softmax of {k} channels", lambda x: x.softmax(1), t, _images(k), core=k == 3),
                case(group, f"sum of {k} channels", lambda x: x.sum(1), t, _images(k), rate="read", core=False),
                case(group, f"{k} channels last", _to_last, t, _images(k), core=False),
                case(group, f"columns of {k} transposed", _transposed, t, (_POINTS // k // 128, 128, k), core=False),
                case(group, f"stack of {k}", lambda *x: torch.stack(x, -1), t, *[(_POINTS // k,)] * k, core=False),
                case(group, f"squares of {k} columns", lambda x: x.t() @ x, t, _rows(k), rate="read", core=False),
                case(group, f"running sum of {k}", lambda x: x.cumsum(0), t, (k, _POINTS // k), core=False),
                case(group, f"running sums of rows of {k}", lambda x: x.cumsum(-1), t, _rows(k), core=k == 3),
                case(group, f"rows of {k} in order", lambda x: x.sort(-1)[0], t, _rows(k), core=k == 8),
                case(group, f"places of the largest of {k}", lambda x: x.argmax(-1), t, _rows(k), rate="read", core=False),
            ]
        labels, pixels = whole_numbers(19, 8, 256, 512), whole_numbers(3, 1 << 22)
        cases += [
            case(group, "losses of 19 classes of images", F.cross_entropy, t, (8, 19, 256, 512), labels, rate="read"),
            case(group, "losses of 3 classes", F.cross_entropy, t, (1 << 22, 3), pixels, rate="read", core=False),
            case(group, "norm of 96 channels", _channel_norm, t, (64, 96, 56, 56), (96,), (96,), core=False),
            case(group, "unit vectors of 256 channels", lambda x: F.normalize(x, dim=1), t, (32, 256, 56, 56), core=False),
            case(group, "odd rows", lambda x: x.softmax(-1), t, _ODD, core=False),
            case(group, "rows of 197", lambda x: x.softmax(-1), t, (64 * 12 * 197, 197), core=False),
            case(group, "odd columns", lambda x: x.sum(0), t, _ODD, rate="read", core=False),
            case(group, "labels times a matrix", _one_hot, t, whole_numbers(64, 1 << 16), (64, 64), core=False),
            case(group, "sums of two vectors", lambda a, b: a[:, None] + b, t, (8192,), (4096,), core=False),
            case(group, "blocks of 16 by their largest", _scaled_blocks, t, _rows(16), core=False),
        ]
    return cases


SUITES: dict[str, list[Case]] = {"shapes": _cases()}
