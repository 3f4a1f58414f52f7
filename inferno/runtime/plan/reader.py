"""Read a launch plan from the text of the ``gpu`` stage."""

from collections.abc import Iterator
from typing import Any

from inferno.element_sizes import element_bytes
from inferno.errors import CompileError
from inferno.mlir import func, ir, owner, parse
from inferno.dialect import AT_CALL, COOPERATIVE, COPIES
from inferno.dialect.sizes import SIZES, read_sizes
from inferno.passes.programs import ARGUMENT, PREPARE, programs
from inferno.passes.shapes import argument_attributes, known_size, shape, symbol_arguments
from inferno.runtime.plan.plan import Buffer, Launch, LibraryCall, Output, PixelMap, Plan, Preparation, Scalar, TensorMap
from inferno.symbolic import Int


def read(text: str) -> Plan:
    """The plan of a module at the ``gpu`` stage, after plan-launches and plan-memory."""
    return read_module(parse(text))


def read_module(module: ir.Module) -> Plan:
    """As ``read``, of the module itself."""
    return _read_function(programs(module)[0])


def read_preparation(module: ir.Module) -> Preparation | None:
    """What ``@prepare`` of such a module is; None where there is none."""
    found = next((f for f in programs(module) if f.name.value == PREPARE), None)
    if found is None:
        return None
    numbers = [_integer(e[ARGUMENT]) for e in argument_attributes(found.operation) if ARGUMENT in e]
    return Preparation(_read_function(found), tuple(numbers))


def _read_function(main: func.FuncOp) -> Plan:
    reader = _Reader(main)
    steps = [reader.step(o.operation) for o in main.regions[0].blocks[0].operations if o.operation.name in ("inferno.launch", "inferno.library")]
    return Plan(
        tuple(steps), tuple(reader.arguments), tuple(reader.outputs), reader.number(main.attributes["inferno.workspace_bytes"]), tuple(reader.symbols),
    )


