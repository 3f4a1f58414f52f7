"""Inputs and weights that lie in another order of dimensions than row-major (channels last, transposed): programs read them as they lie.

Kernels know row-major buffers alone.  An input of the example that is dense in another order is an argument with its dimensions in that order, and
the graph permutes it back, which costs nothing where kernels take it into their indexing.  A call's tensor is permuted as well, and copied only
if it lies differently from the example's.  So is a weight, of which a call as usual looks at the strides alone.  An input with gaps is part of a tensor
without (``input_parts``).
"""

import dataclasses

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import TensorArgument
from torch.fx import Graph

from inferno.capture.input_parts import find_part, is_fixed, take_part
from inferno.capture.orders import inverse, permuted_order
from inferno.capture.signature import Argument, Signature


def with_orders(signature: Signature, program: ExportedProgram) -> Signature:
    """The signature with arguments in the order in which the example's lie.  What is written to or handed out as a view stays as it is."""
    values = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    examples = [values.get(s.arg.name) for s in program.graph_signature.input_specs if isinstance(s.arg, TensorArgument)]
    written = {r.target for r in signature.results if r.kind == "mutation"}
    shared = {v.argument for v in signature.views} | written
    arguments = tuple(
        a if i in shared or len(examples) != len(signature.arguments) else _in_order(a, examples[i], not written) for i, a in enumerate(signature.arguments)
    )
    return dataclasses.replace(signature, arguments=arguments)


def example_parts(program: ExportedProgram) -> list[tuple | None]:
    """What of larger tensors the inputs of the example are, of which a graph knows no more than shapes and strides."""
    values = [n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"]
    return [find_part(v) for v in values]


def _in_order(argument: Argument, example: object, parts: bool) -> Argument:
    """``parts``: it may be part of a tensor.  Not beside one that is written to, which may be another part of that."""
    if argument.random is not None or not is_fixed(example):
        return argument
    if (order := permuted_order(example)) is not None:
        return dataclasses.replace(argument, shape=tuple(argument.shape[d] for d in order), order=order)
    found = find_part(example) if parts and argument.kind == "input" else None
    return argument if found is None else dataclasses.replace(argument, shape=found[1], part=found[0])


def restore_orders(graph: Graph, signature: Signature) -> None:
    """Let the graph, whose inputs are the signature's arguments, permute those in another order, in place."""
    places = [n for n in graph.nodes if n.op == "placeholder"]
    for node, argument in zip(places, signature.arguments):
        value = node.meta["val"]
        if argument.part is not None:
            with graph.inserting_before(places[-1].next):
                readers, taken = list(node.users), take_part(graph, node, value, argument.part, argument.shape)
            for reader in readers:
                reader.replace_input_with(node, taken)
        if argument.order is None:
            continue
        with graph.inserting_after(places[-1]):
            restored = graph.call_function(torch.ops.aten.permute.default, (node, inverse(argument.order)))
        restored.meta = {k: v for k, v in node.meta.items() if k != "tensor_meta"}
        node.replace_all_uses_with(restored, delete_user_cb=lambda user, own=restored: user is not own)
        node.meta = {**restored.meta, "val": value.permute(argument.order)}
