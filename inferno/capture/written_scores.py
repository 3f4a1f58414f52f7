"""What a program does between the two products of attention that it writes by hand, read in the graph that Dynamo captures: scores are scaled, hidden and
added to, and weights are dropped.

Rounding in between is left out, as in the kernels; a cast that would hide more than the program means to is none of this.
"""

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from inferno.capture import own_data
from inferno.capture.scored_attention import scored_attention
from inferno.capture.trained_attention import has_kernels

F = torch.nn.functional

_NAMES = {
    "matmul": (torch.matmul, operator.matmul, "matmul", "__matmul__"), "softmax": (torch.softmax, F.softmax, "softmax"),
    "mul": (torch.mul, operator.mul, operator.imul, "mul", "mul_"), "div": (torch.div, operator.truediv, operator.itruediv, "div", "div_"),
    "add": (torch.add, operator.add, operator.iadd, "add", "add_"), "masked_fill": (torch.masked_fill, "masked_fill", "masked_fill_"),
    "where": (torch.where,), "dropout": (F.dropout, torch.dropout), "cast": ("to", "type", "type_as", "float", "half", "bfloat16", "contiguous"),
}
_NAME = {target: name for name, targets in _NAMES.items() for target in targets}
PRODUCT, SOFTMAX, CAST = "matmul", "softmax", "cast"


class Left(Exception):
    """Attention that is left to the program's own calls."""


@dataclass
class Written:
    """dropped(softmax(scores)) times ``values``, [batch, heads, keys, width]; scores are ``scale`` times ``queries``, [batch, heads, queries, depth], times
    ``keys``, [batch, heads, depth, keys], in whose place is ``hidden`` where ``mask`` is not ``seen``, and ``bias`` is added to, before that if
    ``biased_first``."""

    queries: Node
    keys: Node
    values: Node
    scale: float = 1.0
    bias: Node | None = None
    biased_first: bool = False
    mask: Node | None = None
    seen: bool = False
    hidden: float = -math.inf
    dropout: float = 0.0

    def attend(self, values: Mapping[Node, Tensor]) -> Tensor:
        """As one operation, of what the nodes are; NotImplemented where that is not taken."""
        bias, seen = None if self.bias is None else values[self.bias], None
        if self.mask is not None:
            if bias is not None and bias.requires_grad and not self.biased_first:
                return NotImplemented  # its gradient is not that of scores, which are hidden
            seen = values[self.mask] if self.seen else values[self.mask].logical_not()
            bias = torch.where(seen, bias, 0.0) if self.biased_first else bias
        q, k, v = values[self.queries], values[self.keys].transpose(-2, -1), values[self.values]
        return scored_attention(q, k, v, bias, seen, self.hidden, self.scale, self.dropout)


def name_of(node: Node) -> str | None:
    """What a call is, whichever way it is written; None for what is no part of attention."""
    return _NAME.get(node.target) if node.op in ("call_function", "call_method") else None