class _Reader:
    def __init__(self, main: Any) -> None:
        block = main.regions[0].blocks[0]
        attributes = [ir.DictAttr(a) for a in main.attributes["arg_attrs"]] if "arg_attrs" in main.attributes else []
        self._buffers: dict[ir.Value, Buffer] = {}
        self.symbols = list(symbol_arguments(main.operation))
        self.arguments: list[Buffer] = []
        for i, argument in enumerate(block.arguments):
            if isinstance(argument.type, ir.IndexType):
                continue  # a symbol
            marked = i < len(attributes) and "inferno.result" in attributes[i]
            place, index = ("result", _integer(attributes[i]["inferno.result"])) if marked else ("argument", len(self.arguments))
            self._buffers[argument] = buffer = Buffer(place, index, shape(argument), _element(argument.type))
            if place == "argument":
                self.arguments.append(buffer)
        self.outputs = [_output(ir.DictAttr(d), self.symbols) for d in main.attributes["inferno.results"]]

    def number(self, attribute: ir.Attribute) -> Int:
        """A number, or an expression of the symbols."""
        return read_sizes(attribute, self.symbols)[0] if not isinstance(attribute, ir.IntegerAttr) else _integer(attribute)

    def step(self, op: ir.Operation) -> Launch | LibraryCall:
        parameters = tuple(self._parameter(v) for v in op.operands)
        source = tuple(ir.StringAttr(s).value for s in op.attributes["inferno.source"]) if "inferno.source" in op.attributes else ()
        if op.name == "inferno.library":
            kernel = ir.StringAttr(op.attributes["inferno.kernel"]).value if "inferno.kernel" in op.attributes else ""
            values = iter([p.value for p in parameters if isinstance(p, Scalar)])
            options = {n: _filled(v, values) for n, v in sorted(_plain(op.attributes["options"]).items())}
            buffers = tuple(p for p in parameters if not isinstance(p, Scalar))
            return LibraryCall(ir.StringAttr(op.attributes["function"]).value, options, buffers, source, kernel)
        grid, block, cluster = (tuple(_plain(op.attributes[n])) for n in ("grid", "block", "cluster"))
        varying = grid.count(AT_CALL)
        if varying:
            sizes = iter(p.value for p in parameters[len(parameters) - varying :])
            parameters, grid = parameters[: len(parameters) - varying], tuple(next(sizes) if g == AT_CALL else g for g in grid)
        kernel = str(op.attributes["kernel"]).replace("@", "").replace('"', "")
        known = COPIES in op.attributes, COOPERATIVE in op.attributes
        return Launch(kernel, grid, block, cluster, _integer(op.attributes["shared"]), parameters, source, *known)

    def _parameter(self, value: ir.Value) -> Buffer | TensorMap | Scalar:
        op = owner(value)
        if op.name == "inferno.scalar":
            return Scalar(known_size(op.operands[0]))
        if op.name == "inferno.pointer":
            return self._buffer(op.operands[0])
        if op.name in ("inferno.tensor_map", "inferno.sized_tensor_map"):
            sizes, strides, box = (tuple(_plain(op.attributes[n])) for n in ("sizes", "strides", "box"))
            if op.name == "inferno.sized_tensor_map":
                values = iter([known_size(v) for v in list(op.operands)[1:]])
                sizes, strides = (tuple(next(values) if v == AT_CALL else v for v in each) for each in (sizes, strides))
            return TensorMap(
                self._buffer(op.operands[0]), sizes, strides, box, ir.StringAttr(op.attributes["element"]).value,
                _integer(op.attributes["swizzle"]), _integer(op.attributes["l2"]),
            )
        if op.name == "inferno.pixel_map":
            sizes, strides, box, *walk = (tuple(_plain(op.attributes[n])) for n in ("sizes", "strides", "box", "lower", "upper", "steps"))
            values = iter([known_size(v) for v in list(op.operands)[1:]])
            sizes = tuple(next(values) if v == AT_CALL else v for v in sizes)
            return PixelMap(
                self._buffer(op.operands[0]), sizes, strides, box, ir.StringAttr(op.attributes["element"]).value,
                _integer(op.attributes["swizzle"]), _integer(op.attributes["l2"]), *walk,
            )
        raise CompileError(f"a launch has a parameter made by {op.name}, which the plan does not know")

    def _buffer(self, value: ir.Value) -> Buffer:
        sizes, element, offset = shape(value), _element(value.type), 0
        while value not in self._buffers:
            op = owner(value)
            if op.name == "inferno.workspace":
                self._buffers[value] = Buffer("workspace", _integer(op.attributes["offset"]), sizes, element)
            elif op.name == "inferno.sized_workspace":
                self._buffers[value] = Buffer("workspace", known_size(op.operands[0]), sizes, element)
            elif op.name == "memref.reinterpret_cast":
                (begin,) = ir.DenseI64ArrayAttr(op.attributes["static_offsets"])
                offset += begin * element_bytes(op.results[0].type.element_type)
                value = op.operands[0]
            else:
                raise CompileError(f"a buffer is made by {op.name}, which the plan does not know")
        found = self._buffers[value]
        if found.place == "workspace":
            return Buffer(found.place, found.index + offset, sizes, element)
        return Buffer(found.place, found.index, sizes, element, offset)


def _output(entry: ir.DictAttr, symbols: list) -> Output:
    sizes = read_sizes(entry[SIZES], symbols) if SIZES in entry else tuple(_plain(entry["shape"]))
    element = str(ir.TypeAttr(entry["element"]).value)
    if "argument" in entry:
        return Output(sizes, element, argument=_integer(entry["argument"]))
    return Output(sizes, element, result=_integer(entry["result"]), overwrites=tuple(_plain(entry["overwrites"])) if "overwrites" in entry else ())


def _element(type_: ir.Type) -> str:
    return str(ir.ShapedType(type_).element_type)


def _filled(option: Any, values: Iterator[Int]) -> Any:
    """An option with the numbers that are known at the call in their places."""
    if isinstance(option, list):
        return [_filled(v, values) for v in option]
    return next(values) if isinstance(option, int) and not isinstance(option, bool) and option == AT_CALL else option


def _integer(attribute: ir.Attribute) -> int:
    return ir.IntegerAttr(attribute).value


def _plain(attribute: ir.Attribute) -> Any:
    """An attribute as Python data."""
    if isinstance(attribute, ir.DictAttr):
        return {entry.name: _plain(entry.attr) for entry in attribute}
    if isinstance(attribute, ir.ArrayAttr):
        return [_plain(a) for a in attribute]
    if isinstance(attribute, (ir.IntegerAttr, ir.BoolAttr, ir.FloatAttr, ir.StringAttr)):
        return attribute.value
    return str(attribute)
