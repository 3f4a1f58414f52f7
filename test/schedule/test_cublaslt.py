"""Which contractions, with which epilogues, are calls of cuBLASLt's, and which calls; and why others are none."""

import itertools
import sys
from pathlib import Path

import pytest
import torch
from fake_cublaslt import FakeCublasLt

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))

from contractions import contraction

from inferno.codegen.generate import generate_kernels
from inferno.library_matmul import LibraryMatmul, check_call
from inferno.mlir import ir, idle_context
from inferno.passes.programs import PRECISION
from inferno.runtime.launch.cublaslt import MatmulCall
from inferno.runtime.plan.plan import Buffer, LibraryCall
from inferno.schedule import assign
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import ATTRIBUTE, from_attribute, to_attribute
from inferno.schedule.maps.pointwise import parse_pointwise
from inferno.schedule.matmul import wgmma
from inferno.schedule.matmul.cublaslt import CublasLt, Refused, choose, recognise, refusal, space
from inferno.schedule.matmul.weigh_library import weigh
from inferno.target import find_target

M, N, K = 64, 48, 32
MAPS = {"m": f"tensor<{M}x", "n": f"tensor<{N}x", "mn": f"tensor<{M}x{N}x", "1": "tensor<1x", "nm": f"tensor<{N}x{M}x"}


@pytest.fixture(scope="module")
def context():
    return idle_context()


def kernel(context, text):
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
    found = module.body.operations[0]
    found.keep = module
    return found


def linear(body, sources=(), element="bf16", out="bf16", sum_="f32", extend="arith.extf", transposed=(False, True), attributes=""):
    """The text of a kernel: a matmul whose sum is %v and whose epilogue, with ``sources`` as %s0, %s1, ..., gives %y of the sum's type."""
    zero = "0" if sum_[0] == "i" else "0.0"
    lhs, rhs = (f"{K}x{M}" if transposed[0] else f"{M}x{K}"), (f"{N}x{K}" if transposed[1] else f"{K}x{N}")
    maps = [f"({'k, m' if transposed[0] else 'm, k'})", f"({'n, k' if transposed[1] else 'k, n'})", "(m, n)"]
    types = [f"{MAPS[s]}{out}>" for s in sources]
    dims = {"1": "0", "m": "m", "n": "n", "mn": "m, n", "nm": "n, m"}
    given = "".join(f", %t{i}: {t}" for i, t in enumerate(types))
    widen = "" if extend is None else f"%aw = {extend} %a : {element} to {sum_}\n %bw = {extend} %b : {element} to {sum_}"
    a, b = ("%a", "%b") if extend is None else ("%aw", "%bw")
    kind = "i" if sum_[0] == "i" else "f"
    wide = "\n".join(f"%s{i} = arith.ext{'si' if kind == 'i' else 'f'} %r{i} : {out} to {sum_}" for i in range(len(types)) if out != sum_)
    reads = "".join(f"%{'s' if out == sum_ else 'r'}{i}: {out}, " for i in range(len(types)))
    narrow = f"%n = arith.trunc{kind} %y : {sum_} to {out}" if out != sum_ else ""
    return f"""func.func private @k(%x: tensor<{lhs}x{element}>, %w: tensor<{rhs}x{element}>{given}, %o: tensor<{M}x{N}x{out}>) -> tensor<{M}x{N}x{out}>
        attributes {{{attributes}}} {{
      %zero = arith.constant {zero} : {sum_}
      %e = tensor.empty() : tensor<{M}x{N}x{sum_}>
      %f = linalg.fill ins(%zero : {sum_}) outs(%e : tensor<{M}x{N}x{sum_}>) -> tensor<{M}x{N}x{sum_}>
      %0 = linalg.generic {{indexing_maps = [{", ".join(f"affine_map<(m, n, k) -> {m}>" for m in maps)}],
                           iterator_types = ["parallel", "parallel", "reduction"]}}
        ins(%x, %w : tensor<{lhs}x{element}>, tensor<{rhs}x{element}>) outs(%f : tensor<{M}x{N}x{sum_}>) {{
      ^bb0(%a: {element}, %b: {element}, %acc: {sum_}):
        {widen}
        %p = arith.mul{kind} {a}, {b} : {sum_}
        %s = arith.add{kind} %acc, %p : {sum_}
        linalg.yield %s : {sum_}
      }} -> tensor<{M}x{N}x{sum_}>
      %1 = linalg.generic {{indexing_maps = [{", ".join(f"affine_map<(m, n) -> ({d})>" for d in ["m, n", *(dims[s] for s in sources), "m, n"])}],
                           iterator_types = ["parallel", "parallel"]}}
        ins(%0{"".join(f", %t{i}" for i in range(len(types)))} : tensor<{M}x{N}x{sum_}>{"".join(f", {t}" for t in types)}) outs(%o : tensor<{M}x{N}x{out}>) {{
      ^bb0(%v: {sum_}, {reads}%old: {out}):
        {wide}
        {body}
        {narrow}
        linalg.yield %{"n" if narrow else "y"} : {out}
      }} -> tensor<{M}x{N}x{out}>
      return %1 : tensor<{M}x{N}x{out}>
    }}"""


