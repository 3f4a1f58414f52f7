"""A module as torch.export is to trace it, and the trace without what takes long and is not needed.

torch.export notes for each operation the whole stack, a fifth of the time, where the innermost line of the user's is all that is
looked at.  It makes a graph of each part of the program between two switches of the gradients, which are off in any case;
transformers' models switch them off once more.  And it writes each of its graphs down as Python, a tenth of the time, which is
not run: torch's lazy graph modules write it when it is.
"""

import contextlib
import functools
import io
import logging
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.fx import traceback
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves

from inferno.capture.assertions import with_message
from inferno.capture.autocast import State, within
from inferno.capture.convolution_layouts import convolutions_as_eager
from inferno.capture.decompositions.embedding import even_bags
from inferno.capture.decompositions.indexing import taken_along
from inferno.capture.decompositions.ranges import sized_linspace
from inferno.capture.decompositions.recurrent_cells import sized_gru_cell
from inferno.capture.lstm_states import right_lstm_states
from inferno.capture.nodes import is_library
from inferno.capture.python_state import FORWARD_HOOKS, Change, Computed, PythonState, tensors_of, written_by
from inferno.capture.scalar_places import put_at
from inferno.errors import CaptureError
from inferno.fork_lock import ForkLock

log = logging.getLogger(__name__)
P, R = ParamSpec("P"), TypeVar("R")

_tracing = ForkLock()


