"""What a reduction's running value starts from, and how a value is added to it, on the CPU."""

from inferno.mlir import arith, ir


def running_type(combiner: str, value: ir.Type, element: ir.Type) -> ir.Type:
    """The type of a running value that is stored as ``element``: for float sums one whose rounding errors do not show."""
    if combiner not in ("arith.addf", "arith.mulf") or not isinstance(value, (ir.F32Type, ir.F16Type, ir.BF16Type)):
        return value
    return ir.F64Type.get() if isinstance(element, ir.F32Type) else ir.F32Type.get()


def combine(name: str, running: ir.Value, value: ir.Value) -> ir.Value:
    """One step of a reduction.  Float sums and products may be taken in any order."""
    attributes = {"fastmath": ir.Attribute.parse("#arith.fastmath<reassoc>")} if name in ("arith.addf", "arith.mulf") else {}
    return ir.Operation.create(name, results=[running.type], operands=[running, value], attributes=attributes).results[0]


def identity(name: str, type_: ir.Type) -> ir.Value:
    """The value that changes nothing."""
    return arith.constant(type_, neutral(name, type_))


def neutral(name: str, type_: ir.Type) -> ir.Attribute:
    """The same as an attribute."""
    if isinstance(type_, ir.IntegerType):
        top = 1 << (type_.width - 1)
        number = {"maxsi": -top, "minsi": top - 1, "minui": -1, "andi": -1, "muli": 1}.get(name.split(".")[1], 0)
        return ir.IntegerAttr.get(type_, number if type_.width > 1 else number & 1)
    infinity = float("inf")
    number = {"mulf": 1.0, "maximumf": -infinity, "maxnumf": -infinity, "minimumf": infinity, "minnumf": infinity}
    return ir.FloatAttr.get(type_, number.get(name.split(".")[1], 0.0))


def widen(value: ir.Value, type_: ir.Type) -> ir.Value:
    """A float in a type that is no narrower."""
    return value if value.type == type_ else arith.extf(type_, value)


def narrow(value: ir.Value, type_: ir.Type) -> ir.Value:
    """A float in a type that is no wider."""
    return value if value.type == type_ else arith.truncf(type_, value)
