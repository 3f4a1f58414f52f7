"""Put plain operations in the place of attention that is trained, once forward and backward are apart."""

from operator import getitem

import torch
from torch import SymInt
from torch._guards import detect_fake_mode
from torch.fx import Graph, Node
from torch.fx.experimental.proxy_tensor import make_fx

from inferno.capture.decompositions import table
from inferno.capture.trained_attention import OPERATIONS
from inferno.errors import CompileError


def expand_attention(graph: Graph) -> None:
    """Rewrite ``graph``, of ATen operations, in place; CompileError, before anything is changed, where such attention has sizes that vary: its
    kernels are for one size each."""
    nodes = [n for n in graph.nodes if n.op == "call_function" and n.target in OPERATIONS]
    for node in nodes:
        shapes = [a.meta["val"].shape for a in node.args if isinstance(a, Node)]
        if any(isinstance(n, SymInt) for shape in shapes for n in shape):
            raise CompileError("attention that is trained is compiled for one size")
    for node in nodes:
        _expand(graph, node)


def _expand(graph: Graph, node: Node) -> None:
    given = [a for a in node.args if isinstance(a, Node)]

    def call(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = dict(zip(given, tensors))
        return OPERATIONS[node.target](*(values[a] if isinstance(a, Node) else a for a in node.args))

    fakes = [n.meta["val"] for n in given]
    with detect_fake_mode(fakes), torch.no_grad():
        traced = make_fx(call, decomposition_table=table())(*fakes).graph
    known = dict(zip((n for n in traced.nodes if n.op == "placeholder"), given))
    kept = {k: v for k, v in node.meta.items() if k not in ("val", "tensor_meta")}
    (output,) = (n for n in traced.nodes if n.op == "output")
    with graph.inserting_before(node):
        for each in traced.nodes:
            if each.op == "call_function":
                known[each] = graph.node_copy(each, known.__getitem__)
                known[each].meta = {**kept, "val": each.meta["val"]}
    for user in list(node.users):
        assert user.target is getitem
        user.replace_all_uses_with(known[output.args[0][user.args[1]]])
        graph.erase_node(user)
    graph.erase_node(node)
    graph.eliminate_dead_code()
