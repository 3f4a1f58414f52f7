"""Bring a graph into the form that torch-mlir imports right; refuse what is known to end the process or to import wrong."""

import functools
import math
import operator

import torch

from inferno.capture.assertions import ASSERTIONS
from inferno.capture.decompositions.precision import NARROW
from inferno.capture.nodes import unsupported, value_meta
from inferno.capture.orders import expression
from inferno.capture.refusal import CHECKING, CHECKS, refusal

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

# Of sizes, by the names that the import knows.
_EXTREMA = {torch.sym_max: torch.ops.prim.max.int, torch.sym_min: torch.ops.prim.min.int}
# Of floats that AOTAutograd makes tensors of: other names of what the import knows.
_ALIASES = {aten.true_divide.Tensor: aten.div.Tensor}

_VIEWS = {aten.view.default, aten._unsafe_view.default, aten.reshape.default}


def normalise(graph: torch.fx.Graph) -> None:
    """Rewrite ``graph`` in place; raises UnsupportedOperation for what has no right form."""
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if node.target in ASSERTIONS:
            raise unsupported(node, CHECKING)
        if node.target in CHECKS:
            graph.erase_node(node)
            continue
        if node.target in _EXTREMA:
            node.target = _EXTREMA[node.target]
            continue
        if node.target is operator.mod:
            _divide_out(graph, node)
            continue
        if node.target is torch.sym_sum:
            _add_up(graph, node)
            continue
        node.target = _ALIASES.get(node.target, node.target)
        if _is_empty(node):
            _make_empty(graph, node)
            continue
        _refuse(node)
        _drop_device(node)
        if node.target in _VIEWS and _varies(node):
            _reshape_flat(graph, node)
            continue
        if node.target is aten.expand.default and _varies(node) and _keep_sizes(graph, node):
            continue
        if node.target in _COUNTED_FROM_THE_FRONT and node.args[1] < 0:
            node.args = (node.args[0], node.args[1] % max(node.args[0].meta["val"].dim(), 1), *node.args[2:])
        if node.target is aten.index_put.default:
            _count_indices_from_the_front(graph, node)
        if node.target is aten.pow.Tensor_Scalar and _is_short_power(node):
            _multiply_out(graph, node)
            continue
        if node.target is aten.eq.Tensor and _may_be_one(node):
            _compare_otherwise(graph, node)
        if node.target in _INT8_ARITHMETIC and _is_int8(node):
            _through(graph, node, torch.int32)
        if node.target in _WITH_NUMBERS and _loses_a_number(node):
            _through(graph, node, torch.float32)
    graph.eliminate_dead_code()
    graph.lint()


