"""Replace costly float32 functions in the bodies of a kernel by expansions that are as accurate as eager's, for NVIDIA GPUs.

Only where libdevice has no short form of its own: its exp (8 instructions), log and sqrt stay, and so does all of
float64.  New code is scalar (``inline_body`` repeats it for each lane) and keeps NaN, infinities and signed zeros:

* ``1 + erf(x)``, GELU's: erfc(|x|) = (1 + s P(s)) exp(-x^2), s = 0.37 |x| / (1 + 0.37 |x|): the form of Abramowitz and Stegun
  7.1.26, rearranged so that it is exact at 0, with our own minimax fit of P (|error| < 4e-9); no branch, 2 MUFU, and no
  cancellation where x is far below 0.
* ``tanh``: 1 - 2 / (exp(2|x|) + 1), below 0.6 an odd polynomial (minimax, relative error < 3e-9); libdevice branches instead.
* ``tanh(softplus(x))``, Mish's: with n = e (e + 2) of e = exp(x) it is n / (n + 2), one exponential for two and a logarithm, and does not cancel.
* ``a / (1 + exp(x))``, the sigmoids: the denominator is at least 1, so an approximate reciprocal (1 ulp) serves.  Any other
  division stays exact, also by a constant (``constant_divisions``), as a quotient may be compared or rounded to an integer later, but for one that is only
  rounded to 16 bits and stored, which hides the 2 ulp of the hardware's own (an H200 took 5.4 us to divide 2048x1024 in bf16 exactly, torch.compile, which does
  not, 2.7).  Where all results are rounded to 16 bits the exponential is the hardware's power of two, which is off by |x| roundings of float32: 5
  instructions and not 17.
* ``1 + tanh(x)``, where all results are rounded to 16 bits: 2 / (1 + exp(-2x)), which does not cancel below 0.
* ``rsqrt``: the hardware's, which is off by up to 1.3e-7, as much as a whole result may be, and a step of Newton's method.
* powers with exponents of ``SHORT_POWERS``, as eager computes them too.

Multiplications and additions in float32 may contract to fused multiply-adds, which round once; not differences, but for those from a constant.
"""

import math as pymath

from inferno.codegen.builders.constant_divisions import divide_by_constant, has_reciprocal
from inferno.codegen.builders.elements import splat
from inferno.codegen.builders.float8 import is_rounded_to_8_bits
from inferno.mlir import arith, constant_number, ir, is_read, llvm, math, owner, users, walk
from inferno.schedule.matmul.contraction import Map
from inferno.schedule.rows.row_work import SHORT_POWERS


def expand_maps(*maps: Map | None) -> None:
    """``expand_math`` in the prologues and the epilogue of a contraction, where it has them."""
    for map_ in maps:
        if map_ is not None:
            expand_math(map_.generic)


def expand_math(kernel_op, rounded: bool | None = None) -> None:
    """Rewrite the math operations below ``kernel_op`` (a function, a generic or a gpu.func), in place.  ``rounded``: all that the kernel computes is
    rounded to 16 bits, if that is not what its bodies yield."""
    operation = kernel_op.operation
    with operation.context, ir.Location.unknown():
        for op in walk(operation, "math.sqrt"):
            if (number := constant_number(op.operands[0])) is not None and number >= 0:
                with ir.InsertionPoint(op):
                    _replace(op, splat(op.results[0].type, pymath.sqrt(number)))
        yielded = [v.type for op in walk(operation, "linalg.yield") for v in op.operands]
        rounded = all(map(is_narrow, yielded)) if rounded is None else rounded
        for op in walk(operation, "arith.addf"):
            _replace(op, _one_plus_erf(op, rounded) or (_one_plus_tanh(op) if rounded else None))
        for op in reversed(walk(operation, "math.erf", "math.tanh", "arith.divf")):
            if not is_read(op.results[0]):
                op.erase()
        for op in walk(operation, "math.tanh"):
            _replace(op, _tanh_of_softplus(op, rounded) or _tanh(op))
        for op in reversed(walk(operation, "math.log1p", "arith.select", "arith.cmpf")):
            if not is_read(op.results[0]):
                op.erase()
        for op in walk(operation, "arith.divf"):
            _replace(op, _sigmoid(op, rounded) or _stored_quotient(op) or divide_by_constant(op, constant_number(op.operands[1])))
        for op in reversed(walk(operation, "math.exp", "arith.negf", "arith.addf")):
            if not is_read(op.results[0]):
                op.erase()
        for op in walk(operation, "math.powf", "math.fpowi"):
            _replace(op, _power(op))
        for op in () if rounded else walk(operation, "math.rsqrt"):
            _replace(op, _rsqrt(op))
        for op in walk(operation, "arith.maximumf", "arith.minimumf"):
            _replace(op, _narrow_extremum(op))
        for op in walk(operation, "arith.addf", "arith.subf", "arith.mulf"):
            if _float32(op.results[0]) and may_contract(op):
                op.attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<contract>")


