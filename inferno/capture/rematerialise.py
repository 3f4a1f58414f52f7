"""Divide a joint graph of a forward and its backward: what the backward computes again instead of keeping.

torch's min-cut decides between keeping and computing again where that needs no pass over memory of its own; what a contraction of the backward
reads it always keeps, and so it does contractions and softmax.  Four kinds of values are cheap as well, and are much of what a transformer keeps,
so they are marked for it, as torch's checkpoints do:

- What follows from a contraction whose sums are short, as attention's scores do: computing an element again takes as long as writing and reading
  it, and a softmax and masks behind it are bound by memory.  Attention then keeps queries, keys and values, as Dao et al. (2022) do.
- A copy that repeats its source, as the keys and values of attention with fewer heads for them.
- What a few additions and products make of values that the backward has in any case: what a normalisation gives, for one.
- Masks of attention that follow from numbers of queries and keys, and from little: its kernels need not read them, and skip what a band hides.

Of 16 bits, sums with a bias are not computed again from sums without, which are as many: these would be rounded once more, and what is near 0 would have
another sign in the backward than it had in the forward.

What the backward compares with something that the forward made of it, as what ``amax`` reads with its result, is never computed again: another kernel
may round it otherwise, and no element would be equal to the greatest.

Nothing is computed again of what is computed again itself, so nothing is computed more than twice, and takes memory only where it is used.
"""

from collections.abc import Callable, Container, Iterable
from math import prod
from typing import Any

import torch
from torch._functorch.compile_utils import fx_graph_cse
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import CheckpointPolicy

from inferno.capture import partition, scored_attention, trained_attention
from inferno.capture.expand_attention import drop_blocks
from inferno.capture.kept_orders import keep_orders
from inferno.capture.nodes import apply
from inferno.capture.orders import example, example_bytes
from inferno.capture.split_gradients import split_convolution_gradients
from inferno.capture.written_inputs import give_writes, take_writes

aten, prims = torch.ops.aten, torch.ops.prims

_CONTRACTIONS = {aten.bmm.default: 1, aten.mm.default: 1, aten.baddbmm.default: 2, aten.addmm.default: 2}  # the number of the last operand
# An H200 multiplies in bf16 (six times for an f32) at 989 TFLOP/s and moves 4.8 TB/s: an f32 is written and read in the time of a sum of
# 137 products, a bf16 in that of 412.
_SHORT = 128
# What an H200 writes and reads in 0.4 us; another kernel's launch takes 2.
LEAST_BYTES = 1 << 20
# An element is read and written in the time of 100 of these; functions take longer.
_ARITHMETIC = {
    aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.add.Scalar, aten.sub.Scalar, aten.mul.Scalar, aten.div.Scalar,
    aten.neg.default, aten.relu.default, aten.where.self, aten.clamp_min.default, aten.hardtanh.default, aten.leaky_relu.default,
    aten._to_copy.default, prims.convert_element_type.default,
}
_MOST_STEPS = 8  # such operations that are done again for one value: 8 of 100 that its traffic takes
# What gives the same bits whatever computes it.
_EXACT = {
    aten.abs.default, aten.neg.default, aten.alias.default, aten.clone.default, aten.view.default, aten.expand.default, aten.unsqueeze.default,
    aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default, aten.permute.default, aten.slice.Tensor, aten.select.int,
}
COMPARISONS = {aten.eq.Tensor, aten.ne.Tensor, aten.lt.Tensor, aten.le.Tensor, aten.gt.Tensor, aten.ge.Tensor}
MASKED = trained_attention.MASKED | scored_attention.MASKED
_ROWS = {
    aten._softmax.default, aten._log_softmax.default, aten.amax.default, aten.clone.default, aten._to_copy.default,
    prims.convert_element_type.default,
}


def partition_training(
    joint: GraphModule, inputs: Any, *, num_fwd_outputs: int, last: Callable[[GraphModule], bool] = lambda joint: False, **rest: Any,
) -> tuple[GraphModule, GraphModule]:
    """The forward and the backward of ``joint``; a ``partition_fn`` of AOTAutograd's.  ``last``: whether kernels have images with channels last."""
    drop_blocks(joint.graph)
    joint.graph.eliminate_dead_code()
    joint.graph = fx_graph_cse(joint.graph)  # what autograd has written down twice is read by both
    written = [n.name for n in take_writes(joint.graph, num_fwd_outputs)]
    count = num_fwd_outputs + len(written)
    mark(joint.graph, count)
    forward, backward = min_cut_rematerialization_partition(joint, inputs, num_fwd_outputs=count, **rest)
    split_convolution_gradients(backward.graph)
    backward.recompile()
    if last(joint):
        keep_orders(forward, backward, count)
    if written:
        _keep_old(forward.graph, written, count)
        places = {n.name: n for n in forward.graph.find_nodes(op="placeholder")}
        give_writes(forward.graph, [places[name] for name in written], num_fwd_outputs)
        forward.recompile()
    return forward, backward


