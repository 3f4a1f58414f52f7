"""Numbers that a program writes as tensors, ``torch.tensor(3.0)`` or the 2 of ``x[:, 0] = 2``, become numbers of the graph.

Tracing keeps such a literal as a constant on the host, and eager computes on the host what is made of it alone.  The same is computed here, once,
and stands in the graph as ``full`` on the device of what reads it: left as it is, every call would wait for copies between host and GPU.  A longer
literal that is only read on another device lies there from the start.
"""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, TensorArgument
from torch.fx import Graph, GraphModule, Node
from torch.utils._python_dispatch import _disable_current_modes

from inferno.capture.refusal import CHECKS

aten = torch.ops.aten

# What gives its argument's value, elsewhere or as another type; ``detach_`` writes to nothing but what autograd knows.
_MOVES = {
    aten.to.device, aten.to.dtype, aten.to.dtype_layout, aten.to.other, aten._to_copy.default, torch.ops.prims.device_put.default,
    aten.lift_fresh_copy.default, aten.lift_fresh.default, aten.detach_.default, aten.detach.default, aten.clone.default, aten.alias.default,
}
_READS_INDICES = {aten.index.Tensor, aten._unsafe_index.Tensor, aten.index_put.default, aten._unsafe_index_put.default, aten.index_put_.default}
_KINDS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64)


def place_exported(program: ExportedProgram) -> None:
    """Replace the literals of an exported program, in place; those that nothing reads any more are gone."""
    graph, specs = program.graph, program.graph_signature.input_specs
    nodes = {n.name: n for n in graph.nodes if n.op == "placeholder"}
    held = {
        nodes[s.arg.name]: s for s in specs
        if s.kind is InputKind.CONSTANT_TENSOR and isinstance(s.arg, TensorArgument) and isinstance(program.constants.get(s.target), Tensor)
    }
    for node, value in _place(graph, {n: program.constants[s.target] for n, s in held.items()}).items():
        if value is None:
            specs.remove(held[node])
        else:
            program.constants[held[node].target] = value


def place_attributes(module: GraphModule) -> None:
    """The same of a traced module's attributes."""
    nodes = [n for n in module.graph.nodes if n.op == "get_attr" and isinstance(n.meta.get("val"), Tensor) and "." not in n.target]
    for node, value in _place(module.graph, {n: getattr(module, n.target) for n in nodes}).items():
        if value is not None:
            setattr(module, node.target, value)


def _place(graph: Graph, given: Mapping[Node, Tensor]) -> dict[Node, Tensor | None]:
    """Replace those of the ``given`` constants that are literals: the ones that are gone, with None, and those that now lie elsewhere."""
    literals = {n: v for n, v in given.items() if type(v) is Tensor and v.layout is torch.strided and _is_literal(n)}
    place_numbers(graph, literals)
    found: dict[Node, Tensor | None] = {}
    for node, value in literals.items():
        if not node.users:
            graph.erase_node(node)
            found[node] = None
        elif (device := _read_on(node)) is not None:
            found[node] = value.to(device)
            _say_device(node, device)
    return found


def place_numbers(graph: Graph, literals: Mapping[Node, Tensor]) -> None:
    """Compute what is made of one-element ``literals`` alone, and put it in their place, in place.  Literals are fresh at each call, and never written to."""
    known = _compute_numbers(graph, literals)
    for node in [n for n in known if n.op == "call_function"]:
        for check in [u for u in node.users if u.target in CHECKS]:
            graph.erase_node(check)
        readers = [u for u in node.users if u not in known]
        if readers:
            made = node.meta["val"]
            with graph.inserting_after(node):
                number = graph.call_function(aten.full.default, ([], known[node]), {"dtype": made.dtype, "device": _device_for(readers, made.device)})
            number.meta = {**node.meta, "val": made.to(number.kwargs["device"])}
            for reader in readers:
                reader.replace_input_with(node, number)
    for node in reversed([n for n in known if n.op == "call_function"]):
        graph.erase_node(node)