C = """%c0 = arith.constant 0.0 : f32
%c1 = arith.constant 1.0 : f32
%h = arith.constant 0.5 : f32
%k = arith.constant 0.044715 : f32
%q = arith.constant 0.797884583 : f32
"""
ADD = "%y = arith.addf %v, %s0 : f32"
BIAS = C + "%z = arith.addf %s0, %v : f32\n"
GELU = """%z2 = arith.mulf %z, %z : f32
%z3 = arith.mulf %z2, %z : f32
%z4 = arith.mulf %z3, %k : f32
%z5 = arith.addf %z, %z4 : f32
%z6 = arith.mulf %z5, %q : f32
%z7 = math.tanh %z6 : f32
%z8 = arith.addf %z7, %c1 : f32
%z9 = arith.mulf %z, %h : f32
%y = arith.mulf %z9, %z8 : f32"""
POWER = GELU.replace("%z2 = arith.mulf %z, %z : f32\n%z3 = arith.mulf %z2, %z : f32", "%three = arith.constant 3 : i64\n%z3 = math.fpowi %z, %three : f32, i64")


@pytest.mark.parametrize(("sources", "body", "expected"), [
    ("", "%y = arith.negf %v : f32", {"alpha": -1.0}),
    (("n",), ADD, {"bias": True}),
    (("mn",), ADD, {"beta": 1.0, "start": (0, N, 1)}),
    (("n", "mn"), ADD.replace("%y", "%z") + "\n%y = arith.subf %z, %s1 : f32", {"bias": True, "beta": -1.0, "start": (0, N, 1)}),
    (("mn",), C + "%z = arith.mulf %v, %h : f32\n%u = arith.mulf %s0, %k : f32\n%y = arith.addf %u, %z : f32",
     {"alpha": 0.5, "beta": pytest.approx(0.044715, rel=1e-7), "start": (0, N, 1)}),
    (("n",), BIAS + GELU, {"bias": True, "activation": "gelu_tanh"}),
    (("mn",), BIAS + POWER, {"beta": 1.0, "start": (0, N, 1), "activation": "gelu_tanh"}),
])
def test_epilogues(context, sources, body, expected):
    found = recognise(kernel(context, linear(body, sources)))
    assert found.call == LibraryMatmul((1, M, N, K), (0, K, 1), (0, 1, K), (0, N, 1), **expected)
    # the bias comes behind what is added, and the result is last
    bias, added = (2 + sources.index(s) if s in sources else None for s in ("n", "mn"))
    assert found.arguments == (0, 1, *(a for a in (added, bias) if a is not None), 2 + len(sources))


