"""Which operations of a graph are known to have no way into the compiler, and why."""

import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch._higher_order_ops.effects import with_effects
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from inferno.capture.assertions import ASSERTIONS
from inferno.capture.draws import is_drawing, is_philox
from inferno.capture.eager_errors import error
from inferno.capture.library_faster import preference
from inferno.capture.library_grouped import is_target
from inferno.capture.partition import is_collective, is_number
from inferno.capture.reduced_rows import reduce_rows
from inferno.capture.running import OPERATIONS

aten = torch.ops.aten

# The weight's gradient is a reduction over batch and image: by the universal generator it takes seconds where cuDNN takes 0.1 ms.
_FASTER = {aten.convolution_backward.default: "a convolution's gradients come from torch's library, which is faster"}

REFUSED = "refused"  # what the meta data of a node has the reason under, where it was found before
COLLECTIVE = "it exchanges data with other processes"
DRAWING = "it takes the generator's state"
CHECKING = "it stops the program where a tensor holds a zero"
BETWEEN = (COLLECTIVE, DRAWING, CHECKING)  # reasons of what runs between segments by its nature: no fallback
# Sums whose terms meet in memory, in whatever order they come.
_IN_ANY_ORDER = {
    aten.index_add.default, aten.index_reduce.default, aten.scatter_add.default, aten.scatter_reduce.two, aten.scatter.reduce,
    aten.scatter.value_reduce, aten.embedding_dense_backward.default, aten.max_pool2d_with_indices_backward.default,
}

# Of several values for a place the last one stays where torch is asked for it.
_LAST_ONE = {aten.index_put.default, aten._unsafe_index_put.default, aten.scatter.src}

_NAMESPACES = ("aten", "prims", "quantized_decomposed")
_PUTS = {aten.index_put.default, aten._unsafe_index_put.default}
_PICKS = {aten.index.Tensor, aten._unsafe_index.Tensor}  # by a mask of which a later operation has told torch how many it has to select the import never ends
_SPACES = (aten.linspace, aten.logspace)
# What torch-mlir lowers to what no kernel is made of, or to n by n numbers, 8192 of which take 120 s to compile, and whose zeros are rounded.
_UNFIT = {
    **dict.fromkeys(
        (aten._linalg_det.default, aten._linalg_slogdet.default, aten.linalg_slogdet.default),
        "its lowering to linalg goes through a matrix by parts of sizes that vary",
    ),
    aten.fft_rfft.default: "its lowering to linalg is a product with a table",
    **dict.fromkeys(
        (aten._fft_r2c.default, aten._fft_c2r.default, aten._fft_c2c.default), "torch's library of fast transforms is left what is long, large or on a CPU",
    ),
}
_RESIZES = {aten.resize.default, aten.resize_.default, aten.resize_as.default, aten.resize_as_.default}

# Checks of what tracing has found out already, which are left out of what is compiled, and of what it may have.
CHECKS = {aten._assert_tensor_metadata.default, *ASSERTIONS}

_DTYPES = {
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128,
}

# What is right of uint8 whatever the sign of a byte is taken for: it moves bytes, makes the low 8 bits of a result, or minds the sign.
_OF_BYTES = frozenset((
    "view", "reshape", "_unsafe_view", "expand", "permute", "transpose", "t", "squeeze", "unsqueeze", "slice", "select", "alias", "detach",
    "cat", "stack", "clone", "copy", "lift_fresh_copy", "_to_copy", "constant_pad_nd", "flip", "roll", "repeat", "unfold", "split",
    "split_with_sizes", "unbind", "index", "index_select", "gather", "embedding", "where", "masked_fill", "scatter", "index_put",
    "scatter_add", "slice_scatter", "select_scatter", "full_like", "zeros_like", "ones_like", "empty_like", "new_empty", "new_zeros",
    "new_full", "new_ones", "new_empty_strided", "add", "sub", "mul", "rsub", "neg", "mm", "bmm", "matmul", "relu", "pow", "bitwise_and",
    "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_left_shift", "logical_and", "logical_or", "logical_xor", "logical_not", "any", "all",
    "amax", "amin", "max", "min", "argmax", "argmin",
))


def refusal(node: Node) -> str | None:
    """Why the operation cannot be compiled, as far as that is known before it is tried."""
    target = node.target
    if REFUSED in node.meta:
        return node.meta[REFUSED]
    if target in (aten.repeat.default, aten.tile.default) and 0 in node.args[1]:
        return "repeating zero times ends torch-mlir's process"
    if reason := error(target, node.args, node.kwargs):
        return f"it is an error in eager: {reason}"
    if torch.Tag.nondeterministic_seeded in getattr(target, "tags", ()):
        return "it draws random numbers, which would not be torch's; call eval() on a model with dropout"
    if target in (*_PUTS, *_PICKS) and masks_of(node):
        return "how many elements its mask selects depends on the data"
    if getattr(target, "namespace", "") == "aten" and target.overloadpacket.__name__ not in _OF_BYTES and _reads_bytes(node) and not is_number(node):
        return "the import takes bytes for signed numbers there"
    if torch.are_deterministic_algorithms_enabled() and (target in _IN_ANY_ORDER or (target in _PUTS and node.args[3:4] == (True,))):
        return "its sums are made in any order, and torch is asked for deterministic algorithms"
    if torch.are_deterministic_algorithms_enabled() and target in _LAST_ONE and node.meta["val"].device.type == "cuda":
        return "of several values for one place any may stay, and torch is asked for deterministic algorithms"
    if getattr(target, "overloadpacket", None) in _SPACES and not node.meta["val"].dtype.is_floating_point:
        return "where evenly spaced integers are cut off depends on the processor"
    if target in _UNFIT:
        return _UNFIT[target]
    if target in _RESIZES:
        return "it changes a tensor's size in place"
    for value in _tensors(node.meta.get("val")):
        if value.dtype not in _DTYPES:
            return f"its result is of {value.dtype}, which no stage knows"
        if free_unbacked_symbols(value):
            return "its result's shape depends on the data"
    return None


