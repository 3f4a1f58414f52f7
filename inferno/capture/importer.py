"""From an FX graph of ATen operations to the torch dialect, with locations that name the user's operations and lines."""

from collections.abc import Collection

import torch
from torch_mlir.extras.fx_importer import ContextCache, FxImporter

from inferno.capture.nodes import operation_name, unsupported, user_line
from inferno.capture.signature import Argument, Frozen
from inferno.errors import UnsupportedOperation
from inferno.mlir import idle_context, ir, new_context
from inferno.dialect.float8 import OVERFLOWS
from inferno.dialect.random import RANDOM, random_attribute
from inferno.dialect.sizes import SIZES, SYMBOLS, sizes_attribute, symbols_attribute
from inferno.symbolic import symbols_of


class _Locations(ContextCache):
    """Gives each operation the location ``"linear"("model.py":12:0)``."""

    __slots__ = ()

    def get_node_location(self, node: torch.fx.Node) -> ir.Location:
        where = user_line(node)
        inner = ir.Location.file(where[0], where[1], 0, context=self._c) if where else ir.Location.unknown(context=self._c)
        return ir.Location.name(operation_name(node), childLoc=inner, context=self._c)


def import_graph(graph: torch.fx.Graph, arguments: tuple[Argument, ...], frozen: Frozen | None = None, written: Collection[int] = ()) -> str:
    """The text, with locations, of a module whose ``@main`` is ``graph``; its arguments carry their names, and say which are ``frozen``, and which a call
    writes to (``written``)."""
    has_data = any(n.op == "get_attr" for n in graph.nodes)  # which a context keeps
    context = new_context() if has_data else idle_context()
    # Its check that the context has all dialects calls logging.debug, which gives the root logger a handler: a program's own basicConfig would do nothing.
    importer = FxImporter(context=context, config_check=False)
    importer._cc = _Locations(context, py_attr_tracker=importer._py_attr_tracker)
    try:
        function = importer.import_stateless_graph(graph, func_name="main")
    except Exception as error:
        raise _unsupported(graph, error) from error
    with context:
        attributes = [{"inferno.name": ir.StringAttr.get(a.name), "inferno.kind": ir.StringAttr.get(a.kind)} for a in arguments]
        symbols = list({s: None for a in arguments for size in a.shape for s in symbols_of(size)})
        for entry, argument in zip(attributes, arguments):
            if any(not isinstance(s, int) for s in argument.shape):
                entry[SIZES] = sizes_attribute(argument.shape, symbols)
            if argument.random is not None:
                entry[RANDOM] = random_attribute(*argument.random)
        for i in written:
            attributes[i]["inferno.written"] = ir.UnitAttr.get()
        if frozen is not None:
            function.attributes["inferno.freeze"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), frozen.bytes)
            for i in frozen.arguments:
                attributes[i]["inferno.frozen"] = ir.UnitAttr.get()
        if any(getattr(n.meta.get("val"), "dtype", None) == torch.float8_e4m3fn for n in graph.nodes) and _overflows():
            function.attributes[OVERFLOWS] = ir.UnitAttr.get()
        if symbols:
            function.attributes[SYMBOLS] = symbols_attribute(symbols)
        function.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(a) for a in attributes])
    return importer.module.operation.get_asm(enable_debug_info=True)


def _overflows() -> bool:
    """Whether a number that is too large for float8_e4m3fn is none there: so it was in torch before it became the largest one."""
    return bool(torch.tensor(1000.0, device="cpu").to(torch.float8_e4m3fn).float().isnan())


def _unsupported(graph: torch.fx.Graph, error: Exception) -> UnsupportedOperation:
    """The importer's failure as an error that names the operation: the first whose name its message holds, else the message."""
    text = str(error)
    for node in graph.nodes:
        if node.op == "call_function" and (str(node.target) in text or node.name in text.split()):
            return unsupported(node, text)
    return UnsupportedOperation(f"the model does not import: {type(error).__name__}: {text.splitlines()[0] if text else ''}")
