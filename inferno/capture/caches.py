"""Models that take or return a key-value cache of transformers.

A ``StaticCache`` has tensors of a fixed size that the model writes to.  torch is taught to flatten it into those tensors, so that
it is an argument like any nest of tensors, and what the model writes is written to the caller's own.

transformers teaches torch to flatten its ``DynamicCache`` only when it exports a model itself, so it is asked to when one was
met.  And torch cannot decompose a program that returns one: building a cache makes tensors, which the second trace takes for
constants that it does not know.  So such a model is traced as one that returns the leaves of its output alone.
"""

import copy
import functools
import sys
import types
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import SUPPORTED_NODES, GetAttrKey, TreeSpec, register_pytree_node, tree_flatten, tree_leaves


def learn_caches(values: Any) -> None:
    """Teach torch to flatten the static caches among ``values``."""
    if "transformers" not in sys.modules:
        return
    try:
        from transformers.cache_utils import StaticCache
    except ImportError:
        return
    for kind in {type(v) for v in tree_leaves(values) if isinstance(v, StaticCache)}:
        register_pytree_node(kind, _flatten, _unflatten, flatten_with_keys_fn=_flatten_with_keys)


@dataclass(frozen=True)
class _Rest:
    """A static cache without its tensors: its class and attributes, and those of each layer."""

    kind: type
    attributes: dict[str, Any]
    layers: tuple[tuple[type, dict[str, Any]], ...]

    def __hash__(self) -> int:
        return hash((self.kind, tuple(kind for kind, _ in self.layers)))


def _flatten(cache: Any) -> tuple[list[list[dict[str, torch.Tensor]]], _Rest]:
    parts = [{k: v for k, v in layer.__dict__.items() if isinstance(v, torch.Tensor)} for layer in cache.layers]
    layers = tuple((type(layer), {k: v for k, v in layer.__dict__.items() if k not in part}) for layer, part in zip(cache.layers, parts))
    return [parts], _Rest(type(cache), {k: v for k, v in cache.__dict__.items() if k != "layers"}, layers)


def _flatten_with_keys(cache: Any) -> tuple[list[tuple[Any, list[dict[str, torch.Tensor]]]], _Rest]:
    children, rest = _flatten(cache)
    return [(GetAttrKey("layers"), children[0])], rest


def _unflatten(children: Any, rest: _Rest) -> Any:
    (parts,) = children
    cache = rest.kind.__new__(rest.kind)
    cache.__dict__.update(rest.attributes, layers=[])
    for (kind, attributes), part in zip(rest.layers, parts):
        layer = kind.__new__(kind)
        layer.__dict__.update(attributes, **part)
        cache.layers.append(layer)
    return cache


def met_a_cache(error: Exception) -> bool:
    """Whether a capture failed because of a cache that torch can flatten now."""
    if "transformers" not in sys.modules:
        return False
    try:
        from transformers.cache_utils import DynamicCache
        from transformers.integrations.executorch import register_dynamic_cache_export_support
    except ImportError:
        return False
    if DynamicCache in SUPPORTED_NODES:
        return "SpecViolationError" in str(error) and "lifted_tensor" in str(error)
    if "DynamicCache" not in str(error):
        return False
    register_dynamic_cache_export_support()
    return True


def returning_leaves(module: torch.nn.Module) -> tuple[torch.nn.Module, list[TreeSpec]]:
    """``module`` with the leaves of its output as its output, and a list that gets the output's structure when it is called.

    A copy that shares everything with the module but its ``forward``.
    """
    shallow, specs = copy.copy(module), []
    original = module.__dict__.get("forward") or types.MethodType(type(module).forward, shallow)

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> tuple:
        leaves, spec = tree_flatten(original(*args, **kwargs))
        specs.append(spec)
        return tuple(leaves)

    shallow.forward = forward
    return shallow, specs
