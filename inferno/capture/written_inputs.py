"""What a graph writes to its inputs when all else is done, as results: AOTAutograd ends a functional graph with ``copy_`` to each input that the program
changed, as to a batch norm's running statistics or a cache.  Passes see a graph without effects, and a kernel may make such a value where it belongs.
"""

import operator
from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch.fx import Graph, Node

from inferno.capture.functionalise import is_mutable
from inferno.capture.orders import are_equal, dense_order, step_expression
from inferno.capture.partition import Part, Piece, base_of, is_view, readers

aten = torch.ops.aten


def take_writes(graph: Graph, place: int | None = None, views: Mapping[int, int] | None = None) -> list[Node]:
    """Make results, from the number ``place`` on or behind all others, of what a graph copies to its inputs at its end; the inputs, in that order.

    ``views`` says of results which inputs they are views of: those of an input's new value are taken of the input, which has it by then.
    None are taken of a graph that writes anything else, or before it has read everything."""
    nodes, writes = list(graph.nodes), [n for n in graph.nodes if is_mutable(n)]
    output = nodes.pop()
    inputs = [n.args[0] for n in writes]
    while nodes and writes and nodes[-1] not in writes and is_view(nodes[-1]):  # of results: whoever calls sees memory, which has the new values
        nodes.pop()
    if not writes or nodes[-len(writes):] != writes or len(set(inputs)) < len(inputs) or not all(map(_is_plain, writes)):
        return []
    values = [n.args[1] for n in writes]
    for node in writes:
        node.replace_all_uses_with(node.args[0])
    _take_views(output, dict(zip(values, inputs)), views or {})
    _set_results(output, place, 0, values)
    for node in writes:
        graph.erase_node(node)
    return inputs


def _take_views(output: Node, written: Mapping[Node, Node], views: Mapping[int, int]) -> None:
    """Make results that are views of what inputs have got views of these, where both lie alike."""
    results = list(output.args[0])
    places = output.graph.find_nodes(op="placeholder")
    for number, place in views.items():
        value = base_of(results[number], {})
        target = written.get(value)
        if target is not places[place] or not _have_one_order(value.meta["val"], target.meta["val"]):
            continue
        chain, node = [], results[number]
        while node is not value:
            chain.append(node)
            node = node.args[0]
        with output.graph.inserting_before(output):
            for view in reversed(chain):
                target = output.graph.node_copy(view, lambda n, of=view.args[0], by=target: by if n is of else n)
        results[number] = target
    output.args = (tuple(results) if isinstance(output.args[0], tuple) else results,)


def give_writes(graph: Graph, inputs: Sequence[Node], place: int) -> None:
    """Write to ``inputs`` what are the results from the number ``place`` on, which a graph then has no more."""
    output = graph.output_node()
    values = output.args[0][place:place + len(inputs)]
    with graph.inserting_before(output):
        for written, value in zip(inputs, values):
            graph.call_function(aten.copy_.default, (written, value)).meta = dict(written.meta)
    _set_results(output, place, len(inputs), [])


def find_places(
    graph: Graph, pieces: Sequence[Piece], parts: Mapping[int, Part], refused: Mapping[Node, str], written: Sequence[str], device: torch.device,
) -> dict[int, dict[int, int]]:
    """For pieces by number, as what parts they are compiled, which outputs may be made in the place of which inputs: of the graph's last results, which the
    inputs ``written`` get, those that lie in memory as these do, that nobody else has, and after whose piece nobody reads the inputs' old values."""
    if not written:
        return {}
    number = {n: i for i, piece in enumerate(pieces) for n in piece.nodes}
    output, targets = graph.output_node(), {n.name: n for n in graph.find_nodes(op="placeholder")}
    results = list(output.args[0])
    times = Counter(base_of(r, refused) for r in results if isinstance(r, Node))
    inputs = {i: {n: k for k, n in enumerate(part.inputs)} for i, part in parts.items()}
    outputs = {i: {n: k for k, n in enumerate(part.outputs)} for i, part in parts.items()}
    found: dict[int, dict[int, int]] = {}
    for name, value in zip(written, results[len(results) - len(written):]):
        target, made = targets[name], number.get(value.args[0] if value.target is operator.getitem else value, -1)
        part = parts.get(made)
        if part is None or value not in outputs[made] or target not in inputs[made]:
            continue
        to = inputs[made][target]
        # A result sees the new value, as the input that it is or is a view of; a view that eager makes is read later.
        late = any(number[r] > made or is_view(r) for r in readers({target}, refused) if r is not output)
        if times[value] == 1 and not late and part.wholes[to] is None and _lies_as(value.meta["val"], target.meta["val"], device):
            found.setdefault(made, {})[outputs[made][value]] = to
    return found


def _lies_as(new: torch.Tensor, old: torch.Tensor, device: torch.device) -> bool:
    """Whether two tensors without gaps on the device have their elements in the same order."""
    return new.device == old.device == device and not old.is_complex() and dense_order(old) is not None and _have_one_order(new, old)


def _have_one_order(new: torch.Tensor, old: torch.Tensor) -> bool:
    return new.dim() == old.dim() and all(are_equal(step_expression(a), step_expression(b)) for a, b in zip(new.stride(), old.stride()))


def _is_plain(write: Node) -> bool:
    """Whether a write gives an input another value as it is: what is read before no longer asks for the old one."""
    if write.target is not aten.copy_.default or len(write.args) != 2 or write.kwargs:
        return False
    written, value = write.args
    if written.op != "placeholder" or not isinstance(value, Node) or value is written or is_mutable(value):
        return False
    old, new = written.meta.get("val"), value.meta.get("val")
    known = isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor)
    return known and old.dtype == new.dtype and old.device == new.device and old.shape == new.shape


def _set_results(output: Node, place: int | None, count: int, values: Sequence[Node]) -> None:
    """Put ``values`` in the place of ``count`` results, of which torch's partitioner has descriptions."""
    results = list(output.args[0])
    at = slice(len(results) if place is None else place, (len(results) if place is None else place) + count)
    results[at] = values
    output.args = (tuple(results) if isinstance(output.args[0], tuple) else results,)
    if "desc" in output.meta:
        described = list(torch.utils._pytree.arg_tree_leaves(output.meta["desc"]))
        described[at] = [None] * len(values)
        output.meta["desc"] = described
