"""Elementary functions in float32 as plain arithmetic, which LLVM vectorizes on the CPU; libm's are calls, one element each.

Each is good to about 1 ulp and keeps NaN, infinities, signed zeros and subnormal numbers.  float64, and functions that are not
here (pow of a variable exponent, ...), stay calls of libm.  bf16 and f16 are computed in float32.

* exp: x = n ln 2 + r (Cody and Waite, ln 2 in two parts), a polynomial in r, and 2^n in two factors, so that results may be
  subnormal.  n comes out of the low bits of x / ln 2 + 1.5 * 2^23, without a conversion that NaN would break.
* log: x = 2^e m with m in [sqrt(1/2), sqrt 2), a polynomial in m - 1.
* erf: an odd polynomial to 1, beyond it 1 - erfc(|x|); erfc(|x|) = (1 + s P(s)) exp(-x^2), s = 0.37|x| / (1 + 0.37|x|), the form of
  Abramowitz and Stegun 7.1.26.  GELU's 1 + erf(x) takes a quotient of polynomials, half the instructions: where the sum cancels it
  is as exact as eager's, whose erf is good to 1.5e-7.
* tanh: an odd polynomial to 0.6, beyond it 1 - 2 / (exp(2|x|) + 1).
* sin, cos: x = n pi + r (Cody and Waite, pi in three parts whose products with n cancel exactly), an odd polynomial in r.  That holds
  to 2^18, beyond which ``loop_ranges`` takes libm's.

The polynomials are our own minimax fits (Lawson's iteration), rounded to float32; relative errors below 1.4e-8.
"""

import math as pymath
from collections.abc import Callable, Sequence

from inferno.codegen.builders.elements import word
from inferno.mlir import arith, constant_number, ir, is_read, math, owner, walk
from inferno.passes.generics import float32

# Coefficients of the polynomials above, the lowest power first; ``_PI`` in three parts, the first ones with few bits.
_EXP = (0.4999999403953552, 0.16666515171527863, 0.04166845604777336, 0.008369418792426586, 0.0013813144760206342)
_LOG = (
    0.3333333134651184, -0.2500081956386566, 0.20001226663589478, -0.16623356938362122, 0.14201757311820984,
    -0.13160182535648346, 0.1276157647371292, -0.07634496688842773,
)
_ERF = (-0.3761262893676758, 0.11283617466688156, -0.02685491554439068, 0.00519016245380044, -0.0008024818962439895, 7.898695184849203e-05)
_ERFC = (1.0, -3.0496737957000732, 4.254940032958984, -3.291621685028076, 0.9882299900054932, 0.3985849916934967, -0.31817227602005005)
_ERFC_SCALE = 0.37
_ERF_ABOVE = (1.2684917449951172, 0.2142617106437683, 0.059321969747543335, 0.004241063725203276, 0.00032021483639255166, 2.300076857864042e-06)
_ERF_BELOW = (1.124171495437622, 0.5646077394485474, 0.12836164236068726, 0.016843827441334724, 0.0013083931989967823, 4.2772233427967876e-05)
_ERFC_END = 9.19  # beyond, erfc(x) < 1.3e-38 is taken as 0
_TANH = (-0.33333298563957214, 0.13331924378871918, -0.053783830255270004, 0.020795971155166626, -0.005895158741623163)
_SINE = (-0.16666655242443085, 0.00833294540643692, -0.0001980093220481649, 2.5877845928334864e-06)  # that of pi / 2 is 1
_PI = (3.141592502593994, 1.5099578831723193e-07, 1.078060505991553e-14)
_LN2_HIGH = 0.693145751953125  # 13 bits are 0: its products with n are exact
_LN2_LOW = pymath.log(2) - _LN2_HIGH
_MAGIC = 12582912.0  # 1.5 * 2^23: adding it leaves the nearest integer in the low bits
_INFINITY = float("inf")


def expand_vector_math(function) -> None:
    """Rewrite the math operations on floats of 32 bits or fewer below ``function``, in place."""
    operation = function.operation
    with operation.context, ir.Location.unknown():
        for op in walk(operation, "arith.addf"):
            _one_plus_erf(op)
        for op in walk(operation):
            if op.name == "math.powf" or op.name == "math.fpowi":
                _power(op)
            elif op.name in _FUNCTIONS and is_read(op.results[0]):
                _expand(op, _exp_beside_one if op.name == "math.exp" and _beside_one(op) else _FUNCTIONS[op.name])


def _expand(op: ir.Operation, build: Callable[[ir.Value], ir.Value]) -> None:
    type_ = op.results[0].type
    if not isinstance(type_, (ir.F32Type, ir.BF16Type, ir.F16Type)):
        return
    with ir.InsertionPoint(op):
        wide = op.operands[0] if isinstance(type_, ir.F32Type) else arith.extf(ir.F32Type.get(), op.operands[0])
        value = build(wide)
        value = value if isinstance(type_, ir.F32Type) else arith.truncf(type_, value)
    op.results[0].replace_all_uses_with(value)
    op.erase()


