"""``ExportedProgram.run_decompositions``, without what it does for operations that need nothing.

Torch lists all composite operations at each call, and overrides every one of them, back and forth: 0.1 s for the smallest program. Of 525 only
those need it that a table decomposes in its own way, those that are in no table, which stay whole, and those that the program calls: what others
are called by is below autograd already, where they come apart by themselves.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram, exported_program

# Of torch 2.13's own, of which its run_decompositions is made; what has others decomposes by that.
_PARTS = ("_collect_all_valid_cia_ops", "_decompose_exported_program", "_special_op_to_preserve_cia", "_is_preservable_cia_op")
_OPTIONS = {"cia_to_decomp", "python_decomp_table", "joint_loss_index", "decompose_custom_triton_ops"}
_COMPOSITE = "CompositeImplicitAutograd"


def run_decompositions(program: ExportedProgram, table: dict[Any, Callable]) -> ExportedProgram:
    """``program`` decomposed by ``table``; composite operations that are not in it stay."""
    if not _has_parts():
        return program.run_decompositions(table)
    called = {n.target for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule) for n in m.graph.nodes}
    composite, others = tables_of(called, table)
    with torch._subclasses.fake_tensor.unset_fake_temporarily():
        return exported_program._decompose_exported_program(
            program, cia_to_decomp=composite, python_decomp_table=others, joint_loss_index=None, decompose_custom_triton_ops=False,
        )


def tables_of(called: set, table: dict[Any, Callable]) -> tuple[dict[Any, Callable], dict[Any, Callable]]:
    """How composite operations are taken apart in a program that calls these, and how others are."""
    kept, own, usual, others = _split_of(table)
    composite = {**{op: table[op] for op in own | usual & called}, **dict.fromkeys(kept, exported_program._special_op_to_preserve_cia)}
    return composite, {op: table[op] for op in others}


def _is_own(op: Any, call: Callable) -> bool:
    """Whether ``call``, or what it wraps, takes ``op`` apart as the operation itself does."""
    call = inspect.unwrap(call)
    return isinstance(call, functools.partial) and call.keywords == {"kernel": op}


@functools.cache
def _has_parts() -> bool:
    """Whether this version of torch has them, and calls them as we do."""
    if any(not hasattr(exported_program, part) for part in _PARTS):
        return False
    return set(inspect.signature(exported_program._decompose_exported_program).parameters) - {"ep"} == _OPTIONS


def registered() -> tuple:
    """What tells that operations were registered: libraries do at any time."""
    spaces = tuple((name, len(getattr(torch.ops, name)._dir)) for name in torch.ops._dir if hasattr(torch.ops, name))
    return spaces, tuple(torch._C._dispatch_get_registrations_for_dispatch_key(_COMPOSITE))


_last: tuple[Any, ...] = (None, None, None)


def _split_of(table: dict[Any, Callable]) -> tuple[frozenset, frozenset, frozenset, frozenset]:
    """``_split`` of a table, which is most often the one of the last time."""
    global _last
    known, (before, same, split) = registered(), _last
    if same is not table or before != known:
        split = _split(known, frozenset(table), frozenset(op for op, call in table.items() if _is_own(op, call)))
        _last = known, table, split
    return split


@functools.lru_cache(maxsize=4)
def _split(registered: tuple, table: frozenset, plain: frozenset) -> tuple[frozenset, frozenset, frozenset, frozenset]:
    """The composite operations that ``table`` lacks, those that it takes apart in another way than the ``plain`` one, which is their own, those
    that it takes apart so, and its operations that are none, or that a device has a kernel for, too (``silu_backward``), which is asked first."""
    composite = frozenset(exported_program._collect_all_valid_cia_ops())
    known = frozenset(op for op in table if op in composite or exported_program._is_preservable_cia_op(op))
    kernels = frozenset(op for op in known if any(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), device) for device in ("CPU", "CUDA")))
    return composite - known, known - plain, known & plain, table - known | kernels