@pytest.mark.parametrize(("sources", "body"), [
    (("n",), BIAS + "%y = math.tanh %z : f32"),
    (("n",), BIAS + "%y = math.exp %z : f32"),
    (("n",), BIAS + "%y = arith.mulf %z, %z : f32"),
    (("n",), BIAS + "%y = arith.maximumf %z, %h : f32"),
    # ReLU, of which the library makes 0 of NaN
    (("n",), BIAS + "%y = arith.maximumf %z, %c0 : f32"),
    (("n",), BIAS + "%g = arith.cmpf ugt, %z, %c0 : f32\n%y = arith.select %g, %z, %c0 : f32"),
    # GELU with other constants, of something else beside, without its 1
    (("n",), BIAS + GELU.replace("%z3, %k", "%z3, %h")),
    (("n",), BIAS + GELU.replace("%z9 = arith.mulf %z,", "%z9 = arith.mulf %v,")),
    (("n",), BIAS + GELU.replace("arith.addf %z7, %c1", "arith.addf %z7, %c0")),
    (("n",), BIAS + GELU.replace("%z7 = math.tanh", "%z7 = math.erf")),
    # what is added after the activation
    (("mn",), BIAS + GELU.replace("%z", "%v").replace("%y", "%g") + "\n%y = arith.addf %g, %s0 : f32"),
    # nothing but in exact arithmetic
    (("mn",), ADD.replace("%y", "%z") + "\n%y = arith.subf %z, %s0 : f32"),
    (("mn",), "%z = arith.subf %s0, %v : f32\n%y = arith.addf %z, %v : f32"),
    # products of what is read, and a rounding in between
    (("mn",), "%y = arith.mulf %v, %s0 : f32"),
    (("n",), "%b = arith.truncf %v : f32 to bf16\n%u = arith.extf %b : bf16 to f32\n%y = arith.addf %u, %s0 : f32"),
])
def test_other_epilogues_are_kernels_of_ours(context, sources, body):
    in_two(context, linear(body, sources), sources)


def in_two(context, text, sources):
    """That the call gives the sums alone, in the result's place, and an elementwise kernel goes over them; what ``recognise`` found."""
    made = kernel(context, text)
    found = recognise(made)
    assert refusal(made) is None and found.call == LibraryMatmul((1, M, N, K), (0, K, 1), (0, 1, K), (0, N, 1))
    assert found.arguments == (0, 1, 2 + len(sources)) and found.sums is None
    assert found.after.buffers == (*range(2, 2 + len(sources)), 2 + len(sources))
    with context:
        assert parse_pointwise(found.after.kernel) is not None
    return found


@pytest.mark.parametrize(("sources", "body"), [
    (("m",), ADD), (("nm",), ADD), (("mn", "mn"), ADD.replace("%y", "%z") + "\n%y = arith.addf %z, %s1 : f32"),
    (("n",), C + "%u = arith.mulf %s0, %h : f32\n%y = arith.addf %v, %u : f32"),
])
def test_what_is_added_must_lie_as_the_library_wants_it(context, sources, body):
    in_two(context, linear(body, sources), sources)


def test_sums_that_have_no_place_in_the_result_are_a_temporary(context):
    found = recognise(kernel(context, linear("%y = math.exp %v : f32", element="f32", out="bf16", extend=None)))
    assert found.arguments == (0, 1, -1) and found.after.buffers == (found.sums, 2)
    assert found.sums.shape == (M, N) and str(found.sums.element) == "f32"


@pytest.mark.parametrize(("element", "out"), [("bf16", "bf16"), ("f32", "bf16")])
def test_a_kernel_goes_over_the_sums(context, element, out):
    text = linear("%g = math.exp %v : f32\n%y = arith.mulf %g, %s0 : f32", ("n",), element, out, extend=None if element == "f32" else "arith.extf")
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        module.body.operations[0].attributes[ATTRIBUTE] = to_attribute(CublasLt())
        generate_kernels(module, "sm_90a")
        launcher = str(module.body.operations[1])
    call, launch = launcher.index('"inferno.library"'), launcher.index("kernel = @k_gpu::@k_after")
    assert call < launch and launcher.count("inferno.launch") == 1 and launcher.count("memref.alloc") == (1 if element == out else 2)
    assert "gpu.module @k_gpu" in str(module) and "math.exp" in str(module) and "@k_after(" in str(module)


DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "f64": torch.float64, "i8": torch.int8, "i32": torch.int32}


def computed(kernel, tensors):
    """The result of a kernel's call, by a library that multiplies on the CPU, for all of the kernel's arguments."""
    found, library = recognise(kernel), FakeCublasLt(computes=True)
    names = {t: n for n, t in DTYPES.items()}
    operands = {role: tensors[a] for role, a in zip((r for r in found.call.roles if r != "workspace"), found.arguments)}
    operands = [operands.get(role, torch.zeros(16, dtype=torch.int8)) for role in found.call.roles]
    check_call(found.call.options(), [(t.numel(), names[t.dtype]) for t in operands], "the test")
    buffers = tuple(Buffer("argument", i, tuple(t.shape), names[t.dtype]) for i, t in enumerate(operands))
    call = MatmulCall(LibraryCall("cublaslt", found.call.options(), buffers), library.library)
    assert call.run([t.data_ptr() for t in operands], 0) == 0
    return tensors[found.arguments[-1]]


