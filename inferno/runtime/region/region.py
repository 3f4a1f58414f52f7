"""A graph as compiled segments with eager operations between them.

``build_region`` cuts the graph, compiles what can be compiled, and writes one Python function that runs it all in order and
drops each tensor after its last use.  What turns out not to compile is found by trying its operations alone, and is cut out.
Where the compiler fails on much of a graph of which each operation compiles, whoever calls had better run what the graph was made of.
"""

import logging
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import FunctionType, MappingProxyType
from typing import Any

import torch
from torch._higher_order_ops.effects import with_effects
from torch.fx import Graph, Node

from inferno.capture import Argument, Frozen
from inferno.capture.capture import copy_graph, lower_graph
from inferno.capture.draws import is_drawing, is_philox
from inferno.capture.float_sizes import make_tensors_of_floats
from inferno.capture.library_faster import keep_order
from inferno.capture.nodes import operation_name, unsupported, user_line
from inferno.capture.orders import dense_order
from inferno.capture.partition import Part, Piece, base_of, extract, operations, partition
from inferno.capture.recompute_pointwise import recompute_pointwise
from inferno.capture.refusal import BETWEEN, COLLECTIVE, preferences, refusals
from inferno.capture.replace_draws import draws, replace_draws
from inferno.capture.restrides import replace_restrides
from inferno.capture.strided_places import read_strided
from inferno.capture.strided_writes import write_strided
from inferno.capture.take_sizes import Source, take_sizes
from inferno.capture.whole_sizes import make_sizes_whole
from inferno.capture.written_inputs import find_places
from inferno.errors import CompileError, InfernoError, NoLowering, UnsupportedOperation
from inferno.faults import Fault, as_faults
from inferno.runtime.program import Program
from inferno.runtime.region.generator import generator_of
from inferno.runtime.region.segment import Segment
from inferno.runtime.region.sized_segment import SizedSegment
from inferno.runtime.region.text import write_region
from inferno.runtime.workers.pool import WorkerDied

log = logging.getLogger(__name__)

_THREADS = 8  # they only wait for workers
_NO_LOWERING = "it has no lowering to linalg"
# Decomposed operations one by one in eager take ten times as long as the original ones (a training step of a convolutional network with batch norms on an
# H200), compiled ones 0.6 of the time: beyond a twentieth of a graph's operations the original graph is faster.
_MOST_DECOMPOSED = 1 / 20
_TOO_SMALL = "alone between eager operations it is not worth a segment"


