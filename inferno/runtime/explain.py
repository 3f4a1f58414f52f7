"""``inferno.explain(fn)``: what became of a function or module under ``torch.compile(backend="inferno")``."""

import types
from collections.abc import Iterator
from typing import Any

import torch

from inferno.errors import InputError
from inferno.runtime.region.backend import CompiledGraph
from inferno.runtime.report import Report, report_of


def explain(compiled: Any) -> Report:
    """The report of everything that was compiled for ``compiled`` so far: a result of ``inferno.compile`` or of
    ``torch.compile(..., backend="inferno")``.  The graphs of a function are found through Dynamo's cache of it, those behind its
    graph breaks too.

    InputError where nothing has been compiled for it: it was not called yet, or has another backend.
    """
    if hasattr(compiled, "explain"):
        return compiled.explain()
    graphs = list(_graphs(compiled))
    module = getattr(compiled, "_orig_mod", None)
    # Dynamo keeps the graphs of all modules behind one function of torch's: those that read this module's tensors are its own.
    own = [g for g in graphs if module is None or g.reads(module)]
    regions = [region for graph in own or graphs for region in graph.regions]
    if not regions:
        raise InputError(
            "compiled: expected a result of inferno.compile, or of torch.compile(..., backend=\"inferno\") that has been called, "
            f"got {compiled!r:.100} for which Inferno has compiled nothing"
        )
    programs = [p for _, region in regions for p in region.programs]
    fallbacks = [f for _, region in regions for f in region.fallbacks]
    notes = tuple(f"graph {i}, {kind}: {len(r.programs)} segments" for i, (kind, r) in enumerate(regions))
    target = programs[0].target.name if programs else "none"
    return report_of(target, programs, fallbacks, sum(r.seconds for _, r in regions), notes)


def _graphs(compiled: Any) -> Iterator[CompiledGraph]:
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
