"""Read a launch plan from the text of the ``gpu`` stage."""

from typing import Any

from inferno.errors import CompileError
from inferno.mlir import ir, new_context, owner
from inferno.runtime.plan import Buffer, Launch, LibraryCall, Output, Plan, TensorMap


def read(text: str) -> Plan:
    """The plan of a module at the ``gpu`` stage, after plan-launches and plan-memory."""
    return read_module(ir.Module.parse(text, new_context()))


def read_module(module: ir.Module) -> Plan:
    """As ``read``, of the module itself."""
    main = next(o for o in module.body.operations if o.operation.name == "func.func" and o.name.value == "main")
    reader = _Reader(main)
    steps = [reader.step(o.operation) for o in main.regions[0].blocks[0].operations if o.operation.name in ("inferno.launch", "inferno.library")]
    return Plan(tuple(steps), tuple(reader.arguments), tuple(reader.outputs), int(_integer(main.attributes["inferno.workspace_bytes"])))


class _Reader:
    def __init__(self, main: Any) -> None:
        block = main.regions[0].blocks[0]
        attributes = [ir.DictAttr(a) for a in main.attributes["arg_attrs"]] if "arg_attrs" in main.attributes else []
        self._buffers: dict[ir.Value, Buffer] = {}
        self.arguments: list[Buffer] = []
        for i, argument in enumerate(block.arguments):
            marked = i < len(attributes) and "inferno.result" in attributes[i]
            place, index = ("result", _integer(attributes[i]["inferno.result"])) if marked else ("argument", i)
            self._buffers[argument] = buffer = Buffer(place, index, *_shape(argument.type))
            if place == "argument":
                self.arguments.append(buffer)
        self.outputs = [_output(ir.DictAttr(d)) for d in main.attributes["inferno.results"]]

    def step(self, op: ir.Operation) -> Launch | LibraryCall:
        parameters = tuple(self._parameter(v) for v in op.operands)
        source = tuple(ir.StringAttr(s).value for s in op.attributes["inferno.source"]) if "inferno.source" in op.attributes else ()
        if op.name == "inferno.library":
            kernel = ir.StringAttr(op.attributes["inferno.kernel"]).value if "inferno.kernel" in op.attributes else ""
            return LibraryCall(ir.StringAttr(op.attributes["function"]).value, _plain(op.attributes["options"]), parameters, source, kernel)
        grid, block, cluster = (tuple(_plain(op.attributes[n])) for n in ("grid", "block", "cluster"))
        kernel = str(op.attributes["kernel"]).replace("@", "").replace('"', "")
        return Launch(kernel, grid, block, cluster, _integer(op.attributes["shared"]), parameters, source)

    def _parameter(self, value: ir.Value) -> Buffer | TensorMap:
        op = owner(value)
        if op.name == "inferno.pointer":
            return self._buffer(op.operands[0])
        if op.name == "inferno.tensor_map":
            sizes, strides, box = (tuple(_plain(op.attributes[n])) for n in ("sizes", "strides", "box"))
            return TensorMap(
                self._buffer(op.operands[0]), sizes, strides, box, ir.StringAttr(op.attributes["element"]).value,
                _integer(op.attributes["swizzle"]), _integer(op.attributes["l2"]),
            )
        raise CompileError(f"a launch has a parameter made by {op.name}, which the plan does not know")

    def _buffer(self, value: ir.Value) -> Buffer:
        shape, element = _shape(value.type)
        while value not in self._buffers:
            op = owner(value)
            if op.name == "inferno.workspace":
                self._buffers[value] = Buffer("workspace", _integer(op.attributes["offset"]), shape, element)
            elif op.name == "memref.reinterpret_cast":
                value = op.operands[0]
            else:
                raise CompileError(f"a buffer is made by {op.name}, which the plan does not know")
        found = self._buffers[value]
        return Buffer(found.place, found.index, shape, element)


def _output(entry: ir.DictAttr) -> Output:
    shape, element = tuple(_plain(entry["shape"])), str(ir.TypeAttr(entry["element"]).value)
    if "argument" in entry:
        return Output(shape, element, argument=_integer(entry["argument"]))
    return Output(shape, element, result=_integer(entry["result"]))


def _shape(type_: ir.Type) -> tuple[tuple[int, ...], str]:
    shaped = ir.ShapedType(type_)
    return tuple(shaped.shape), str(shaped.element_type)


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
