"""Several kernels for one kernel function, of which a call launches one: the grids of the others are 0.

Each is made by its own generator from a copy of the function; their code becomes one ``gpu.module`` and their launchers one launcher.
"""

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from inferno.codegen.builders.launcher import integers, launcher, scalar, size
from inferno.dialect import AT_CALL
from inferno.errors import CompileError
from inferno.mlir import arith, func, ir
from inferno.passes.shapes import symbol_arguments
from inferno.schedule.attributes import module_of
from inferno.schedule.composite.by_size import bound, without_bounds
from inferno.schedule.composite.size_ranges import BySize
from inferno.size_forms import from_python
from inferno.symbolic import UNBOUNDED, Int, Symbol, maximum, minimum
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: BySize, target: Target) -> None:
    """Add the ``gpu.module`` with the kernels of all schedules, ``@<name>_size0``, ..., and make ``kernel`` the launcher of one."""
    name, symbols = kernel.name.value, {s.name: s for s in symbol_arguments(kernel.operation)}
    chosen = _ranges(schedule, symbols, _Range())
    parts = [_part(kernel, f"{name}_size{i}", each, target, where) for i, (each, where) in enumerate(chosen)]
    _merge(name, parts)
    with launcher(kernel) as arguments:
        for part, (_, where) in zip(parts, chosen):
            _inline(part, arguments, where.times, name)
    for part in parts:
        part.operation.erase()


@dataclass(frozen=True)
class _Range:
    """Where a schedule is launched: ``times`` is a size that is 1 there, else 0; whether offsets are ``narrow``; and the (size, least, most)
    that are known of it."""

    times: Int = 1
    narrow: bool = False
    limits: tuple[tuple[Int, int, int], ...] = ()


def _ranges(schedule: Any, symbols: dict[str, Symbol], where: _Range) -> list[tuple[Any, _Range]]:
    """Each generator's schedule, and its range."""
    if not isinstance(schedule, BySize):
        return [(schedule, where)]
    size, limit = from_python(schedule.size, symbols), schedule.limit
    above, below = minimum(maximum(size - limit, 0), 1), minimum(maximum(limit + 1 - size, 0), 1)
    # What says where offsets are narrow is no size of the loops.
    up_to, beyond = ((), ()) if schedule.narrow else (((size, 0, limit),), ((size, limit + 1, UNBOUNDED),))
    small = replace(where, times=where.times * below, narrow=where.narrow or schedule.narrow, limits=where.limits + up_to)
    large = replace(where, times=where.times * above, limits=where.limits + beyond)
    return [*_ranges(schedule.small, symbols, small), *_ranges(schedule.large, symbols, large)]


def _part(kernel: func.FuncOp, name: str, schedule: Any, target: Target, where: _Range) -> func.FuncOp:
    """The launcher of a copy of the kernel by one schedule, for sizes in a range."""
    copy = kernel.operation.clone(ip=ir.InsertionPoint(kernel.operation))
    copy.attributes["sym_name"] = ir.StringAttr.get(name)
    if where.narrow:
        without_bounds(copy.operation)
    for limits in where.limits:
        bound(copy.operation, *limits)
    import_module(module_of(schedule.generator, "codegen")).generate(copy, schedule, target)
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
            elif _text(op) != _text(held[symbol]):
                raise CompileError(f"@{name}: two kernels have different @{symbol}")
        other.erase()
    into.attributes["sym_name"] = ir.StringAttr.get(f"{name}_gpu")


def _text(op: ir.Operation) -> str:
    """What an operation says, whatever is around it: names for its types and attributes would be looked for in all of the module."""
    return op.get_asm(use_local_scope=True, assume_verified=True)


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

