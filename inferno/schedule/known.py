"""Schedules that were measured to be best (``inferno.tune``), by what they are for.

They come to ``assign-schedules`` as an attribute of the module, ``inferno.known = {<key> = "<schedule>", ...}``, which it takes away.
"""

import hashlib
from collections.abc import Mapping

from inferno.mlir import func, ir
from inferno.schedule.attributes import ATTRIBUTE

KNOWN = "inferno.known"
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
    """Say schedules, as the text of their attributes, to ``assign-schedules``."""
    if known:
        with module.context:
            module.operation.attributes[KNOWN] = ir.DictAttr.get({key: ir.StringAttr.get(text) for key, text in known.items()})


def take_known(module: ir.Module) -> dict[str, str]:
    """What ``set_known`` said; it is gone then."""
    if KNOWN not in module.operation.attributes:
        return {}
    found = {entry.name: ir.StringAttr(entry.attr).value for entry in ir.DictAttr(module.operation.attributes[KNOWN])}
    del module.operation.attributes[KNOWN]
    return found
