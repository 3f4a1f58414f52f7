"""Run a model without leaving a trace, as it stands or in float64.

Both are dispatch modes: they see every ATen operation.  What an operation would write to is copied first, the copy is written to
and read from then on, and the tensor itself stays as it is: parameters, buffers, inputs, whatever a function closes over.
In float64 every operation also reads its floating-point operands as float64, so that no copy of the model is needed.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

_NARROW = (torch.float32, torch.float16, torch.bfloat16)
# Operations whose dtype argument says how bits are read, not how exact a result is.
_BITS = ("aten::view.dtype",)

# Operations that write to arguments of which their schema says that they are read.
_WRITERS = dict.fromkeys(("aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm"), ("running_mean", "running_var"))


class Isolated(TorchDispatchMode):
    """Runs operations on copies of what they write to.

    ``written`` holds the tensors that would have been written to, each with what it would hold now; ``random`` tells whether
    random numbers were drawn.  The caller sees to the random number generators.
    """

    def __init__(self, wide: bool = False) -> None:
        super().__init__()
        self._wide = wide
        self._copies: dict[int, tuple[Tensor, Tensor]] = {}  # by storage: a tensor that keeps it alive, and the copy of all of it
        self._own: set[int] = set()  # the copies' storages
        self.random = False

    @property
    def written(self) -> list[tuple[Tensor, Tensor]]:
        return [(original, self.read(original)) for original, _ in self._copies.values()]

    def wrote(self, tensor: Tensor) -> bool:
        """Whether the memory of a tensor would have been written to."""
        return _storage(tensor) in self._copies

    def read(self, value: Any) -> Any:
        """A tensor as an operation reads it: from the copy where there is one, in float64 if that is asked for."""
        if not isinstance(value, Tensor):
            return value
        value = self._current(value)
        return value.double() if self._wide and value.dtype in _NARROW else value

    def _current(self, value: Any) -> Any:
        held = self._copies.get(_storage(value)) if isinstance(value, Tensor) else None
        return value if held is None else torch.as_strided(held[1], value.shape, value.stride(), value.storage_offset())

    def _copy(self, tensor: Tensor) -> Tensor:
        """The copy of a tensor's memory, seen as the tensor; what is a view of a copy is written to itself."""
        key = _storage(tensor)
        if key in self._own:
            return tensor
        if key not in self._copies:
            whole = torch.as_strided(tensor, (tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)
            wide = self._wide and tensor.dtype in _NARROW
            self._copies[key] = tensor, whole.double() if wide else whole.clone()
            self._own.add(_storage(self._copies[key][1]))
        return self.read(tensor)

    def __torch_dispatch__(self, function: Any, types: tuple, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = dict(kwargs or {})
        schema = function._schema
        self.random |= torch.Tag.nondeterministic_seeded in function.tags
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
            if self._wide and value in _NARROW and schema.name not in _BITS and f"{schema.name}.{schema.overload_name}" not in _BITS:
                value = torch.float64
            read[argument.name] = value
        positional = [read.pop(a.name) for a, _ in zip(schema.arguments, args)]
        result = function(*positional, **read)
        if not originals:
            return result
        # An operation in place returns what it wrote to: the caller gets the tensor that it gave.
        tensors = [v for v in originals if isinstance(v, Tensor)]
        by_memory = {(_storage(self.read(t)), self.read(t).storage_offset(), tuple(t.shape)): t for t in tensors}
        return tree_map(lambda r: by_memory.get((_storage(r), r.storage_offset(), tuple(r.shape)), r) if isinstance(r, Tensor) else r, result)


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def run_isolated(function: Callable[[], Any], devices: list[torch.device], wide: bool = False) -> tuple[Any, Isolated]:
    """The results of ``function()``, and the mode that it ran in.  Random numbers are those that it would draw now."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    mode = Isolated(wide)
    indices = sorted({d.index or 0 for d in devices if d.type == "cuda"})
    with torch.no_grad(), torch.random.fork_rng(devices=indices):
        if wide:  # the fused attentions have no float64
            with sdpa_kernel(SDPBackend.MATH), mode:
                result = function()
        else:
            with mode:
                result = function()
    return tree_map(mode.read, result), mode
