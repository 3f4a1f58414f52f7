"""Take the operations of an exported program apart: each kind of operation once.

A model of many equal layers has a few dozen kinds of operations, where one kind is an operation with its arguments, each tensor
by its shape, strides, dtype and device.  torch decomposes a program by tracing it twice, operation by operation, each through four
layers of dispatch: 2 to 5 ms an operation, 4.0 s for TinyLlama's 1400 and 0.3 s for its 40 kinds.  So a program of one operation of
each kind is decomposed, by one trace, and what becomes of each is put where the operation was.  What became of operations of torch's own
is remembered for the programs after this one: the smallest costs 10 ms otherwise.

An operation that would become tensors of other dtypes or shapes than its own stays whole, and is refused.

Sizes may vary: what an operation becomes then has its sizes as expressions of the program's symbols, which are computed once (``size_nodes``).  As a
whole, capturing 8 layers of GPT-2 of any batch and length takes 12.6 s of processor time, 8 of Llama 18.0 s, and so 5.2 and 8.0.

What is changed in place is made functional first (``functionalise``).  All that is only right for programs that are functions of tensors: one that
writes to a tensor of the caller's, has a graph in it or a size that only the data tells, or returns parts of a tensor that it does not return itself, is
left to torch as a whole.
"""

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import getitem
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec, TensorArgument
from torch.fx import Graph, Node
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.node import map_arg
from torch.fx.traceback import NodeSource, NodeSourceAction
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

from inferno.capture.assertions import ASSERTIONS
from inferno.capture.devices import captures_for_hopper
from inferno.capture.functionalise import functionalise, is_mutable
from inferno.capture.graph_key import NAMESPACES, state
from inferno.capture.operation_kinds import Kind, Unequal, is_plain, is_static, read_results, check_functional, count_assumptions, kinds_of
from inferno.capture.refusal import REFUSED
from inferno.capture.restrides import replace_restrides
from inferno.capture.run_decompositions import registered, run_decompositions
from inferno.capture.size_nodes import SizeNodes, UnknownSymbol, is_number
from inferno.capture.trace_graph import has_parts, trace_graph
from inferno.settings import settings
from inferno.tf32 import takes_tf32, takes_tf32_convolutions


aten = torch.ops.aten
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Decomposed:
    """A decomposed program: what of an ExportedProgram is read afterwards.

    Of the graph's values ("val") shapes and dtypes hold, but neither strides nor which of them share memory.  ``refused``: operations that
    stayed whole, and why; their nodes say so, too.
    """

    graph: Graph
    graph_signature: ExportGraphSignature
    state_dict: dict[str, Any]
    constants: dict[str, Any]
    range_constraints: dict
    call_spec: Any
    refused: dict[OpOverload, str] = field(default_factory=dict)


def decompose_kinds(program: ExportedProgram, table: dict[Any, Callable]) -> Decomposed | None:
    """``program`` decomposed by ``table``; None for a program that has to be decomposed as a whole."""
    try:
        check_functional(program)
        graph = functionalise(program.graph) if any(map(is_mutable, program.graph.nodes)) else program.graph
        if graph is None:
            raise Unequal
        kinds, assumptions = kinds_of(graph), count_assumptions(graph)
        patterns = _recall_or_decompose(list(dict.fromkeys(kinds.values())), table)
        if count_assumptions(graph) > assumptions:
            raise Unequal
    except Unequal:
        return None
    except Exception as error:  # of an operation that torch cannot decompose here; the whole says what and where
        log.debug("not decomposed by kinds: %s", error)
        return None
    with contextlib.suppress(UnknownSymbol):
        return _substitute(program, graph, kinds, patterns)
    return None


@dataclass(frozen=True, eq=False)
class _Pattern:
    """What a kind decomposes to: ``nodes`` in order, of a graph in which ``inputs`` stand for the arguments; ``results`` are the
    operation's results."""

    nodes: tuple[Node, ...]
    inputs: tuple[Node, ...]
    results: tuple[Any, ...]
    is_tuple: bool


