"""A model whose sizes depend on the values of a few integers, traced for the values that they have.

The grid of an image's patches, the lengths of sequences and the stride that a codec holds as a buffer decide in Python how long tensors are: torch.export
knows no such number.  While it traces, what is computed of these integers alone is computed for the example's values too, and is told where Python or an
operation asks for a number; which integers it came from is remembered, for a program is right for these values alone.
"""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.export import ExportedProgram
from torch.fx import Node
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

# Elements: the grids of 16 images, three numbers each.  The tokens of a prompt are more, and each prompt would be compiled.
MOST_VALUES = 48
_MOST_COMPUTED = 1 << 16  # elements of what is computed of them
SIZE_OF_DATA = "depends on the data"  # a size, in the error of a capture
_RECURRENT = {torch.ops.aten.lstm.input, torch.ops.aten.gru.input, torch.ops.aten.rnn_tanh.input, torch.ops.aten.rnn_relu.input}
_MOST_STEPS = 256  # of all layers together: an LSTM of 240 compiles in 35 s, and takes as much longer as it is
# Errors of torch's where it traces, by name.
_ASKING = {"GuardOnDataDependentSymNode", "DataDependentOutputException", "DynamicOutputShapeException", "PendingUnbackedSymbolNotFound"}
_READS = {"item", "tolist", "__int__", "__bool__", "__index__", "__float__", "is_nonzero", "equal", "__contains__"}
_MAKES = {"arange", "zeros", "ones", "full", "tensor", "linspace", "eye", "tril_indices", "triu_indices"}
# Functions whose results have as many elements as values say.
_COUNTS = {"repeat_interleave", "nonzero", "unique", "unique_consecutive", "masked_select", "bincount", "argwhere"}
# Parts of the names of functions that draw numbers, or leave what memory held.
_DRAWS = ("rand", "bernoulli", "multinomial", "normal", "poisson", "exponential", "uniform", "geometric", "cauchy", "dropout", "empty", "resize")
_OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch._ops.HigherOrderOperator)
# Functions that take tensors of one element for what they compute of, never for a size, an index or a dimension; of one tensor, or of any.
_OF_ONE = {
    "neg", "abs", "ceil", "floor", "round", "trunc", "sqrt", "rsqrt", "exp", "log", "log2", "logical_not", "bitwise_not", "invert", "to", "long", "int",
    "float", "double", "bool", "type_as", "clone", "detach", "contiguous", "unbind", "cpu", "cuda", "get", "sum", "prod", "max", "min", "cumsum", "any",
    "all", "iter", "square", "sign",
}
_OF_ANY = {
    "add", "sub", "mul", "div", "truediv", "floordiv", "mod", "pow", "true_divide", "floor_divide", "remainder", "fmod", "maximum", "minimum", "eq", "ne",
    "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "and", "or", "xor", "bitwise_and", "bitwise_or", "subtract", "multiply", "divide",
}


def asks_for_values(error: Exception) -> bool:
    """Whether a capture ended where a model asked for the value of a tensor."""
    if SIZE_OF_DATA in str(error):
        return True
    cause: BaseException | None = error
    while cause is not None:
        if any(kind.__name__ in _ASKING for kind in type(cause).__mro__):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def known_values(model: Any, args: tuple, kwargs: Mapping[str, Any]) -> "KnownValues":
    """The integers that may decide: arguments by their number among the leaves, and a module's buffers by their name."""
    found: dict[int | str, Tensor] = {i: leaf for i, leaf in enumerate(tree_leaves((args, kwargs))) if _is_few(leaf)}
    buffers = model.named_buffers() if isinstance(model, torch.nn.Module) else ()
    found.update({name: b for name, b in buffers if _is_few(b) and not name.endswith("num_batches_tracked")})
    return KnownValues(found)


def reads_tokens(program: ExportedProgram, used: Iterable[int | str]) -> bool:
    """Whether an argument whose values were told is looked up in a table of embeddings: each prompt would be compiled."""
    names = {name for i, name in enumerate(program.graph_signature.user_inputs) if i in set(used)}
    reached = {n for n in program.graph.nodes if n.op == "placeholder" and n.name in names}
    for node in program.graph.nodes:
        if node.target is torch.ops.aten.embedding.default and node.args[1] in reached:
            return True
        if node.op == "call_function" and len(node.all_input_nodes) == 1 and node.all_input_nodes[0] in reached:
            reached.add(node)
    return False


