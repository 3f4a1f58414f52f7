"""Several kernels for one kernel function, of which a call launches one: the grids of the others are 0.

Each is made by its own generator from a copy of the function; their code becomes one ``gpu.module`` and their launchers one launcher.
"""

from importlib import import_module
from typing import Any

from inferno.codegen.launcher import integers, launcher, scalar, size
from inferno.dialect import AT_CALL
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir
from inferno.passes.shapes import symbol_arguments
from inferno.schedule.by_size import BySize, bound, without_bounds
from inferno.symbolic import Int, Symbol, from_python, maximum, minimum
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: BySize, target: Target) -> None:
    """Add the ``gpu.module`` with the kernels of all schedules, ``@<name>_size0``, ..., and make ``kernel`` the launcher of one."""
    name, symbols = kernel.name.value, {s.name: s for s in symbol_arguments(kernel.operation)}
    chosen = _ranges(schedule, symbols, 1, False, None)
    parts = [_part(kernel, f"{name}_size{i}", each, target, narrow, limit) for i, (each, _, narrow, limit) in enumerate(chosen)]
    _merge(name, parts)
    with launcher(kernel) as arguments:
        for part, (_, times, *_) in zip(parts, chosen):
            _inline(part, arguments, times, name)
    for part in parts:
        part.operation.erase()


Limit = tuple[Int, int]  # a size, and the most that it is


def _ranges(schedule: Any, symbols: dict[str, Symbol], times: Int, narrow: bool, limit: Limit | None) -> list[tuple[Any, Int, bool, Limit | None]]:
    """Each generator's schedule, a size that is 1 where it is to be launched, else 0, whether that is where offsets are narrow, and up to
    which size."""
    if not isinstance(schedule, BySize):
        return [(schedule, times, narrow, limit)]
    size = from_python(schedule.size, symbols)
    above, below = minimum(maximum(size - schedule.limit, 0), 1), minimum(maximum(schedule.limit + 1 - size, 0), 1)
    small = _ranges(schedule.small, symbols, times * below, narrow or schedule.narrow, limit if schedule.narrow else (size, schedule.limit))
    return [*small, *_ranges(schedule.large, symbols, times * above, narrow, limit)]


def _part(kernel: func.FuncOp, name: str, schedule: Any, target: Target, narrow: bool, limit: Limit | None) -> func.FuncOp:
    """The launcher of a copy of the kernel by one schedule, for sizes up to a limit."""
    copy = kernel.operation.clone(ip=ir.InsertionPoint(kernel.operation))
    copy.attributes["sym_name"] = ir.StringAttr.get(name)
    if narrow:
        without_bounds(copy.operation)
    if limit is not None:
        bound(copy.operation, *limit)
    import_module(f"inferno.codegen.{schedule.generator}").generate(copy, schedule, target)
    return _find(kernel, name)


def _find(kernel: func.FuncOp, name: str):
    """The operation of this name next to the kernel function."""
    for op in kernel.operation.block.operations:
        if "sym_name" in op.operation.attributes and ir.StringAttr(op.operation.attributes["sym_name"]).value == name:
            return op
    raise CompileError(f"no @{name} was generated")


def _merge(name: str, parts: list[func.FuncOp]) -> None:
    """Put the code of all parts into the first one's module, which becomes ``@<name>_gpu``."""
    into, *others = (_find(part, f"{part.name.value}_gpu").operation for part in parts)
    block = into.regions[0].blocks[0]
    held = {ir.StringAttr(o.operation.attributes["sym_name"]).value: o.operation for o in block.operations}
    for other in others:
        for op in [o.operation for o in other.regions[0].blocks[0].operations]:
            symbol = ir.StringAttr(op.attributes["sym_name"]).value
            if symbol not in held:
                held[symbol] = op
                block.append(op.detach_from_parent())
            elif str(op) != str(held[symbol]):
                raise CompileError(f"@{name}: two kernels have different @{symbol}")
        other.erase()
    into.attributes["sym_name"] = ir.StringAttr.get(f"{name}_gpu")


def _inline(part: func.FuncOp, arguments: list[ir.Value], times: Int, name: str) -> None:
    """The body of a launcher with every grid, and every temporary, ``times`` as large, at the insertion point."""
    block = part.entry_block
    known = dict(zip(block.arguments, arguments))
    factor = size(times)
    for op in block.operations:
        if op.operation.name == "func.return":
            continue
        clone = op.operation.clone()
        for i, value in enumerate(clone.operands):
            clone.operands[i] = known.get(value, value)
        known.update(zip(op.operation.results, clone.results))
        if clone.name == "inferno.launch":
            _launch_some(clone, factor, name)
        elif clone.name == "memref.alloc" and len(clone.operands):  # a temporary of no size where it is not needed
            with ir.InsertionPoint(clone), clone.location:
                clone.operands[0] = arith.muli(clone.operands[0], factor)


def _launch_some(launch: ir.Operation, factor: ir.Value, name: str) -> None:
    """``launch`` with the first size of its grid multiplied by ``factor``."""
    grid = [ir.IntegerAttr(g).value for g in launch.attributes["grid"]]
    operands, varying = list(launch.operands), grid.count(AT_CALL)
    with ir.InsertionPoint(launch), launch.location:
        if grid[0] == AT_CALL:
            before = operands[len(operands) - varying].owner.operation.operands[0]
        else:
            before = arith.constant(ir.IndexType.get(), grid[0])
            operands.insert(len(operands) - varying, None)
            varying += 1
        operands[len(operands) - varying] = scalar(arith.muli(before, factor))
        attributes = {n: launch.attributes[n] for n in launch.attributes}
        kernel = str(launch.attributes["kernel"]).rpartition("::")[2].replace("@", "").replace('"', "")
        attributes["kernel"] = ir.SymbolRefAttr.get([f"{name}_gpu", kernel])
        attributes["grid"] = integers([AT_CALL, *grid[1:]])
        attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([len(operands)])
        ir.Operation.create("inferno.launch", operands=operands, attributes=attributes)
    launch.erase()