# Patterns by what they follow from.  TinyLlama has 40 kinds.
_remembered: dict[tuple, _Pattern] = {}
_MOST = 1024  # many times what a model has (no measurement chose it)
# What is asserted of tensors, and of sizes.
_CHECKED = {*ASSERTIONS, aten._assert_scalar.default}
# Operations that stay what they are: of a loop over tokens each takes another one, and tracing it takes 5 ms.
_KEPT = {aten.select.int}


def _recall_or_decompose(kinds: list[Kind], table: dict[Any, Callable]) -> dict[Kind, _Pattern]:
    """The patterns of ``kinds``, of which torch makes those that are new; one thread at a time is here, since it traces."""
    process = state(), settings().features(), takes_tf32(), takes_tf32_convolutions(), captures_for_hopper(), registered()
    keys = {kind: (process, kind.key) for kind in kinds if kind.key[0].namespace in NAMESPACES and all(is_static(n.meta["val"]) for n in kind.inputs)}
    found = {kind: _remembered[key] for kind, key in keys.items() if key in _remembered}
    new = [kind for kind in kinds if kind not in found]
    kept = {kind: _itself(kind) for kind in new if kind.key[0] in _KEPT - table.keys()}
    new = [kind for kind in new if kind not in kept]
    made = _decompose_rightly(new, table) if new else {}
    plain = [k for k, p in made.items() if k in keys and all(is_plain(v) and is_static(v) for n in p.nodes for v in tree_leaves(n.meta["val"]))]
    _remembered.update((keys[kind], made[kind]) for kind in plain)
    while len(_remembered) > _MOST:
        del _remembered[next(iter(_remembered))]
    return {**{kind: _in_mode(pattern, kind) for kind, pattern in found.items()}, **kept, **made}


def _itself(kind: Kind) -> _Pattern:
    """The operation as it is."""
    graph = Graph()
    copies = {n: _placeholder(graph, n.meta["val"]) for n in kind.inputs}
    node = graph.node_copy(kind.node, copies.__getitem__)
    return _Pattern((node,), tuple(copies.values()), (node,), False)


def _in_mode(pattern: _Pattern, kind: Kind) -> _Pattern:
    """A pattern whose values are of ``kind``'s program: its graph's, with others of the same form."""
    copies: dict[Node, Node] = {}
    graph = Graph()
    for node in (*pattern.inputs, *pattern.nodes):
        copies[node] = graph.node_copy(node, copies.__getitem__)
    with tree_leaves(kind.node.meta["val"])[0].fake_mode:
        for node in pattern.nodes:
            copies[node].meta["val"] = tree_map(_alike, node.meta["val"])
    results = tuple(copies[r] if isinstance(r, Node) else r for r in pattern.results)
    return _Pattern(tuple(copies[n] for n in pattern.nodes), tuple(copies[n] for n in pattern.inputs), results, pattern.is_tuple)


def _alike(value: FakeTensor) -> torch.Tensor:
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)


def _decompose_rightly(kinds: list[Kind], table: dict[Any, Callable]) -> dict[Kind, _Pattern]:
    """What torch makes of the operations, where it is of the dtypes and shapes that they have; others stay whole, which their nodes say."""
    made = _decompose(kinds, table)
    off = {kind.key[0]: reason for kind, pattern in made.items() if (reason := _other_result(kind, pattern))}
    if not off:
        return made
    if not off.keys() <= table.keys():
        raise Unequal
    for op, reason in off.items():
        log.warning("%s stays whole: %s", op, reason)
    made = _decompose(kinds, {op: call for op, call in table.items() if op not in off})
    for pattern in made.values():
        for node in pattern.nodes:
            if node.target in off:
                node.meta[REFUSED] = off[node.target]
    return made


def _other_result(kind: Kind, pattern: _Pattern) -> str | None:
    """How the results of ``pattern`` differ from what the operation's are known to be; None where they do not."""
    value = kind.node.meta["val"]
    pairs = list(zip(value if pattern.is_tuple else (value,), pattern.results, strict=True))
    for expected, result in (pairs[i] for i in read_results(kind.node)):
        made = result.meta["val"] if isinstance(result, Node) else result
        if not _agree(expected, made):
            return f"it would become {describe(made)}, where it is {describe(expected)}"
    return None


