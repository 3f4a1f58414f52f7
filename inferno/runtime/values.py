"""A model whose sizes depend on the values of a few integers: compiled whole for the values that calls come with, each once."""

import logging
import operator
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves

from inferno.errors import CaptureError, PackageError, UnsupportedOperation
from inferno.runtime.call.transforms import why_eager
from inferno.runtime.face import Face
from inferno.runtime.module import CompiledModule
from inferno.runtime.program import Program
from inferno.runtime.report import Report

log = logging.getLogger(__name__)

# Calls with more values than these go to Dynamo, which compiles pieces that hold for all: a model compiles in up to a minute.
_MOST = 4


@dataclass(frozen=True)
class _Entry:
    """What was compiled for inputs like these, and for the ``values`` of integers by their name."""

    structure: TreeSpec
    inputs: tuple
    values: dict[int | str, tuple]
    compiled: CompiledModule


class ValuesModule(Face):
    """Called like the model.  ``ir`` and ``explain`` are about the program of the example, or of a call whose arguments are given."""

    def __init__(
        self, model: Any, args: tuple, kwargs: dict[str, Any], compiled: CompiledModule, used: Collection[int | str], names: Sequence[str],
        compile_for: Callable[[Any, tuple, dict], tuple[CompiledModule, set]], otherwise: Callable[[Any], Face],
    ) -> None:
        """``used``: which integers ``compiled`` is for, arguments by their number among the leaves, which have ``names``, and buffers by their name.

        ``compile_for`` gives such a program and what it is for, and ``otherwise`` what takes any call."""
        self.target, self.device = compiled.program.target, compiled.device
        self._names = names
        self._compile_for, self._otherwise = compile_for, otherwise
        self._rest: Face | None = None
        self._lock = threading.Lock()
        self._entries: list[_Entry] = []
        self._buffers: dict[str, tuple[Tensor, int, tuple]] = {}
        self.__dict__["_model"] = model
        self._add(args, kwargs, compiled, used)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if why_eager(tree_leaves((args, kwargs))) is not None:
            return self._entries[0].compiled(*args, **kwargs)
        return self._chosen(args, kwargs)(*args, **kwargs)

    def _chosen(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What is for these arguments; it is compiled where nothing is."""
        if (found := self._find(args, kwargs)) is not None:
            return found
        with self._lock:
            if (found := self._find(args, kwargs)) is not None:
                return found
            if self._rest is None and len(self._entries) < _MOST:
                try:
                    compiled, used = self._compile_for(self._model, args, kwargs)
                    self._add(args, kwargs, compiled, used)
                    return compiled
                except (CaptureError, UnsupportedOperation) as error:
                    log.info("not for these values: %s", error)
            if self._rest is None:
                self._rest = self._otherwise(self._model)
            return self._rest

    def _find(self, args: tuple, kwargs: dict[str, Any]) -> CompiledModule | None:
        leaves, structure = tree_flatten((args, kwargs))
        inputs, read = tuple(map(_describe, leaves)), {}
        for entry in self._entries:
            if entry.inputs == inputs and entry.structure == structure and all(
                (read[name] if name in read else read.setdefault(name, self._read(name, leaves))) == value for name, value in entry.values.items()
            ):
                return entry.compiled
        return None

    def _add(self, args: tuple, kwargs: dict[str, Any], compiled: CompiledModule, used: Collection[int | str]) -> None:
        leaves, structure = tree_flatten((args, kwargs))
        self._entries.append(_Entry(structure, tuple(map(_describe, leaves)), {name: self._read(name, leaves) for name in used}, compiled))

    def _read(self, name: int | str, leaves: list) -> tuple:
        if isinstance(name, int):
            return tuple(leaves[name].reshape(-1).tolist())
        buffer = operator.attrgetter(name)(self._model)
        if not buffer.is_inference() and buffer.device.type != "cpu":  # reading it waits for the GPU
            known = self._buffers.get(name)
            if known is None or known[0] is not buffer or known[1] != buffer._version:
                known = self._buffers[name] = buffer, buffer._version, tuple(buffer.reshape(-1).tolist())
            return known[2]
        return tuple(buffer.reshape(-1).tolist())

    def _copy_for(self, model: Any, memo: dict[int, Any]) -> "ValuesModule":
        copied = type(self).__new__(type(self))
        copied.__dict__.update({k: v for k, v in self.__dict__.items() if k not in copied.__dict__})
        copied.__dict__["_model"] = model
        copied._rest, copied._lock, copied._buffers = None, threading.Lock(), {}
        copied._entries = [replace(e, compiled=e.compiled._copy_for(model, memo)) for e in self._entries]
        return copied.attach(model, self._recipe)

    @property
    def program(self) -> Program:
        return self._entries[0].compiled.program

    @property
    def programs(self) -> tuple[Program, ...]:
        return self._entries[0].compiled.programs

    @property
    def fallbacks(self) -> tuple:
        return self._entries[0].compiled.fallbacks

    @property
    def compile_seconds(self) -> float:
        return sum(e.compiled.compile_seconds for e in self._entries)

    def ir(self, stage: str) -> str:
        """The example's program at ``stage``."""
        return self._entries[0].compiled.ir(stage)

    def explain(self, *args: Any, **kwargs: Any) -> Report:
        """The report of the example's program, or of a call's."""
        chosen = self._chosen(args, kwargs) if args or kwargs else self._entries[0].compiled
        report, used = chosen.explain(*args, **kwargs), self._entries[0].values
        names = ", ".join(self._names[n] if isinstance(n, int) else n for n in [*used][:3]) + ("" if len(used) < 4 else f" and {len(used) - 3} more")
        return replace(report, notes=(*report.notes, f"compiled for the values of {names}"))

    def refresh(self) -> None:
        """Prepare frozen weights again at the next call."""
        for entry in self._entries:
            entry.compiled.refresh()

    def save(self, path: Any, ir: bool = True) -> None:
        """A package holds a program for all values: PackageError."""
        raise PackageError("a package holds a program for all values of its inputs, and this one's sizes depend on some")

    def __repr__(self) -> str:
        return f"ValuesModule({len(self._entries)} programs for {self.target.name})"


def _describe(leaf: Any) -> Any:
    return (tuple(leaf.shape), leaf.dtype, leaf.device) if isinstance(leaf, Tensor) else leaf