def writes(node: Node) -> bool:
    """Whether a call writes to its first operand, by its name."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return node.target is operator.setitem or own_data.writes(node) or (name.startswith(("__i", "__set")) and name.endswith("__"))


def read(calls: list[Node]) -> Written:
    """What the calls from a product to another one compute, each of the result of the one before it; Left where that is not attention."""
    first, *steps, last = calls
    written = Written(*_factors(first), _factors(last)[1])
    if [name_of(n) for n in steps].count(SOFTMAX) != 1 or last.args[0] is not steps[-1] or last.args[1] is steps[-1]:
        raise Left
    q, k, v = tensors = [_tensor(n) for n in (written.queries, written.keys, written.values)]
    if q.dtype not in (torch.bfloat16, torch.float16) or any(t.dim() != 4 or t.dtype != q.dtype or t.device != q.device for t in tensors):
        raise Left
    if any(not isinstance(n, int) for t in tensors for n in t.shape) or not q.shape[:2] == k.shape[:2] == v.shape[:2]:
        raise Left
    if not any(t.requires_grad for t in tensors) or not _tensor(last).is_contiguous():
        raise Left
    is_weight = False
    for before, node in pairwise([first, *steps]):
        old, new, name = _tensor(before), _tensor(node), name_of(node)
        if new.shape != old.shape or new.device != old.device or new.dtype not in (q.dtype, torch.float32):
            raise Left
        if not is_weight and new.dtype.itemsize < old.dtype.itemsize:  # a number that hides scores may become infinity
            raise Left
        is_weight = is_weight or name == SOFTMAX
        if is_weight != (name in (SOFTMAX, "dropout")) and name != CAST:
            raise Left
        _STEPS[name](written, node, before)
    if not has_kernels(q):
        raise Left
    return written


def _scaled(written: Written, node: Node, scores: Node) -> None:
    factor = _number(_other(node, scores))
    if name_of(node) == "div" and node.args[0] is not scores:
        raise Left
    if written.bias is not None or written.mask is not None or not 0 < factor < math.inf:
        raise Left
    written.scale *= factor if name_of(node) == "mul" else 1 / factor


def _added(written: Written, node: Node, scores: Node) -> None:
    bias = _other(node, scores)
    if written.bias is not None or not isinstance(bias, Node):
        raise Left
    value, result = _tensor(bias), _tensor(node)
    if value.dim() == 0 or value.dtype not in (_tensor(written.queries).dtype, torch.float32) or value.dtype.itemsize > result.dtype.itemsize:
        raise Left
    if value.device != result.device:
        raise Left
    written.bias, written.biased_first = bias, False


def _hidden(written: Written, node: Node, scores: Node) -> None:
    if written.mask is not None or len(node.args) != 3 or node.kwargs or node.args.count(scores) != 1:
        raise Left
    if name_of(node) == "where":
        mask, *choices = node.args
        written.seen = choices[0] is scores
        hidden = choices[written.seen]
    else:
        _, mask, hidden = node.args
        written.seen = False
    if not isinstance(mask, Node) or mask is scores or hidden is scores or _tensor(mask).dtype != torch.bool:
        raise Left
    if _tensor(mask).device != _tensor(node).device:
        raise Left
    written.mask, written.biased_first, written.hidden = mask, written.bias is not None, _rounded(_number(hidden), _tensor(node).dtype)
    if math.isnan(written.hidden):
        raise Left


def _softmax(_: Written, node: Node, scores: Node) -> None:
    given = dict(zip(("input", "dim"), node.args), **node.kwargs)
    if given.get("input") is not scores or given.get("dim") not in (-1, 3):
        raise Left


def _dropped(written: Written, node: Node, weights: Node) -> None:
    given = dict(zip(("input", "p", "train" if node.target is torch.dropout else "training", "inplace"), node.args), **node.kwargs)
    p, training = given.get("p", 0.5), given.get("train", given.get("training", True))
    if given.get("input") is not weights or not isinstance(p, (float, int)) or not isinstance(training, bool) or written.dropout:
        raise Left
    written.dropout = float(p) if training else 0.0


def _cast(_: Written, node: Node, value: Node) -> None:
    if node.args[0] is not value:
        raise Left


_STEPS: dict[str, Callable[[Written, Node, Node], None]] = {
    "mul": _scaled, "div": _scaled, "add": _added, "masked_fill": _hidden, "where": _hidden, SOFTMAX: _softmax, "dropout": _dropped, CAST: _cast,
}
STEPS = frozenset(_STEPS)


def _other(node: Node, scores: Node) -> Any:
    """The other operand of two."""
    if len(node.args) != 2 or node.kwargs or node.args.count(scores) != 1 or (writes(node) and node.args[0] is not scores):
        raise Left
    return node.args[node.args[0] is scores]


def _factors(product: Node) -> tuple[Node, Node]:
    if len(product.args) != 2 or product.kwargs or not all(isinstance(a, Node) for a in product.args):
        raise Left
    return product.args


def _number(value: Any) -> float:
    """A number, also one that the program has made a tensor of, as that holds it."""
    if isinstance(value, Node):
        return _rounded(_number(_filled(value)), _tensor(value).dtype)
    if isinstance(value, bool) or not isinstance(value, (float, int)):
        raise Left
    return float(value)


def _filled(node: Node) -> Any:
    """The one number that a tensor without dimensions is made of."""
    if node.target == "to" and _tensor(node).dtype == _tensor(node.args[0]).dtype:
        return node.args[0]
    given = node.args[1:] if node.target is torch.full and not _tensor(node).shape else node.args if node.target is torch.tensor else ()
    if len(given) != 1:
        raise Left
    return given[0]


def _rounded(value: float, dtype: torch.dtype) -> float:
    if not dtype.is_floating_point or (math.isfinite(value) and abs(value) > torch.finfo(dtype).max):
        raise Left
    return torch.full((), value, dtype=dtype, device="cpu").item()


def _tensor(node: Node) -> Tensor:
    """What Dynamo knows of a tensor; Left for what is none by itself, such as one that is distributed, or under torch.func's transforms."""
    value = node.meta.get("example_value")
    if not isinstance(value, Tensor) or is_traceable_wrapper_subclass(value) or torch._C._functorch.is_functorch_wrapped_tensor(value):
        raise Left
    return value
