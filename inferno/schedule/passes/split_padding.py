"""Move the padding of a convolution out of its kernel, unless the generator that takes the kernel reads around it."""

from inferno.dialect.sizes import SIZES, sizes_attribute
from inferno.mlir import arith, clone_onto, func, ir, owner, users, walk
from inferno.passes.contraction import pads_convolutions
from inferno.passes.deduplicate_kernels import deduplicate_kernels
from inferno.passes.expand_pieces import expand_piece
from inferno.passes.kernel_names import Names
from inferno.passes.movements import pad
from inferno.passes.outline_kernels import outline_program
from inferno.passes.padding import padding
from inferno.passes.programs import callee, programs
from inferno.passes.shapes import argument_attributes, is_dynamic, known_size, shape, symbol_arguments
from inferno.passes.size_values import materialise
from inferno.schedule.assign import choose, kernels
from inferno.schedule.attributes import ATTRIBUTE
from inferno.schedule.passes.calls import replace_call
from inferno.symbolic import symbols_of
from inferno.target import find_target


def split_padding(module: ir.Module, target: str) -> None:
    """Make a kernel of its own of every padding of a convolution in a kernel that has no schedule yet, unless the schedule that would be chosen has ``pads``:
    its generator takes zeros for what lies outside of the image.  Calls that pad one tensor alike share the padded one."""
    machine = find_target(target)
    found = {k.name.value: k for k in kernels(module) if ATTRIBUTE not in k.attributes and any(map(pads_convolutions, walk(k, "tensor.pad")))}
    with module.context, ir.Location.unknown():
        split = {name: k for name, k in found.items() if not getattr(choose(k, machine), "pads", False)}
        if not split:
            return
        names = Names(module)
        for kernel in split.values():
            kernel.attributes["sym_name"] = ir.StringAttr.get(names.unique(f"{kernel.name.value}_padding"))
        without = {name: without_padding(k, name) for name, k in split.items()}
        for program in programs(module):
            padded: dict[tuple, ir.Value] = {}
            for call in [c for c in walk(program, "func.call") if callee(c) in split]:
                _replace(call, split[callee(call)], without[callee(call)], padded)
            for op in walk(program, "tensor.pad"):
                expand_piece(op)
            outline_program(program, names)
        for kernel in split.values():
            kernel.operation.erase()
    deduplicate_kernels(module)


def _pad_of(kernel: func.FuncOp) -> ir.Operation:
    return next(op for op in walk(kernel, "tensor.pad") if pads_convolutions(op))


def _source(kernel: func.FuncOp) -> tuple[int, list[ir.Operation]]:
    """The number of the kernel's argument that is padded, and what takes the part of it that is: slices, the outermost first."""
    value, slices = _pad_of(kernel).operands[0], []
    while not isinstance(value, ir.BlockArgument):
        slices.insert(0, owner(value))
        value = slices[0].operands[0]
    return value.arg_number, slices


def without_padding(kernel: func.FuncOp, name: str) -> func.FuncOp:
    """The kernel with the padded tensor as an argument: in the place of the tensor, where that is read by nothing else, or in front of the
    destinations."""
    padding, (place, slices) = _pad_of(kernel), _source(kernel)
    block = kernel.regions[0].blocks[0]
    inputs, results = list(kernel.type.inputs), list(kernel.type.results)
    first = len(inputs) - len(results)
    alone = _is_alone(kernel)
    types = [padding.results[0].type if alone and i == place else t for i, t in enumerate(inputs)]
    if not alone:
        types.insert(first, padding.results[0].type)
    with ir.InsertionPoint(kernel.operation):
        new = func.FuncOp(name, (types, results), visibility="private")
    for attribute in kernel.attributes:
        if attribute not in ("sym_name", "function_type", "sym_visibility", "arg_attrs"):
            new.attributes[attribute] = kernel.attributes[attribute]
    if "arg_attrs" in kernel.attributes:
        entries = [{e.name: e.attr for e in entry} for entry in argument_attributes(kernel.operation)]
        padded = padding.results[0]
        entry = {SIZES: sizes_attribute(shape(padded), list(symbol_arguments(kernel.operation)))} if is_dynamic(padded) else {}
        entries[place if alone else first:place + 1 if alone else first] = [entry]
        new.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(e) for e in entries])
    arguments = list(new.add_entry_block().arguments)
    known = {padding.results[0]: arguments[place if alone else first]}
    known.update(zip(block.arguments, arguments if alone else [*arguments[:first], *arguments[first + 1:]]))
    with ir.InsertionPoint(new.regions[0].blocks[0]):
        for op in block.operations:
            if op.operation != padding and not (alone and op.operation in slices):
                clone_onto(op.operation, known)
    return new


def _is_alone(kernel: func.FuncOp) -> bool:
    return all(sum(1 for _ in users(op.operands[0])) == 1 for op in (_pad_of(kernel), *_source(kernel)[1]))


def _replace(call: ir.Operation, kernel: func.FuncOp, without: func.FuncOp, padded: dict[tuple, ir.Value]) -> None:
    """Call the kernel without padding, on the padded tensor."""
    padding, (place, slices), operands = _pad_of(kernel), _source(kernel), list(call.operands)
    symbols = {symbol: operands[argument.arg_number] for symbol, argument in symbol_arguments(kernel.operation).items()}
    sizes = [[known_size(v) for v in list(op.operands)[1:]] for op in slices]  # of slices that vary
    parts = (str(op.attributes) for op in slices), (str(padding.attributes[n]) for n in ("static_low", "static_high"))
    key = operands[place], *parts[0], *parts[1], str(sizes), *(symbols[s] for size in sizes for v in size for s in symbols_of(v))
    with ir.InsertionPoint(call), call.location:
        if key not in padded:
            part = operands[place]
            for op, size in zip(slices, sizes):
                part = clone_onto(op, dict(zip(op.operands, [part, *(materialise(v, symbols) for v in size)]))).results[0]
            padded[key] = _padded(padding, part)
        if _is_alone(kernel):
            operands[place] = padded[key]
        else:
            operands.insert(len(operands) - len(call.results), padded[key])
        replace_call(call, func.CallOp(without, operands))


def _padded(op: ir.Operation, value: ir.Value) -> ir.Value:
    """``value`` with zeros around it, as ``op`` has them."""
    low, high = padding(op)
    type_ = op.results[0].type
    return pad(value, type_, low, high, arith.constant(type_.element_type, 0.0))
