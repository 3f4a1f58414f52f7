"""What locations say in the user's terms: operation names and source lines."""

import os
import re

from inferno.mlir import ir

_NAMED = re.compile(r'"([^"]*)"\("([^"]+)":(\d+):\d+\)')
_BARE_NAME = re.compile(r'"([^"]*)"(?![(:])')


def describe(location: ir.Location) -> list[str]:
    """``["linear (model.py:12)", ...]``: each operation once, in the order in which the location holds them."""
    text = str(location)
    found = [f"{m[1]} ({os.path.basename(m[2])}:{m[3]})" for m in _NAMED.finditer(text)]
    found += [m[1] for m in _BARE_NAME.finditer(text)]
    return list(dict.fromkeys(found))


def merge(*locations: ir.Location) -> ir.Location:
    """One location for an operation that was made of several."""
    distinct = list(dict.fromkeys(locations))
    known = [loc for loc in distinct if str(loc) != "loc(unknown)"]
    if not known:
        return locations[0]
    return known[0] if len(known) == 1 else ir.Location.fused(known, context=known[0].context)
