"""A value of a graph that is now a slice of a larger one: the strides and storage offsets that the graph's nodes have for it and its views are corrected."""

from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from inferno.capture.nodes import value_meta
from inferno.capture.partition import is_view

aten = torch.ops.aten


def say_views(part: Node, meta: dict[str, Any]) -> None:
    """Say of the views of ``part`` how they lie in memory.  What the graph gives back of it, as it is or as a view, is memory of its own again, with the
    strides of ``meta``, which was the value's before, and so is what cannot be viewed otherwise."""
    own = None
    for user in list(part.users):
        values: dict[Node, torch.Tensor] = {}
        if _leaves(user) or not _see(user, values):
            if own is None:
                with part.graph.inserting_after(part):
                    own = part.graph.call_function(aten.clone.default, (part,), {"memory_format": torch.contiguous_format})
                    own.meta = {**meta}
            user.replace_input_with(part, own)
            continue
        for view, value in values.items():
            view.meta = value_meta(view, value)


def _leaves(user: Node) -> bool:
    """Whether a reader is the graph's end, or a view of which one is."""
    return user.op == "output" or (is_view(user) and any(map(_leaves, user.users)))


def _see(user: Node, values: dict[Node, torch.Tensor]) -> bool:
    """Note what views of a value are, and views of these; False where one of them is none of it."""
    if not is_view(user):
        return True
    try:
        values[user] = user.target(*map_arg(user.args, lambda n: values.get(n, n.meta["val"])), **user.kwargs)
    except RuntimeError:  # "view size is not compatible with input tensor's size and stride"
        return False
    return all(_see(reader, values) for reader in user.users)
