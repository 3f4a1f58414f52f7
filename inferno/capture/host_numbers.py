"""Numbers that a program writes as tensors, ``torch.tensor(3.0)`` or the 2 of ``x[:, 0] = 2``, become numbers of the graph.

Tracing keeps such a literal as a constant on the host, and eager computes on the host what is made of it alone.  The same is computed here, once,
and stands in the graph as ``full`` on the device of what reads it: left as it is, every call would wait for copies between host and GPU.  What else
is made on the host of no input, and only read on the GPU, is made there (see ``host_work``).
"""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, TensorArgument
from torch.fx import Graph, GraphModule, Node
from torch.utils._python_dispatch import _disable_current_modes

from inferno.capture.host_work import MOVES, keep_copies, move_host_work, tensors, written
from inferno.capture.refusal import CHECKS

aten = torch.ops.aten

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
    for node in literals:
        if not node.users:
            graph.erase_node(node)
            found[node] = None
    left = {n: v for n, v in literals.items() if n not in found}
    found.update((n, left[n].to(device)) for n, device in move_host_work(graph, left).items() if n in left)
    return found


def place_numbers(graph: Graph, literals: Mapping[Node, Tensor]) -> None:
    """Compute what is made of one-element ``literals`` alone, and put it in their place, in place.  Literals are fresh at each call, and never written to."""
    memory = written(graph)
    known = _compute_numbers(graph, literals, memory)
    for node in [n for n in known if n.op == "call_function"]:
        for check in [u for u in node.users if u.target in CHECKS]:
            graph.erase_node(check)
        readers = [u for u in node.users if u not in known]
        if readers:
            keep_copies(readers, memory)
            made = node.meta["val"]
            with graph.inserting_after(node):
                number = graph.call_function(aten.full.default, ([], known[node]), {"dtype": made.dtype, "device": _device_for(readers, made.device)})
            number.meta = {**node.meta, "val": made.to(number.kwargs["device"])}
            for reader in readers:
                reader.replace_input_with(node, number)
    for node in reversed([n for n in known if n.op == "call_function"]):
        graph.erase_node(node)


def _compute_numbers(graph: Graph, literals: Mapping[Node, Tensor], memory: set[int]) -> dict[Node, int | float | bool]:
    """The numbers of one-element literals, and of what is made of them alone."""
    with _disable_current_modes():  # values, not what tracing makes of them
        known = {n: v.detach().cpu() for n, v in literals.items() if v.dim() == 0 and v.dtype in _KINDS}
        for node in graph.nodes:
            if node.op == "call_function" and node.all_input_nodes and all(n in known for n in node.all_input_nodes) and _is_number(node, memory):
                value = _compute(node, known)
                if value is not None:
                    known[node] = value
        return {node: value.item() for node, value in known.items()}


def _is_literal(node: Node) -> bool:
    """Whether tracing made the constant: what the user holds is read without a copy of its own."""
    return bool(node.users) and all(u.target in (aten.lift_fresh_copy.default, aten.lift_fresh.default) for u in node.users)


def _is_number(node: Node, memory: set[int]) -> bool:
    value, schema = node.meta.get("val"), getattr(node.target, "_schema", None)
    if not isinstance(value, Tensor) or value.dim() or value.dtype not in _KINDS or schema is None or value.untyped_storage()._cdata in memory:
        return False
    random = torch.Tag.nondeterministic_seeded in node.target.tags
    return not random and (not schema.is_mutable or node.target is aten.detach_.default)


def _compute(node: Node, known: Mapping[Node, Tensor]) -> Tensor | None:
    """The node's value as eager computes it on the host; None where the host does not."""
    if node.target in MOVES:
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
    made = [v for u in readers for v in tensors(u)] if all(u.op == "call_function" for u in readers) else []
    devices = {v.device for v in made}
    return devices.pop() if len(devices) == 1 else own