def one_at_a_time(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, which traces: torch patches the process meanwhile, and two threads would take off each other's patches, or leave them on."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with _tracing, right_lstm_states():
            return function(*args, **kwargs)

    return call


@contextlib.contextmanager
def to_trace(
    module: torch.nn.Module, autocast: State, start: Sequence[Change], changed: list[Change], constants: dict[int, Tensor],
) -> Iterator[torch.nn.Module]:
    """A module to export: it shares everything with ``module`` but the forward hooks that this has itself, which run at every call:
    they are Python, not the model's.  Attributes that such hooks may set are its own (see ``_set_by_hooks``).  It runs with ``autocast``, after the
    changes ``start`` in Python.  ``changed`` gets those that its ``forward`` makes; all are taken back.  ``constants`` gets, by their ids, the tensors
    that it reads and torch.export does not know: they are held neither by the module nor by its arguments."""
    bare = object.__new__(type(module))
    bare.__dict__.update(module.__dict__, **{name: OrderedDict() for name in FORWARD_HOOKS}, **_set_by_hooks(module))
    mode = _Shortcuts(constants, {id(t) for t in (*module.parameters(), *module.buffers())})
    casts: list[ExitStack] = []
    states: list[PythonState] = []
    orders: list[tuple[Tensor, tuple]] = []

    def watch(_: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        roots = {"self": bare, "args": args, "kwargs": kwargs}
        states.append(PythonState(roots))
        for change in start:
            change.within(module, bare).make()
        if start:
            states.append(PythonState(roots))
        given = tree_leaves((args, kwargs))
        mode.computed = Computed(given, list(bare.parameters()), list(bare.buffers()))
        orders[:] = [(t, _order(t)) for t in (*given, *bare.buffers()) if isinstance(t, Tensor)]

    def compare(*_: Any) -> None:
        moved = next((t for t, before in orders if _order(t) != before), None)
        if moved is not None:
            raise CaptureError(f"forward changes a given tensor's own shape or strides, now {tuple(moved.shape)} (t_, squeeze_, resize_), which no graph has")
        changed.extend(c.within(bare, module) for c in states[-1].changes(mode.computed))
        mode.computed = Computed()  # the tensors of the trace are not needed any more
        while states:
            states.pop().restore()

    bare.register_forward_pre_hook(watch, with_kwargs=True)
    bare.register_forward_pre_hook(lambda *_: mode.__enter__() and None)  # here, since the innermost mode is asked first
    if autocast:
        bare.register_forward_pre_hook(lambda *_: casts.append(within(autocast)))
        bare.register_forward_hook(lambda *_: casts.pop().close(), always_call=True)
    bare.register_forward_hook(lambda *_: mode.__exit__(None, None, None), always_call=True)
    bare.register_forward_hook(compare)
    depth = _depth()
    try:
        with traceback.preserve_node_meta(), _use_lazy_graph_module(True), convolutions_as_eager():
            yield bare
    finally:
        while casts:
            casts.pop().close()
        while states:
            states.pop().restore()
        mode.restore()
        while _depth() > depth:  # a forward that raises under torch.export calls no hook behind it
            torch.overrides._pop_mode()


def _set_by_hooks(module: torch.nn.Module) -> dict[str, Tensor]:
    """Copies of the attributes that share memory with the module's own parameters, where hooks run before its ``forward``: until its first call the weight
    of torch's older ``spectral_norm`` is ``weight_orig``, which torch.export would take it for, and a tensor of its own behind that."""
    memory = {p.untyped_storage()._cdata for p in module._parameters.values() if p is not None}
    held = {k: v for k, v in module.__dict__.items() if module._forward_pre_hooks and isinstance(v, Tensor) and v.layout is torch.strided}
    return {k: v.detach().clone() for k, v in held.items() if v.untyped_storage()._cdata in memory}


def _order(tensor: Tensor) -> tuple:
    with torch._C.DisableTorchFunction():  # each of torch.export's modes would be asked
        return (*tensor.shape, *tensor.stride())


def _depth() -> int:
    return torch.overrides._len_torch_function_stack()


# What is lost behind a function: that bags are of one size; sizes that vary, which two take for known ones; a GPU's cell, which has no shapes of such;
# assertions without a message; a place that a tensor holds.
_SHORTCUTS = {
    torch.nn.functional.embedding_bag: even_bags, torch.take_along_dim: taken_along, torch.Tensor.take_along_dim: taken_along, torch.gru_cell: sized_gru_cell,
    torch.linspace: sized_linspace, torch._assert_async: with_message, torch.Tensor.__setitem__: put_at,
}


_SET_DATA = torch.Tensor.data.__set__  # each time another object, equal to others


class _Shortcuts(TorchFunctionMode):
    """Sees each function of torch that the model calls before torch.export does, and notes what it computes."""

    computed = Computed()

    def __init__(self, constants: dict[int, Tensor], parts: set[int]) -> None:
        """``parts``: the ids of what the module has itself, which a cache, say, may hold, too: torch.export knows it, but writes to it as it traces."""
        super().__init__()
        self._constants, self._parts = constants, parts
        self._before: dict[int, tuple[Tensor, Tensor]] = {}  # parts that were written, and what they held

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        if torch.compiler.is_dynamo_compiling():  # a branch of a torch.cond: Dynamo follows this function, and notes lines itself
            return func(*args, **(kwargs or {}))
        if func is torch._C._set_grad_enabled and args == (torch.is_grad_enabled(),):
            return None
        if func == _SET_DATA:
            raise CaptureError("forward gives a tensor other memory (x.data = y), of which torch.export makes no graph; x.copy_(y) is understood")
        traceback.current_meta["stack_trace"] = _line(sys._getframe(1))
        self._constants.update((id(t), t) for t in tensors_of((args, kwargs or {})) if is_constant(t))
        written = [t for t in written_by(func, args, kwargs or {}) if is_constant(t) and id(t) not in self._before]
        if any(id(t) not in self._parts for t in written):
            raise CaptureError(f"forward writes to a tensor ({func.__name__}) that is no parameter, buffer or argument: torch.export would, as it traces")
        if written:
            with _disable_current_modes():
                self._before.update((id(t), (t, t.detach().clone())) for t in written)
        found = _SHORTCUTS[func](*args, **(kwargs or {})) if func in _SHORTCUTS else NotImplemented
        if found is NotImplemented:
            found = func(*args, **(kwargs or {}))
        self.computed.note(func, args, kwargs or {}, found)
        return found


    def restore(self) -> None:
        """Give parts that were written what they held."""
        with torch.no_grad(), torch._C.DisableTorchFunction():
            for tensor, before in self._before.values():
                tensor.copy_(before)
        self._before = {}


def is_constant(tensor: Tensor) -> bool:
    """Whether it is none of a trace, in which parameters, buffers, arguments and all that is computed are fake, also where vmap or grad has wrapped them."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return type(tensor) in (Tensor, torch.nn.Parameter)


def _line(frame: Any) -> str:
    """The innermost line of the user's in a ``forward``, as a stack trace has it."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "forward" and not is_library(code.co_filename):
            return f'File "{code.co_filename}", line {frame.f_lineno}, in forward'
        frame = frame.f_back
    return ""


@contextlib.contextmanager
def buffers_watched_as_before() -> Iterator[None]:
    """A torch.export that fails (before torch 2.13) goes on watching what modules set as buffers, and raises where the model itself sets one."""
    watching = torch.nn.modules.module._global_buffer_registration_hooks
    before = dict(watching)
    try:
        yield
    finally:
        for key in watching.keys() - before.keys():
            del watching[key]


@contextlib.contextmanager
def without_the_graph_so_far() -> Iterator[None]:
    """Where torch.export fails it prints the graph that it had so far to stderr, hundreds of lines; here they go to the log, as debugging."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            yield
    except Exception:
        log.debug("what torch.export printed: %s", said.getvalue())
        raise
    sys.stderr.write(said.getvalue())
