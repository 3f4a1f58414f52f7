"""Put a product of all matrices with all rows in the place of groups' products that torch's library would do faster, but may not."""

from typing import Any

from torch._guards import detect_fake_mode
from torch.fx import Graph, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_map

from inferno.capture.decompositions import table
from inferno.capture.decompositions.grouped import every_product
from inferno.capture.library_grouped import is_known, is_target
from inferno.capture.nodes import copy_before


def expand_grouped(graph: Graph) -> None:
    """Rewrite ``graph`` in place, but for products of sizes that vary."""
    nodes = [n for n in graph.nodes if is_target(n.target) and not _varies(n) and is_known(*_values(n.args), **_values(n.kwargs))]
    known = table() if nodes else {}
    for node in nodes:
        given = [v for v in (*node.args, *node.kwargs.values()) if isinstance(v, Node)]
        fakes = [n.meta["val"] for n in given]
        with detect_fake_mode(fakes):
            traced = make_fx(every_product, decomposition_table=known)(*fakes).graph
        made = copy_before(node, traced, given)
        node.replace_all_uses_with(made[traced.output_node().args[0]])
        graph.erase_node(node)


def _values(given: Any) -> Any:
    return tree_map(lambda v: v.meta["val"] if isinstance(v, Node) else v, given)


def _varies(node: Node) -> bool:
    return any(not isinstance(s, int) for n in node.all_input_nodes for s in n.meta["val"].shape)
