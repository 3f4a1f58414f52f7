"""Inputs and weights that lie in another order of dimensions than row-major (channels last, transposed): programs read them as they lie.

Kernels know row-major buffers alone.  An input of the example that is dense in another order is an argument with its dimensions in that order, and
the graph permutes it back, which costs nothing where kernels take it into their indexing.  A call's tensor is permuted as well, and copied only
if it lies differently from the example's.  So is a weight, of which a call as usual looks at the strides alone.
"""

import dataclasses

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import TensorArgument
from torch.fx import Graph

from inferno.capture.orders import inverse, permuted_order
from inferno.capture.signature import Argument, Signature


def with_orders(signature: Signature, program: ExportedProgram) -> Signature:
    """The signature with arguments in the order in which the example's lie.  What is written to or handed out as a view stays as it is."""
    values = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    examples = [values.get(s.arg.name) for s in program.graph_signature.input_specs if isinstance(s.arg, TensorArgument)]
    shared = {v.argument for v in signature.views} | {r.target for r in signature.results if r.kind == "mutation"}
    arguments = tuple(
        a if i in shared or len(examples) != len(signature.arguments) else _in_order(a, examples[i]) for i, a in enumerate(signature.arguments)
    )
    return dataclasses.replace(signature, arguments=arguments)


def _in_order(argument: Argument, example: object) -> Argument:
    fixed = isinstance(example, torch.Tensor) and all(isinstance(n, int) for n in (*example.shape, *example.stride())) and example.numel()
    if argument.random is not None or not fixed or example.layout is not torch.strided:
        return argument
    order = permuted_order(example)
    return argument if order is None else dataclasses.replace(argument, shape=tuple(argument.shape[d] for d in order), order=order)


def restore_orders(graph: Graph, signature: Signature) -> None:
    """Let the graph, whose inputs are the signature's arguments, permute those in another order, in place."""
    places = [n for n in graph.nodes if n.op == "placeholder"]
    for node, argument in zip(places, signature.arguments):
        if argument.order is None:
            continue
        value = node.meta["val"]
        with graph.inserting_after(places[-1]):
            restored = graph.call_function(torch.ops.aten.permute.default, (node, inverse(argument.order)))
        restored.meta = {k: v for k, v in node.meta.items() if k != "tensor_meta"}
        node.replace_all_uses_with(restored, delete_user_cb=lambda user, own=restored: user is not own)
        node.meta = {**restored.meta, "val": value.permute(argument.order)}
