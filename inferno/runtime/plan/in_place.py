"""Let a program write what changes an argument to the argument itself, where nothing reads the old value any more."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from inferno.runtime.plan.plan import Buffer, Launch, LibraryCall, Plan, TensorMap


def write_in_place(plan: Plan, writes: Sequence[tuple[int, int]]) -> Plan:
    """The plan with some results in the place of arguments, which its outputs then say.

    ``writes``: pairs of a result and the argument that gets its value after the run.  A result that must not take the argument's place stays where
    it is, and so does one whose argument is also returned as it was.  Copies of an argument to a result in its place are left out.
    """
    returned = {o.argument for o in plan.outputs}
    place: dict[int, int] = {}
    for result, argument in writes:
        if argument in plan.outputs[result].overwrites and argument not in returned and argument not in place.values():
            place[result] = argument
    if not place:
        return plan

    def moved(parameter: Any) -> Any:
        if isinstance(parameter, TensorMap):
            return replace(parameter, buffer=moved(parameter.buffer))
        if isinstance(parameter, Buffer) and parameter.place == "result" and parameter.index in place:
            return replace(parameter, place="argument", index=place[parameter.index])
        return parameter

    steps = [replace(s, parameters=tuple(map(moved, s.parameters))) for s in plan.steps]
    steps = tuple(s for s in steps if not _copies_to_itself(s))
    outputs = tuple(replace(o, argument=place[o.result], result=-1, overwrites=()) if o.result in place else o for o in plan.outputs)
    return replace(plan, steps=steps, outputs=outputs)


def _copies_to_itself(step: Launch | LibraryCall) -> bool:
    if not isinstance(step, Launch) or not step.copies:
        return False
    source, target = (p for p in step.parameters if isinstance(p, Buffer))
    return (source.place, source.index, source.offset) == (target.place, target.index, target.offset)
