"""Asynchronous copies (cp.async) from global to shared memory, which take no registers; a thread waits for groups of them in their order."""

from inferno.codegen.nvvm.builder import assembly
from inferno.mlir import ir


def start_copy(target: ir.Value, place: ir.Value, source: ir.Value, offset: ir.Value, width: int, given: ir.Value | None = None) -> None:
    """Copy ``width`` bytes (4, 8 or 16) from ``source + offset`` (i64) to shared address ``target + place`` (i32), both aligned to them.  Of these only
    ``given`` (i32) are read, if it is there; the others become 0."""
    size = f"{width}, $4" if given is not None else str(width)
    text = (
        "{ .reg .b64 a; .reg .b32 d; add.s64 a, $2, $3; add.s32 d, $0, $1; "
        f"cp.async.{'cg' if width == 16 else 'ca'}.shared.global [d], [a], {size}; }}"
    )
    more = [given] if given is not None else []
    assembly(text, [target, place, source, offset, *more])


def commit_copies() -> None:
    """The copies since the last time are a group, also if they are none."""
    assembly("cp.async.commit_group;", [])


def await_copies(pending: int) -> None:
    """Until all of this thread's groups but the last ``pending`` have come."""
    assembly(f"cp.async.wait_group {pending};", [])
