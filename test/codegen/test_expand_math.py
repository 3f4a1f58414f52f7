"""The expansions of expand_math, evaluated in numpy float32, against float64 and against what the bodies said before."""

import math

import numpy as np
import pytest
from kernels import unary

from inferno.codegen.builders.expand_math import expand_math
from inferno.mlir import ir, idle_context, walk

ONE = "%one = arith.constant 1.0 : f32\n"
SIGMOID = ONE + "%n = arith.negf %x0 : f32\n%e = math.exp %n : f32\n%d = arith.addf %e, %one : f32\n"
SOFTPLUS = "%e = math.exp %x0 : f32\n%l = math.log1p %e : f32\n"
CHOSEN = "%b = arith.constant 2.0e+01 : f32\n%c = arith.cmpf ogt, %x0, %b : f32\n%p = arith.select %c, %x0, %l : f32\n"
BODIES = {
    "tanh": ("%y = math.tanh %x0 : f32", np.tanh),
    "one plus erf": (ONE + "%e = math.erf %x0 : f32\n%y = arith.addf %one, %e : f32", lambda x: 1 + np.vectorize(math.erf)(x)),
    "gelu": (ONE + "%h = arith.constant 0.5 : f32\n%c = arith.constant 1.41421354 : f32\n"
             "%q = arith.divf %x0, %c : f32\n%e = math.erf %q : f32\n"
             "%s = arith.addf %e, %one : f32\n%t = arith.mulf %s, %h : f32\n%y = arith.mulf %x0, %t : f32",
             lambda x: x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))),
    "sigmoid": (SIGMOID + "%y = arith.divf %one, %d : f32", lambda x: 1 / (1 + np.exp(-x))),
    "silu": (SIGMOID + "%y = arith.divf %x0, %d : f32", lambda x: x / (1 + np.exp(-x))),
    "mish": (SOFTPLUS + "%t = math.tanh %l : f32\n%y = arith.mulf %x0, %t : f32", lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    "mish, above": (SOFTPLUS + CHOSEN + "%t = math.tanh %p : f32\n%y = arith.mulf %x0, %t : f32", lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    "cube": ("%c = arith.constant 3.0 : f32\n%y = math.powf %x0, %c : f32", lambda x: x**3),
    "inverse square": ("%c = arith.constant -2.0 : f32\n%y = math.powf %x0, %c : f32", lambda x: 1 / x**2),
}


def expanded(body, rounded=None):
    context = idle_context()
    with context, ir.Location.unknown():
        module = ir.Module.parse(unary(body, (8,)))
        expand_math(module, rounded)
        module.operation.verify()
        return module


F = np.float32
FUNCTIONS = {
    "arith.negf": lambda x: -x, "arith.divf": lambda a, b: a / b, "arith.subf": lambda a, b: a - b,
    "arith.mulf": lambda a, b: a * b, "arith.addf": lambda a, b: a + b, "arith.minimumf": np.minimum, "arith.select": np.where,
    "math.exp": lambda x: np.exp(x.astype(np.float64)).astype(F),
    "llvm.nvvm.rcp.approx.ftz.f": lambda x: (1 / x.astype(np.float64)).astype(F),
    "llvm.inline_asm": lambda x: (1 / x.astype(np.float64)).astype(F), "llvm.fabs.f32": np.abs, "llvm.copysign.f32": np.copysign,
    "math.rsqrt": lambda x: (1 / np.sqrt(x.astype(np.float64)) * (1 + 1.28e-7 * np.where(np.arange(len(x)) % 2, 1, -1))).astype(F),  # as the hardware's may be
    "math.fma": lambda a, b, c: (a.astype(np.float64) * b + c).astype(F),
    "llvm.nvvm.div.full": lambda a, b: (a.astype(np.float64) / b * (1 + 2.3e-7 * np.where(np.arange(len(a)) % 2, 1, -1))).astype(F),  # as it may be
    "llvm.nvvm.ex2.approx.ftz.f": lambda x: np.exp2(x.astype(np.float64)).astype(F),
}


def evaluate(module, x):
    """Run the body of the module's generic; no multiplication is contracted, which is less exact than the GPU."""
    block = walk(module, "linalg.generic")[0].regions[0].blocks[0]
    known = {block.arguments[0]: x}
    with np.errstate(all="ignore"):
        for op in block.operations:
            op = op.operation
            if op.name == "linalg.yield":
                return known[op.operands[0]]
            if op.name == "arith.constant":
                known[op.results[0]] = np.full_like(x, op.attributes["value"].value)
                continue
            if op.name == "arith.cmpf":
                a, b = (known[v] for v in op.operands)
                known[op.results[0]] = {4: a < b, 7: (a == a) & (b == b)}[ir.IntegerAttr(op.attributes["predicate"]).value]  # olt, ord
                continue
            if op.name == "llvm.inline_asm":
                assert op.attributes["asm_string"].value.startswith("rcp.approx.f32")
            name = op.attributes["intrin"].value if op.name == "llvm.call_intrinsic" else op.name
            known[op.results[0]] = FUNCTIONS[name](*(known[v] for v in op.operands))
    raise AssertionError("no yield")


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("scale", [0.01, 1.0, 8.0])
def test_is_as_accurate_as_float32_allows(name, scale):
    body, exact = BODIES[name]
    x = (np.random.default_rng(0).standard_normal(20000) * scale).astype(F)
    ours, reference = evaluate(expanded(body), x), exact(x.astype(np.float64))
    assert np.linalg.norm(ours - reference) <= np.finfo(F).eps * np.linalg.norm(reference)


@pytest.mark.parametrize("name", ["tanh", "one plus erf", "sigmoid", "silu"])
def test_special_values(name):
    body, exact = BODIES[name]
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-45, -1e-45, 1e-30, 88.7, -88.7, 1e4, -1e4, 3.4e38, -3.4e38, 0.6], F)
    with np.errstate(all="ignore"):
        reference = exact(x.astype(np.float64)).astype(F)
        if name == "silu":
            reference[1] = np.nan  # -inf / inf
    ours = evaluate(expanded(body), x)
    np.testing.assert_allclose(ours, reference, rtol=3e-7, atol=2e-38)
    if name == "tanh":
        assert np.array_equal(np.signbit(ours[3:7]), np.signbit(reference[3:7]))