class GraphFailed(CompileError):
    """The compiler failed on so much of a graph that what it was made of is faster in eager.  Says on how much, and why."""


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
    results; it may stand in front of the written function (``inspect.unwrap``), whose text is ``text``.

    ``steps`` are what it does one after the other: a segment's program, or an operation in eager.  ``fallbacks`` are those of them
    that do not compile; collectives, states of a generator, and what is too small for a segment are none.  ``starts`` are the lines of the text, from 0,
    where each step begins, and where the last one is done.  ``one_size``: why it is for one of the sizes that vary, which others are compiled beside;
    empty where it is for every size.  ``failed``: what a GraphFailed would say; empty where the compiler did not fail on much of it.
    """

    run: Callable[[list[Any]], list[Any]]
    text: str
    programs: tuple[Program, ...]
    fallbacks: tuple[Fallback, ...]
    seconds: float
    device: torch.device
    steps: tuple[Program | Fallback, ...]
    starts: tuple[int, ...]
    segments: tuple[Segment | SizedSegment, ...] = ()
    one_size: str = ""
    failed: str = ""

    def refresh(self) -> None:
        """Prepare frozen weights again at the next call."""
        for segment in self.segments:
            segment.refresh()


def build_region(
    graph: Graph, device: torch.device, build: Callable[[str], Program], fallback: bool = True,
    attributes: Callable[[str], Any] | None = None, cuda_graphs: bool = False, failures: Mapping[str, InfernoError] | None = None,
    given: Collection[str] = (), frozen: Mapping[str, int] | None = None, written: Sequence[str] = (), ranges: Mapping[Any, Any] = MappingProxyType({}),
    has_original: bool = False,
) -> Region:
    """Compile a graph for tensors on ``device``.

    ``build(text)`` makes a program of a ``torch`` module; ``attributes(name)`` gives what ``get_attr`` nodes name.  Without
    ``fallback`` the first operation that does not compile raises UnsupportedOperation.  ``cuda_graphs``: of each segment's kernels.
    ``given``: the names of the inputs that whoever calls gives away, and does not hold meanwhile.
    ``frozen``: the names of the inputs that change rarely, each with the bytes that may be kept for it.
    ``failures``: the errors of modules that were tried already, by their ``text_without_names``.
    ``written``: the names of inputs that get the last results as their values, which the region then does not return.
    ``ranges``: what torch's symbols may be, for which torch's own bounds, no less than 2, are not the callers'.
    ``has_original``: whoever calls has what the graph was made of, and gets a GraphFailed where that is faster.

    Raises what the compiler raised where sizes vary and a piece does not compile for all of them.
    """
    begin = time.perf_counter()
    graph = _rewrite(graph, device)
    refused = _refused(graph, device, fallback)
    pieces = partition(graph, refused)
    if recompute_pointwise(graph, pieces, refused):
        pieces = partition(graph, refused)
    built: dict[str, Program] = {}
    lost = ""
    while True:
        parts = {i: extract(p, refused) for i, p in enumerate(pieces) if p.compiled}
        writes = find_places(graph, pieces, parts, refused, written, device)
        lowered, failed = _lower_all(parts, _limits(parts, device, frozen or {}), writes, ranges)
        failed.update(_build(lowered, build, built, failures or {}))
        if not failed:
            break
        for i, error in failed.items():
            culprits, faults = ({}, []) if not fallback else _culprits(pieces[i], refused, build, error, ranges)
            # What fails for another reason than its import may well compile for sizes that are numbers.
            if not fallback or (parts[i].varies and any(reason != _NO_LOWERING for reason in culprits.values())):
                raise error
            lost = lost or _why_lost(pieces, pieces[i], faults, error)
            if lost and has_original:
                raise GraphFailed(lost) from error
            if isinstance(error, Fault):
                log.warning("%s; what it failed on runs in eager", error)
            refused.update(culprits)
        pieces = partition(graph, refused)
    segments = {i: _segment(parts[i], built[low.text], device, refused, low, cuda_graphs, given, writes.get(i, {})) for i, low in lowered.items()}
    steps = [(parts[i], segments[i]) if i in segments else p.nodes for i, p in enumerate(pieces) if i in segments or not p.compiled]
    run, text, starts = write_region(graph, steps, refused, attributes, written)
    done = tuple(s for step in steps for s in (
        (step[1].program,) if isinstance(step[0], Part) else (fallback_of(n, refused.get(n, _TOO_SMALL)) for n in step)
    ))
    eager = [n for p in pieces if not p.compiled for n in p.nodes if refused.get(n, COLLECTIVE) not in BETWEEN]
    eager = [n for n in eager if isinstance(n.meta.get("val"), (torch.Tensor, tuple, list))]
    fallbacks = tuple(fallback_of(n, refused[n]) for n in eager)
    made = tuple(segments.values())
    return Region(run, text, tuple(s.program for s in made), fallbacks, time.perf_counter() - begin, device, done, starts, made, failed=lost)


def _rewrite(graph: Graph, device: torch.device) -> Graph:
    """Write what no piece could take as operations that it can: strides, sizes and floats that are read, random numbers.  The graph itself where nothing
    is drawn from the device's generator, else a copy."""
    replace_restrides(graph)
    make_sizes_whole(graph)
    make_tensors_of_floats(graph)
    read_strided(graph)
    write_strided(graph)
    generator = generator_of(device)
    if generator is not None and draws(graph, generator):
        graph = copy_graph(graph)
        replace_draws(graph, generator)
    return graph


def _refused(graph: Graph, device: torch.device, fallback: bool) -> dict[Node, str]:
    """The operations that stay in eager, each with why: those that do not compile, and with ``fallback`` those that are faster there.  Without it
    UnsupportedOperation names the first tensor that would be."""
    refused = refusals(graph, device)
    if fallback:
        refused.update(preferred := preferences(graph, device))
        for node in preferred:
            keep_order(node)
        return refused
    for node, reason in refused.items():
        number = node.meta.get("val") is None or isinstance(node.meta["val"], (int, float, bool, torch.SymInt))
        if not number and reason not in BETWEEN:
            raise unsupported(node, reason)
    return refused