def may_contract(op: ir.Operation) -> bool:
    """Whether an operation has the attribute that says so and nothing else yet, and is no product that is only rounded to another type: LLVM makes
    that a product of 16 bits, which it would fuse with a sum of 16 bits behind, and so round once.

    Nor a difference: ``x - x.amax()`` is 0 at the largest element, and below it elsewhere, which a program may ask for; of a product that is not
    rounded it would be the product's rounding error, of either sign."""
    if "fastmath" not in op.attributes or "none" not in str(op.attributes["fastmath"]):
        return False
    if op.name == "arith.subf" and all(constant_number(x) is None for x in op.operands):
        return False
    return op.name != "arith.mulf" or any(user.name != "arith.truncf" for user in users(op.results[0]))


def is_narrow(element: ir.Type) -> bool:
    """Whether a float has 16 bits."""
    return str(element) in ("bf16", "f16")


def _replace(op: ir.Operation, value: ir.Value | None) -> None:
    if value is not None:
        op.results[0].replace_all_uses_with(value)
        op.erase()


def _float32(value: ir.Value) -> bool:
    return isinstance(value.type, ir.F32Type)


def _other(op: ir.Operation, constant: float, names: tuple[str, ...]) -> ir.Operation | None:
    """For ``constant + f(x)``: the operation f, if its name is among ``names``."""
    for a, b in ((0, 1), (1, 0)):
        function = owner(op.operands[a])
        if function is not None and function.name in names and constant_number(op.operands[b]) == constant:
            return function
    return None


def _intrinsic(name: str, *operands: ir.Value) -> ir.Value:
    return llvm.CallIntrinsicOp(operands[0].type, name, list(operands), [], []).operation.results[0]


def _narrow_extremum(op: ir.Operation) -> ir.Value | None:
    """The larger or smaller of two 16-bit floats is one of them: nothing is gained by float32, and two are compared at once."""
    narrow = [v for v in map(_extended, op.operands) if v is not None]
    if not _float32(op.results[0]) or not narrow or str(narrow[0].type) not in ("f16", "bf16"):
        return None
    operands = []
    for value in op.operands:
        made, number = _extended(value), constant_number(value)
        if made is not None and made.type == narrow[0].type:
            operands.append(made)
        elif number is not None and pymath.isinf(number):
            with ir.InsertionPoint(op):
                operands.append(splat(narrow[0].type, number))
        else:
            return None
    with ir.InsertionPoint(op):
        least = ir.Operation.create(op.name, results=[narrow[0].type], operands=operands, attributes={n: op.attributes[n] for n in op.attributes})
        wide = arith.extf(op.results[0].type, least.results[0])
    for user in list(users(op.results[0])):
        if user.name == "arith.truncf" and user.results[0].type == narrow[0].type:
            user.results[0].replace_all_uses_with(least.results[0])
    return wide


def _extended(value: ir.Value) -> ir.Value | None:
    """What a float was widened from."""
    op = owner(value)
    return op.operands[0] if op is not None and op.name == "arith.extf" else None


