"""The graphs that Dynamo captured and Inferno compiled, as far as they are alive, and for which compiled function each was made.

Dynamo keeps graphs by the code of the frames that it captures.  Behind a graph break these are frames of any function that the model
calls, so the way from a model to its graphs is the other one: a graph remembers whose call was on the stack when it was made.
"""

import contextlib
import itertools
import sys
import types
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from inferno.runtime.region.region import Region


@dataclass(frozen=True, eq=False)
class CompiledGraph:
    """A graph's ``regions`` by kind, the ``tensors`` that it was captured with, and the ``callers``: what was given to
    torch.compile, for each such call on the stack, innermost first."""

    regions: list[tuple[str, Region]]
    tensors: tuple[weakref.ref, ...]
    callers: tuple[weakref.ref, ...]

    def reads(self, module: torch.nn.Module) -> bool:
        """Whether the graph was captured with a parameter or buffer of the module."""
        own = {id(t) for t in (*module.parameters(), *module.buffers())}
        return any(id(t) in own for reference in self.tensors if (t := reference()) is not None)


# A process's own record, in the order that they were made; the compiled functions hold the graphs.
_alive: "weakref.WeakValueDictionary[int, CompiledGraph]" = weakref.WeakValueDictionary()
_numbers = itertools.count()


def make_graph(regions: list[tuple[str, Region]], tensors: list[torch.Tensor]) -> CompiledGraph:
    """The record of the graph that is being compiled."""
    graph = CompiledGraph(regions, tuple(map(weakref.ref, tensors)), tuple(_callers()))
    _alive[next(_numbers)] = graph
    return graph


def live_graphs() -> list[CompiledGraph]:
    """All graphs whose functions are alive."""
    return list(_alive.values())


def graphs_of(compiled: Any) -> list[CompiledGraph]:
    """The graphs of a result of torch.compile, or of a module that is compiled or has parts that are."""
    given = {id(f) for f in _given_to_dynamo(compiled)}
    found = [g for g in live_graphs() if any(id(c) in given for reference in g.callers if (c := reference()) is not None)]
    # A second model of a class may run what was compiled for the first one: that is in Dynamo's cache alone.
    module = getattr(compiled, "_orig_mod", None)
    cached = [g for g in _cached(compiled) if g not in found]
    return [*found, *(g for g in cached if module is None or g.reads(module))] or cached


def _callers() -> Iterator[weakref.ref]:
    """What the calls of compiled functions on the stack were made of: ``fn`` of torch._dynamo's wrappers."""
    frame, place = sys._getframe(), torch._dynamo.eval_frame.__file__
    while frame is not None:
        if frame.f_code.co_filename == place and "fn" in frame.f_code.co_freevars:
            with contextlib.suppress(TypeError):  # an object of which there are no weak references
                yield weakref.ref(frame.f_locals["fn"])
        frame = frame.f_back


def _given_to_dynamo(compiled: Any) -> Iterator[Any]:
    """What Dynamo runs for this object: itself without the wrapper, and likewise for the modules in it."""
    held = [compiled]
    if isinstance(compiled, torch.nn.Module):
        for module in compiled.modules():
            held += [module.__dict__.get("_forward"), module.forward, module._compiled_call_impl]
    for value in held:
        if isinstance(value, torch.nn.Module):
            continue
        found = getattr(value, "_torchdynamo_orig_callable", None)
        if found is not None:
            yield found


def _cached(compiled: Any) -> Iterator[CompiledGraph]:
    """The graphs in Dynamo's caches of the function and of those that continue it."""
    todo, seen, known = list(_functions(compiled)), set(), set()
    while todo:
        function = todo.pop(0)
        if function.__code__ in seen:
            continue
        seen.add(function.__code__)
        for entry in torch._C._dynamo.eval_frame._debug_get_cache_entry_list(function.__code__):
            for name in entry.code.co_names:
                value = function.__globals__.get(name)
                if name.startswith("__compiled_fn") and value is not None:
                    found = _found(value)
                    if found is not None and id(found) not in known:
                        known.add(id(found))
                        yield found
                elif isinstance(value, types.FunctionType) and name.startswith("__resume"):
                    todo.append(value)


def _functions(compiled: Any) -> Iterator[types.FunctionType]:
    """The Python functions that Dynamo compiles for this object: a module's own, and those of modules in it."""
    module = getattr(compiled, "_orig_mod", None)
    found = [compiled.forward, *(m.forward for m in module.modules())] if isinstance(module, torch.nn.Module) else [compiled]
    for function in found:
        function = getattr(function, "_torchdynamo_orig_callable", function)
        function = getattr(function, "__func__", function)
        if isinstance(function, types.FunctionType):
            yield function


def _found(value: Any) -> CompiledGraph | None:
    """What the backend hung on the function that it gave to Dynamo, under whatever Dynamo wrapped it in."""
    while value is not None:
        if hasattr(value, "inferno_graph"):
            return value.inferno_graph
        value = getattr(value, "_torchdynamo_orig_callable", None) or getattr(value, "__wrapped__", None)
    return None