@dataclass(frozen=True)
class _Lowered:
    """A part's ``torch`` stage; ``sources`` say what its arguments are made of where sizes vary."""

    text: str
    sources: tuple[Source, ...] | None


def _segment(
    part: Part, program: Program, device: torch.device, refused: Mapping[Node, str], lowered: _Lowered, cuda_graphs: bool,
    given: Collection[str], writes: Mapping[int, int],
) -> Segment | SizedSegment:
    made = {i for i, n in enumerate(part.inputs) if base_of(n, refused).op not in ("placeholder", "get_attr")}
    inputs, outputs = [n.meta["val"] for n in part.inputs], [n.meta["val"] for n in part.outputs]
    if lowered.sources is not None:
        return SizedSegment(program, device, inputs, outputs, lowered.sources, writes)
    alone = made | {i for i, n in enumerate(part.inputs) if base_of(n, refused).name in given}
    return Segment(program, device, inputs, outputs, made, alone, cuda_graphs, writes)


def _lower(part: Part, ranges: Mapping[Any, Any], limits: Mapping[Node, int] | None = None, written: Collection[int] = ()) -> _Lowered:
    """``limits``: of those of the part's inputs that are frozen, the bytes that may be kept for each; ``written``: the numbers of those that get results."""
    limits = {i: limits[n] for i, n in enumerate(part.inputs) if n in limits} if limits else {}
    if part.varies:
        arguments, sources = take_sizes(part.graph, ranges)
        places = {s.place: i for i, s in enumerate(sources) if not s.is_size}
        frozen = Frozen(tuple(places[i] for i in limits if i in places), sum(limits.values())) if limits else None
        return _Lowered(lower_graph(part.graph, arguments, frozen, sorted(places[i] for i in written)), sources)
    inputs = [n for n in part.graph.nodes if n.op == "placeholder"]
    if not all(isinstance(n.meta["val"], torch.Tensor) for n in inputs):
        raise UnsupportedOperation("an input of the graph is no tensor")
    # Names that say nothing, so that equal layers have equal texts.
    arguments = tuple(Argument(f"x{i}", "input", tuple(n.meta["val"].shape), n.meta["val"].dtype) for i, n in enumerate(inputs))
    frozen = Frozen(tuple(limits), sum(limits.values())) if limits else None
    return _Lowered(lower_graph(part.graph, arguments, frozen, sorted(written)), None)