def _reciprocal(x: ir.Value) -> ir.Value:
    """1 / x to 1 ulp, where a subnormal result may become 0."""
    return _intrinsic("llvm.nvvm.rcp.approx.ftz.f", x)


def _reciprocal_subnormal(x: ir.Value) -> ir.Value:
    """1 / x to 1 ulp, subnormal results included, for 4 instructions more; there is no intrinsic for it."""
    return llvm.inline_asm(x.type, [x], "rcp.approx.f32 $0, $1;", "=f,f")


def _stored_quotient(op: ir.Operation) -> ir.Value | None:
    """A quotient to 2 ulp, special values and subnormal numbers included, where nothing of it is left but what is stored in 16 bits or 8.  A number that these
    have is still what an exact quotient of that value gives: it is far from where rounding turns."""
    stored = all(
        user.name == "arith.truncf" and is_narrow(user.results[0].type) and all(last.name == "linalg.yield" for last in users(user.results[0]))
        for user in users(op.results[0])
    )
    stored = stored or is_rounded_to_8_bits(op.results[0])
    if not _float32(op.results[0]) or not stored or _is_power_of_two(op.operands[1]):
        return None
    with ir.InsertionPoint(op):
        if has_reciprocal(divisor := constant_number(op.operands[1])):
            return arith.mulf(op.operands[0], splat(op.results[0].type, 1 / divisor))
        return _intrinsic("llvm.nvvm.div.full", *op.operands)


def _is_power_of_two(value: ir.Value) -> bool:
    number = constant_number(value)
    return number is not None and abs(pymath.frexp(number)[0]) == 0.5


def _exp2(x: ir.Value) -> ir.Value:
    return _intrinsic("llvm.nvvm.ex2.approx.ftz.f", x)