def test_reciprocal_roots():
    body, random = "%y = math.rsqrt %x0 : f32", np.random.default_rng(0)
    x = np.exp2(random.uniform(-126, 127, 20000)).astype(F)
    np.testing.assert_allclose(evaluate(expanded(body), x), 1 / np.sqrt(x.astype(np.float64)), rtol=1e-7)
    special = np.array([0.0, -0.0, np.inf, np.nan, -1.0, 1e-45, 1e-39, 3.4e38], F)
    with np.errstate(all="ignore"):
        wanted = FUNCTIONS["math.rsqrt"](special)
    np.testing.assert_allclose(evaluate(expanded(body), special), wanted, rtol=3e-7)
    assert "math.fma" not in str(expanded(body, True)), "16 bits show nothing of it"


ROUNDED = {
    "sigmoid": BODIES["sigmoid"], "silu": BODIES["silu"],
    "one plus tanh": (ONE + "%e = math.tanh %x0 : f32\n%y = arith.addf %e, %one : f32", lambda x: 2 / (1 + np.exp(-2 * x))),
}


@pytest.mark.parametrize("name", ROUNDED)
@pytest.mark.parametrize("scale", [0.01, 1.0, 8.0, 60.0])
def test_is_as_accurate_as_16_bits_show(name, scale):
    """Of each element, also where the result is nearly 0: by a quarter of float16's rounding at most."""
    body, exact = ROUNDED[name]
    x = (np.random.default_rng(0).standard_normal(20000) * scale).astype(F)
    with np.errstate(over="ignore"):
        ours, reference = evaluate(expanded(body, True), x), exact(x.astype(np.float64))
    np.testing.assert_allclose(ours, reference, rtol=2**-14, atol=1e-35)
    few = str(expanded(body, True))
    assert "math." not in few and "inline_asm" not in few and "divf" not in few


@pytest.mark.parametrize("name", ROUNDED)
def test_special_values_where_16_bits_are_wanted(name):
    body, exact = ROUNDED[name]
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-45, 1e-30, 88.7, -88.7, 200, -200, 1e4, -1e4, 3.4e38, -3.4e38], F)
    with np.errstate(all="ignore"):
        reference = exact(x.astype(np.float64)).astype(F)
        if name == "silu":
            reference[1] = np.nan  # -inf / inf
    np.testing.assert_allclose(evaluate(expanded(body, True), x), reference, rtol=2**-14, atol=1e-35)


def test_gelu_does_not_divide():
    body = BODIES["gelu"][0]
    root = body.replace("%c = arith.constant 1.41421354 : f32", "%two = arith.constant 2.0 : f32\n%c = math.sqrt %two : f32")
    assert body != root
    for text in (body, root):
        assert not any(name in str(expanded(text)) for name in ("arith.divf", "math.sqrt", "math.erf"))


def test_what_stays():
    text = str(expanded("%q = arith.divf %x0, %x0 : f32\n%e = math.exp %q : f32\n%l = math.log %e : f32\n%y = math.erf %l : f32"))
    assert all(name in text for name in ("arith.divf", "math.exp", "math.log", "math.erf")) and "inline_asm" not in text


def test_float64_stays():
    context = idle_context()
    with context, ir.Location.unknown():
        module = ir.Module.parse(unary("%t = math.tanh %x0 : f64\n%y = arith.addf %t, %t : f64", (8,), "f64"))
        before = str(module)
        expand_math(module)
        assert str(module) == before