def _op(name: str, *operands: ir.Value) -> ir.Value:
    """Arithmetic that may contract to fused multiply-adds, which round once."""
    contract = {"fastmath": ir.Attribute.parse("#arith.fastmath<contract>")}
    return ir.Operation.create(name, results=[operands[0].type], operands=list(operands), attributes=contract).results[0]


def _add(a: ir.Value, b: ir.Value) -> ir.Value:
    return _op("arith.addf", a, b)


def _sub(a: ir.Value, b: ir.Value) -> ir.Value:
    return _op("arith.subf", a, b)


def _mul(a: ir.Value, b: ir.Value) -> ir.Value:
    return _op("arith.mulf", a, b)


def _polynomial(x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """Horner's rule, lowest power first."""
    total = float32(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = _add(_mul(total, x), float32(c))
    return total


def _compare(kind: str, a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.cmpf(getattr(arith.CmpFPredicate, kind), a, b)


def _bits(x: ir.Value) -> ir.Value:
    return arith.bitcast(ir.IntegerType.get_signless(32), x)


def _float(bits: ir.Value) -> ir.Value:
    return arith.bitcast(ir.F32Type.get(), bits)


def _reduced(x: ir.Value, scale: float = 1.0) -> tuple[ir.Value, ir.Value]:
    """(bits, r) with scale x = n ln 2 + scale r; n is in the low bits of ``bits``."""
    shifted = _add(_mul(x, float32(scale * pymath.log2(pymath.e))), float32(_MAGIC))
    n = arith.subf(shifted, float32(_MAGIC))
    r = _sub(_sub(x, _mul(n, float32(_LN2_HIGH / scale))), _mul(n, float32(_LN2_LOW / scale)))
    return _bits(shifted), r


def _clamp(x: ir.Value, low: float, high: float) -> ir.Value:
    """NaN stays."""
    x = arith.select(_compare("OLT", x, float32(low)), float32(low), x)
    return arith.select(_compare("OGT", x, float32(high)), float32(high), x)


def _power_of_two(bits: ir.Value) -> tuple[ir.Value, ir.Value]:
    """2^n as two factors, for n from -252 to 254; shifting drops all of ``bits`` but n."""
    half = arith.andi(arith.shli(bits, word(22)), word(-1 << 23))
    rest = arith.subi(arith.shli(bits, word(23)), half)
    return tuple(_float(arith.addi(part, word(127 << 23))) for part in (half, rest))


def _exp(x: ir.Value) -> ir.Value:
    bits, r = _reduced(_clamp(x, -104.0, 89.0))  # beyond: 0 and infinity
    return _scaled(_exp_reduced(r), bits)


def _exp_beside_one(x: ir.Value) -> ir.Value:
    """exp(x) where 1 is added to it: 0 instead of what is below 2^-126, so that one factor does for 2^n, as 2 * 2^(n - 1)."""
    bits, r = _reduced(_clamp(x, -87.0, 89.0))
    return arith.mulf(_exp_reduced(r, 2.0), _float(arith.addi(arith.shli(bits, word(23)), word(126 << 23))))


def _exp_reduced(r: ir.Value, factor: float = 1.0, scale: float = 1.0) -> ir.Value:
    """factor * exp(scale r)"""
    coefficients = (1.0, 1.0, *_EXP)
    return _polynomial(r, [factor * c * scale**i for i, c in enumerate(coefficients)])


def _scaled(value: ir.Value, bits: ir.Value) -> ir.Value:
    first, second = _power_of_two(bits)
    return arith.mulf(arith.mulf(value, first), second)


def _exp2(x: ir.Value) -> ir.Value:
    x = _clamp(x, -151.0, 129.0)
    shifted = arith.addf(x, float32(_MAGIC))
    r = _mul(arith.subf(x, arith.subf(shifted, float32(_MAGIC))), float32(pymath.log(2)))
    return _scaled(_exp_reduced(r), _bits(shifted))


def _expm1(x: ir.Value) -> ir.Value:
    """2^n (exp(r) - 1) + (2^n - 1), which does not cancel; where 2^n is not a float, exp(x) will do."""
    bits, r = _reduced(_clamp(x, -104.0, 89.0))
    small = _add(_mul(_mul(r, r), _polynomial(r, _EXP)), r)
    first, second = _power_of_two(bits)
    scale = arith.mulf(first, second)
    value = _add(_mul(small, scale), arith.subf(scale, float32(1.0)))
    large = arith.mulf(arith.mulf(_add(small, float32(1.0)), first), second)
    value = arith.select(_compare("OGT", x, float32(80.0)), large, value)
    # The nearest integer to x / ln 2 is 0 near 0, so that r is x; adding 0 would lose the sign of -0.
    return arith.select(_compare("OEQ", x, float32(0.0)), x, value)


def _mantissa(x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(e, m - 1) of a positive number."""
    subnormal = _compare("OLT", x, float32(2.0**-126))
    bits = _bits(arith.select(subnormal, arith.mulf(x, float32(2.0**23)), x))
    e = arith.shrsi(arith.subi(bits, word(0x3F3504F3)), word(23))  # the bits of sqrt(1/2)
    m = _float(arith.subi(bits, arith.shli(e, word(23))))
    number = arith.sitofp(ir.F32Type.get(), e)
    number = arith.select(subnormal, arith.subf(number, float32(23.0)), number)
    return number, arith.subf(m, float32(1.0))


def _log_edges(x: ir.Value, value: ir.Value) -> ir.Value:
    value = arith.select(_compare("OEQ", x, float32(_INFINITY)), x, value)
    value = arith.select(_compare("OEQ", x, float32(0.0)), float32(-_INFINITY), value)
    return arith.select(_compare("UGE", x, float32(0.0)), arith.select(_compare("UNO", x, x), x, value), float32(float("nan")))


def _log_mantissa(f: ir.Value) -> ir.Value:
    """log(1 + f) - f"""
    square = _mul(f, f)
    return _sub(_mul(_mul(square, f), _polynomial(f, _LOG)), _mul(square, float32(0.5)))


def _log(x: ir.Value) -> ir.Value:
    return _log_edges(x, _log_of(*_mantissa(x)))


def _log_of(e: ir.Value, f: ir.Value) -> ir.Value:
    """log(2^e (1 + f))"""
    low = _add(_mul(e, float32(_LN2_LOW)), _log_mantissa(f))
    return _add(_mul(e, float32(_LN2_HIGH)), _add(f, low))


def _log_base(base: float) -> Callable[[ir.Value], ir.Value]:
    def build(x: ir.Value) -> ir.Value:
        e, f = _mantissa(x)
        natural = _add(f, _log_mantissa(f))
        scale = 1 / pymath.log(base)
        return _log_edges(x, _add(_mul(natural, float32(scale)), _mul(e, float32(pymath.log(2) * scale))))

    return build


def _log1p(x: ir.Value) -> ir.Value:
    """log(u) for u = 1 + x = 2^e m, of m - 1 with what the addition lost, so that m - 1 is x where e is 0."""
    u = arith.addf(x, float32(1.0))
    lost = arith.subf(x, arith.subf(u, float32(1.0)))
    e, f = _mantissa(u)
    bits = arith.shli(arith.minsi(arith.fptosi(ir.IntegerType.get_signless(32), e), word(30)), word(23))  # beyond 2^30 nothing is lost
    f = _add(_mul(lost, _float(arith.subi(word(127 << 23), bits))), f)
    return arith.select(_compare("OEQ", x, float32(0.0)), x, _log_edges(u, _log_of(e, f)))


def _tanh(x: ir.Value) -> ir.Value:
    distance = math.absf(x)
    # From 9.02 on the result is 1, so that n is at most 26.
    bits, r = _reduced(arith.select(_compare("OGT", distance, float32(9.02)), float32(9.02), distance), 2.0)
    exp = arith.mulf(_exp_reduced(r, scale=2.0), _float(arith.addi(arith.shli(bits, word(23)), word(127 << 23))))
    large = _sub(float32(1.0), arith.divf(float32(2.0), arith.addf(exp, float32(1.0))))
    square = _mul(distance, distance)
    small = _add(_mul(_mul(_polynomial(square, _TANH), square), distance), distance)
    return math.copysign(arith.select(_compare("OLT", distance, float32(0.6)), small, large), x)


def _erfc(distance: ir.Value) -> ir.Value:
    """erfc of a number that is not negative; 0 beyond 9.19, where it would be subnormal."""
    w = arith.mulf(distance, float32(_ERFC_SCALE))
    s = arith.divf(w, arith.addf(w, float32(1.0)))
    bits, r = _reduced(_sub(float32(0.0), _mul(distance, distance)))
    scale = _float(arith.addi(arith.shli(bits, word(23)), word(127 << 23)))
    value = _mul(_mul(_polynomial(s, _ERFC), _exp_reduced(r)), scale)
    return arith.select(_compare("OGT", distance, float32(_ERFC_END)), float32(0.0), value)


def _erf(x: ir.Value) -> ir.Value:
    distance = math.absf(x)
    square = _mul(distance, distance)
    odd = _add(_mul(_polynomial(square, _ERF), square), float32(2 / pymath.sqrt(pymath.pi)))
    small = _mul(odd, distance)
    large = arith.subf(float32(1.0), _erfc(distance))
    return math.copysign(arith.select(_compare("OLT", distance, float32(1.0)), small, large), x)


def _one_plus_erf(op: ir.Operation) -> None:
    """GELU's 1 + erf(x), with the cheaper erf: the sum hides what it lacks.  A division before it becomes a multiplication."""
    if not isinstance(op.results[0].type, ir.F32Type):
        return
    for a, b in ((0, 1), (1, 0)):
        erf = owner(op.operands[a])
        if erf is not None and erf.name == "math.erf" and constant_number(op.operands[b]) == 1.0:
            x = erf.operands[0]
            quotient = owner(x)
            with ir.InsertionPoint(op):
                if quotient is not None and quotient.name == "arith.divf" and constant_number(quotient.operands[1]) not in (None, 0.0):
                    x = arith.mulf(quotient.operands[0], float32(1 / constant_number(quotient.operands[1])))
                value = arith.addf(_erf_quotient(x), float32(1.0))
            op.results[0].replace_all_uses_with(value)
            op.erase()
            return


def _erf_quotient(x: ir.Value) -> ir.Value:
    """erf, good to 3e-7: x P(x^2) / Q(x^2) to 3.925, where it is 1 in float32."""
    square = _mul(x, x)
    value = arith.divf(_mul(x, _polynomial(square, _ERF_ABOVE)), _polynomial(square, _ERF_BELOW))
    beyond = _compare("OGE", math.absf(x), float32(3.925))
    return arith.select(beyond, math.copysign(float32(1.0), x), value)


def _beside_one(op: ir.Operation) -> bool:
    """Whether the one reader of an exponential adds 1 to it."""
    uses = list(op.results[0].uses)
    user = uses[0].owner.operation if len(uses) == 1 else None
    return user is not None and user.name == "arith.addf" and 1.0 in (constant_number(user.operands[0]), constant_number(user.operands[1]))


def _power(op: ir.Operation) -> None:
    """Powers with the exponents that eager, too, computes by multiplications and roots."""
    x, exponent = op.operands[0], constant_number(op.operands[1])
    if exponent not in (2.0, 3.0, 0.5, -0.5, -1.0, -2.0) or not isinstance(x.type, (ir.F32Type, ir.F64Type)):
        return
    with ir.InsertionPoint(op):
        one = arith.constant(x.type, ir.FloatAttr.get(x.type, 1.0))
        value = {
            2.0: lambda: arith.mulf(x, x),
            3.0: lambda: arith.mulf(arith.mulf(x, x), x),
            0.5: lambda: math.sqrt(x),
            -0.5: lambda: math.rsqrt(x),
            -1.0: lambda: arith.divf(one, x),
            -2.0: lambda: arith.divf(one, arith.mulf(x, x)),
        }[exponent]()
    op.results[0].replace_all_uses_with(value)
    op.erase()


_FUNCTIONS: dict[str, Callable[[ir.Value], ir.Value]] = {
    "math.exp": _exp, "math.exp2": _exp2, "math.expm1": _expm1, "math.log": _log, "math.log2": _log_base(2.0), "math.log10": _log_base(10.0),
    "math.log1p": _log1p, "math.tanh": _tanh, "math.erf": _erf,
}


def _sine(x: ir.Value) -> ir.Value:
    """Of |x|, with the sign of x: an odd polynomial of -0 would be 0."""
    sign = arith.andi(_bits(x), word(-1 << 31))
    bits, value = _by_multiples_of_pi(math.absf(x), 0.0)
    return _float(arith.xori(arith.xori(_bits(value), arith.shli(bits, word(31))), sign))


def _cosine(x: ir.Value) -> ir.Value:
    bits, value = _by_multiples_of_pi(x, 0.5)
    return _float(arith.xori(_bits(value), arith.shli(bits, word(31))))


def _by_multiples_of_pi(x: ir.Value, shift: float) -> tuple[ir.Value, ir.Value]:
    """(bits, v) with sin(x + shift pi) = (-1)^n v; n is in the low bits of ``bits``."""
    quotient = math.fma(x, float32(1 / pymath.pi), float32(shift)) if shift else arith.mulf(x, float32(1 / pymath.pi))
    shifted = arith.addf(quotient, float32(_MAGIC))
    n = arith.subf(shifted, float32(_MAGIC))
    n = arith.subf(n, float32(shift)) if shift else n
    for part in _PI:
        x = math.fma(n, float32(-part), x)
    square = _mul(x, x)
    return _bits(shifted), _add(_mul(_mul(x, square), _polynomial(square, _SINE)), x)


# Functions that are right below RANGE only, each a builder.
RANGE = 2.0**18
RANGED: dict[str, Callable[[ir.Value], ir.Value]] = {"math.sin": _sine, "math.cos": _cosine}
