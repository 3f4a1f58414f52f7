"""A model that was compiled before, from the graph that torch.export makes of it: without decomposing it, and without MLIR.

What is kept for such a graph is small: the key of its program, and the results that only the decomposed graph tells.
"""

import json
from dataclasses import fields, replace
from typing import Any

from inferno.capture import Captured, Exported, Result, Signature, View
from inferno.capture.graph_key import graph_key
from inferno.capture.input_orders import example_parts
from inferno.errors import InfernoError, PackageError
from inferno.runtime.cache.cache import CAPTURE, make_key, open_cache
from inferno.runtime.program import Program
from inferno.runtime.package.tree_data import decode_constant, encode_constant
from inferno.runtime.cache.versions import versions
from inferno.target import Target


def capture_key(exported: Exported, target: Target, options: dict[str, Any]) -> str | None:
    """The key of an exported model; None where the cache is off or the graph holds what cannot be told apart."""
    if open_cache() is None or exported.dynamic_shapes is not None:
        return None
    signature = exported.program.graph_signature
    specs = [repr(s) for s in (*signature.input_specs, *signature.output_specs)]
    names = [a.name for a in exported.arguments()]
    text = graph_key(exported.program.graph, [*specs, *map(repr, (exported.program.range_constraints, names, example_parts(exported.program)))])
    return text and make_key(CAPTURE, text, repr(target), json.dumps(options, sort_keys=True), versions())


def recall(key: str, exported: Exported, target: Target) -> Program | None:
    """The program with its signature; None if it is not kept."""
    kept = open_cache()
    facts = kept.load_facts(CAPTURE, key) if kept else None
    if facts is None:
        return None
    try:
        program = kept.load_program(facts["program"], target)
        return program and replace(program, signature=_signature(exported, facts))
    except (InfernoError, KeyError, TypeError, ValueError, AttributeError):
        return None


def remember(key: str, exported: Exported, captured: Captured, program_key: str, target: Target) -> None:
    """Keep what ``recall`` needs, if it would give the signature that decomposing gave."""
    kept = open_cache()
    if kept is None:
        return
    try:
        facts = {"program": program_key, **_results_to_data(captured.signature)}
        if _describe(_signature(exported, facts)) == _describe(captured.signature):
            kept.save_facts(CAPTURE, key, facts, target)
    except PackageError:  # an output that has no form as data
        return


def _results_to_data(signature: Signature) -> dict[str, Any]:
    return {
        "results": [_encode(r) for r in signature.results], "views": [_encode(v) for v in signature.views],
        "outputs": [[True, v] if is_tensor else [False, encode_constant(v, "an output")] for is_tensor, v in signature.outputs],
    }


def _signature(exported: Exported, facts: dict[str, Any]) -> Signature:
    outputs = tuple((True, v) if is_tensor else (False, decode_constant(v)) for is_tensor, v in facts["outputs"])
    return exported.signature(tuple(_decode(Result, r) for r in facts["results"]), outputs, tuple(_decode(View, v) for v in facts["views"]))


def _encode(value: Any) -> Any:
    """A Result or View as data: numbers, lists of them, constants."""
    return {f.name: list(v) if isinstance(v := getattr(value, f.name), tuple) else encode_constant(v, f.name) for f in fields(value)}


def _decode(class_: type, data: dict[str, Any]) -> Any:
    return class_(**{name: tuple(v) if isinstance(v, list) else decode_constant(v) for name, v in data.items()})


def _describe(signature: Signature) -> tuple:
    """All of a signature that can be compared, with its tensors by the dictionaries that hold them."""
    held = [(a.name, a.kind, a.shape, a.order, a.part, a.dtype, a.key, a.table is not None and id(a.table.get(a.key))) for a in signature.arguments]
    constants = [(True, v) if is_tensor else (False, type(v), v) for is_tensor, v in (*signature.leaves, *signature.outputs)]
    specs = signature.input_spec, signature.output_spec
    return held, signature.results, signature.views, constants, signature.leaf_names, specs, signature.guards