def _agree(expected: Any, made: Any) -> bool:
    """Whether two values are described alike; a size that seems to vary may have become a number that it always is."""
    if not (isinstance(expected, torch.Tensor) and isinstance(made, torch.Tensor)):
        return type(expected) is type(made)
    same = (expected.dtype, expected.device, expected.dim()) == (made.dtype, made.device, made.dim())
    return same and all(a == b for a, b in zip(expected.shape, made.shape) if isinstance(a, int) and isinstance(b, int))


def describe(value: Any) -> str:
    """A node's value as far as a decomposition has to keep it, sizes that vary left out."""
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(str(n) if isinstance(n, int) else '?' for n in value.shape)}] on {value.device}"


def _decompose(kinds: list[Kind], table: dict[Any, Callable]) -> dict[Kind, _Pattern]:
    """What torch makes of a program of these operations, none of which has to do with another."""
    graph, places, counts = Graph(), [], []
    for kind in kinds:
        copies = {n: _placeholder(graph, n.meta["val"]) for n in kind.inputs}
        places.append(tuple(copies.values()))
    made = []
    for kind, inputs in zip(kinds, places):
        copies = dict(zip(kind.inputs, inputs))
        node = graph.node_copy(kind.node, copies.__getitem__)
        value = kind.node.meta["val"]
        if isinstance(value, (list, tuple)):
            counts.append(len(value))
            for i, part in enumerate(value):
                element = graph.call_function(getitem, (node, i))
                element.meta = {**node.meta, "val": part}
                made.append(element)
        else:
            counts.append(None)
            made.append(node)
    if any(not is_plain(n.meta["val"]) for n in made):
        raise Unequal
    graph.output(tuple(made))
    with _use_lazy_graph_module(True):  # nothing runs the graph as Python
        decomposed = _decomposed(graph, [p for inputs in places for p in inputs], made, table)
    replace_restrides(decomposed)
    return _patterns(decomposed, kinds, places, counts)


def _decomposed(graph: Graph, inputs: Sequence[Node], outputs: Sequence[Node], table: dict[Any, Callable]) -> Graph:
    if has_parts():
        return trace_graph(graph, outputs[0].meta["val"].fake_mode, table)
    if not all(is_static(n.meta["val"]) for n in inputs):
        raise Unequal
    program = run_decompositions(_program(graph, inputs, outputs), table)
    specs = program.graph_signature.input_specs
    if any(s.kind is not InputKind.USER_INPUT for s in specs) or any(s.kind is not OutputKind.USER_OUTPUT for s in program.graph_signature.output_specs):
        raise Unequal
    return program.graph


def _placeholder(graph: Graph, value: Any) -> Node:
    node = graph.placeholder(f"input_{len(graph.nodes)}")
    if is_number(value):
        node.meta["val"] = value
        return node
    with value.fake_mode:
        # A tensor of its own: two inputs in one memory would be another program.
        alone = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
        if not isinstance(value.storage_offset(), int) or value.storage_offset():
            size = alone.untyped_storage().nbytes() // value.element_size() + value.storage_offset()
            whole = torch.empty(size, dtype=value.dtype, device=value.device)
            alone = whole.as_strided(value.shape, value.stride(), value.storage_offset())
        node.meta["val"] = alone.requires_grad_(value.requires_grad)
    return node


def _program(graph: Graph, inputs: Sequence[Node], outputs: Sequence[Node]) -> ExportedProgram:
    takes = [InputSpec(InputKind.USER_INPUT, TensorArgument(n.name), None) for n in inputs]
    gives = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(n.name), None) for n in outputs]
    _, in_spec = tree_flatten((tuple(range(len(inputs))), {}))
    _, out_spec = tree_flatten(tuple(range(len(outputs))))
    call = ModuleCallSignature([s.arg for s in takes], [], in_spec, out_spec, [n.name for n in inputs])
    return ExportedProgram(
        torch.nn.Module(), graph, ExportGraphSignature(takes, gives), {}, {}, [ModuleCallEntry("", call)],
        example_inputs=(tuple(n.meta["val"] for n in inputs), {}), constants={},
    )