def _keep_old(graph: Graph, written: Container[str], count: int) -> None:
    """Copy what a forward keeps, behind its first ``count`` results, of inputs that it writes to: the backward reads what they were."""
    output = graph.output_node()
    results = list(output.args[0])
    for i, node in enumerate(results[count:], count):
        if isinstance(node, Node) and partition.base_of(node, {}).name in written:
            with graph.inserting_before(output):
                results[i] = apply(node, aten.clone.default)
    output.args = (tuple(results),)


def mark(graph: Graph, count: int) -> None:
    """Mark the nodes of the forward, which has the first ``count`` results, that the backward computes again.  Marks that are there stay."""
    (output,) = (n for n in graph.nodes if n.op == "output")
    results = {n for n in tree_leaves(output.args[0][:count]) if isinstance(n, Node)}
    backward = _not_of(results, graph) - {output}
    for node in graph.nodes:
        if node.target in COMPARISONS and node in backward:
            _keep_compared(node)
    forward = [n for n in graph.nodes if n not in backward and n.op == "call_function"]
    again: set[Node] = set()  # what is computed again from a contraction on
    for node in [n for n in forward if _repeats(n)] + sorted(filter(_is_short_contraction, forward), key=_bytes, reverse=True):
        family = _family(node, backward) if "recompute" not in node.meta else set()
        if node.target in _CONTRACTIONS and (any(s in again for s in _sources(node)) or any(s in family for n in again - family for s in _sources(n))):
            continue
        gain = max((_bytes(n) for n in family if _is_read(n, backward)), default=0)
        kept = {s for n in family for s in _sources(n) if not _is_there(s, family, backward)}
        if gain >= LEAST_BYTES and gain > sum(map(_bytes, kept)):
            _mark(family)
            again.update(family if node.target in _CONTRACTIONS else ())
    for node in forward:
        for place in MASKED.get(node.target, ()):
            if isinstance(node.args[place], Node):
                _mark(_of_little(node.args[place]))
    for node in forward:
        if "recompute" not in node.meta and _ends_sums(node):
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    for node in forward:
        if "recompute" not in node.meta and _bytes(node) >= LEAST_BYTES and _is_kept(node, backward):
            _mark(_arithmetic(node, backward))


def _mark(nodes: Iterable[Node]) -> None:
    for node in nodes:
        node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE


def _keep_compared(comparison: Node) -> None:
    """Of what it compares, or that was before it was moved, what the other is made of."""
    for one, other in (comparison.args[:2], comparison.args[1::-1]):
        sources = _made_of([other])
        found = False
        while one.op == "call_function" and one is not other and one.meta["val"].is_floating_point():
            found |= one in sources
            if one.target not in _EXACT:
                if found:
                    one.meta["recompute"] = CheckpointPolicy.MUST_SAVE
                break
            one = one.args[0]


def _ends_sums(node: Node) -> bool:
    """Whether it adds something smaller to a contraction or a convolution of 16 bits that nothing else reads."""
    if node.target is not aten.add.Tensor or node.meta["val"].dtype not in (torch.bfloat16, torch.float16):
        return False
    for one, other in (node.args[:2], node.args[1::-1]):
        if isinstance(other, Node) and _bytes(other) >= _bytes(node):
            continue
        while isinstance(one, Node) and one.target in _EXACT and len(one.users) == 1 and isinstance(one.args[0], Node):
            one = one.args[0]
        if isinstance(one, Node) and (one.target in _CONTRACTIONS or one.target is aten.convolution.default) and len(one.users) == 1:
            return one.meta["val"].dtype == node.meta["val"].dtype
    return False


def _not_of(results: Iterable[Node], graph: Graph) -> set[Node]:
    """The nodes that none of ``results`` depends on."""
    found = _made_of(results)
    return {n for n in graph.nodes if n not in found}


def _made_of(results: Iterable[Node]) -> set[Node]:
    """The nodes that ``results`` depend on, and they themselves."""
    found, todo = set(), list(results)
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += node.all_input_nodes
    return found


def _is_short_contraction(node: Node) -> bool:
    place = _CONTRACTIONS.get(node.target)
    return place is not None and example(node.args[place].meta["val"].shape[-2]) <= _SHORT


