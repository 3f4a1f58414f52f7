"""Recognise attention that a program writes by hand, where it is trained: two products with a softmax between them become one operation, which keeps neither
the weights nor dropout's mask in memory.

That is done in the graph that Dynamo captures, where a dropout is still one call.  There a softmax is looked for with a product before it and one after it,
and steps between them that nothing else reads (``written_scores`` says what they mean).  Where these are not attention, or no generator takes it, the
program's own calls stay.
"""

from collections.abc import Callable

import torch
from torch._ops import HigherOrderOperator
from torch.fx import Graph, GraphModule, Node

from inferno.capture.written_scores import CAST, PRODUCT, SOFTMAX, STEPS, Left, Written, name_of, read, writes

_MOST = 16  # steps in front of the softmax, and behind it


def join_attention(graph: Graph) -> None:
    """Rewrite ``graph``, one that Dynamo captured, in place."""
    for node in [n for n in graph.nodes if name_of(n) == SOFTMAX]:
        calls = _calls(node)
        if calls is None or _is_written_between(graph, calls):
            continue
        try:
            _replace(graph, calls, read(calls))
        except Left:
            continue


def _calls(softmax: Node) -> list[Node] | None:
    """From the product in front of a softmax to the one behind it, each read by the next one alone."""
    found = [softmax]
    while name_of(found[0]) != PRODUCT:
        scores = next((n for n in found[0].all_input_nodes if _leads(n, set())), None)
        if scores is None or len(found) > _MOST:
            return None
        found.insert(0, scores)
    while name_of(found[-1]) != PRODUCT:
        users = [n for n in found[-1].users if name_of(n) != CAST or n.args[0] is found[-1]]  # of some only the type is read
        if len(users) != 1 or name_of(users[0]) not in STEPS | {PRODUCT} or len(found) > 2 * _MOST:
            return None
        found.append(users[0])
    return found if all(user in found for n in found[:-1] for user in n.users) else None


def _leads(node: Node, seen: set[Node]) -> bool:
    """Whether scores may be what ``node`` is: a product, or a step that such are the operand of."""
    if name_of(node) == PRODUCT or name_of(node) not in STEPS or node in seen or len(seen) == _MOST:
        return name_of(node) == PRODUCT
    seen.add(node)
    return any(_leads(n, seen) for n in node.all_input_nodes)


def _is_written_between(graph: Graph, calls: list[Node]) -> bool:
    """Whether anything between may write to a tensor, or change how gradients or types are, but for the calls themselves, which write to what only they
    read."""
    nodes = list(graph.nodes)
    between = nodes[nodes.index(calls[0]):nodes.index(calls[-1])]
    return any(_may_write(n) for n in between if n not in calls and n.op not in ("placeholder", "get_attr"))


def _may_write(node: Node) -> bool:
    if node.op not in ("call_function", "call_method") or node.meta.get("example_value") is None or writes(node):
        return True
    if isinstance(node.target, HigherOrderOperator) or getattr(getattr(node.target, "_schema", None), "is_mutable", False):
        return True
    return "out" in node.kwargs or node.kwargs.get("inplace", False) is not False or any(a is True for a in node.args)


def _replace(graph: Graph, calls: list[Node], written: Written) -> None:
    last = calls[-1]
    given = list(dict.fromkeys(n for call in calls for n in call.all_input_nodes if n not in calls))
    with graph.inserting_before(last):
        new = graph.call_function(_function(calls, given, written), tuple(given))
    new.meta = dict(last.meta)
    last.replace_all_uses_with(new)
    for call in reversed(calls):
        graph.erase_node(call)


def _function(calls: list[Node], given: list[Node], written: Written) -> Callable:
    """Of what the calls are ``given``: the operation, or the program's own calls where it is not taken."""
    own = Graph()
    known: dict[Node, Node] = {n: own.placeholder(f"operand{i}") for i, n in enumerate(given)}
    for call in calls:
        known[call] = own.node_copy(call, known.__getitem__)
    own.output(known[calls[-1]])
    program = GraphModule(torch.nn.Module(), own)

    def attention_by_hand(*operands: torch.Tensor) -> torch.Tensor:
        made = written.attend(dict(zip(given, operands)))
        return program(*operands) if made is NotImplemented else made

    return attention_by_hand
