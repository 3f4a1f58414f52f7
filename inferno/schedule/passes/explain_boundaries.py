"""Say of each call what it reads that another kernel made, and why the two kernels are not one (``inferno.apart``).

Changes nothing else: the passes before this one decide, and this one tells what they decided by.  ``fuse-reductions``, which weighs one
estimate against another, leaves a note of both where it keeps kernels apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.mlir import func, ir, outside_values, owner
from inferno.passes.contraction import is_sum_of_products, parse_fused
from inferno.passes.fuse_elementwise import is_cheap
from inferno.passes.generics import is_reduction
from inferno.passes.programs import VIEWS, callee, main_and_kernels, readers, root_of
from inferno.passes.shapes import is_dynamic
from inferno.schedule.analysis.cost import example_bytes
from inferno.schedule.analysis.kernel_parts import operations_of, parts_of
from inferno.schedule.passes.calls import calls_in, inputs_of

APART = "inferno.apart"
"""On a call: strings, ``@kernel, N bytes: reason`` of each kernel whose results it reads."""
ESTIMATES = "inferno.estimates"
"""On a call: what passes found when they weighed making it one with kernels in front of it, by their names."""

_PLAIN = {"arith.constant", "tensor.empty", "linalg.fill", "tensor.extract_slice", "func.return", *VIEWS}
_PRODUCT = "contraction"
_OVER_ROWS = ("map", "reduction", "several operations on rows")


def explain_boundaries(module: ir.Module) -> None:
    """Write the attribute on the calls of ``@main``."""
    main, kernels = main_and_kernels(module)
    if main is None:
        return
    with module.context:
        known = {name: _parts(kernel) for name, kernel in kernels.items()}
        for call in calls_in(main):
            told = _boundaries(call, known)
            if ESTIMATES in call.attributes:
                del call.attributes[ESTIMATES]
            if told:
                call.attributes[APART] = ir.ArrayAttr.get([ir.StringAttr.get(t) for t in told])


def note(reader: ir.Operation, made: ir.Operation, reason: str) -> None:
    """Leave for this pass why a call is not one with a call that it reads from."""
    found = {e.name: e.attr for e in ir.DictAttr(reader.attributes[ESTIMATES])} if ESTIMATES in reader.attributes else {}
    reader.attributes[ESTIMATES] = ir.DictAttr.get({**found, callee(made): ir.StringAttr.get(reason)})


@dataclass(frozen=True)
class _Part:
    """What a kernel computes apart from its other results: the numbers of these and of the arguments that it reads, what it does in a word,
    whether a reader may compute it again as far as its cost is concerned, and whether sizes vary."""

    results: frozenset[int]
    arguments: frozenset[int]
    work: str
    cheap: bool
    varies: bool


def _parts(kernel: func.FuncOp) -> list[_Part]:
    found = []
    for numbers in parts_of(kernel):
        operations = operations_of(kernel, numbers)
        read = {v.arg_number for o in operations for v in outside_values(o) if isinstance(v, ir.BlockArgument)}
        generics = [o for o in operations if o.name == "linalg.generic"]
        found.append(_Part(
            frozenset(numbers), frozenset(read), _work(operations, generics), all(map(is_cheap, generics)),
            any(is_dynamic(kernel.entry_block.arguments[n]) for n in read),
        ))
    return found


def _boundaries(call: ir.Operation, known: dict[str, list[_Part]]) -> list[str]:
    noted = {e.name: ir.StringAttr(e.attr).value for e in ir.DictAttr(call.attributes[ESTIMATES])} if ESTIMATES in call.attributes else {}
    found: dict[str, None] = {}
    for number, value in enumerate(inputs_of(call)):
        root = root_of(value)
        made = owner(root)
        if made is None or made.name != "func.call" or callee(made) not in known or callee(call) not in known:
            continue
        size = example_bytes(root)
        first = next(p for p in known[callee(made)] if list(made.results).index(root) in p.results)
        for second in (p for p in known[callee(call)] if number in p.arguments):
            found[f"@{callee(made)}, {size} bytes: {noted.get(callee(made)) or _reason(first, second, root, value)}"] = None
    return list(found)


def _work(operations: Sequence[ir.Operation], generics: Sequence[ir.Operation]) -> str:
    if any(map(_multiplies, generics)):
        return _PRODUCT
    if any(o.name == "tm_tensor.scan" for o in operations) and any(is_reduction(o) for o in generics):
        return _OVER_ROWS[2]
    if others := [o for o in operations if o.name not in _PLAIN and o.name != "linalg.generic" and not o.name.startswith("arith.")]:
        return others[0].name.rpartition(".")[2]
    if not generics:
        return "copy"
    return _OVER_ROWS[2] if len(generics) > 1 else _OVER_ROWS[1] if is_reduction(generics[0]) else _OVER_ROWS[0]


def _multiplies(generic: ir.Operation) -> bool:
    """Whether it sums products of two operands; a sum of squares is a reduction like any other."""
    found = parse_fused(generic)
    return is_sum_of_products(generic) or (found is not None and found.lhs != found.rhs)


def _reason(first: _Part, second: _Part, root: ir.Value, value: ir.Value) -> str:
    """Why what makes ``root`` and what reads it as ``value`` are two kernels."""
    count = len({*readers(root)})
    if first.work == second.work == _PRODUCT:
        return "a tile of the second contraction needs whole rows of the first"
    for part, reads in ((first, False), (second, True)):
        if part.work not in _OVER_ROWS and part.work != _PRODUCT:
            return f"a {part.work} {'reads its operands from' if reads else 'leaves its result in'} memory"
    if second.work == _PRODUCT:
        if first.work != "map":
            return "its rows have to be complete before a tile is multiplied"
        return _between(root, value) if first.cheap else "it would be computed for every tile again, which costs more than reading it"
    if count > 1 and (first.work == _PRODUCT or (first.work == "map" and not first.cheap)):
        return f"{count} readers, and computing it in each of them costs more than reading it"
    if first.work == _PRODUCT and second.work != "map":
        return "a row of it is in several tiles"
    if second.work == "map" and first.work in ("map", _PRODUCT):
        return _between(root, value)
    if first.varies or second.varies:
        return "kernels of several operations on rows are made where sizes are known"
    return "no rows that a block could keep are those of both"


def _between(root: ir.Value, value: ir.Value) -> str:
    """What keeps a map from what reads it, when that is not its cost."""
    return "its elements are reshaped or read in another order" if value != root else "the reader's loops do not go over it element by element"
