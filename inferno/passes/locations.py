"""What locations say in the user's terms: operation names and source lines."""

import os
import re

from inferno.mlir import ir

# "name"("file":line:column), "name" alone, or "file":line:column, which says nothing of an operation.
_PART = re.compile(r'"(?P<name>[^"]*)"(?:\("(?P<file>[^"]+)":(?P<line>\d+):\d+\)|(?P<bare>:\d+:\d+))?')


def describe(location: ir.Location) -> list[str]:
    """``["linear (model.py:12)", ...]``: each operation once, in the order in which the location holds them."""
    found = []
    for part in _PART.finditer(str(location)):
        if part["file"]:
            found.append(f"{part['name']} ({os.path.basename(part['file'])}:{part['line']})")
        elif not part["bare"]:
            found.append(part["name"])
    return list(dict.fromkeys(found))


def merge(*locations: ir.Location) -> ir.Location:
    """One location for an operation that was made of several."""
    distinct = list(dict.fromkeys(locations))
    known = [loc for loc in distinct if str(loc) != "loc(unknown)"]
    if not known:
        return locations[0]
    return known[0] if len(known) == 1 else ir.Location.fused(known, context=known[0].context)