def _add_up(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """A sum of several sizes as additions, of which the import knows those of two."""
    with graph.inserting_before(node):
        total = functools.reduce(lambda a, b: _scalar(graph, operator.add, a, b), node.args[0])
    node.replace_all_uses_with(total)
    graph.erase_node(node)


def _refuse(node: torch.fx.Node) -> None:
    reason = refusal(node)
    if reason:
        raise unsupported(node, reason)


def _is_short_power(node: torch.fx.Node) -> bool:
    """Whether it is a first or second power, as the derivative of a square has them: torch gives the number, and its product with itself."""
    return type(node.args[1]) in (int, float) and node.args[1] in (1, 2) and node.args[0].meta["val"].dtype == node.meta["val"].dtype


def _multiply_out(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """A power as what costs as little as it does: where a map goes, into its readers or not, is decided by that."""
    base, exponent = node.args
    if exponent == 1:
        node.replace_all_uses_with(base)
        graph.erase_node(node)
    else:
        node.target, node.args = aten.mul.Tensor, (base, base)


def _varies(node: torch.fx.Node) -> bool:
    return any(not isinstance(s, int) for v in (node, node.args[0]) for s in v.meta["val"].shape)


def _reshape_flat(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """A reshape with sizes that vary, by way of one dimension: torch-mlir takes two sizes that it flattens for one and a 1."""
    source, old, value = node.args[0], node.args[0].meta["val"], node.meta["val"]
    if len(old.shape) == len(value.shape) and all(a is b or a == b for a, b in zip(map(expression, old.shape), map(expression, value.shape))):
        node.replace_all_uses_with(source)
        graph.erase_node(node)
        return
    if not old.dim() or not value.dim():
        raise unsupported(node, "it reshapes a size that varies to no dimensions")
    with graph.inserting_before(node):
        flat = source
        if old.dim() > 1:
            flat = graph.call_function(prims.collapse.default, (source, 0, old.dim() - 1))
            with old.fake_mode:  # a reshape would ask how it lies in memory, which takes 10 ms where sizes vary
                flat.meta = value_meta(node, torch.empty((old.numel(),), dtype=old.dtype, device=old.device))
        if value.dim() > 1:
            sizes = [s if isinstance(s, int) else _integer(graph, node, i) for i, s in enumerate(value.shape)]
            made = graph.call_function(aten.unflatten.int, (flat, 0, sizes))
            made.meta = node.meta
        else:
            made = flat
    node.replace_all_uses_with(made)
    graph.erase_node(node)


def _keep_sizes(graph: torch.fx.Graph, expand: torch.fx.Node) -> bool:
    """Say -1 for the sizes that an expand keeps: torch-mlir would ask of each that varies, for each element, whether it is 1.
    Whether nothing is left to expand, and it is gone."""
    old, new = list(expand.args[0].meta["val"].shape), list(expand.meta["val"].shape)
    before = [None] * (len(new) - len(old)) + [expression(s) for s in old]
    same = [b is not None and b == expression(s) for b, s in zip(before, new)]
    if all(same):
        expand.replace_all_uses_with(expand.args[0])
        graph.erase_node(expand)
        return True
    expand.args = (expand.args[0], [-1 if s else v for s, v in zip(same, expand.args[1])], *expand.args[2:])
    return False


def _count_indices_from_the_front(graph: torch.fx.Graph, put: torch.fx.Node) -> None:
    """Indices of a write count from the end where they are negative; torch-mlir minds that in reads alone."""
    indices = list(put.args[1])
    for d, index in enumerate(indices):
        if index is None:
            continue
        value, size = index.meta["val"], put.args[0].meta["val"].shape[d]
        with graph.inserting_before(put):
            if not isinstance(size, int):
                count = graph.call_function(aten.sym_size.int, (put.args[0], d))
                count.meta = {"val": size}
            else:
                count = size
            negative, moved = graph.call_function(aten.lt.Scalar, (index, 0)), graph.call_function(aten.add.Scalar, (index, count))
            negative.meta, moved.meta = value_meta(put, value < 0), value_meta(put, value + size)
            indices[d] = graph.call_function(aten.where.self, (negative, moved, index))
            indices[d].meta = value_meta(put, value.clone())
    put.args = (put.args[0], indices, *put.args[2:])


def _integer(graph: torch.fx.Graph, view: torch.fx.Node, dim: int) -> object:
    """The size as the graph says or computes it; where that is -1, from the product of all sizes."""
    given = view.args[1][dim]
    if given != -1:
        return given
    numbers: list[object] = [v for i, v in enumerate(view.args[1]) if i != dim]
    total: object = None
    for i, s in enumerate(view.args[0].meta["val"].shape):
        part = s
        if not isinstance(s, int):
            part = graph.call_function(aten.sym_size.int, (view.args[0], i))
            part.meta = {"val": s}
        total = part if total is None else _scalar(graph, operator.mul, total, part)
    rest: object = 1
    for n in numbers:
        rest = _scalar(graph, operator.mul, rest, n)
    return _scalar(graph, operator.floordiv, total, rest)


def _divide_out(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """What a size is more than a multiple: the import takes it for C's, which has another sign, and has no lowering for it."""
    size, divisor = node.args
    with graph.inserting_before(node):
        multiple = _scalar(graph, operator.mul, _scalar(graph, operator.floordiv, size, divisor), divisor)
        rest = _scalar(graph, operator.sub, size, multiple)
    node.replace_all_uses_with(rest)
    graph.erase_node(node)


def _scalar(graph: torch.fx.Graph, function: object, a: object, b: object) -> object:
    if isinstance(a, int) and isinstance(b, int):
        return function(a, b)
    if function in (operator.mul, operator.floordiv) and isinstance(b, int) and b == 1:
        return a
    if function is operator.mul and isinstance(a, int) and a == 1:
        return b
    made = graph.call_function(function, (a, b))
    made.meta = {"val": function(*(v.meta["val"] if isinstance(v, torch.fx.Node) else v for v in (a, b)))}
    return made


def _is_empty(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and all(isinstance(s, int) for s in value.shape) and 0 in value.shape


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


def _may_be_one(node: torch.fx.Node) -> bool:
    """Whether a comparison's operands, which are floats, may turn out to be one value."""
    one, other = (n.meta["val"] for n in node.args)
    alike = one.dtype == other.dtype and [*map(expression, one.shape)] == [*map(expression, other.shape)]
    return alike and one.is_floating_point()


def _compare_otherwise(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Equality as no inequality: torch-mlir takes a value for equal to itself, which what is no number is not (as in ``x == x``, and so in ``isfinite``)."""
    node.target = aten.ne.Tensor
    with graph.inserting_after(node):
        equal = graph.call_function(aten.logical_not.default, (node,))
    equal.meta = dict(node.meta)
    node.replace_all_uses_with(equal, delete_user_cb=lambda user: user is not equal)


def _is_int8(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype in _INT8


def _loses_a_number(node: torch.fx.Node) -> bool:
    """Whether a number of the operation is not one of its 16-bit type: 100000 is infinite in float16, 1e-6 has a digit there."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype not in NARROW:
        return False
    given = [v.meta["val"] for v in node.all_input_nodes]
    if any(v.dtype != value.dtype for v in given if isinstance(v, torch.Tensor)):
        return False
    if not all(isinstance(v, torch.Tensor) for v in given):  # a size that varies
        return True
    numbers = [v for v in (*node.args, *node.kwargs.values()) if isinstance(v, (int, float)) and not isinstance(v, bool)]
    return any(math.isfinite(v) and torch.tensor(v, dtype=torch.float64, device="cpu").to(value.dtype).item() != v for v in numbers)


def _through(graph: torch.fx.Graph, node: torch.fx.Node, wide: torch.dtype) -> None:
    """The operation in a wider type.  Of 8 bits, torch-mlir's own conversion ends the process, and the low 8 bits are the same."""
    narrow = node.meta["val"]
    with graph.inserting_before(node):
        node.args = tuple(_cast(graph, v, wide) if isinstance(v, torch.fx.Node) and isinstance(v.meta["val"], torch.Tensor) else v for v in node.args)
    node.meta = value_meta(node, narrow.to(wide))
    with graph.inserting_after(node):
        back = _cast(graph, node, narrow.dtype)
    node.replace_all_uses_with(back, delete_user_cb=lambda user: user is not back)


def _cast(graph: torch.fx.Graph, value: torch.fx.Node, dtype: torch.dtype) -> torch.fx.Node:
    cast = graph.call_function(prims.convert_element_type.default, (value, dtype))
    cast.meta = value_meta(value, value.meta["val"].to(dtype))
    return cast
