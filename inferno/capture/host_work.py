"""What a program makes on the host, of no input, and then takes to the GPU: ``torch.zeros(b, h, w).to(x.device)``, ``table[torch.arange(4)]``.

Left as it is, every call would compute on the host and copy.  It is made on the GPU in the first place.
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor
from torch.fx import Graph, Node

from inferno.capture.refusal import CHECKS

aten = torch.ops.aten

# What gives its argument's value, elsewhere or as another type; ``detach_`` writes to nothing but what autograd knows.
MOVES = {
    aten.to.device, aten.to.dtype, aten.to.dtype_layout, aten.to.other, aten._to_copy.default, torch.ops.prims.device_put.default,
    aten.lift_fresh_copy.default, aten.lift_fresh.default, aten.detach_.default, aten.detach.default, aten.clone.default, aten.alias.default,
}
_READS_INDICES = {aten.index.Tensor, aten._unsafe_index.Tensor, aten.index_put.default, aten._unsafe_index_put.default, aten.index_put_.default}


def move_host_work(graph: Graph, literals: Mapping[Node, Tensor]) -> dict[Node, torch.device]:
    """Let what only the GPU reads of ``literals``, of ``arange`` and its like, and of what is made of them alone, be made there, in place; the nodes."""
    host = _made_on_the_host(graph, literals)
    memory = written(graph) if host else set()
    moved: dict[Node, torch.device] = {}
    for part in _parts(host):
        devices = {_reader(n, u) for n in part for u in n.users if u not in part and u.target not in CHECKS}
        device = devices.pop() if len(devices) == 1 else None
        if device is not None and all(map(_may_move, part)):
            moved.update(dict.fromkeys(part, device))
    for node in moved:
        keep_copies([u for u in node.users if u not in moved], memory)
    for node, device in moved.items():
        _move(node, device)
    return moved


def keep_copies(readers: Iterable[Node], memory: set[int]) -> None:
    """Let those of ``readers`` that take a tensor to the GPU still copy it when it is there already, where ``memory`` of either is written to."""
    for reader in readers:
        both = [v for n in (reader, *reader.all_input_nodes) for v in tensors(n)]
        if reader.target in MOVES and both[0].device.type != "cpu" and any(v.untyped_storage()._cdata in memory for v in both):
            reader.target, reader.args, reader.kwargs = aten._to_copy.default, tuple(reader.all_input_nodes), {"dtype": reader.meta["val"].dtype}


def _made_on_the_host(graph: Graph, literals: Mapping[Node, Tensor]) -> dict[Node, None]:
    """The literals that lie there, and the operations on no other tensors than are in the result."""
    host: dict[Node, None] = {}
    for node in graph.nodes:
        made = tensors(node)
        if made and all(v.device.type == "cpu" for v in made) and (
            node in literals or (isinstance(node.target, torch._ops.OpOverload) and all(n in host or not tensors(n) for n in node.all_input_nodes))
        ):
            host[node] = None
    return host


def _parts(host: Mapping[Node, None]) -> list[set[Node]]:
    """``host`` in parts of which none reads another."""
    left, parts = dict(host), []
    while left:
        part, next_ = set(), [next(iter(left))]
        while next_:
            node = next_.pop()
            if node in left:
                del left[node]
                part.add(node)
                next_ += [n for n in (*node.users, *node.all_input_nodes) if n in left]
        parts.append(part)
    return parts


def _reader(node: Node, user: Node) -> torch.device | None:
    """The GPU on which ``user`` reads what the host made; None where it does otherwise."""
    devices = {v.device for v in tensors(user)} if user.op == "call_function" else set()
    device = devices.pop() if len(devices) == 1 else None
    if device is None or device.type == "cpu":
        return None
    return device if user.target in MOVES or user.target in _READS_INDICES or all(v.dim() == 0 for v in tensors(node)) else None


def _may_move(node: Node) -> bool:
    """Whether the GPU makes the same, and nothing is said of the host but where it is."""
    if node.op != "call_function":
        return True
    given = [v for v in (*node.args, *node.kwargs.values()) if isinstance(v, torch.device)]
    pinned = node.kwargs.get("pin_memory") or any(v.type != "cpu" for v in given)
    return not pinned and torch.Tag.nondeterministic_seeded not in node.target.tags


def _move(node: Node, device: torch.device) -> None:
    for check in [u for u in node.users if u.target in CHECKS]:
        node.graph.erase_node(check)
    if node.op == "call_function":
        node.args = tuple(device if isinstance(v, torch.device) else v for v in node.args)
        if "device" in node.kwargs or (not any(map(tensors, node.all_input_nodes)) and any(a.name == "device" for a in node.target._schema.arguments)):
            node.kwargs = {**node.kwargs, "device": device}
    value = node.meta["val"]
    node.meta["val"] = type(value)(v.to(device) for v in value) if isinstance(value, (list, tuple)) else value.to(device)


def written(graph: Graph) -> set[int]:
    """The memory of all tensors that an operation writes to."""
    found = set()
    for node in graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if node.op == "call_function" and schema is not None and schema.is_mutable and node.target is not aten.detach_.default:
            for argument, value in zip(schema.arguments, node.args):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    values = value if isinstance(value, (list, tuple)) else [value]
                    found.update(v.untyped_storage()._cdata for n in values if isinstance(n, Node) for v in tensors(n))
    return found


def tensors(node: Node) -> list[Tensor]:
    """The tensors that a node makes."""
    value = node.meta.get("val")
    return [v for v in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(v, Tensor)]