def test_float32_contracts():
    assert "fastmath<contract>" in str(expanded("%p = arith.mulf %x0, %x0 : f32\n%y = arith.addf %p, %x0 : f32"))


def test_differences_stay():
    """The largest of some products less itself is 0, where a fused one would be a rounding error."""
    assert str(expanded("%p = arith.mulf %x0, %x0 : f32\n%y = arith.subf %p, %x0 : f32")).count("fastmath<contract>") == 1  # the product, for sums
    assert str(expanded("%p = arith.mulf %x0, %x0 : f32\n%one = arith.constant 1.0 : f32\n%y = arith.subf %one, %p : f32")).count("fastmath<contract>") == 2


@pytest.mark.parametrize("divisor", [6.0, -6.0, 3.0, 0.07, 1.4142135, 255.0, 1e-6, -1.0000001])
def test_a_division_by_a_constant_is_the_rounded_quotient(divisor):
    random = np.random.default_rng(1)
    wide = np.exp(random.uniform(-60, 40, 200000)) * random.choice([-1, 1], 200000)
    x = np.concatenate([random.standard_normal(200000), wide, np.arange(-999, 999)]).astype(F)
    module = expanded(f"%c = arith.constant {divisor:.9e} : f32\n%y = arith.divf %x0, %c : f32")
    assert not walk(module, "arith.divf")
    with np.errstate(all="ignore"):
        assert np.array_equal(evaluate(module, x), x / F(divisor))


@pytest.mark.parametrize("divisor", [6.0, -6.0, 0.07, -0.07])
def test_a_division_by_a_constant_keeps_what_is_no_normal_number(divisor):
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 3e38, -3e38, 1e-42, -1e-42], F)
    ours = evaluate(expanded(f"%c = arith.constant {divisor} : f32\n%y = arith.divf %x0, %c : f32"), x)
    with np.errstate(all="ignore"):
        exact = x / F(divisor)
    assert np.array_equal(ours[:7], exact[:7], equal_nan=True) and np.array_equal(np.signbit(ours[3:]), np.signbit(exact[3:]))
    assert np.all(np.abs(ours[7:].astype(np.float64) - exact[7:]) <= 2.0**-149)


@pytest.mark.parametrize("divisor", ["4.0", "0.0", "1.0e+30", "0x7F800000"])
def test_other_divisions_by_a_constant_stay(divisor):
    assert walk(expanded(f"%c = arith.constant {divisor} : f32\n%y = arith.divf %x0, %c : f32"), "arith.divf")


QUOTIENT = "%w = arith.extf %x0 : bf16 to f32\n%s = arith.addf %w, %w : f32\n%q = arith.divf %w, %s : f32\n"
STORED = {
    "stored": ("%y = arith.truncf %q : f32 to bf16", True),
    "float32": ("%z = arith.addf %q, %w : f32\n%y = arith.truncf %z : f32 to bf16", False),
    "rounded to an integer": ("%z = math.roundeven %q : f32\n%y = arith.truncf %z : f32 to bf16", False),
    "rounded to an integer later": (
        "%t = arith.truncf %q : f32 to bf16\n%u = arith.extf %t : bf16 to f32\n%z = math.floor %u : f32\n%y = arith.truncf %z : f32 to bf16", False),
    "compared": ("%b = arith.cmpf olt, %q, %w : f32\n%t = arith.truncf %q : f32 to bf16\n%y = arith.select %b, %t, %x0 : bf16", False),
}


@pytest.mark.parametrize("name", STORED)
def test_only_quotients_that_are_stored_in_16_bits_are_approximate(name):
    end, approximate = STORED[name]
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(unary(QUOTIENT + end, (8,), element="bf16"))
        expand_math(module)
        assert ("div.full" in str(module)) == approximate == ("arith.divf" not in str(module))


@pytest.mark.parametrize("body", [SOFTPLUS + "%y = math.tanh %l : f32", SOFTPLUS + CHOSEN + "%y = math.tanh %p : f32"])
@pytest.mark.parametrize("rounded", [False, True])
def test_tangents_of_softplus_take_one_exponential(body, rounded):
    module = expanded(body, rounded)
    assert not walk(module, "math.log1p", "math.tanh", "arith.select", "arith.cmpf")
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -80.0, -200.0, 9.5, 19.0, 21.0, 1e30], F)
    wanted = np.array([np.nan, 1, 0, 0.6, np.exp(-80.0), 0, 1, 1, 1, 1], F)
    np.testing.assert_allclose(evaluate(module, x), wanted, rtol=2e-5 if rounded else 3e-7)


@pytest.mark.parametrize("changed", [("2.0e+01", "5.0"), ("ogt", "olt"), ("%c, %x0", "%c, %b")])
def test_other_choices_are_no_softplus(changed):
    assert walk(expanded(SOFTPLUS + CHOSEN.replace(*changed) + "%y = math.tanh %p : f32"), "math.log1p")
