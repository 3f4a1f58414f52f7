"""Bring a graph into the form that torch-mlir imports right; refuse what is known to end the process or to import wrong."""

import math

import torch

from inferno.capture.decompositions.precision import NARROW
from inferno.capture.nodes import unsupported

aten, prims = torch.ops.aten, torch.ops.prims

_INT8 = (torch.int8, torch.uint8)
_INT8_ARITHMETIC = {
    aten.mm.default, aten.bmm.default, aten.matmul.default, aten.add.Scalar, aten.sub.Scalar, aten.mul.Scalar, aten.rsub.Scalar,
    aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor,
}

# Arithmetic with numbers, which torch keeps in float32 where the tensors are of 16-bit floats.
_WITH_NUMBERS = {
    aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.add.Scalar, aten.sub.Scalar, aten.mul.Scalar, aten.div.Scalar,
    aten.rsub.Scalar, aten.pow.Tensor_Scalar, aten.addcmul.default, aten.addcdiv.default,
}

# Operations whose second argument is a dimension that torch-mlir expects to be counted from the front: given one from the
# back, it ends the process.
_COUNTED_FROM_THE_FRONT = {
    aten.scatter.src, aten.scatter.value, aten.scatter.reduce, aten.scatter.value_reduce, aten.scatter_add.default,
    aten.scatter_reduce.two, aten.index_add.default, aten.index_copy.default, aten.index_reduce.default,
}

_RESIZES = {aten.resize.default, aten.resize_.default, aten.resize_as.default, aten.resize_as_.default}

_DTYPES = {
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128,
}

# Checks of what tracing has found out already.
_CHECKS = {aten._assert_tensor_metadata.default, aten._assert_async.default, aten._assert_async.msg}


def normalise(graph: torch.fx.Graph) -> None:
    """Rewrite ``graph`` in place; raises UnsupportedOperation for what has no right form."""
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if node.target in _CHECKS:
            graph.erase_node(node)
            continue
        if _is_empty(node):
            _make_empty(graph, node)
            continue
        _refuse(node)
        _drop_device(node)
        if node.target in _COUNTED_FROM_THE_FRONT and node.args[1] < 0:
            node.args = (node.args[0], node.args[1] % max(node.args[0].meta["val"].dim(), 1), *node.args[2:])
        if node.target in _INT8_ARITHMETIC and _is_int8(node):
            _through(graph, node, torch.int32)
        if node.target in _WITH_NUMBERS and _loses_a_number(node):
            _through(graph, node, torch.float32)
    graph.eliminate_dead_code()
    graph.lint()


def _refuse(node: torch.fx.Node) -> None:
    if node.target in (aten.repeat.default, aten.tile.default) and 0 in node.args[1]:
        raise unsupported(node, "repeating zero times ends torch-mlir's process")
    if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        raise unsupported(node, "it draws random numbers, which would not be torch's; call eval() on a model with dropout")
    if node.target in (aten.index_put.default, aten._unsafe_index_put.default) and any(
        i is not None and i.meta["val"].dtype in (torch.bool, torch.uint8) for i in node.args[1]
    ):
        raise unsupported(node, "how many elements its mask selects depends on the data")
    if node.target in _RESIZES:
        raise unsupported(node, "it changes a tensor's size in place")
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor) and value.dtype not in _DTYPES:
        raise unsupported(node, f"its result is of {value.dtype}, which no stage knows")
    if isinstance(value, torch.Tensor) and any(not isinstance(s, int) for s in value.shape):
        raise unsupported(node, "its result's shape depends on the data")


def _is_empty(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and any(isinstance(s, int) and s == 0 for s in value.shape)


def _make_empty(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """What has no elements needs no operands: sizes of 0 divide by zero in torch-mlir's arithmetic of shapes."""
    value = node.meta["val"]
    with graph.inserting_before(node):
        empty = graph.call_function(aten.empty.memory_format, (list(value.shape),), {"dtype": value.dtype})
    empty.meta = node.meta
    node.replace_all_uses_with(empty)
    graph.erase_node(node)


def _drop_device(node: torch.fx.Node) -> None:
    """Where a tensor is made is decided by the target, not by the graph."""
    if isinstance(node.kwargs.get("device"), torch.device):
        node.kwargs = {**node.kwargs, "device": torch.device("cpu")}
    if node.target is prims.device_put.default:
        node.replace_all_uses_with(node.args[0])
        node.graph.erase_node(node)


def _is_int8(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype in _INT8


def _loses_a_number(node: torch.fx.Node) -> bool:
    """Whether a number of the operation is not one of its 16-bit type: 100000 is infinite in float16, 1e-6 has a digit there."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype not in NARROW:
        return False
    if any(v.meta["val"].dtype != value.dtype for v in node.all_input_nodes):
        return False
    numbers = [v for v in (*node.args, *node.kwargs.values()) if isinstance(v, (int, float)) and not isinstance(v, bool)]
    return any(math.isfinite(v) and torch.tensor(v, dtype=torch.float64).to(value.dtype).item() != v for v in numbers)


def _through(graph: torch.fx.Graph, node: torch.fx.Node, wide: torch.dtype) -> None:
    """The operation in a wider type.  Of 8 bits, torch-mlir's own conversion ends the process, and the low 8 bits are the same."""
    narrow = node.meta["val"]
    with graph.inserting_before(node):
        node.args = tuple(_cast(graph, v, wide) if isinstance(v, torch.fx.Node) else v for v in node.args)
    node.meta = _meta(node, narrow.to(wide))
    with graph.inserting_after(node):
        back = _cast(graph, node, narrow.dtype)
    node.replace_all_uses_with(back, delete_user_cb=lambda user: user is not back)


def _cast(graph: torch.fx.Graph, value: torch.fx.Node, dtype: torch.dtype) -> torch.fx.Node:
    cast = graph.call_function(prims.convert_element_type.default, (value, dtype))
    cast.meta = _meta(value, value.meta["val"].to(dtype))
    return cast


def _meta(node: torch.fx.Node, value: torch.Tensor) -> dict[str, object]:
    """The node's metadata for another value; the importer would take "tensor_meta" before "val"."""
    return {**{k: v for k, v in node.meta.items() if k != "tensor_meta"}, "val": value}
