"""Schedules that were measured to be the best (``inferno.tune``), by the kernels that they are for.

They come to ``assign-schedules`` as an attribute of the module, ``inferno.known = {<key> = "<schedule>", ...}``, in whose place it leaves
another, ``inferno.asked = {<kernel> = "<key>", ...}``: later passes may change a kernel.
"""

import hashlib
from collections.abc import Mapping

from inferno.mlir import func, ir
from inferno.schedule.attributes import ATTRIBUTE

KNOWN, ASKED = "inferno.known", "inferno.asked"
# What is said of a kernel by passes behind the choice of its schedule.
_LATER = (ATTRIBUTE, "inferno.overwrites", "inferno.no_library")


def key_of(kernel: func.FuncOp) -> str:
    """Forty hexadecimal digits that stand for what a kernel computes and for how precisely: its text without name and schedule."""
    with kernel.context, ir.Location.unknown():
        copy = kernel.operation.clone(ip=False)
        copy.attributes["sym_name"] = ir.StringAttr.get("kernel")
        for name in _LATER:
            if name in copy.attributes:
                del copy.attributes[name]
        text = copy.get_asm(enable_debug_info=False, use_local_scope=True)
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


def set_known(module: ir.Module, known: Mapping[str, str]) -> None:
    """Say schedules to ``assign-schedules``, by key the texts of their attributes, a line each, the best first."""
    _set(module, KNOWN, known)


def take_known(module: ir.Module) -> dict[str, str] | None:
    """What ``set_known`` said, and nothing if nobody said anything; it is gone then."""
    return _take(module, KNOWN)


def set_asked(module: ir.Module, keys: Mapping[str, str]) -> None:
    """Say by which key each kernel's schedule was looked for."""
    _set(module, ASKED, keys)


def take_asked(module: ir.Module) -> dict[str, str]:
    """What ``set_asked`` said; it is gone then."""
    return _take(module, ASKED) or {}


def _set(module: ir.Module, name: str, values: Mapping[str, str]) -> None:
    with module.context:
        module.operation.attributes[name] = ir.DictAttr.get({key: ir.StringAttr.get(text) for key, text in values.items()})


def _take(module: ir.Module, name: str) -> dict[str, str] | None:
    if name not in module.operation.attributes:
        return None
    found = {entry.name: ir.StringAttr(entry.attr).value for entry in ir.DictAttr(module.operation.attributes[name])}
    del module.operation.attributes[name]
    return found
