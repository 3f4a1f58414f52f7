"""Functional collectives as calls on the caller's stream.

torch's functional collectives start on a stream of the process group's own, and ``wait_tensor`` joins it.  Where the result is only
waited for, the same collective runs in its place in the order of the kernels, on their stream, and the wait is nothing:
``torch.distributed``'s own calls launch NCCL on the current stream unless ``async_op=True`` (ProcessGroupNCCL, since torch 2.8).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node


def synchronous(node: Node) -> Callable | None:
    """The function to call in the place of a functional collective or of its ``wait_tensor``; None where it stays as it is."""
    if getattr(node.target, "namespace", "") != "_c10d_functional":
        return None
    name = node.target._schema.name.partition("::")[2]
    if name == "wait_tensor":
        source = node.args[0]
        return _same if isinstance(source, Node) and source.op == "call_function" and synchronous(source) else None
    if name not in _FUNCTIONS or any(_name(user) != "wait_tensor" for user in node.users):
        return None
    return _FUNCTIONS[name]


def _name(node: Node) -> str:
    schema = getattr(node.target, "_schema", None)
    return schema.name.partition("::")[2] if schema is not None else ""


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _group(name: str) -> Any:
    from torch.distributed.distributed_c10d import _resolve_process_group

    return _resolve_process_group(name)


def _operation(name: str, group: Any) -> tuple[Any, int]:
    """torch.distributed's reduction, and what the sum is then divided by: not every process group knows the mean."""
    import torch.distributed as dist

    if name.lower() == "avg":
        return dist.ReduceOp.SUM, dist.get_world_size(group)
    return getattr(dist.ReduceOp, {"sum": "SUM", "product": "PRODUCT", "min": "MIN", "max": "MAX"}[name.lower()]), 1


def all_reduce(tensor: Tensor, operation: str, group_name: str) -> Tensor:
    import torch.distributed as dist

    group = _group(group_name)
    kind, count = _operation(operation, group)
    out = tensor.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(out, op=kind, group=group)
    return out if count == 1 else out.div_(count)


def all_gather_into_tensor(tensor: Tensor, size: int, group_name: str) -> Tensor:
    import torch.distributed as dist

    out = tensor.new_empty((tensor.shape[0] * size, *tensor.shape[1:]))
    dist.all_gather_into_tensor(out, tensor.contiguous(), group=_group(group_name))
    return out


def reduce_scatter_tensor(tensor: Tensor, operation: str, size: int, group_name: str) -> Tensor:
    import torch.distributed as dist

    group = _group(group_name)
    kind, count = _operation(operation, group)
    out = tensor.new_empty((tensor.shape[0] // size, *tensor.shape[1:]))
    dist.reduce_scatter_tensor(out, tensor.contiguous(), op=kind, group=group)
    return out if count == 1 else out.div_(count)


def broadcast(tensor: Tensor, source: int, group_name: str) -> Tensor:
    import torch.distributed as dist

    out = tensor.clone(memory_format=torch.contiguous_format)
    dist.broadcast(out, group_src=source, group=_group(group_name))
    return out


def all_to_all_single(tensor: Tensor, received: list[int], sent: list[int], group_name: str) -> Tensor:
    import torch.distributed as dist

    out = tensor.new_empty((sum(received), *tensor.shape[1:]))
    dist.all_to_all_single(out, tensor.contiguous(), list(received), list(sent), group=_group(group_name))
    return out


_FUNCTIONS = {
    f.__name__: f for f in (all_reduce, all_gather_into_tensor, reduce_scatter_tensor, broadcast, all_to_all_single)
}
