"""Run a model without leaving a trace, as it stands, in float64, or with float32 in float64's place.

Both are dispatch modes: they see every ATen operation.  What an operation would write to is copied first, the copy is written to
and read from then on, and the tensor itself stays as it is: parameters, buffers, inputs, whatever a function closes over.
In another type every operation also reads its floating-point operands in that type.  What checks types before it comes to
operations (convolutions, recurrent layers) is content because inputs, parameters and buffers are in that type from the beginning.
"""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from inferno.runtime.check.higher_order import run_higher_order

aten = torch.ops.aten

# What is read in which other type, by that of real numbers.
_REPLACED = {
    torch.float64: {**dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), torch.float64), torch.complex64: torch.complex128},
    torch.float32: {torch.float64: torch.float32, torch.complex128: torch.complex64},
}
# Operations whose dtype argument says how bits are read, not how exact a result is.
_BITS = ("aten::view.dtype",)

# Operations that write to arguments of which their schema says that they are read.
_WRITERS = dict.fromkeys(("aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm"), ("running_mean", "running_var"))


def _variance(x: Tensor, dim: list[int] | None = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    """In two passes: torch's running update loses a few digits, which is too much for a reference."""
    dims = list(dim) if dim else list(range(x.dim()))
    count = math.prod(x.shape[d] for d in dims)
    squares = (x - x.mean(dims, keepdim=True)).square().sum(dims, keepdim=keepdim)
    return squares / max(0, count - (1 if correction is None else correction))


def _variance_and_mean(x: Tensor, dim: list[int] | None = None, *, correction: float | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    dims = list(dim) if dim else list(range(x.dim()))
    return _variance(x, dim, correction=correction, keepdim=keepdim), x.mean(dims, keepdim=keepdim)


# Draws whose results are random numbers alone, or decisions by chance: the same in every type, where torch's generators would not be.
_DRAWS = frozenset((
    "rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm", "uniform", "uniform_", "normal", "normal_",
    "normal_functional", "bernoulli", "bernoulli_", "random", "random_", "multinomial", "poisson", "exponential", "exponential_", "geometric",
    "geometric_", "log_normal", "log_normal_", "cauchy", "cauchy_",
))

_MORE_EXACT = {
    aten.var.correction: _variance, aten.var_mean.correction: _variance_and_mean,
    aten.std.correction: lambda *args, **kwargs: _variance(*args, **kwargs).sqrt(),
}


class Isolated(TorchDispatchMode):
    """Runs operations on copies of what they write to.

    ``written`` holds the tensors that would have been written to, each with what it would hold now; ``random`` tells whether
    random numbers were drawn, and ``drawn`` holds them, in order, with the operations.  Another run of the same operations in another
    type takes them from there.  The caller sees to the random number generators.
    """

    supports_higher_order_operators = True

    def __init__(self, to: torch.dtype | None = None, drawn: Sequence[tuple[Any, Any]] = ()) -> None:
        super().__init__()
        self.drawn: list[tuple[Any, Any]] = []
        self._given = list(reversed(drawn))
        self._to = to
        self._replaced = _REPLACED[to] if to is not None else {}
        self._copies: dict[int, tuple[Tensor, Tensor]] = {}  # by storage: a tensor that keeps it alive, and the copy of all of it
        self._own: set[int] = set()  # the copies' storages
        self._versions: list[tuple[Tensor, int]] = []  # autograd counts the writes, though none reaches the tensor
        self.random = False

    @property
    def written(self) -> list[tuple[Tensor, Tensor]]:
        return [(original, self.read(original)) for original, _ in self._copies.values()]

    def wrote(self, tensor: Tensor) -> bool:
        """Whether the memory of a tensor would have been written to."""
        return _storage(tensor) in self._copies

    def read(self, value: Any) -> Any:
        """A tensor as an operation reads it: from the copy where there is one, in another type if that is asked for."""
        if not isinstance(value, Tensor):
            return value
        value = self._current(value)
        return value.to(self._replaced.get(value.dtype, value.dtype))

    def _current(self, value: Any) -> Any:
        held = self._copies.get(_storage(value)) if isinstance(value, Tensor) else None
        return value if held is None else torch.as_strided(held[1], value.shape, value.stride(), value.storage_offset())

    def adopt(self, tensor: Any) -> Any:
        """What stands for a tensor from the beginning: its copy in the other type; what is not of a replaced type stays."""
        if not isinstance(tensor, Tensor) or tensor.dtype not in self._replaced:
            return tensor
        return self._copy(tensor.detach())

    def forget_writes(self) -> None:
        """Count no writes to the tensors that were written to: a backward pass that is to come may read them."""
        torch._C._autograd._unsafe_set_version_counter(tuple(t for t, _ in self._versions), tuple(v for _, v in self._versions))

    def _copy(self, tensor: Tensor) -> Tensor:
        """The copy of a tensor's memory, seen as the tensor; what is a view of a copy is written to itself, and so is what is sparse, as torch writes to
        what it has just made."""
        key = _storage(tensor)
        if key in self._own or tensor.layout is not torch.strided:
            return tensor
        if key not in self._copies:
            if not tensor.is_inference():
                self._versions.append((tensor, tensor._version))
            whole = torch.as_strided(tensor, (tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)
            self._copies[key] = tensor, whole.to(self._replaced.get(tensor.dtype, tensor.dtype), copy=True)
            self._own.add(_storage(self._copies[key][1]))
        return self.read(tensor)

    def __torch_dispatch__(self, function: Any, types: tuple, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = dict(kwargs or {})
        if isinstance(function, HigherOrderOperator):
            return run_higher_order(self, function, args, kwargs, self.read)
        if torch.Tag.inplace_view in function.tags:  # transpose_: changes what the tensor is to its memory, and not the memory
            return function(*args, **kwargs)
        schema = function._schema
        run = self._draw if torch.Tag.nondeterministic_seeded in function.tags else self._run
        self.random |= run == self._draw
        given = {a.name: v for a, v in zip(schema.arguments, args)} | kwargs
        # A view stays one of the same memory: what is written to it later has to be seen there.
        is_view = any(a.alias_info is not None and not a.alias_info.is_write for a in schema.arguments)
        originals: list[Any] = []
        read: dict[str, Any] = {}
        for argument in schema.arguments:
            if argument.name not in given:
                continue
            value = given[argument.name]
            if argument.name in _WRITERS.get(schema.name, ()):
                value = self._copy(value) if isinstance(value, Tensor) else value
            elif argument.alias_info is not None and argument.alias_info.is_write:
                originals += torch.utils._pytree.tree_leaves(value)
                value = tree_map(lambda v: self._copy(v) if isinstance(v, Tensor) else v, value)
            else:
                value = tree_map(self._current if is_view else self.read, value)
            if isinstance(value, torch.dtype) and value in self._replaced and schema.name not in _BITS and f"{schema.name}.{schema.overload_name}" not in _BITS:
                value = self._replaced[value]
            read[argument.name] = value
        positional = [read.pop(a.name) for a, _ in zip(schema.arguments, args)]
        if self._to is not None:
            function = _MORE_EXACT.get(function, function)
        result = run(function, positional, read)
        if not originals:
            return result
        # An operation in place returns what it wrote to: the caller gets the tensor that it gave.
        tensors = [v for v in originals if isinstance(v, Tensor)]
        by_memory = {_place(self.read(t)): t for t in tensors}
        return tree_map(lambda r: by_memory.get(_place(r), r) if isinstance(r, Tensor) else r, result)

    def _draw(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The result of an operation that draws: with the numbers that were drawn before, where those are known."""
        given = dict(zip(("input", "p", "train"), args)) | kwargs if function is aten.native_dropout.default else None
        name = function.overloadpacket.__name__
        if given is None and (name not in _DRAWS or function._schema.is_mutable != name.endswith("_")):
            return self._run(function, args, kwargs)
        if not self._given or self._given[-1][0] is not function:
            result = self._run(function, args, kwargs)
            self.drawn.append((function, tree_map(lambda r: r.clone() if isinstance(r, Tensor) else r, result)))
            return result
        found = self._given.pop()[1]
        if given is not None:
            kept = 1.0 if given.get("train") is False else 1.0 - given["p"]
            return given["input"] * found[1] * (1.0 / kept if kept else 0.0), found[1].clone()
        if function._schema.is_mutable:
            return args[0].copy_(found)
        return self.read(found.clone())

    def _run(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        try:
            return function(*args, **kwargs)
        except RuntimeError:
            if self._to is not torch.float64:
                raise
            from inferno.capture.decompositions import own

            # An operation without float64, taken apart as it is for the compiler.
            decomposition = own().get(function)
            if decomposition is None:
                raise
            with self:
                result = decomposition(*args, **kwargs)
            if result is NotImplemented:
                raise
            return tree_map(self.read, result)


def _storage(tensor: Tensor) -> int | None:
    """The number of a tensor's memory; what is sparse has none of its own."""
    return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else None


def _place(tensor: Tensor) -> tuple:
    return (_storage(tensor), tensor.storage_offset(), tuple(tensor.shape)) if tensor.layout is torch.strided else (id(tensor),)


@contextmanager
def _without_onednn() -> Iterator[None]:
    held = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(held)


def run_isolated(
    function: Callable[[Callable[[Any], Any]], Any], devices: list[torch.device], to: torch.dtype | None = None,
    held: Sequence[tuple[dict[str, Any], str]] = (), drawn: Sequence[tuple[Any, Any]] = (),
) -> tuple[Any, Isolated]:
    """The results of ``function(given)``, and the mode that it ran in.  ``given`` is to be applied to each tensor that the function
    passes on; ``held`` says in which tables, under which keys, modules have theirs.  Random numbers are those that would be drawn now,
    or that another run has ``drawn``.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    mode = Isolated(to, drawn)
    indices = sorted({d.index or 0 for d in devices if d.type == "cuda"})
    before = [(table, key, table[key]) for table, key in held if key in table]
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.random.fork_rng(devices=indices))
        if to is torch.float64:  # the fused attentions and oneDNN have no float64
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
            stack.enter_context(_without_onednn())
        try:
            for table, key, value in before:
                table[key] = mode.adopt(value)
            # Outside of a compiled function branches and loops compile themselves, which a mode like this one does not go with.
            with torch.compiler.set_stance("force_eager"), mode:
                result = function(mode.adopt)
        finally:
            for table, key, value in before:
                table[key] = value
            mode.forget_writes()
    return tree_map(mode.read, result), mode


def fresh(value: Any, tensors: list[Tensor], given: Callable[[Any], Any]) -> Any:
    """Containers anew (a cache object that the model appends to), with what is given for each tensor in them."""
    try:
        return copy.deepcopy(value, {id(t): given(t) for t in tensors})
    except Exception:  # an object that cannot be copied is passed as it is
        return tree_map(given, value)
