"""The suite ``elementwise``: maps of 64M elements, and others whose sizes or layouts are less convenient."""

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.memory_bound import TYPES, case

F = torch.nn.functional
_MANY = (8192, 8192)
_ODD = (4099, 16381)


def multiply_add_sigmoid(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return torch.sigmoid(x * y + z)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(gate) * up


def packed_swiglu(x: Tensor) -> Tensor:
    """The two halves of a row."""
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding by halves; x is (batch, heads, tokens, width), cos and sin are (tokens, width)."""
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat((-high, low), -1) * sin


def paired_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding by neighbours."""
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def dropout_residual(x: Tensor, residual: Tensor) -> Tensor:
    return F.dropout(x, 0.1, training=True) + residual


def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(x + bias)


def clamp_where(x: Tensor, y: Tensor) -> Tensor:
    return torch.where(x > 0, x.clamp(max=2), y.abs().sqrt())


# Several results.


def residual_gate(x: Tensor, y: Tensor, gate: Tensor) -> tuple[Tensor, Tensor]:
    total = x + y
    return torch.tanh(total) * gate, total


def sine_cosine(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.sin(), x.cos()


def lstm_cell(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """gates are (batch, 4 * width), cell is (batch, width)."""
    i, f, g, o = gates.chunk(4, -1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def swiglu_gradients(gradient: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    share = gate.sigmoid()
    return gradient * up * share * (1 + gate * (1 - share)), gradient * gate * share


def rope_both(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return rope(q, cos, sin), rope(k, cos, sin)


def adam(weight: Tensor, gradient: Tensor, mean: Tensor, square: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    mean = 0.9 * mean + 0.1 * gradient
    square = 0.999 * square.abs() + 0.001 * gradient * gradient
    return weight - 1e-3 * (mean / (square.sqrt() + 1e-8) + 0.01 * weight), mean, square


def _several(t: str, core: bool) -> list[Case]:
    group, heads, tokens = "several results", (4, 32, 2048, 128), (2048, 128)
    return [
        case(group, "tanh(x + y) * z, x + y", residual_gate, t, _MANY, _MANY, _MANY, core=core),
        case(group, "sin(x), cos(x)", sine_cosine, t, _MANY, core=False),
        case(group, "lstm cell", lstm_cell, t, (8192, 16384), (8192, 4096), core=core),
        case(group, "swiglu gradients", swiglu_gradients, t, _MANY, _MANY, _MANY, core=False),
        case(group, "rope of both", rope_both, t, heads, heads, tokens, tokens, core=False),
        case(group, "adam", adam, t, _MANY, _MANY, _MANY, _MANY, core=core),
        case(group, "tanh(x + y) * z, x + y", residual_gate, t, _ODD, _ODD, _ODD, core=False),
        case(group, "tanh(x + y) * z, x + y", residual_gate, t, (64, 1000), (64, 1000), (64, 1000), core=False),
        case(group, "adam", adam, t, (768, 768), (768, 768), (768, 768), (768, 768), core=False),
        case(group, "lstm cell", lstm_cell, t, (64, 4096), (64, 1024), core=False),
    ]


def _cases() -> list[Case]:
    cases, group = [], "elementwise"
    heads, tokens = (4, 32, 4096, 128), (4096, 128)
    for t in ("f32", "bf16"):
        cases += [
            case(group, "sigmoid(x * y + z)", multiply_add_sigmoid, t, _MANY, _MANY, _MANY),
            case(group, "gelu", F.gelu, t, _MANY),
            case(group, "silu(x) * y", swiglu, t, (8192, 8192), (8192, 8192)),
            case(group, "rope", rope, t, heads, tokens, tokens),
            case(group, "dropout(x) + y", dropout_residual, t, _MANY, _MANY, check=False),
            case(group, "gelu, tanh", lambda x: F.gelu(x, approximate="tanh"), t, _MANY, core=False),
            case(group, "silu(x) * y, packed", packed_swiglu, t, (8192, 16384), core=False),
            case(group, "rope, neighbours", paired_rope, t, heads, (4096, 64), (4096, 64), core=False),
            case(group, "gelu(x + b)", bias_gelu, t, _MANY, (8192,), core=False),
            case(group, "where", clamp_where, t, _MANY, _MANY, core=False),
            case(group, "x + column", torch.add, t, _MANY, (8192, 1), core=False),
            case(group, "sigmoid(x * y + z)", multiply_add_sigmoid, t, _ODD, _ODD, _ODD, core=False),
            case(group, "gelu", F.gelu, t, _ODD, core=False),
        ]
        cases += _several(t, core=t == "bf16")
    for source, to in (("f32", "bf16"), ("bf16", "f32"), ("f32", "f16"), ("bf16", "f8"), ("f32", "f64"), ("i64", "f32")):
        core = (source, to) in (("f32", "bf16"), ("bf16", "f32"))
        inputs = _MANY if source != "i64" else lambda device: torch.randint(-1000, 1000, _MANY, device=device)
        cases.append(case("casts", f"to {to}", lambda x, to=to: x.to(TYPES[to]), source, inputs, core=core))
    return cases


SUITES: dict[str, list[Case]] = {"elementwise": _cases()}
