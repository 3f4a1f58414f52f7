"""Put plain operations in the place of attention that is one operation: what is trained, once forward and backward are apart, and what has
functions of the user's in it."""

import logging
from collections.abc import Callable
from operator import getitem
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, OutputSpec, TensorArgument
from torch.fx import Graph, GraphModule, Node

from inferno.capture import flex_attention, scored_attention, trained_attention
from inferno.capture.decompositions import table
from inferno.capture.draws import draw_seeds, seed_of
from inferno.capture.expand_scans import SCAN, expand_scans
from inferno.capture.nodes import argument, is_of_vmap
from inferno.capture.refusal import CHECKS
from inferno.capture.replace_operation import expand, varies
from inferno.errors import CompileError
from inferno.settings import settings

log = logging.getLogger(__name__)

OPERATIONS = trained_attention.OPERATIONS | scored_attention.OPERATIONS


def expand_attention(module: GraphModule) -> None:
    """Rewrite the graph of ``module``, of ATen operations, in place; CompileError, before anything is changed, where such attention has sizes that vary: its
    kernels are for one size each.  What is not understood of the user's functions stays."""
    graph = module.graph
    nodes = [n for n in graph.nodes if n.op == "call_function" and n.target in OPERATIONS]
    for node in graph.nodes:
        if node.target in OPERATIONS or node.target in flex_attention.OPERATIONS:
            if varies(node):
                raise CompileError("attention that is trained, or has functions of the user's, is compiled for one size")
    _draw_together(graph, nodes)
    for node in nodes:
        expand(module, node, OPERATIONS[node.target], table())
    _expand_flex(module, table())


def _draw_together(graph: Graph, nodes: list[Node]) -> None:
    """Let the seeds of all attention with dropout be drawn at once: none depends on anything."""
    given = [argument(n, "seed") for n in nodes]
    given = list(dict.fromkeys(seed_of(n) for n in given if isinstance(n, Node)))
    seeds = [n for n in given if n.target is torch.ops.aten.randint.default]
    for node in given:
        if "val" not in node.meta:  # of a checkpoint's state and what it drew
            node.meta["val"] = nodes[0].args[0].meta["val"].new_empty((), dtype=torch.int64)
    if not seeds:
        return
    value = seeds[0].meta["val"]
    with graph.inserting_before(next(n for n in graph.nodes if n in seeds)):
        drawn = graph.call_function(draw_seeds, (value.device, len(seeds)))
        drawn.meta = {**seeds[0].meta, "val": [value] * len(seeds)}
        for i, seed in enumerate(seeds):
            own = graph.call_function(getitem, (drawn, i))
            own.meta = dict(seed.meta)
            seed.replace_all_uses_with(own)
    for seed in seeds:
        graph.erase_node(seed)


def without_functions(program: ExportedProgram) -> ExportedProgram:
    """The program with plain operations for ``flex_attention`` and ``associative_scan``, as far as they are understood; itself where it has none."""
    if not any(n.target in flex_attention.OPERATIONS or n.target is SCAN for n in program.graph.nodes):
        return program
    graph = Graph()
    graph.output(graph.graph_copy(program.graph, known := {})).meta = dict(program.graph.output_node().meta)
    for old, new in known.items():
        new.name = old.name  # the signature's, also where it is a word of Python's, such as input
    graph.set_codegen(program.graph._codegen)
    module = GraphModule(program.graph_module, graph)
    if not any([_expand_flex(module, {}), expand_scans(module, {})]):
        return program
    outputs = zip(program.graph_signature.output_specs, graph.output_node().args[0])
    specs = [OutputSpec(s.kind, TensorArgument(v.name), s.target) if isinstance(v, Node) else s for s, v in outputs]
    return program._update(module, ExportGraphSignature(list(program.graph_signature.input_specs), specs))


def _expand_flex(module: GraphModule, known: dict[Any, Callable]) -> bool:
    """Whether anything was expanded."""
    graph = module.graph
    nodes = [n for n in graph.nodes if n.op == "call_function" and n.target in flex_attention.OPERATIONS]
    masks = [n for node in nodes for n in _blocks(node)]
    found = [_tried(module, node, known) for node in nodes]
    if all(found):
        _drop(graph, masks)
    return any(found)


def _keep_lists(node: Node) -> None:
    """Take the blocks of its mask from ``flex_attention``, but for lists that are looked at: those that are given, not made of the mask's function."""
    i = _mask(node)
    mask = node.args[i]
    held = flex_attention.lists(mask)
    if not varies(node) and all(n is None or n.op == "placeholder" for n in held):
        shapes = tuple(n.meta["val"] if isinstance(n, Node) else n for n in mask[:-1])
        if flex_attention.takes_lists((*shapes, None), *(n.meta["val"] for n in node.args[:2])):
            node.update_arg(i, tuple(n if n in held or not isinstance(n, Node) else None for n in mask[:-1]) + mask[-1:])
            return
    _drop_blocks(node)


def _drop_blocks(node: Node) -> None:
    i = _mask(node)
    *blocks, function = node.args[i]
    node.update_arg(i, (*(None if isinstance(b, Node) else b for b in blocks), function))


def drop_blocks(graph: Graph) -> None:
    """Take the blocks of its mask from each ``flex_attention``, which a backward would keep; not lists, where kernels of gradients look at them."""
    for node in graph.nodes:
        if node.target in flex_attention.OPERATIONS:
            (_keep_lists if settings().unmeasured else _drop_blocks)(node)


def _blocks(node: Node) -> list[Node]:
    """The tensors that say where the mask is false."""
    return [n for n in node.args[_mask(node)][:-1] if isinstance(n, Node)]


def _mask(node: Node) -> int:
    """Which argument is the mask: the first one of several values."""
    return next(i for i, a in enumerate(node.args) if isinstance(a, (tuple, list)))


def _drop(graph: Graph, unused: list[Node]) -> None:
    """Erase what only ``unused`` nodes are made of: torch.export keeps writes to tensors that nobody reads, and the calls of vmap around them."""
    made, todo = set(), list(unused)
    while todo:
        node = todo.pop()
        if node.op == "call_function" and node not in made:
            made.add(node)
            todo += node.all_input_nodes
    nested = {n for n in graph.nodes if is_of_vmap(n) or (n.target in CHECKS and made.issuperset(n.all_input_nodes))}
    needed, todo = set(), [n for n in graph.nodes if n.op == "output" or (n.is_impure() and n not in made and n not in nested)]
    while todo:
        node = todo.pop()
        if node not in needed:
            needed.add(node)
            todo += node.all_input_nodes
    writes = [n for n in made - needed if isinstance(n.target, torch._ops.OpOverload) and n.target._schema.is_mutable]
    if not nested & needed and not any(needed.intersection(n.all_input_nodes) for n in writes):
        graph.eliminate_dead_code(is_impure_node=lambda n: n.is_impure() and n not in made and n not in nested)


def _tried(module: GraphModule, node: Node, known: dict[Any, Callable]) -> bool:
    given = node.args
    try:
        _keep_lists(node)
        if varies(node):
            raise CompileError("it has sizes that vary")
        expand(module, node, flex_attention.OPERATIONS[node.target], known)
    except Exception as error:  # of the user's functions, which may do anything; what stays runs in eager
        log.info("%s stays: %s", node.target, error)
        node.args = given
        return False
    return True
