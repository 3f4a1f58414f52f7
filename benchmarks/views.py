"""The suite ``views``: reshapes, transposes, slices and concatenations between what is computed, as models unpack weights, cut images and turn heads."""

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.memory_bound import case, size_of, whole_numbers

F = torch.nn.functional
_ROWS, _COLUMNS = 4096, 16384
_MANY = (8192, 8192)


def int4_halves(q: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """Two numbers of 4 bits a byte, and a scale for each 128 of a row."""
    numbers = torch.stack((q & 15, q >> 4), -1).flatten(1).view(q.shape[0], -1, 128)
    return (numbers.to(scale.dtype) - zero) * scale


def int4_words(q: Tensor, scale: Tensor) -> Tensor:
    """Eight numbers of 4 bits a word, and a scale for each column."""
    shifts = torch.arange(0, 32, 4, dtype=torch.int32, device=q.device)
    return (((q[:, :, None] >> shifts) & 15).view(q.shape[0], -1).to(scale.dtype) - 8) * scale


def int8_blocks(q: Tensor, scale: Tensor) -> Tensor:
    """A scale for each 128x128 of a matrix."""
    rows, columns = scale.shape
    return (q.view(rows, 128, columns, 128).float() * scale[:, None, :, None]).view(q.shape).to(torch.bfloat16)


def nf4(q: Tensor, levels: Tensor, scale: Tensor) -> Tensor:
    """Two numbers of a table of 16 a byte, and a scale for each 64."""
    return levels[torch.stack((q >> 4, q & 15), -1).flatten().int()].view(-1, 64) * scale[:, None]


def shuffled_sum(x: Tensor, y: Tensor) -> Tensor:
    return F.pixel_shuffle(x, 2) + y


def patches(x: Tensor) -> Tensor:
    b, c, h, w = x.shape
    return x.view(b, c, h // 16, 16, w // 16, 16).permute(0, 2, 4, 3, 5, 1).reshape(b, -1, 256 * c) * 2 - 1


def normalised_patches(x: Tensor) -> Tensor:
    p = patches(x)
    return (p - p.mean(-1, keepdim=True)) / (p.var(-1, keepdim=True) + 1e-6).sqrt()


def shuffled_channels(x: Tensor, y: Tensor) -> Tensor:
    b, c, h, w = x.shape
    return torch.cat((x, F.relu(y)), 1).view(b, 2, c, h, w).transpose(1, 2).reshape(b, 2 * c, h, w)


def gated_heads(x: Tensor, gate: Tensor) -> Tensor:
    return x.transpose(1, 2).reshape(gate.shape) * torch.sigmoid(gate)


def reversed_windows(w: Tensor, x: Tensor) -> Tensor:
    b, height, width, c = x.shape
    return w.view(b, height // 8, width // 8, 8, 8, c).permute(0, 1, 3, 2, 4, 5).reshape(x.shape) + x


def rotated_norm(q: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    y = F.rms_norm(q, q.shape[-1:])
    low, high = y.chunk(2, -1)
    return y * cos + torch.cat((-high, low), -1) * sin


def merged_patches(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    corners = torch.cat((x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]), -1)
    return F.layer_norm(corners, corners.shape[-1:], weight, bias)


def overlaps(a: Tensor, b: Tensor) -> Tensor:
    """The intersection over union of each box with each."""
    low, high = torch.maximum(a[:, None, :2], b[None, :, :2]), torch.minimum(a[:, None, 2:], b[None, :, 2:])
    sides = (high - low).clamp(min=0)
    both = sides[..., 0] * sides[..., 1]
    first, second = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1]), (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    return both / (first[:, None] + second[None] - both + 64)


def decoded_boxes(deltas: Tensor, anchors: Tensor) -> Tensor:
    centre, size = anchors[:, :2] + deltas[:, :2] * anchors[:, 2:], anchors[:, 2:] * deltas[:, 2:].exp()
    return torch.cat((centre - size / 2, centre + size / 2), -1)


def masked_loss(x: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    return ((x - y).abs() * (mask > 0)[:, None]).sum() / (mask > 0).sum()


def gate_gradients(gradient: Tensor, x: Tensor) -> Tensor:
    """Of a packed SwiGLU."""
    gate, up = x.chunk(2, -1)
    share = gate.sigmoid()
    return torch.cat((gradient * up * share * (1 + gate * (1 - share)), gradient * gate * share), -1)


def _cases() -> list[Case]:
    group, bits, n = "views", {"type_": torch.uint8}, _ROWS * _COLUMNS
    few = (_ROWS, _COLUMNS // 128, 1)
    cases = [
        case(group, "int4 halves", int4_halves, "bf16", whole_numbers(256, _ROWS, _COLUMNS // 2, **bits), few, few,
             moved=n // 2 + size_of("bf16", (n,), few, few)),
        case(group, "int4 words", int4_words, "bf16", whole_numbers(2**31 - 1, _ROWS, _COLUMNS // 8, type_=torch.int32), (_COLUMNS,), core=False),
        case(group, "int8 blocks", int8_blocks, "f32", whole_numbers(127, _ROWS, _COLUMNS, type_=torch.int8), (_ROWS // 128, _COLUMNS // 128), core=False),
        case(group, "nf4", nf4, "bf16", whole_numbers(256, n // 2, **bits), (16,), (n // 64,), core=False),
    ]
    for t in ("f32", "bf16"):
        cases += [
            case(group, "pixel_shuffle(x) + y", shuffled_sum, t, (16, 256, 64, 64), (16, 64, 128, 128), core=False),
            case(group, "patches", patches, t, (64, 3, 512, 512)),
            case(group, "norm of patches", normalised_patches, t, (64, 3, 512, 512), core=False),
            case(group, "channel shuffle", shuffled_channels, t, (32, 116, 56, 56), (32, 116, 56, 56), core=False),
            case(group, "gated heads", gated_heads, t, (8, 16, 2048, 128), (8, 2048, 2048), core=False),
            case(group, "windows + x", reversed_windows, t, (32 * 64, 8, 8, 192), (32, 64, 64, 192), core=False),
            case(group, "rotated norm", rotated_norm, t, (4, 32, 4096, 128), (4096, 128), (4096, 128)),
            case(group, "gradients of a packed swiglu", gate_gradients, t, (8192, 4096), (8192, 8192), core=False),
            case(group, "masked loss", masked_loss, t, _MANY, _MANY, (8192,), rate="read", core=False),
            case(group, "norm of merged patches", merged_patches, t, (64, 56, 56, 128), (512,), (512,), core=False),
        ]
    boxes = (1 << 22, 4)
    return [
        *cases,
        case(group, "overlaps of boxes", overlaps, "f32", (8192, 4), (8192, 4), core=False),
        case(group, "decoded boxes", decoded_boxes, "f32", boxes, boxes, core=False),
    ]


SUITES: dict[str, list[Case]] = {"views": _cases()}
