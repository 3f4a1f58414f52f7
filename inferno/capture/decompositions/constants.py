"""Numbers that are known while a graph is traced, through decompositions.

Torch's tracer knows the number of ``torch.tensor(12)``, and of what is computed of such numbers alone: ``torch.div(12, 4, rounding_mode="floor")`` is a size
that a view may be told.  A decomposition's own numbers are tensors that it fills, of which the tracer knows nothing, and so nothing of the result.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, get_proxy_mode, get_proxy_slot


def keep_constants(table: dict[Any, Callable]) -> dict[Any, Callable]:
    """The decompositions of ``table``, whose results' numbers are known where all operands' are: they are the operation's own."""
    return {op: _keeping(op, function) if _takes_numbers(op) else function for op, function in table.items()}


def _takes_numbers(op: Any) -> bool:
    """Whether it makes one tensor of others, and draws none of it."""
    arguments, returns = op._schema.arguments, op._schema.returns
    made = len(returns) == 1 and str(returns[0].type) == "Tensor" and not op._schema.is_mutable
    return made and any(str(a.type) == "Tensor" for a in arguments) and torch.Tag.nondeterministic_seeded not in op.tags


def _keeping(op: Any, function: Callable) -> Callable:
    @functools.wraps(function)
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        # (Asking whether a size that varies is 1 would be a guard.)
        if not isinstance(found, Tensor) or any(type(n) is not int or n != 1 for n in found.shape) or (mode := get_proxy_mode()) is None:
            return found
        made = get_proxy_slot(found, mode.tracer, None)
        if made is not None and made.constant is None:
            made.constant = _computed(op, args, kwargs, mode.tracer)
        return found

    return decomposition


def _computed(op: Any, args: tuple, kwargs: dict[str, Any], tracer: Any) -> Tensor | None:
    """The result, if every operand is a number or a tensor whose number is known."""
    operands = list(_operands(op, args, kwargs))
    if not operands or not all(isinstance(v, (bool, int, float, complex)) or (isinstance(v, Tensor) and _known(v, tracer) is not None) for v in operands):
        return None
    known = lambda v: _known(v, tracer) if isinstance(v, Tensor) else v  # noqa: E731
    with disable_proxy_modes_tracing(), unset_fake_temporarily():
        return op(*map(known, args), **{name: known(v) for name, v in kwargs.items()})


def _operands(op: Any, args: tuple, kwargs: dict[str, Any]) -> Iterator[Any]:
    """What is given for tensors, and whatever else is one or a size that varies."""
    named = dict(zip((a.name for a in op._schema.arguments), args)) | kwargs
    tensors = {a.name for a in op._schema.arguments if str(a.type) == "Tensor"}
    for name, value in named.items():
        if name in tensors or any(isinstance(v, (Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)) for v in torch.utils._pytree.tree_leaves(value)):
            yield value


def _known(value: Tensor, tracer: Any) -> Tensor | None:
    slot = get_proxy_slot(value, tracer, None)
    return None if slot is None else slot.constant