def _patterns(graph: Graph, kinds: Sequence[Kind], places: Sequence[tuple[Node, ...]], counts: Sequence[int | None]) -> dict[Kind, _Pattern]:
    order = {n: i for i, n in enumerate(graph.nodes)}
    given, results = iter(n for n in graph.nodes if n.op == "placeholder"), iter(graph.output_node().args[0])
    patterns = {}
    for kind, inputs, count in zip(kinds, places, counts):
        mine = tuple(next(given) for _ in inputs)
        wanted = tuple(next(results) for _ in range(1 if count is None else count))
        nodes, waiting = set(mine), [n for n in wanted if isinstance(n, Node)]
        while waiting:
            node = waiting.pop()
            if node in nodes or is_number(node.meta["val"]):
                continue
            if node.op != "call_function" or node.target is aten.as_strided.default:  # a constant, or strides that hold here alone
                raise Unequal
            nodes.add(node)
            waiting += node.all_input_nodes
        patterns[kind] = _Pattern(tuple(sorted(nodes.difference(mine), key=order.__getitem__)), mine, wanted, count is not None)
    return patterns


def _substitute(program: ExportedProgram, functional: Graph, kinds: dict[Node, Kind], patterns: dict[Kind, _Pattern]) -> Decomposed:
    graph = Graph()
    sizes = SizeNodes(graph)
    now: dict[Node, Any] = {}  # a node of the result, or a tuple of them, for each of the program's
    for node in functional.nodes:
        if node.op == "placeholder":
            now[node] = graph.node_copy(node)
            now[node].name = node.name  # the signature's, also where it is a word of Python's, such as input
            sizes.add_input(now[node])
        elif node.op == "output":
            graph.output(map_arg(node.args[0], now.__getitem__)).meta = dict(node.meta)
        elif node.target is getitem:
            now[node] = now[node.args[0]][node.args[1]]
        elif is_number(node.meta.get("val")):
            now[node] = sizes.number(node)
        elif node in kinds:
            now[node] = _expand(graph, node, patterns[kinds[node]], now, sizes)
        elif node.target in _CHECKED:
            graph.node_copy(node, now.__getitem__)
    graph.eliminate_dead_code()
    outputs = zip(program.graph_signature.output_specs, graph.output_node().args[0])
    specs = [OutputSpec(s.kind, TensorArgument(v.name), s.target) if isinstance(v, Node) else s for s, v in outputs]
    signature = ExportGraphSignature(list(program.graph_signature.input_specs), specs)
    refused = {n.target: n.meta[REFUSED] for n in graph.nodes if REFUSED in n.meta}
    return Decomposed(graph, signature, program.state_dict, program.constants, dict(program.range_constraints), program.call_spec, refused)


def _expand(graph: Graph, node: Node, pattern: _Pattern, now: dict[Node, Any], sizes: SizeNodes) -> Any:
    """Add what ``pattern`` makes of ``node``, whose inputs are in ``now``; the node of its result, or a tuple of them."""
    inputs: dict[Node, int] = {}
    map_arg((node.args, node.kwargs), lambda n: inputs.setdefault(n, len(inputs)))
    copies = {p: now[n] for p, n in zip(pattern.inputs, inputs)}

    def copy(part: Node) -> Any:
        return sizes.number(part) if is_number(part.meta["val"]) else copies[part]

    common = {k: node.meta[k] for k in ("stack_trace", "nn_module_stack") if k in node.meta}
    common["from_node"] = [NodeSource(node, "decompose_kinds", NodeSourceAction.CREATE)]
    for part in pattern.nodes:
        made = copies[part] = graph.create_node(
            "call_function", part.target, map_arg(part.args, copy), map_arg(part.kwargs, copy),
        )
        made.meta = {**common, **{k: part.meta[k] for k in ("val", REFUSED) if k in part.meta}}
    results = tuple(copies[r] if isinstance(r, Node) else r for r in pattern.results)
    return results if pattern.is_tuple else results[0]