def numbers(shape, dtype):
    if dtype in (torch.int8, torch.int32):
        return torch.randint(-9, 9, shape, dtype=dtype)
    return torch.randn(shape, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("transposed", list(itertools.product((False, True), repeat=2)))
@pytest.mark.parametrize(("sources", "body", "function"), [
    (("n",), ADD, lambda y, b: y + b),
    (("mn",), BIAS + GELU, lambda y, r: torch.nn.functional.gelu(y + r, approximate="tanh")),
    (("mn", "n"), C + "%z = arith.mulf %v, %h : f32\n%u = arith.mulf %s0, %k : f32\n%t = arith.addf %u, %z : f32\n%y = arith.addf %t, %s1 : f32",
     lambda y, r, b: 0.5 * y + 0.044715 * r + b),
])
def test_the_call_computes_what_the_kernel_does(context, sources, body, function, transposed):
    for element, out in (("bf16", "bf16"), ("f16", "f16"), ("f16", "f32"), ("f32", "f32")):
        if body.endswith(GELU) and out == "f32":
            # which the library computes less exactly than eager
            found = recognise(kernel(context, linear(body, sources, element, out, extend=None if element == "f32" else "arith.extf")))
            assert found.call.activation == "none" and found.after is not None
            continue
        x, w = numbers((K, M) if transposed[0] else (M, K), DTYPES[element]), numbers((N, K) if transposed[1] else (K, N), DTYPES[element])
        given = [numbers({"n": (N,), "mn": (M, N)}[s], DTYPES[out]) for s in sources]
        text = linear(body, sources, element, out, extend=None if element == "f32" else "arith.extf", transposed=transposed)
        ours = computed(kernel(context, text), [x, w, *given, torch.full((M, N), float("nan"), dtype=DTYPES[out])])
        exact = function((x.double().t() if transposed[0] else x.double()) @ (w.double().t() if transposed[1] else w.double()), *(t.double() for t in given))
        assert (ours.double() - exact).norm() <= torch.finfo(DTYPES[out]).eps * exact.norm()


NOTHING = "%y = arith.addf %v, %zero : f32"


@pytest.mark.parametrize(("element", "out", "sum_", "extend", "attributes", "compute"), [
    ("bf16", "bf16", "f32", "arith.extf", "", "f32"), ("bf16", "f32", "f32", "arith.extf", "", "f32"),
    ("f16", "f16", "f32", "arith.extf", "", "f32"), ("f16", "f32", "f32", "arith.extf", "", "f32"),
    ("f32", "f32", "f32", None, "", "f32"), ("f32", "f32", "f32", None, 'inferno.precision = "tf32"', "tf32"),
    ("bf16", "bf16", "f32", "arith.extf", 'inferno.precision = "tf32"', "f32"),
    ("f64", "f64", "f64", None, "", "f64"), ("i8", "i32", "i32", "arith.extsi", "", "i32"),
    ("f32", "bf16", "f32", None, "", "f32"), ("i8", "i32", "i32", "arith.extui", "", None), ("i16", "i32", "i32", "arith.extsi", "", None),
    ("i64", "i64", "i64", None, "", None),
])
@pytest.mark.parametrize("transposed", list(itertools.product((False, True), repeat=2)))
def test_types_and_layouts(context, element, out, sum_, extend, attributes, compute, transposed):
    body = f"%two = arith.constant {'1' if sum_[0] == 'i' else '1.0'} : {sum_}\n%y = arith.mul{'i' if sum_[0] == 'i' else 'f'} %v, %two : {sum_}"
    text = linear(body, (), element, out, sum_, extend, transposed, attributes)
    if compute == "i32" and transposed != (False, True):
        compute = None  # integers lie along the sum in both operands
    if compute is None:
        assert refusal(kernel(context, text))
        return
    call = recognise(kernel(context, text)).call
    assert call.compute == compute and call.lhs == ((0, 1, M) if transposed[0] else (0, K, 1)) and call.rhs == ((0, 1, K) if transposed[1] else (0, N, 1))
    a, b, _, _ = call.matrices
    assert (a.transposed, b.transposed) == (transposed[1], transposed[0])


def product(lhs, rhs, out, maps, kinds):
    maps, zero = ", ".join(f"affine_map<{m}>" for m in maps), "%zero = arith.constant 0.0 : f32"
    return f"""func.func private @k(%x: tensor<{lhs}xf32>, %w: tensor<{rhs}xf32>, %o: tensor<{out}xf32>) -> tensor<{out}xf32> {{
      {zero}
      %f = linalg.fill ins(%zero : f32) outs(%o : tensor<{out}xf32>) -> tensor<{out}xf32>
      %0 = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{", ".join('"parallel"' if k == "p" else '"reduction"' for k in kinds)}]}}
        ins(%x, %w : tensor<{lhs}xf32>, tensor<{rhs}xf32>) outs(%f : tensor<{out}xf32>) {{
      ^bb0(%a: f32, %b: f32, %acc: f32):
        %p = arith.mulf %a, %b : f32
        %s = arith.addf %acc, %p : f32
        linalg.yield %s : f32
      }} -> tensor<{out}xf32>
      return %0 : tensor<{out}xf32>
    }}"""


@pytest.mark.parametrize(("shapes", "maps", "kinds", "call"), [
    # batches, in front and between
    (("5x8x16", "5x16x24", "5x8x24"), ("(b, m, n, k) -> (b, m, k)", "(b, m, n, k) -> (b, k, n)", "(b, m, n, k) -> (b, m, n)"), "pppr",
     LibraryMatmul((5, 8, 24, 16), (128, 16, 1), (384, 24, 1), (192, 24, 1))),
    (("8x5x16", "5x16x24", "8x5x24"), ("(b, m, n, k) -> (m, b, k)", "(b, m, n, k) -> (b, k, n)", "(b, m, n, k) -> (m, b, n)"), "pppr",
     LibraryMatmul((5, 8, 24, 16), (16, 80, 1), (384, 24, 1), (24, 120, 1))),
    # an operand that all batches share: rows of one matrix where they lie so, else a stride of 0
    (("5x8x16", "16x24", "5x8x24"), ("(b, m, n, k) -> (b, m, k)", "(b, m, n, k) -> (k, n)", "(b, m, n, k) -> (b, m, n)"), "pppr",
     LibraryMatmul((1, 40, 24, 16), (0, 16, 1), (0, 24, 1), (0, 24, 1))),
    (("8x16", "5x16x24", "5x8x24"), ("(b, m, n, k) -> (m, k)", "(b, m, n, k) -> (b, k, n)", "(b, m, n, k) -> (b, m, n)"), "pppr",
     LibraryMatmul((5, 8, 24, 16), (0, 16, 1), (384, 24, 1), (192, 24, 1))),
    (("5x16x8", "16x24", "5x8x24"), ("(b, m, n, k) -> (b, k, m)", "(b, m, n, k) -> (k, n)", "(b, m, n, k) -> (b, m, n)"), "pppr",
     LibraryMatmul((5, 8, 24, 16), (128, 1, 8), (0, 24, 1), (192, 24, 1))),
    # a result whose rows are its columns: the operands change places
    (("8x16", "16x24", "24x8"), ("(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (n, m)"), "ppr",
     LibraryMatmul((1, 24, 8, 16), (0, 1, 24), (0, 1, 16), (0, 8, 1))),
    # one row
    (("1x16", "24x16", "1x24"), ("(m, n, k) -> (m, k)", "(m, n, k) -> (n, k)", "(m, n, k) -> (m, n)"), "ppr",
     LibraryMatmul((1, 1, 24, 16), (0, 0, 1), (0, 1, 16), (0, 0, 1))),
    # every second row of an operand
    (("16x16", "16x24", "8x24"), ("(m, n, k) -> (m * 2 + 1, k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)"), "ppr",
     LibraryMatmul((1, 8, 24, 16), (0, 32, 1), (0, 24, 1), (0, 24, 1), offsets=(16, 0, 0, 0, 0))),
])
def test_shapes(context, shapes, maps, kinds, call):
    made = kernel(context, product(*shapes, maps, kinds))
    assert recognise(made).call == call
    x, w, out = (torch.randn(list(map(int, s.split("x")))) for s in shapes)
    if "m * 2" in maps[0]:
        exact = x[1::2].double() @ w.double()
    else:
        letters = [m.partition("-> ")[2].strip("()").replace(", ", "") for m in maps]
        exact = torch.einsum(f"{letters[0]},{letters[1]}->{letters[2]}", x.double(), w.double())
    ours = computed(made, [x, w, out])
    assert (ours.double() - exact).norm() <= torch.finfo(torch.float32).eps * exact.norm()


@pytest.mark.parametrize(("shapes", "maps", "kinds", "says"), [
    (("5x3x8x16", "3x16x24", "5x3x8x24"), ("(a, b, m, n, k) -> (a, b, m, k)", "(a, b, m, n, k) -> (b, k, n)", "(a, b, m, n, k) -> (a, b, m, n)"), "ppppr",
     "more than one dimension"),
    (("8x4x16", "16x4x24", "8x24"), ("(m, n, j, k) -> (m, j, k)", "(m, n, j, k) -> (k, j, n)", "(m, n, j, k) -> (m, n)"), "pprr", "the terms of a sum"),
    (("8x20", "3x24", "8x24"), ("(m, n, k) -> (m, m + k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)"), "ppr", None),
    (("20", "3x24", "8x24"), ("(m, n, k) -> (m * 2 + k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)"), "ppr", "neither by rows nor by columns"),
    (("8x32", "16x24", "8x24"), ("(m, n, k) -> (m, k * 2)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)"), "ppr", "neither by rows nor by columns"),
])
def test_shapes_that_the_library_does_not_have(context, shapes, maps, kinds, says):
    found = kernel(context, product(*shapes, maps, kinds))
    if says is None:  # rows that begin one further each time are a matrix too
        assert recognise(found).call.lhs == (0, 21, 1)
        return
    assert says in refusal(found) and choose(found, find_target("sm_90a")) is None and space(found, find_target("sm_90a")) == []
    with pytest.raises(Refused):
        recognise(found)


def test_what_multiplies_no_matrices_is_not_its_business(context):
    squares = product("64x16", "64x16", "64", ("(m, k) -> (m, k)", "(m, k) -> (m, k)", "(m, k) -> (m)"), "pr")
    assert recognise(kernel(context, squares)) is None and refusal(kernel(context, squares)) is None
    text = """func.func private @k(%x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
      %0 = linalg.exp ins(%x : tensor<8xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf32>
      return %0 : tensor<8xf32>
    }"""
    assert recognise(kernel(context, text)) is None and refusal(kernel(context, text)) is None


@pytest.mark.parametrize(("target", "bytes_"), [("sm_90a", 32 << 20), ("sm_80", 4 << 20)])
def test_the_schedules(context, target, bytes_):
    found = space(kernel(context, linear(NOTHING.replace("%v, %zero", "%v, %v"))), find_target(target))
    assert [s.algorithm for s in found] == [0, 1, 2, 3] and {s.workspace for s in found} == {bytes_}
    with context:
        assert all(from_attribute(to_attribute(s)) == s for s in found)
        assert str(to_attribute(CublasLt(1, 16))) == '{algorithm = 1 : i64, generator = "cublaslt", workspace = 16 : i64}'


@pytest.mark.parametrize("m, k, n, faster", [
    (1024, 8192, 1024, True), (512, 8192, 1024, True), (1024, 4096, 1024, False), (2048, 11008, 512, False), (256, 11008, 4096, False),
])
def test_parts_of_the_terms_are_the_librarys_where_l2_keeps_the_factors(m, k, n, faster):
    """As an H100 took less time."""
    with idle_context(), ir.Location.unknown():
        text = contraction({"m": m, "n": n, "k": k}, "mk", "nk", "mn", results=("bf16",), body="%y0 = arith.truncf %s : f32 to bf16")
        module, target = ir.Module.parse(text), find_target("sm_90a")
        product = kernels(module)[0]
        assert (weigh(product, wgmma.choose(product, target), target) is not None) == faster


@pytest.mark.parametrize("element, batch, m, k, n, layout, tf32, faster", [
    # us on an H200, by the library and by ours: 42.8 and 66.7, 8.8 and 10.3, 50.9 and 55.0; 41.6 and 37.9, 4.2 and 2.9
    ("f64", 1, 1000, 1000, 1000, "kn", False, True), ("f64", 1, 512, 512, 512, "nk", False, True), ("f64", 1, 64, 4096, 4096, "kn", False, True),
    ("f64", 1, 16, 4096, 4096, "kn", False, False), ("f64", 64, 64, 64, 64, "kn", False, False),
    # lines that begin inside of a sector, or of 16 bytes, 24.0 and 49.2, 27.8 and 32.4, 42.1 and 66.0, 145 and 199; 145 and 93
    ("f32", 1, 64, 4100, 4100, "nk", True, True), ("f32", 1, 64, 4100, 4100, "kn", True, True), ("f32", 1, 64, 4098, 4098, "kn", True, True),
    ("f32", 1, 512, 4098, 4098, "kn", True, True), ("f32", 1, 512, 4098, 4098, "nk", True, False), ("f32", 1, 1024, 1024, 1024, "nk", True, False),
    # 19.4 and 24.7, 18.1 and 22.4; 56.8 and 24.0, 6.8 and 5.8
    ("f32", 96, 197, 197, 64, "kn", False, True), ("f32", 1000, 50, 50, 50, "kn", False, True), ("f32", 1, 1024, 1024, 1024, "kn", False, False),
    ("f32", 64, 128, 37, 128, "kn", False, False),
    # 9.8 and 12.0; of longer sums than L2 keeps the factors of 62.4 and 56.6
    ("bf16", 1, 832, 3904, 480, "nk", False, True), ("bf16", 1, 256, 13824, 5120, "nk", False, False),
])
def test_other_types_are_the_librarys_where_it_took_less_time(element, batch, m, k, n, layout, tf32, faster):
    with idle_context(), ir.Location.unknown():
        half = {"results": ("bf16",), "body": "%y0 = arith.truncf %s : f32 to bf16"} if element == "bf16" else {}
        sides, b = {"b": batch, "m": m, "n": n, "k": k} if batch > 1 else {"m": m, "n": n, "k": k}, "b" if batch > 1 else ""
        text = contraction(sides, f"{b}mk", f"{b}{layout}", f"{b}mn", element.replace("64", "32"), **half)
        module, target = ir.Module.parse(text.replace("f32", element) if element == "f64" else text), find_target("sm_90a")
        product = kernels(module)[0]
        if tf32:
            product.attributes[PRECISION] = ir.StringAttr.get("tf32")
        assert (weigh(product, assign.choose(product, target), target) is not None) == faster
        assert weigh(product, assign.choose(product, find_target("sm_80")), find_target("sm_80")) is None
        if element == "f32":  # whose weights may have another form
            assert weigh(product, assign.choose(product, target), target, prepared=True) is None


@pytest.mark.parametrize("chained", [True, False])
def test_products_that_may_become_one_launch_are_not_the_librarys(chained):
    """Two of the same rows, of which one adds the other's result, or not: only the second may be launched together."""
    product = contraction({"m": 509, "n": 1472, "k": 6008}, "mk", "nk", "mn", results=("bf16",), body="%y0 = arith.truncf %s : f32 to bf16")
    added = contraction({"m": 509, "n": 1472, "k": 6008}, "mk", "nk", "mn", extras=(("mn", "bf16"),), results=("bf16",), body="""
        %wide = arith.extf %e0 : bf16 to f32
        %total = arith.addf %s, %wide : f32
        %y0 = arith.truncf %total : f32 to bf16""")
    with idle_context(), ir.Location.unknown():
        modules = [ir.Module.parse(text) for text in (product, added)]
        main = f"""
            func.func @main(%x: tensor<509x6008xbf16>, %a: tensor<1472x6008xbf16>, %b: tensor<1472x6008xbf16>, %r: tensor<509x1472xbf16>)
                -> (tensor<509x1472xbf16>, tensor<509x1472xbf16>) {{
              %e = tensor.empty() : tensor<509x1472xbf16>
              %0 = call @one(%x, %a, %e) : (tensor<509x6008xbf16>, tensor<1472x6008xbf16>, tensor<509x1472xbf16>) -> tensor<509x1472xbf16>
              %1 = call @two(%x, %b, {"%0" if chained else "%r"}, %e)
                : (tensor<509x6008xbf16>, tensor<1472x6008xbf16>, tensor<509x1472xbf16>, tensor<509x1472xbf16>) -> tensor<509x1472xbf16>
              return %0, %1 : tensor<509x1472xbf16>, tensor<509x1472xbf16>
            }}"""
        texts = [str(k := kernels(m)[0]).replace(f"@{k.name.value}(", f"@{name}(") for m, name in zip(modules, ("one", "two"))]
        module = ir.Module.parse("\n".join([main, *texts]))
        module.operation.attributes["inferno.matmul"] = ir.StringAttr.get("auto")
        assign.assign_schedules(module, "sm_90a")
        assert ("cublaslt" in str(module)) == chained
