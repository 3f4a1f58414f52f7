"""``@main`` of the ``scheduled`` stage as data: which kernel is called on what, so that a program can be run kernel by kernel."""

from dataclasses import dataclass

from inferno.errors import InputError
from inferno.mlir import func, ir, parse, tensor, walk
from inferno.passes.programs import VIEWS, callee, find_main
from inferno.schedule.attributes import ATTRIBUTE



@dataclass(frozen=True)
class Step:
    """A call of ``kernel`` on values, its destinations left out; or, where ``kernel`` is empty, a value in another shape, or a tensor
    of no elements of type ``element``."""

    kernel: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    source: tuple[str, ...] = ()
    element: str = ""


@dataclass(frozen=True)
class Calls:
    """Values are numbered, arguments first.  ``alone`` has for each kernel its text as a program of its own, at the ``scheduled`` stage:
    ``@main`` takes the kernel's inputs, in their order, and returns its results."""

    arguments: int
    steps: tuple[Step, ...]
    alone: dict[str, str]


def read_calls(module: ir.Module) -> Calls:
    """The calls of a module at the ``fused`` or ``scheduled`` stage.  InputError where sizes vary, or a kernel's destination is
    not fresh memory."""
    main = find_main(module)
    block = main.regions[0].blocks[0]
    for value in (*block.arguments, *(r for o in block.operations for r in o.operation.results)):
        if not isinstance(value.type, ir.RankedTensorType) or not value.type.has_static_shape:
            raise InputError(f"the program's sizes vary: {value.type}; it cannot be run kernel by kernel")
    numbers: dict[ir.Value, int] = {a: i for i, a in enumerate(block.arguments)}
    steps: list[Step] = []
    called: dict[str, None] = {}
    for op in block.operations:
        op = op.operation
        if op.name == "func.return":
            continue
        if op.name == "tensor.empty":  # a destination, but for a tensor of no elements, which may be read
            type_ = op.results[0].type
            if 0 in type_.shape:
                numbers[op.results[0]] = len(numbers)
                steps.append(Step("", (), (numbers[op.results[0]],), (tuple(type_.shape),), element=str(type_.element_type)))
            continue
        if op.name == "func.call":
            kernel = callee(op)
            operands = list(op.operands)[: len(op.operands) - len(op.results)]
            source = tuple(ir.StringAttr(s).value for s in op.attributes["inferno.source"]) if "inferno.source" in op.attributes else ()
            called[kernel] = None
        elif op.name in VIEWS:
            kernel, operands, source = "", [op.operands[0]], ()
        else:
            raise InputError(f"{op.name} in @main; only calls, reshapes and tensor.empty are there at the stage scheduled")
        if any(v not in numbers for v in operands):
            raise InputError(f"@{kernel or 'main'} reads memory that nothing has written to")
        for result in op.results:
            numbers[result] = len(numbers)
        shapes = tuple(tuple(r.type.shape) for r in op.results)
        steps.append(Step(kernel, tuple(numbers[v] for v in operands), tuple(numbers[r] for r in op.results), shapes, source))
    kernels = {o.name.value: o for o in module.body.operations if isinstance(o, func.FuncOp)}
    return Calls(len(block.arguments), tuple(steps), {name: str(alone(kernels[name])) for name in called})


def alone(kernel: func.FuncOp) -> ir.Module:
    """A module with the kernel function and a ``@main`` that calls it on its inputs and returns its results."""
    with kernel.context, ir.Location.unknown():
        module = ir.Module.create()
        inputs = list(kernel.type.inputs)
        results = list(kernel.type.results)
        given = inputs[: len(inputs) - len(results)]
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", (given, results))
            copy = kernel.operation.clone()
        with ir.InsertionPoint(main.add_entry_block()):
            destinations = [tensor.EmptyOp(list(t.shape), t.element_type).result for t in results]
            call = func.CallOp(copy.opview, [*main.regions[0].blocks[0].arguments, *destinations])
            func.ReturnOp(list(call.results))
        return module


def without_schedules(text: str) -> str:
    """A program of the ``scheduled`` stage as it was at the ``fused`` stage."""
    module = parse(text)
    for function in walk(module, "func.func"):
        if ATTRIBUTE in function.attributes:
            del function.attributes[ATTRIBUTE]
    return str(module)