def masks_of(node: Node) -> list[Node]:
    """What selects elements among the indices of an operation."""
    return [i for i in node.args[1] if i is not None and i.meta["val"].dtype in (torch.bool, torch.uint8)]


def selects_by_constants(graph: Graph) -> bool:
    """Whether so many elements are selected, or found, as what is made of no input says, or a number of it is read: which they are may be found out while
    tracing."""
    constant: set[Node] = set()
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        masks = masks_of(node) if node.target in _PICKS else [node.args[1]] if node.target is aten.masked_select.default else []
        if masks and constant.issuperset(masks):
            return True
        if constant.issuperset(node.all_input_nodes) and torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
            constant.add(node)
            value = node.meta.get("val")
            numbers = [value] if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) else []
            if any(free_unbacked_symbols(v) for v in (*_tensors(value), *numbers)):
                return True
    return False


def refusals(graph: Graph, device: torch.device) -> dict[Node, str]:
    """The operations of a graph that run in eager, with the reasons; those that give no tensor among them.

    Known from the graph alone: the import may yet fail on others.
    """
    found: dict[Node, str] = {}
    for node in graph.nodes:
        if node.op in ("call_module", "call_method"):
            found[node] = "it is a call of Python"
        elif is_drawing(node):
            found[node] = DRAWING
        elif node.target in ASSERTIONS:
            found[node] = CHECKING
        elif is_philox(node):
            continue
        elif node.target in CHECKS:  # what is compiled is what it has found out already, unless it would take such an operand
            if any(free_unbacked_symbols(v) for n in node.all_input_nodes for v in _tensors(n.meta.get("val"))):
                found[node] = "its operand's shape depends on the data"
        elif node.op == "call_function" and node.target is not operator.getitem and not is_number(node):
            reason = _foreign(node) or refusal(node) or _operands(node, device)
            if reason:
                found[node] = reason
    return found


def preferences(graph: Graph, device: torch.device) -> dict[Node, str]:
    """The operations that would compile, but that torch's libraries run faster than any generator of ours."""
    found = {n: _FASTER.get(n.target) or preference(n, device) for n in graph.nodes if n.op == "call_function"}
    return {n: reason for n, reason in found.items() if reason}


def _foreign(node: Node) -> str | None:
    """Why an operation that is not ATen's, or not a function of tensors, is left alone."""
    target = node.target
    if target is with_effects:
        return "it has an effect, as a check of another operation's result has"
    if isinstance(target, torch._ops.HigherOrderOperator):
        return "it takes functions as arguments"
    if not isinstance(target, torch._ops.OpOverload):
        return "it computes with numbers of the host"
    if is_collective(node):
        return COLLECTIVE
    if target.namespace not in _NAMESPACES and target not in (*OPERATIONS, reduce_rows) and not is_target(target):
        return "it is a custom operation"
    if target._schema.is_mutable:
        return "it writes to its argument"
    made = list(_tensors(node.meta.get("val")))
    if not made:
        return "it gives no tensor"
    for value in (*made, *(v for n in node.all_input_nodes for v in _tensors(n.meta.get("val")))):
        if value.layout is not torch.strided:
            return f"it works on a tensor of layout {str(value.layout).removeprefix('torch.')}"
        if type(value) is not torch._subclasses.FakeTensor and type(value) is not torch.Tensor:
            return f"it works on a {type(value).__name__}"
    if target is aten.as_strided.default:
        return "it depends on how its argument lies in memory"
    return None


def _operands(node: Node, device: torch.device) -> str | None:
    for value in _tensors(node.meta.get("val")):
        if value.device != device and not _is_number_beside(node, device):
            return f"its result is on {value.device}"
    for operand in node.all_input_nodes:
        example = operand.meta.get("val")
        if isinstance(example, (torch.SymFloat, torch.SymBool)) or (isinstance(example, torch.SymInt) and free_unbacked_symbols(example)):
            return "its operand is a number that depends on the data"
        for value in _tensors(example):
            if free_unbacked_symbols(value):
                return "its operand's shape depends on the data"
            if value.dtype not in _DTYPES:
                return f"its operand is of {value.dtype}, which no stage knows"
            if value.device != device and not (value.device.type == "cpu" and value.dim() == 0):
                return f"its operand is on {value.device}"
    return None


def _is_number_beside(node: Node, device: torch.device) -> bool:
    """Whether it is a number, as a tensor of the host, that only tensors of ``device`` are computed of: it may as well lie there."""
    readers = ([v for v in _tensors(u.meta.get("val")) if u.op == "call_function"] for u in node.users)
    return node.target is aten.scalar_tensor.default and all(made and all(v.device == device for v in made) for made in readers)


def _reads_bytes(node: Node) -> bool:
    return any(v.dtype == torch.uint8 for n in node.all_input_nodes for v in _tensors(n.meta.get("val")))


def _tensors(value: Any) -> Iterable[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from _tensors(v)