def _compute_numbers(graph: Graph, literals: Mapping[Node, Tensor]) -> dict[Node, int | float | bool]:
    """The numbers of one-element literals, and of what is made of them alone."""
    written = _written(graph)
    with _disable_current_modes():  # values, not what tracing makes of them
        known = {n: v.detach().cpu() for n, v in literals.items() if v.dim() == 0 and v.dtype in _KINDS}
        for node in graph.nodes:
            if node.op == "call_function" and node.all_input_nodes and all(n in known for n in node.all_input_nodes) and _is_number(node, written):
                value = _compute(node, known)
                if value is not None:
                    known[node] = value
        return {node: value.item() for node, value in known.items()}


def _is_literal(node: Node) -> bool:
    """Whether tracing made the constant: what the user holds is read without a copy of its own."""
    return bool(node.users) and all(u.target in (aten.lift_fresh_copy.default, aten.lift_fresh.default) for u in node.users)


def _is_number(node: Node, written: set[int]) -> bool:
    value, schema = node.meta.get("val"), getattr(node.target, "_schema", None)
    if not isinstance(value, Tensor) or value.dim() or value.dtype not in _KINDS or schema is None or value.untyped_storage()._cdata in written:
        return False
    random = torch.Tag.nondeterministic_seeded in node.target.tags
    return not random and (not schema.is_mutable or node.target is aten.detach_.default)


def _compute(node: Node, known: Mapping[Node, Tensor]) -> Tensor | None:
    """The node's value as eager computes it on the host; None where the host does not."""
    if node.target in _MOVES:
        return known[node.all_input_nodes[0]].to(node.meta["val"].dtype)
    if any(isinstance(v, torch.device) and v.type != "cpu" for v in (*node.args, *node.kwargs.values())):
        return None
    try:
        found = node.target(*torch.fx.map_arg(node.args, known.__getitem__), **torch.fx.map_arg(node.kwargs, known.__getitem__))
    except (RuntimeError, NotImplementedError):
        return None
    same = isinstance(found, Tensor) and found.shape == node.meta["val"].shape and found.dtype == node.meta["val"].dtype
    return found if same else None


def _device_for(readers: list[Node], own: torch.device) -> torch.device:
    """Where all that reads a number is computed; its own device if that is not one."""
    made = [v for u in readers for v in _tensors(u)] if all(u.op == "call_function" for u in readers) else []
    devices = {v.device for v in made}
    return devices.pop() if len(devices) == 1 else own


def _read_on(literal: Node) -> torch.device | None:
    """The one other device to which all that a literal is read by takes it, or on which it says places; None if there is none."""
    copies, devices = list(literal.users), set()
    while copies:
        for user in copies.pop().users:
            if user.target is aten.detach_.default:
                copies.append(user)
            elif user.target in _MOVES or (user.target in _READS_INDICES and literal.meta["val"].dtype is torch.int64):
                devices.update(v.device for v in _tensors(user))
            else:
                return None
    return devices.pop() if len(devices) == 1 and literal.meta["val"].device not in devices else None


def _say_device(literal: Node, device: torch.device) -> None:
    """The literal and its copies lie on ``device``."""
    nodes = [literal]
    while nodes:
        node = nodes.pop()
        node.meta["val"] = node.meta["val"].to(device)
        for user in list(node.users):
            if user.target in CHECKS:
                node.graph.erase_node(user)
            elif user.target in (aten.lift_fresh_copy.default, aten.lift_fresh.default, aten.detach_.default):
                nodes.append(user)


def _written(graph: Graph) -> set[int]:
    """The memory of all tensors that an operation writes to."""
    found = set()
    for node in graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if node.op == "call_function" and schema is not None and schema.is_mutable and node.target is not aten.detach_.default:
            for argument, value in zip(schema.arguments, node.args):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    values = value if isinstance(value, (list, tuple)) else [value]
                    found.update(v.untyped_storage()._cdata for n in values if isinstance(n, Node) for v in _tensors(n))
    return found


def _tensors(node: Node) -> list[Tensor]:
    value = node.meta.get("val")
    return [v for v in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(v, Tensor)]