def _repeats(node: Node) -> bool:
    """Whether the node copies a tensor that repeats its elements."""
    if node.target is not aten.clone.default:
        return False
    value = node.args[0].meta["val"]
    return any(example(stride) == 0 and example(size) > 1 for size, stride in zip(value.shape, value.stride()))


def _family(first: Node, backward: set[Node]) -> set[Node]:
    """``first`` and what follows from it cheaply, as far as the backward reads it; nothing that the forward returns."""
    family, todo = {first: None}, [first]
    while todo:
        for user in todo.pop().users:
            if user not in family and user not in backward and "recompute" not in user.meta and _is_cheap(user, family, backward):
                family[user] = None
                todo.append(user)
    wanted: set[Node] = set()
    todo = [n for n in family if any(u in backward for u in n.users)]
    while todo:
        node = todo.pop()
        if node not in wanted and not any(u.op == "output" for u in node.users):
            wanted.add(node)
            todo += [n for n in node.all_input_nodes if n in family]
    return wanted


def _is_kept(node: Node, backward: set[Node]) -> bool:
    """Whether the backward reads the value where it needs it in memory."""
    if any(u.op == "output" for u in node.users):  # the caller keeps it
        return False
    return any((u in backward and not _is_elementwise(u)) or (_is_view(u) and _is_kept(u, backward)) for u in node.users)


def _arithmetic(node: Node, backward: set[Node]) -> set[Node]:
    """``node`` and what it is made of, up to what the backward has in any case or what is small next to it; nothing where there is more to it."""
    found: set[Node] = set()
    todo = [node]
    while todo:
        value = todo.pop()
        if value.target not in _ARITHMETIC or "recompute" in value.meta:
            return set()
        found.add(value)
        todo += [s for s in _sources(value) if s not in found and not _is_held(s, backward) and 4 * _bytes(s) > _bytes(node)]
    return found if len(found) <= _MOST_STEPS else set()


def _of_little(mask: Node) -> set[Node]:
    """``mask`` and what it is made of, element by element, up to what is small next to it or made of nothing; nothing where there is more to it."""
    found: set[Node] = set()
    todo = [mask]
    while todo:
        node = todo.pop()
        small = 4 * _elements(node) <= _elements(mask)
        if node in found or (small and not _of_nothing(node)):
            continue
        cheap = _is_elementwise(node) or _is_view(node) or node.target is aten.full_like.default or not node.all_input_nodes
        if node.op != "call_function" or not cheap or "recompute" in node.meta or any(u.op == "output" for u in node.users):
            return set()
        found.add(node)
        todo += node.all_input_nodes
    return found


def _of_nothing(node: Node) -> bool:
    """Whether the value follows from sizes alone."""
    if node.op != "call_function" or torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        return False
    if node.target is aten.full_like.default or not node.all_input_nodes:
        return True
    return (_is_elementwise(node) or _is_view(node)) and all(map(_of_nothing, node.all_input_nodes))


def _is_held(node: Node, backward: set[Node]) -> bool:
    return node.op == "placeholder" or (_is_read(node, backward) and "recompute" not in node.meta)


def _is_elementwise(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.pointwise in node.target.tags


def _is_cheap(node: Node, family: Container[Node], backward: set[Node]) -> bool:
    """Whether a reader of the family is bound by memory, and by the family's: what else it reads is small, or there in any case."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or not isinstance(node.meta.get("val"), torch.Tensor) or target._schema.is_mutable:
        return False
    if torch.Tag.nondeterministic_seeded in target.tags or not (_is_elementwise(node) or _is_view(node) or target in _ROWS):
        return False
    return all(4 * _bytes(s) <= _bytes(node) or _is_there(s, family, backward) for s in _sources(node))


def _is_there(node: Node, again: Container[Node], backward: set[Node]) -> bool:
    """Whether the backward has the value without keeping it for what is computed again."""
    return node in again or node.op == "placeholder" or "recompute" in node.meta or _is_read(node, backward)


def _is_read(node: Node, backward: set[Node]) -> bool:
    """Whether the backward reads the value, as a view or not."""
    return any(u in backward or (_is_view(u) and _is_read(u, backward)) for u in node.users)


def _sources(node: Node) -> Iterable[Node]:
    """What the node reads: the tensors that its operands are views of."""
    for value in node.all_input_nodes:
        while _is_view(value):
            value = value.args[0]
        yield value


def _is_view(node: Node) -> bool:
    return partition.is_view(node) or node.target is aten._unsafe_view.default


def _elements(node: Node) -> int:
    value = node.meta.get("val")
    return prod(map(example, value.shape)) if isinstance(value, torch.Tensor) else 0


def _bytes(node: Node) -> int:
    value = node.meta.get("val")
    return example_bytes(value) if isinstance(value, torch.Tensor) else 0
