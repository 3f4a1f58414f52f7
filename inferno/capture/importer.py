"""From an FX graph of ATen operations to the torch dialect, with locations that name the user's operations and lines."""

import os
import re

import torch
from torch_mlir.extras.fx_importer import ContextCache, FxImporter

from inferno.capture.signature import Argument
from inferno.errors import UnsupportedOperation
from inferno.mlir import ir, new_context

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OURS = os.path.dirname(__file__) + os.sep


def is_library(file: str) -> bool:
    """Whether a source file is torch's own (a user wants to see the line that called it)."""
    return file.startswith((_TORCH, _OURS)) or (file.startswith("<") and file != "<-c>")  # the shell's text is the user's


def operation_name(node: torch.fx.Node) -> str:
    """What the user called: the name of the node that this one was decomposed from, ``linear`` for ``linear_3``."""
    sources = node.meta.get("from_node")
    name = sources[-1].name if sources else node.name
    while sources and getattr(sources[-1], "from_node", None):
        sources = sources[-1].from_node
        name = sources[-1].name
    return re.sub(r"(_default)?(_\d+)?$", "", name).strip("_") or name


def user_line(node: torch.fx.Node) -> tuple[str, int] | None:
    """(file, line) of the innermost frame outside of torch; None if the node has no trace."""
    frames = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    for file, line in reversed(frames):
        if not is_library(file):
            return file, int(line)
    return None


class _Locations(ContextCache):
    """Gives each operation the location ``"linear"("model.py":12:0)``."""

    __slots__ = ()

    def get_node_location(self, node: torch.fx.Node) -> ir.Location:
        where = user_line(node)
        inner = ir.Location.file(where[0], where[1], 0, context=self._c) if where else ir.Location.unknown(context=self._c)
        return ir.Location.name(operation_name(node), childLoc=inner, context=self._c)


def import_graph(graph: torch.fx.Graph, arguments: tuple[Argument, ...]) -> str:
    """The text, with locations, of a module whose ``@main`` is ``graph``; its arguments carry their names."""
    context = new_context()
    importer = FxImporter(context=context)
    importer._cc = _Locations(context, py_attr_tracker=importer._py_attr_tracker)
    try:
        function = importer.import_stateless_graph(graph, func_name="main")
    except Exception as error:
        raise _unsupported(graph, error) from error
    with context:
        attributes = [{"inferno.name": ir.StringAttr.get(a.name), "inferno.kind": ir.StringAttr.get(a.kind)} for a in arguments]
        function.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(a) for a in attributes])
    return importer.module.operation.get_asm(enable_debug_info=True)


def _unsupported(graph: torch.fx.Graph, error: Exception) -> UnsupportedOperation:
    """The importer's failure as an error that names the operation: the first whose name its message holds, else the message."""
    text = str(error)
    for node in graph.nodes:
        if node.op == "call_function" and (str(node.target) in text or node.name in text.split()):
            return unsupported(node, text)
    return UnsupportedOperation(f"the model does not import: {type(error).__name__}: {text.splitlines()[0] if text else ''}")


def unsupported(node: torch.fx.Node, reason: str, target: object = None) -> UnsupportedOperation:
    """An error that names the operation, the user's line and the shapes."""
    where = user_line(node)
    shapes = ", ".join(_describe(v) for v in node.all_input_nodes)
    place = f" at {where[0]}:{where[1]}" if where else ""
    lines = reason.strip().splitlines()
    return UnsupportedOperation(f"{target or node.target}{place} on ({shapes}) is not supported: {lines[0] if lines else 'no reason given'}")


def _describe(node: torch.fx.Node) -> str:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
    return type(value).__name__
