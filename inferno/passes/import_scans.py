"""Import the operations ``inferno::running`` and ``inferno::recurrence`` of decompositions, which torch-mlir does not know, as ``tm_tensor.scan``.

One whose body is more than an operation says in ``inferno.running`` what it computes.  A recurrence h = a * h + b is a scan of words of 64 bits, each a
step's a below its b, which are put together and taken apart by operations of their own: two steps one after the other are one with the product of their a.
"""

from collections.abc import Callable

from inferno.errors import PassError
from inferno.mlir import arith, ir, math, owner, tensor
from inferno.passes.generics import float32
from inferno.passes.torch_tensors import from_builtin, map_elements, operator_name, replace_operators, size_of, to_builtin

RUNNING = "inferno.running"
LINEAR = "linear"  # a recurrence
_OPERATORS = ("torch.inferno.running", "torch.inferno.recurrence")
_FLOATS = {"max": "arith.maximumf", "min": "arith.minimumf", "mul": "arith.mulf"}
_INTEGERS = {"max": "arith.maxsi", "min": "arith.minsi", "mul": "arith.muli"}


def import_scans(module: ir.Module) -> None:
    """Replace every such ``torch.operator``; PassError for a kind that there is not."""
    replace_operators(module, _OPERATORS, _replace)


def _replace(op: ir.Operation) -> None:
    if operator_name(op) == _OPERATORS[0]:
        source, dim, kind = op.operands[0], _integer(op.operands[1]), _text(op.operands[2])
        made = _scan(to_builtin(source), dim, kind)
    else:
        a, b = map(to_builtin, list(op.operands)[:2])
        if any(str(v.type.element_type) != "f32" for v in (a, b)):
            raise PassError(f"import-scans: a recurrence of {a.type.element_type}; there are those of f32")
        words = map_elements([a, b], ir.IntegerType.get_signless(64), lambda x, y: pair(x, arith.addf(y, float32(0.0))))
        made = map_elements([_scan(words, _integer(op.operands[2]), LINEAR)], b.type.element_type, lambda word: parts(word)[1])
    op.results[0].replace_all_uses_with(from_builtin(made, op.results[0].type))
    op.erase()


def _scan(values: ir.Value, dim: int, kind: str) -> ir.Value:
    """What the elements up to each one come to."""
    type_ = ir.RankedTensorType(values.type)
    dim %= type_.rank
    sizes = [size_of(values, d) for d in range(type_.rank)]
    whole = tensor.EmptyOp(sizes, type_.element_type).result
    last = tensor.EmptyOp(sizes[:dim] + sizes[dim + 1:], type_.element_type).result
    scan = ir.Operation.create(
        "tm_tensor.scan", results=[whole.type, last.type], operands=[values, whole, last], regions=1,
        attributes={
            "dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim), "inclusive": ir.BoolAttr.get(True),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 2]),
        },
    )
    element = type_.element_type
    body = scan.regions[0].blocks.append(element, element, arg_locs=[scan.location] * 2)
    names = _INTEGERS if isinstance(element, ir.IntegerType) else _FLOATS
    with ir.InsertionPoint(body):
        if kind in names:
            value = ir.Operation.create(names[kind], results=[element], operands=list(body.arguments)).results[0]
        elif kind in BODIES:
            value = BODIES[kind](*body.arguments)
            scan.attributes[RUNNING] = ir.StringAttr.get(kind)
        else:
            raise PassError(f"import-scans: no running {kind} of {element}; there are {', '.join([*names, *BODIES])}")
        ir.Operation.create("tm_tensor.yield", operands=[value])
    return scan.results[0]


def _logaddexp(a: ir.Value, b: ir.Value) -> ir.Value:
    """Of equal infinities too: their difference is none."""
    zero = arith.constant(a.type, ir.FloatAttr.get(a.type, 0.0))
    apart = arith.negf(math.absf(arith.subf(a, b)))
    apart = arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, a, b), zero, apart)
    return arith.addf(arith.maximumf(a, b), math.log1p(math.exp(apart)))


def _linear(first: ir.Value, second: ir.Value) -> ir.Value:
    """A step behind another.  What is -0.0 is no state at all, in front of the first step (``pair`` is given none): nothing times an infinite a is nothing."""
    (a, b), (c, d) = parts(first), parts(second)
    contract = ir.Attribute.parse("#arith.fastmath<contract>")
    i32 = ir.IntegerType.get_signless(32)
    none = arith.cmpi(arith.CmpIPredicate.eq, arith.bitcast(i32, b), arith.constant(i32, -(1 << 31)))
    behind = arith.addf(arith.mulf(c, b, fastmath=contract), d, fastmath=contract)
    return pair(arith.mulf(a, c), arith.select(none, d, behind))


def pair(low: ir.Value, high: ir.Value) -> ir.Value:
    """Two float32 as a word of 64 bits."""
    i32, i64 = (ir.IntegerType.get_signless(n) for n in (32, 64))
    low, high = (arith.extui(i64, arith.bitcast(i32, x)) for x in (low, high))
    return arith.ori(arith.shli(high, arith.constant(i64, 32)), low)


def parts(word: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The two floats that are the lower and the upper half of a word of 64 bits."""
    i32, i64, f32 = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(64), ir.F32Type.get()
    high = arith.shrui(word, arith.constant(i64, 32))
    low, high = (arith.bitcast(f32, arith.trunci(i32, x)) for x in (word, high))
    return low, high


BODIES: dict[str, Callable[[ir.Value, ir.Value], ir.Value]] = {"logaddexp": _logaddexp, LINEAR: _linear}


def _integer(value: ir.Value) -> int:
    return ir.IntegerAttr(owner(value).attributes["value"]).value


def _text(value: ir.Value) -> str:
    return ir.StringAttr(owner(value).attributes["value"]).value