def _polynomial(x: ir.Value, coefficients: tuple[float, ...]) -> ir.Value:
    """Horner's rule, lowest power first; contracted to fused multiply-adds with the rest."""
    total = splat(x.type, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = arith.addf(arith.mulf(total, x), splat(x.type, c))
    return total


# Minimax fits by Lawson's iteration, rounded to float32: weighted with s exp(-x^2) on [0, 5], and with x^2 on [0, 0.6].
_ERFC_SCALE = 0.37
_ERFC = (-3.0496737957000732, 4.254940032958984, -3.291621685028076, 0.9882299900054932, 0.3985849916934967, -0.31817227602005005)
_TANH_BOUND = 0.6
_SOFTPLUS_LEAST, _SOFTPLUS_BOUND = 10.0, 20.0  # the tangent is 1 in float32 from 9.02 on, and the square of exp(20) is far from infinite
_TANH = (-0.33333298563957214, 0.13331958651542664, -0.05378668010234833, 0.020805364474654198, -0.005905838217586279)


def _one_plus_erf(op: ir.Operation, rounded: bool) -> ir.Value | None:
    """``rounded``: all that the kernel computes is rounded to 16 bits."""
    erf = _other(op, 1.0, ("math.erf",)) if _float32(op.results[0]) else None
    if erf is None:
        return None
    x, quotient = erf.operands[0], owner(erf.operands[0])
    with ir.InsertionPoint(op):
        f32 = x.type
        if quotient is not None and quotient.name == "arith.divf" and (divisor := constant_number(quotient.operands[1])):
            # erf(x / sqrt(2)): eager multiplies too, and an exact division is as long as all the rest.
            x = arith.mulf(quotient.operands[0], splat(f32, 1 / divisor))
        if rounded:
            return _one_plus_erf_of_reciprocal(x)
        # Beyond 12 the Gaussian is 0 and infinity would make 0 * infinity of it.
        distance = arith.minimumf(_intrinsic("llvm.fabs.f32", x), splat(f32, 12.0))
        w = arith.mulf(distance, splat(f32, _ERFC_SCALE))
        s = arith.mulf(w, _reciprocal(arith.addf(w, splat(f32, 1.0))))
        gauss = _exp2(arith.mulf(arith.mulf(distance, splat(f32, -pymath.log2(pymath.e))), distance))
        erfc = arith.mulf(_polynomial(s, (1.0, *_ERFC)), gauss)
        negative = arith.cmpf(arith.CmpFPredicate.OLT, x, splat(f32, 0.0))
        return arith.select(negative, erfc, arith.subf(splat(f32, 2.0), erfc))


# The same in 1 / (1 + w), of a distance whose square is the Gaussian's exponent of 2: three instructions of 23 fewer, |error| < 4e-7: gelu(x + row) in
# bf16 took 71.1 us, then 66.7.
_ERFC_RECIPROCAL = (-0.017712744, 0.377847522, -0.477279305, 1.716297325, -1.791429194, 1.510448661, -0.31817228)
_BITS = pymath.sqrt(pymath.log2(pymath.e))


def _one_plus_erf_of_reciprocal(x: ir.Value) -> ir.Value:
    """As much as numbers of 16 bits show."""
    f32 = x.type
    root = owner(x)
    factor = constant_number(root.operands[1]) if root is not None and root.name == "arith.mulf" else None
    scaled = arith.mulf(x, splat(f32, _BITS)) if factor is None else arith.mulf(root.operands[0], splat(f32, factor * _BITS))
    distance = arith.minimumf(_intrinsic("llvm.fabs.f32", scaled), splat(f32, 12.0 * _BITS))
    r = _reciprocal(arith.addf(arith.mulf(distance, splat(f32, _ERFC_SCALE / _BITS)), splat(f32, 1.0)))
    gauss = _exp2(arith.negf(arith.mulf(distance, distance)))
    erfc = arith.mulf(_polynomial(r, _ERFC_RECIPROCAL), gauss)
    negative = arith.cmpf(arith.CmpFPredicate.OLT, scaled, splat(f32, 0.0))
    return arith.select(negative, erfc, arith.subf(splat(f32, 2.0), erfc))


def _tanh(op: ir.Operation) -> ir.Value | None:
    x = op.operands[0]
    if not _float32(x):
        return None
    with ir.InsertionPoint(op):
        f32 = x.type
        distance = _intrinsic("llvm.fabs.f32", x)
        power = _exp2(arith.mulf(distance, splat(f32, 2 * pymath.log2(pymath.e))))
        large = arith.addf(arith.mulf(_reciprocal(arith.addf(power, splat(f32, 1.0))), splat(f32, -2.0)), splat(f32, 1.0))
        square = arith.mulf(distance, distance)
        # Of a negative zero the factor has to be no negative one, for the sum to be negative: a zero is added to it, in the instruction that multiplies.
        factor = arith.addf(arith.mulf(_polynomial(square, _TANH), square), splat(f32, 0.0))
        small = arith.addf(arith.mulf(factor, x), x)
        near = arith.cmpf(arith.CmpFPredicate.OLT, distance, splat(f32, _TANH_BOUND))
        # (The sign is taken inside of the choice: what rounds the sign's copy to 16 bits would copy it there, in ten instructions.)
        return arith.select(near, small, _intrinsic("llvm.copysign.f32", large, x))


def _tanh_of_softplus(op: ir.Operation, rounded: bool) -> ir.Value | None:
    """Of log(1 + exp(x)), which may be said to be x from a threshold on, where the tangent is 1 but for less than is rounded."""
    last = owner(op.operands[0])
    if not _float32(op.operands[0]) or last is None:
        return None
    above = None
    if last.name == "arith.select":
        above, last = last, owner(last.operands[2])
    power = owner(last.operands[0]) if last is not None and last.name == "math.log1p" else None
    if power is None or power.name != "math.exp":
        return None
    x = power.operands[0]
    if above is not None and not _is_above(above, x):
        return None
    with ir.InsertionPoint(op):
        f32 = x.type
        bounded = arith.minimumf(x, splat(f32, _SOFTPLUS_BOUND))
        e = _exp2(arith.mulf(bounded, splat(f32, pymath.log2(pymath.e)))) if rounded else math.exp(bounded)
        n = arith.mulf(e, arith.addf(e, splat(f32, 2.0)))
        return arith.mulf(n, _reciprocal(arith.addf(n, splat(f32, 2.0))))


def _is_above(choice: ir.Operation, x: ir.Value) -> bool:
    """Whether it is x where that is more than a number from which on the tangent is 1 in float32."""
    compared, predicates = owner(choice.operands[0]), (arith.CmpFPredicate.OGT, arith.CmpFPredicate.OGE)
    if compared is None or compared.name != "arith.cmpf" or choice.operands[1] != x or compared.operands[0] != x:
        return False
    bound = constant_number(compared.operands[1])
    return bound is not None and bound >= _SOFTPLUS_LEAST and ir.IntegerAttr(compared.attributes["predicate"]).value in predicates


def _sigmoid(op: ir.Operation, rounded: bool) -> ir.Value | None:
    numerator, denominator = op.operands
    total = owner(denominator)
    if not _float32(numerator) or total is None or total.name != "arith.addf":
        return None
    power = _other(total, 1.0, ("math.exp", "math.exp2"))
    if power is None:
        return None
    with ir.InsertionPoint(op):
        inverse = _reciprocal(_one_plus_power(power)) if rounded else _reciprocal_subnormal(denominator)
        return inverse if constant_number(numerator) == 1.0 else arith.mulf(numerator, inverse)


def _one_plus_power(power: ir.Operation) -> ir.Value:
    """1 + exp(x), or of another power of x, by the hardware's power of two: a minus in front of x goes into the factor."""
    x, factor = power.operands[0], pymath.log2(pymath.e) if power.name == "math.exp" else 1.0
    if (negated := owner(x)) is not None and negated.name == "arith.negf":
        x, factor = negated.operands[0], -factor
    x = x if factor == 1.0 else arith.mulf(x, splat(x.type, factor))
    return arith.addf(_exp2(x), splat(x.type, 1.0))


def _one_plus_tanh(op: ir.Operation) -> ir.Value | None:
    tanh = _other(op, 1.0, ("math.tanh",)) if _float32(op.results[0]) else None
    if tanh is None:
        return None
    with ir.InsertionPoint(op):
        x = tanh.operands[0]
        power = _exp2(arith.mulf(x, splat(x.type, -2 * pymath.log2(pymath.e))))
        return arith.mulf(_reciprocal(arith.addf(power, splat(x.type, 1.0))), splat(x.type, 2.0))


def _rsqrt(op: ir.Operation) -> ir.Value | None:
    """y + y (1 - x y^2) / 2, where y is neither 0 nor infinite: there the term in brackets is no small number."""
    x = op.operands[0]
    if not _float32(x):
        return None
    with ir.InsertionPoint(op):
        y, one = math.rsqrt(x), splat(x.type, 1.0)
        off = math.fma(arith.negf(arith.mulf(x, y)), y, one)
        refined = math.fma(arith.mulf(y, splat(x.type, 0.5)), off, y)
        return arith.select(arith.cmpf(arith.CmpFPredicate.OLT, _intrinsic("llvm.fabs.f32", off), one), refined, y)


def _power(op: ir.Operation) -> ir.Value | None:
    x, exponent = op.operands[0], constant_number(op.operands[1])
    if exponent not in SHORT_POWERS or isinstance(x.type, ir.VectorType):
        return None
    with ir.InsertionPoint(op):
        if exponent == 2.0:
            return arith.mulf(x, x)
        if exponent == 3.0:
            return arith.mulf(arith.mulf(x, x), x)
        if exponent == 0.5:
            return math.sqrt(x)
        if exponent == -0.5:
            return math.rsqrt(x)
        return arith.divf(splat(x.type, 1.0), arith.mulf(x, x) if exponent == -2.0 else x)
