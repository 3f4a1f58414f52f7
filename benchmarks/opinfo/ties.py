"""Where torch leaves open which of several equal elements an index names, any of them is right."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from benchmarks.opinfo.samples import Sample

# Operators whose indices may name any of equal elements, with the place of ``dim`` behind the input.
_DIM = {
    "sort": 0, "argsort": 0, "topk": 1, "kthvalue": 1, "mode": 0, "median": 0, "nanmedian": 0, "max:reduction_with_dim": 0,
    "min:reduction_with_dim": 0, "argmax": 0, "argmin": 0,
}


def settle_ties(name: str, sample: Sample, ours: Any, eager: Any) -> Any:
    """``ours`` with eager's indices in place of those that name elements equal to the ones that eager's name."""
    if name not in _DIM or sample.kwargs.get("stable"):
        return ours
    x = sample.tensors[0]
    place = _DIM[name]
    dim = sample.kwargs.get("dim", sample.args[place] if len(sample.args) > place else None)
    if dim is None and (name.startswith("arg") and name != "argsort"):
        x, dim = x.flatten(), 0
    dim = -1 if dim is None or isinstance(dim, bool) else dim
    mine, spec = tree_flatten(ours)
    theirs = tree_flatten(eager)[0]
    if len(mine) != len(theirs) or not x.dim():
        return ours
    if name == "mode":  # of equally frequent elements torch's devices take different ones
        if _index(mine[-1], theirs[-1]) and _as_frequent(x, dim, *mine, theirs[0]):
            mine = theirs
    elif _index(mine[-1], theirs[-1]) and _name_equal(x, dim, mine[-1], theirs[-1], name in ("sort", "argsort", "topk")):
        mine[-1] = theirs[-1]
    return tree_unflatten(mine, spec)


def _index(a: Any, b: Any) -> bool:
    return isinstance(a, Tensor) and a.dtype == torch.int64 and a.shape == b.shape and a.numel() > 0 and b.dtype == torch.int64


def _as_frequent(x: Tensor, dim: int, values: Tensor, indices: Tensor, theirs: Tensor) -> bool:
    """Whether ``indices`` name ``values``, and those are as frequent along ``dim`` as ``theirs``."""
    if values.dtype != theirs.dtype or values.shape != indices.shape or bool((indices < 0).any()) or bool((indices >= x.shape[dim]).any()):
        return False
    if values.dim() < x.dim():
        values, indices, theirs = (t.unsqueeze(dim) for t in (values, indices, theirs))
    frequent = [(x == v).sum(dim) for v in (values, theirs)]
    return torch.equal(x.gather(dim, indices), values) and torch.equal(*frequent)


def _name_equal(x: Tensor, dim: int, a: Tensor, b: Tensor, distinct: bool) -> bool:
    if a.numel() == 1 and not a.dim():  # of all elements
        return torch.equal(*(x.flatten()[i].nan_to_num() for i in (a, b))) if bool(a >= 0) and bool(a < x.numel()) else False
    if a.dim() < x.dim():
        a, b = (t.reshape([*x.shape[: dim % x.dim()], 1, *x.shape[dim % x.dim() + 1 :]]) for t in (a, b))
    if x.dim() != a.dim() or bool((a < 0).any()) or bool((a >= x.shape[dim]).any()):
        return False
    if distinct and bool((a.sort(dim).values.diff(dim=dim) == 0).any()):
        return False
    return torch.equal(x.gather(dim, a).nan_to_num(), x.gather(dim, b).nan_to_num())