def unrolls(program: ExportedProgram) -> bool:
    """Whether the program has recurrent layers of so many steps that it takes longer to compile than its pieces beside them do."""
    steps = 0
    for node in program.graph.nodes:
        if node.target in _RECURRENT and isinstance(node.args[0], Node):
            x, _, _, _, layers, _, _, both, batch_first = node.args
            steps += x.meta["val"].shape[1 if batch_first else 0] * layers * (2 if both else 1)
    return steps > _MOST_STEPS


def _is_few(leaf: Any) -> bool:
    if not isinstance(leaf, Tensor) or isinstance(leaf, FakeTensor) or leaf.layout is not torch.strided or leaf.is_nested:
        return False
    return leaf.dtype in (torch.int32, torch.int64) and 0 < leaf.numel() <= MOST_VALUES


@dataclasses.dataclass
class _Known:
    """A traced tensor, which is held so that its number stays its own, with its ``value`` and the names of what that came from."""

    traced: Tensor
    value: Tensor
    sources: frozenset


class KnownValues(TorchFunctionMode):
    """Sees each function of torch that the model calls.  ``used``: the names of those of ``values`` that were told."""

    def __init__(self, values: Mapping[int | str, Tensor]) -> None:
        super().__init__()
        self.used: set[int | str] = set()
        self._values = values
        self._known: dict[int, _Known] = {}

    @contextlib.contextmanager
    def watching(self, module: torch.nn.Module) -> Iterator[None]:
        """While ``module`` is called."""
        def begin(called: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
            traced = {**dict(enumerate(tree_leaves((args, kwargs)))), **dict(called.named_buffers())}
            self._known = {}
            for name, value in self._values.items():
                if isinstance(traced.get(name), Tensor):
                    with _apart():
                        value = value.cpu().clone()
                    self._tell(traced[name], value, frozenset([name]))
            self.__enter__()

        module.register_forward_pre_hook(begin, with_kwargs=True)
        module.register_forward_hook(lambda *_: self.__exit__(None, None, None), prepend=True, always_call=True)  # the mode entered last is left first
        try:
            yield
        finally:
            self._known = {}

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_dynamo_compiling():
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        given = list(_tensors((args, kwargs)))
        known = [self._known[id(v)] for v in given if id(v) in self._known]
        if len(known) < len(given) or _is_open(func, name):
            return self._beside_others(func, name, args, kwargs, known)
        if not known and name not in _MAKES:
            return func(*args, **kwargs)
        sources = frozenset().union(*(k.sources for k in known))
        value = self._compute(func, args, kwargs)
        if name in _READS and value is not None:
            self.used |= sources
            return value
        if known and isinstance(value, Tensor | tuple) and (name in _COUNTS or _selects(name, args)):
            self.used |= sources
            made = tree_map(lambda v: _constant(v, given[0].device) if isinstance(v, Tensor) else v, value)
        else:
            made = func(*args, **kwargs)
            if not _only_computes(name, len(given)):
                self.used |= _of_numbers(known)
        if value is None or len(made_of := tree_leaves(made)) != len(values := tree_leaves(value)):
            self._forget(given)  # what is not known any more may share their memory, and be written to
            return made
        for traced, real in zip(made_of, values):
            if isinstance(traced, Tensor) and isinstance(real, Tensor):
                self._tell(traced, real, sources)
        return made

    def _beside_others(self, func: Any, name: str, args: tuple, kwargs: dict[str, Any], known: list[_Known]) -> Any:
        """A function of known tensors and of others."""
        if not _only_computes(name, len(known) + 1):
            self.used |= _of_numbers(known)
        if isinstance(func, _OPERATORS):
            self._forget(_tensors((args, kwargs)))
        elif _writes(name) or "out" in kwargs:
            self._forget(_tensors((args[:1], kwargs.get("out"))))
        if name in ("__getitem__", "masked_select") and len(args) == 2 and isinstance(args[0], Tensor) and (places := self._by_places(args[1])):
            whole = args[0].expand(args[1].shape) if name == "masked_select" and args[0].dim() <= args[1].dim() else args[0]
            if name == "__getitem__" or whole.shape == args[1].shape:
                return whole[places]
        if name == "repeat_interleave" and "output_size" not in kwargs:
            repeats = args[1] if len(args) > 1 else kwargs.get("repeats")
            if isinstance(repeats, Tensor) and id(repeats) in self._known and repeats.dim():
                found = self._known[id(repeats)]
                self.used |= found.sources
                with _apart():
                    size = int(found.value.sum())
                return func(*args, **kwargs, output_size=size)
        return func(*args, **kwargs)

    def _by_places(self, index: Any) -> tuple | None:
        """An index by masks as one by the places where these are true; None where there is none, or one is not known."""
        parts, places = index if isinstance(index, tuple) else (index,), []
        masks = [p for p in parts if isinstance(p, Tensor) and p.dtype in (torch.bool, torch.uint8)]
        if not masks or any(id(m) not in self._known for m in masks):
            return None
        for part in parts:
            if all(part is not m for m in masks):
                places.append(part)
                continue
            known = self._known[id(part)]
            self.used |= known.sources
            with _apart():
                found = known.value.nonzero(as_tuple=True)
            places += [_constant(p, part.device) for p in found]
        return tuple(places)

    def _compute(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What the function makes of the values; None where that is not known."""
        args, kwargs = _mapped((args, kwargs), lambda v: self._known[id(v)].value)
        try:
            with _apart():
                value = func(*args, **kwargs)
        except Exception:
            return None
        return value if all(v.numel() <= _MOST_COMPUTED for v in _tensors(value)) else None

    def _tell(self, traced: Tensor, value: Tensor, sources: frozenset) -> None:
        if traced.shape != value.shape or traced.dtype != value.dtype:
            return
        self._known[id(traced)] = _Known(traced, value, sources)
        inner = torch._from_functional_tensor(traced.elem) if isinstance(traced, FunctionalTensor) else traced
        if isinstance(inner, FakeTensor) and value.numel() == 1 and not value.is_complex():
            with _apart():
                inner.item_memo = value.item()  # what operations ask it for that take a number

    def _forget(self, written: Iterable[Tensor]) -> None:
        """Of these, and what shares their memory, the values are known no more."""
        storages = {v.untyped_storage()._cdata for v in written}
        self._known = {i: k for i, k in self._known.items() if k.traced.untyped_storage()._cdata not in storages}


@contextlib.contextmanager
def _apart() -> Iterator[None]:
    """Where nothing is traced."""
    with torch.no_grad(), _disable_current_modes(), torch._C.DisableTorchFunction():
        yield


def _constant(value: Tensor, device: torch.device) -> Tensor:
    with _apart():
        numbers = value.tolist()
    return torch.tensor(numbers, dtype=value.dtype, device=device).reshape(value.shape)


def _tensors(value: Any) -> Iterator[Tensor]:
    for leaf in tree_leaves(value):
        if isinstance(leaf, Tensor):
            yield leaf
        elif isinstance(leaf, slice):
            yield from _tensors((leaf.start, leaf.stop, leaf.step))


def _mapped(value: Any, function: Any) -> Any:
    """``value`` with each tensor replaced, on the CPU."""
    def replaced(leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            return function(leaf)
        if isinstance(leaf, slice):
            return slice(*(replaced(v) for v in (leaf.start, leaf.stop, leaf.step)))
        return torch.device("cpu") if isinstance(leaf, torch.device) or (isinstance(leaf, str) and leaf.startswith("cuda")) else leaf

    return tree_map(replaced, value)


def _of_numbers(known: list[_Known]) -> frozenset:
    """Where those come from that may be taken for a number."""
    return frozenset().union(*(k.sources for k in known if k.value.numel() == 1))


def _only_computes(name: str, tensors: int) -> bool:
    plain = name.strip("_")
    return plain in _OF_ANY or plain[1:] in _OF_ANY or (plain in _OF_ONE and tensors == 1)


def _selects(name: str, args: tuple) -> bool:
    """Whether a mask, or a place where one is true, selects elements."""
    return (name == "where" and len(args) == 1) or (name == "__getitem__" and any(v.dtype in (torch.bool, torch.uint8) for v in _tensors(args[1:])))


def _is_open(func: Any, name: str) -> bool:
    """Whether what the function makes is not told by its arguments, or what it writes by its name."""
    return isinstance(func, _OPERATORS) or any(part in name for part in _DRAWS)


def _writes(name: str) -> bool:
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__")) or (name.startswith("__i") and name not in ("__index__", "__int__"))
