"""What the operations of ``arith`` and ``math`` compute, on arrays with one entry a thread, or a row of a vector's lanes."""

import math
from collections.abc import Callable

import numpy as np

from inferno.mlir import arith, ir

_INTEGERS = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_STORED = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.uint16, "i1": np.bool_, "index": np.int64}


def stored_dtype(element: str) -> type:
    return _STORED.get(element) or _INTEGERS[int(element.lstrip("sui"))]


def register_dtype(type_: ir.Type) -> type:
    return np.float32 if isinstance(type_, ir.BF16Type) else stored_dtype(str(type_))


def to_bf16(x: np.ndarray) -> np.ndarray:
    """Bits of the nearest bfloat16, ties to even."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


def from_bf16(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.uint32) << 16).view(np.float32)


def prepare(op: ir.Operation) -> Callable[[list], np.ndarray]:
    """What an operation of arith or math computes of its operands, one entry a thread; read once, since that takes longer than computing."""
    result = op.results[0].type
    result = result.element_type if isinstance(result, ir.VectorType) else result
    dtype, name = register_dtype(result), op.name.split(".")[1]
    if op.name == "arith.constant":
        constant = _constant(op, result)
        return lambda x: constant
    if name in ("cmpi", "cmpf"):
        function = (_compare_integers if name == "cmpi" else _compare_floats)(ir.IntegerAttr(op.attributes["predicate"]).value)
    elif name in _SPECIAL:
        special = _SPECIAL[name]
        function = lambda *x: special(op, x, dtype)  # noqa: E731
    elif isinstance(result, ir.BF16Type):
        plain = _FUNCTIONS[name]
        function = lambda *x: from_bf16(to_bf16(np.asarray(plain(*x))))  # noqa: E731
    else:
        function = _typed(_FUNCTIONS[name], np.dtype(dtype))
    if not any(isinstance(v.type, ir.VectorType) for v in op.operands):
        return lambda x: function(*map(np.asarray, x))

    def compute(x: list) -> np.ndarray:
        x = [np.asarray(v) for v in x]
        if any(v.ndim == 2 for v in x):  # a condition of the thread's for all lanes
            x = [v[:, None] if v.ndim == 1 else v for v in x]
        return function(*x)

    return compute


def _typed(plain: Callable, dtype: np.dtype) -> Callable:
    def function(*x: np.ndarray) -> np.ndarray:
        result = np.asarray(plain(*x))
        return result if result.dtype is dtype else result.astype(dtype)

    return function


def _constant(op: ir.Operation, type_: ir.Type) -> np.ndarray:
    value = op.attributes["value"]
    if isinstance(value, ir.DenseElementsAttr):
        value = value.get_splat_value()
    return _round(np.float64(value.value), type_) if isinstance(value, ir.FloatAttr) else np.asarray(value.value, np.int64).astype(register_dtype(type_))


def _round(value: np.ndarray, type_: ir.Type) -> np.ndarray:
    type_ = type_.element_type if isinstance(type_, ir.VectorType) else type_
    if isinstance(type_, ir.BF16Type):
        return from_bf16(to_bf16(np.asarray(value)))
    return np.asarray(value).astype(register_dtype(type_))


def _unsigned(x: np.ndarray) -> np.ndarray:
    return x.astype(np.uint8) if x.dtype == np.bool_ else x.view(np.dtype(f"u{x.dtype.itemsize}"))


_COMPARISONS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}


def _compare_integers(number: int) -> Callable:
    predicate = arith.CmpIPredicate(number).name
    if predicate[0] == "u":
        unsigned = _COMPARISONS[predicate[1:]]
        return lambda a, b: unsigned(_unsigned(a), _unsigned(b))
    return _COMPARISONS[predicate.removeprefix("s")]


def _compare_floats(number: int) -> Callable:
    predicate = arith.CmpFPredicate(number).name.lower()
    if predicate == "uno":
        return lambda a, b: np.isnan(a) | np.isnan(b)
    if predicate == "ord":
        return lambda a, b: ~(np.isnan(a) | np.isnan(b))
    plain = _COMPARISONS[predicate[1:]]
    if predicate[0] == "u":
        return lambda a, b: plain(a, b) | np.isnan(a) | np.isnan(b)
    return lambda a, b: plain(a, b) & ~(np.isnan(a) | np.isnan(b))


def _divide(a, b):
    """Integer division that truncates."""
    b = np.where(b == 0, 1, b)
    quotient = a // b  # not of magnitudes: the least number has none
    return quotient + ((quotient * b != a) & ((a < 0) != (b < 0))).astype(np.asarray(a).dtype)


def _bitcast(source: ir.Type, result: ir.Type, x: np.ndarray, dtype: type) -> np.ndarray:
    bf16 = [isinstance(t.element_type if isinstance(t, ir.VectorType) else t, ir.BF16Type) for t in (source, result)]
    x = (x.view(np.uint32) >> 16).astype(np.uint16) if bf16[0] else x  # NaN keeps its bits
    return from_bf16(x.view(np.uint16)) if bf16[1] else x.view(dtype)


def _ones(x: np.ndarray) -> np.ndarray:
    """How many bits are set."""
    return sum(_unsigned(x) >> i & 1 for i in range(8 * x.dtype.itemsize))


_SPECIAL = {
    "ctpop": lambda op, x, dtype: _ones(x[0]).astype(dtype), "cttz": lambda op, x, dtype: _ones(~x[0] & (x[0] - 1)).astype(dtype),
    "select": lambda op, x, dtype: np.where(*x),
    "bitcast": lambda op, x, dtype: _bitcast(op.operands[0].type, op.results[0].type, np.ascontiguousarray(x[0]), dtype),
    "extui": lambda op, x, dtype: _unsigned(x[0]).astype(dtype),
    "index_castui": lambda op, x, dtype: _unsigned(x[0]).astype(dtype),
    "extsi": lambda op, x, dtype: -x[0].astype(dtype) if x[0].dtype == np.bool_ else x[0].astype(dtype),
    "index_cast": lambda op, x, dtype: -x[0].astype(dtype) if x[0].dtype == np.bool_ else x[0].astype(dtype),
    "trunci": lambda op, x, dtype: (x[0] & 1).astype(bool) if dtype == np.bool_ else x[0].astype(dtype),
    "divui": lambda op, x, dtype: (_unsigned(x[0]) // np.maximum(_unsigned(x[1]), 1)).astype(dtype),
    "remui": lambda op, x, dtype: (_unsigned(x[0]) % np.maximum(_unsigned(x[1]), 1)).astype(dtype),
    "shrui": lambda op, x, dtype: (_unsigned(x[0]) >> _unsigned(x[1])).astype(dtype),
    "minui": lambda op, x, dtype: np.minimum(_unsigned(x[0]), _unsigned(x[1])).astype(dtype),
    "maxui": lambda op, x, dtype: np.maximum(_unsigned(x[0]), _unsigned(x[1])).astype(dtype),
    "uitofp": lambda op, x, dtype: _round(_unsigned(x[0]).astype(np.float64), op.results[0].type),
    "sitofp": lambda op, x, dtype: _round(-x[0].astype(np.float64) if x[0].dtype == np.bool_ else x[0].astype(np.float64), op.results[0].type),
    "fptosi": lambda op, x, dtype: np.trunc(x[0]).astype(np.int64).astype(dtype),
    "fptoui": lambda op, x, dtype: np.trunc(x[0]).astype(np.int64).astype(dtype),
    "addi": lambda op, x, dtype: np.logical_xor(*x) if dtype == np.bool_ else x[0] + x[1],
    "muli": lambda op, x, dtype: np.logical_and(*x) if dtype == np.bool_ else x[0] * x[1],
    "isnan": lambda op, x, dtype: np.isnan(x[0]), "isinf": lambda op, x, dtype: np.isinf(x[0]),
}
_erf = np.vectorize(math.erf, otypes=[np.float64])
_FUNCTIONS = {
    "subi": np.subtract, "divsi": _divide, "remsi": lambda a, b: a - _divide(a, b) * b, "andi": np.bitwise_and, "ori": np.bitwise_or,
    "xori": np.bitwise_xor, "shli": np.left_shift, "shrsi": np.right_shift, "maxsi": np.maximum, "minsi": np.minimum,
    "floordivsi": np.floor_divide, "absi": np.abs,
    "addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide, "negf": np.negative, "remf": np.fmod,
    "maximumf": np.maximum, "minimumf": np.minimum, "maxnumf": np.fmax, "minnumf": np.fmin,
    "extf": lambda a: a, "truncf": lambda a: a, "absf": np.abs, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log,
    "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda a: 1 / np.sqrt(a.astype(np.float64)),
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "tanh": np.tanh, "atan": np.arctan, "atan2": np.arctan2, "sinh": np.sinh, "cosh": np.cosh,
    "erf": lambda a: _erf(a.astype(np.float64)), "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": lambda a: np.trunc(a + np.copysign(0.5, a)),
    "roundeven": np.rint, "powf": lambda a, b: np.power(a.astype(np.float64), b), "fpowi": lambda a, b: np.power(a.astype(np.float64), b),
    "copysign": np.copysign, "fma": lambda a, b, c: a.astype(np.float64) * b + c,
}