def _limits(parts: Mapping[int, Part], device: torch.device, frozen: Mapping[str, int]) -> dict[Node, int]:
    """The inputs that are frozen where parts read them, and the bytes that each such part may keep for each.  What would be copied on
    the way to a part is another tensor at every call, and so is not frozen."""
    reads: dict[Node, int] = {}
    for part in parts.values() if frozen else ():
        for node in part.inputs:
            example = node.meta["val"]
            if node.op == "placeholder" and node.name in frozen and example.device == device and dense_order(example) is not None:
                reads[node] = reads.get(node, 0) + 1
    return {node: frozen[node.name] // count for node, count in reads.items()}


def _lower_all(
    parts: Mapping[int, Part], limits: Mapping[Node, int], writes: Mapping[int, Mapping[int, int]], ranges: Mapping[Any, Any],
) -> tuple[dict[int, _Lowered], dict[int, InfernoError]]:
    """The ``torch`` stages of the parts that have results, and the errors of those that have none; ``writes``: as ``find_places`` finds them."""
    lowered: dict[int, _Lowered] = {}
    failed: dict[int, InfernoError] = {}
    for i, part in parts.items():
        if not part.outputs:
            continue
        try:
            lowered[i] = _lower(part, ranges, limits, writes.get(i, {}).values())
        except (UnsupportedOperation, Fault) as error:
            failed[i] = error
    return lowered, failed


def _build(
    lowered: Mapping[int, _Lowered], build: Callable[[str], Program], built: dict[str, Program], failures: Mapping[str, InfernoError],
) -> dict[int, InfernoError]:
    """Compile what ``built`` does not hold yet, side by side; the errors of those that failed, now or before."""
    failed = {} if not failures else {i: failures[key] for i, low in lowered.items() if (key := text_without_names(low.text)) in failures}
    new = dict.fromkeys(low.text for i, low in lowered.items() if low.text not in built and i not in failed)
    with ThreadPoolExecutor(_THREADS) as threads:
        futures = {text: threads.submit(as_faults("compiling a piece")(build), text) for text in new}
    for text, future in futures.items():
        try:
            built[text] = future.result()
        except InfernoError as error:
            failed.update({i: error for i, low in lowered.items() if low.text == text})
    return failed


def _culprits(
    piece: Piece, refused: Mapping[Node, str], build: Callable[[str], Program], error: InfernoError, ranges: Mapping[Any, Any],
) -> tuple[dict[Node, str], list[Node]]:
    """The operations of a piece that do not compile alone; where each does, all of them: the compiler failed on the whole.  And those of them on which it
    failed, though it should know them."""
    places: dict[Node, str] = {}
    found: dict[Node, str] = {}
    faults: list[Node] = []
    texts: dict[str, str] = {}
    for node in piece.nodes:  # before any thread starts: MLIR's contexts are made in one thread at a time
        try:
            part = extract(Piece(True, (node,)), refused)
            text = _lower(part, ranges).text if part.outputs else ""
        except (UnsupportedOperation, Fault) as alone:
            found[node] = _reason(alone)
            faults += [node] if isinstance(alone, Fault) else []
            continue
        if text:
            places[node] = text_without_names(text)
            texts.setdefault(places[node], text)
    with ThreadPoolExecutor(_THREADS) as threads:
        tried = {key: threads.submit(build, text) for key, text in texts.items()}
    for node, key in places.items():
        alone = tried[key].exception()
        if alone is not None:
            found[node] = _NO_LOWERING if isinstance(alone, NoLowering) else _reason(alone)
            known = isinstance(alone, UnsupportedOperation) and not isinstance(alone.__cause__, WorkerDied)
            faults += [] if known else [node]
    if found:
        return found, faults
    log.warning("a piece of %d operations does not compile, though each of them does: %s", len(piece.nodes), _reason(error))
    return {n: f"the compiler failed on it together with others: {_reason(error)}" for n in piece.nodes}, list(piece.nodes)


def _why_lost(pieces: Sequence[Piece], piece: Piece, faults: Sequence[Node], error: InfernoError) -> str:
    """Why the graph's original operations are faster than its ``pieces``, where the compiler failed on ``faults`` of one of them; empty where they need
    not be: where it fails on single ones, eager takes no longer for them than for others."""
    lost, own, whole = (len(operations(nodes)) for nodes in (faults, piece.nodes, [n for p in pieces for n in p.nodes]))
    if lost * 2 <= own or lost <= whole * _MOST_DECOMPOSED:
        return ""
    return f"the compiler failed on {lost} of the {whole} operations that it is made of: {_reason(error)}"


def text_without_names(text: str) -> str:
    """The text of a ``torch`` module without what only says where its operations and arguments came from, its arguments in the order
    that they are read in: equal for programs that are the same to the compiler, whoever wrote them down."""
    head, arrow, body = text.partition(") -> ")
    body = re.sub(r"^#loc[^\n]*\n|loc\([^\n]*", "", body, flags=re.M)
    arguments = re.split(r"(%arg\d+): ", head)[1:]
    types = {n: re.sub(r'inferno\.(name|kind) = "[^"]*"|loc\(.*', "", t, flags=re.S).strip(" ,") for n, t in zip(arguments[::2], arguments[1::2])}
    numbers = {name: f"%arg{i}" for i, name in enumerate(dict.fromkeys(re.findall(r"%arg\d+", body)))}
    if not types.keys() >= numbers.keys():  # an invalid module is printed in MLIR's generic form
        return text
    return ", ".join(types[name] for name in numbers) + arrow + re.sub(r"%arg\d+", lambda found: numbers[found[0]], body)


def _reason(error: BaseException) -> str:
    """The last part of an error's first line: what is wrong, without the operation that it names."""
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return first.rpartition(" is not supported: ")[2]


def fallback_of(node: Node, reason: str) -> Fallback:
    """What is said of an operation that runs in eager: its name, what it calls, its line in the model, and the reason."""
    where = user_line(node)
    called = node.args[1] if node.target is with_effects else node.target
    target = called.__name__ if is_drawing(node) or is_philox(node) or isinstance(called, FunctionType) else str(called)  # where a function lies says nothing
    return Fallback(operation_name(node), target, f"{where[0]}:{where[1]}" if where else "", reason)
