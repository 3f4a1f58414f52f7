"""Models that return a key-value cache of transformers.

transformers teaches torch to flatten its ``DynamicCache`` only when it exports a model itself, so it is asked to when one was
met.  And torch cannot decompose a program that returns one: building a cache makes tensors, which the second trace takes for
constants that it does not know.  So such a model is traced as one that returns the leaves of its output alone.
"""

import copy
import functools
import sys
import types
from typing import Any

import torch
from torch.utils._pytree import SUPPORTED_NODES, TreeSpec, tree_flatten


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
