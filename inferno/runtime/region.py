"""A graph as compiled segments with eager operations between them.

``build_region`` cuts the graph, compiles what can be compiled, and writes one Python function that runs it all in order and
drops each tensor after its last use.  What turns out not to compile is found by trying its operations alone, and is cut out.
"""

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, Node

from inferno.capture import Argument
from inferno.capture.capture import lower_graph
from inferno.capture.nodes import operation_name, unsupported, user_line
from inferno.capture.partition import Part, Piece, base_of, extract, partition
from inferno.capture.refusal import refusals
from inferno.errors import CompileError, InfernoError, NoLowering, UnsupportedOperation
from inferno.runtime.program import Program
from inferno.runtime.region_text import write_region
from inferno.runtime.segment import Segment

log = logging.getLogger(__name__)

_THREADS = 8  # they only wait for workers


@dataclass(frozen=True)
class Fallback:
    """An operation that runs in eager: what the user called, where, and why."""

    operation: str
    target: str
    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.target}{f' at {self.place}' if self.place else ''} runs in eager: {self.reason}"


@dataclass(frozen=True)
class Region:
    """A graph, ready to run: ``run(inputs)`` takes the list of the graph's inputs, which it empties, and returns the list of its
    results.  ``text`` is the function that does so."""

    run: Callable[[list[Any]], list[Any]]
    text: str
    programs: tuple[Program, ...]
    fallbacks: tuple[Fallback, ...]
    seconds: float = 0.0


def build_region(
    graph: Graph, device: torch.device, build: Callable[[str], Program], fallback: bool = True,
    attributes: Callable[[str], Any] | None = None, cuda_graphs: bool = False,
) -> Region:
    """Compile a graph for tensors on ``device``.

    ``build(text)`` makes a program of a ``torch`` module; ``attributes(name)`` gives what ``get_attr`` nodes name.  Without
    ``fallback`` the first operation that does not compile raises UnsupportedOperation.  ``cuda_graphs``: of each segment's kernels.
    """
    begin = time.perf_counter()
    refused = refusals(graph, device)
    if not fallback:
        for node, reason in refused.items():
            if node.meta.get("val") is not None and not isinstance(node.meta["val"], (int, float, bool, torch.SymInt)):
                raise unsupported(node, reason)
    built: dict[str, Program] = {}
    while True:
        pieces = partition(graph, refused)
        parts = {i: extract(p, graph, refused) for i, p in enumerate(pieces) if p.compiled}
        parts = {i: part for i, part in parts.items() if part.outputs}
        failed = _build(pieces, parts, build, built)
        if not failed:
            break
        for i, error in failed.items():
            if not fallback:
                raise error
            refused.update(_culprits(pieces[i], graph, refused, build, error))
    texts = {i: _lower(part) for i, part in parts.items()}
    segments = {i: _segment(part, built[texts[i]], device, refused, cuda_graphs) for i, part in parts.items()}
    steps = [(parts[i], segments[i]) if i in parts else p.nodes for i, p in enumerate(pieces) if i in parts or not p.compiled]
    run, text = write_region(graph, steps, refused, attributes)
    eager = [n for p in pieces if not p.compiled for n in p.nodes if n in refused and isinstance(n.meta.get("val"), (torch.Tensor, tuple, list))]
    return Region(run, text, tuple(s.program for s in segments.values()), tuple(_fallback(n, refused[n]) for n in eager), time.perf_counter() - begin)


def _segment(part: Part, program: Program, device: torch.device, refused: Mapping[Node, str], cuda_graphs: bool) -> Segment:
    made = {i for i, n in enumerate(part.inputs) if base_of(n, refused).op not in ("placeholder", "get_attr")}
    return Segment(program, device, [n.meta["val"] for n in part.inputs], [n.meta["val"] for n in part.outputs], made, cuda_graphs)


def arguments_of(part: Part) -> tuple[Argument, ...]:
    """The arguments of a part's ``@main``."""
    inputs = [n for n in part.graph.nodes if n.op == "placeholder"]
    return tuple(Argument(n.name, "input", tuple(n.meta["val"].shape), n.meta["val"].dtype) for n in inputs)


def _lower(part: Part) -> str:
    return lower_graph(part.graph, arguments_of(part))


def _build(
    pieces: Sequence[Piece], parts: Mapping[int, Part], build: Callable[[str], Program], built: dict[str, Program],
) -> dict[int, InfernoError]:
    """Compile the parts that ``built`` does not hold yet, side by side; the errors of those that failed."""
    failed: dict[int, InfernoError] = {}
    texts: dict[int, str] = {}
    for i, part in parts.items():
        try:
            texts[i] = _lower(part)
        except UnsupportedOperation as error:
            failed[i] = error
    new = dict.fromkeys(t for t in texts.values() if t not in built)
    with ThreadPoolExecutor(_THREADS) as threads:
        futures = {text: threads.submit(build, text) for text in new}
    for text, future in futures.items():
        error = future.exception()
        if error is None:
            built[text] = future.result()
        elif isinstance(error, (UnsupportedOperation, CompileError)):
            failed.update({i: error for i, t in texts.items() if t == text})
        else:
            raise error
    return failed


def _culprits(
    piece: Piece, graph: Graph, refused: Mapping[Node, str], build: Callable[[str], Program], error: InfernoError,
) -> dict[Node, str]:
    """The operations of a piece that do not compile alone; where each does, all of them: the compiler failed on the whole."""
    places: dict[Node, str] = {}
    found: dict[Node, str] = {}
    texts: dict[str, str] = {}
    for node in piece.nodes:  # before any thread starts: MLIR's contexts are made in one thread at a time
        try:
            part = extract(Piece(True, (node,)), graph, refused)
            text = _lower(part) if part.outputs else ""
        except UnsupportedOperation as alone:
            found[node] = _reason(alone)
            continue
        if text:
            places[node] = _without_names(text)
            texts.setdefault(places[node], text)
    with ThreadPoolExecutor(_THREADS) as threads:
        tried = {key: threads.submit(build, text) for key, text in texts.items()}
    for node, key in places.items():
        alone = tried[key].exception()
        if alone is not None:
            found[node] = "it has no lowering to linalg" if isinstance(alone, NoLowering) else _reason(alone)
    if found:
        return found
    log.warning("a piece of %d operations does not compile, though each of them does: %s", len(piece.nodes), _reason(error))
    return {n: f"the compiler failed on it together with others: {_reason(error)}" for n in piece.nodes}


def _without_names(text: str) -> str:
    """The text of a program without what only says where its operations came from."""
    return re.sub(r"loc\([^\n]*|inferno\.name = \"[^\"]*\"", "", text)


def _reason(error: BaseException) -> str:
    """The last part of an error's first line: what is wrong, without the operation that it names."""
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return first.rpartition(" is not supported: ")[2]


def _fallback(node: Node, reason: str) -> Fallback:
    where = user_line(node)
    return Fallback(operation_name(node), str(node.target), f"{where[0]}:{where[1]}" if where else "", reason)
