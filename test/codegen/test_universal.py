"""Kernels of the universal generator against float64, on a simulated GPU; and what they are made of."""

import re

import pytest
import torch
from checks import check
from kernels import build
from universal_cases import CASES
from universal_program import Simulated, SimulatedModel, assert_assembles, scheduled

from inferno.mlir import ir, idle_context
from inferno.passes.manager import run_pipeline
from inferno.target import find_target
from inferno.targets import nvptx

TARGET = find_target("sm_90a")


@pytest.mark.covering(most=10)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    model, args = CASES[name]()
    before = [a.clone() for a in args]
    simulated = SimulatedModel(model, args)
    found = check(simulated, model, args)
    assert found.right, str(found)
    assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(args, before)), "an input was written to"


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", ["integers", "mathematics", "a long sum", "linear f16", "conv2d bf16", "long cumulative sums", "topk", "scatter reduce"])
def test_assembles(name):
    simulated = SimulatedModel(*CASES[name]())
    assert_assembles(simulated.program.gpu, TARGET)


FAR = torch.tensor([1, 9, -1, 1 << 32, -(1 << 40), 3])  # of a dimension of 5; beyond 32 bits lie what would be places 0


@pytest.mark.parametrize("function,inside", [
    (lambda x, i, v: x.index_put((i,), v), [True, False, True, False, False, True]),
    (lambda x, i, v: x.scatter(0, i[:, None].expand(-1, 3), v), [True, False, False, False, False, True]),
    (lambda x, i, v: x.scatter_reduce(0, i[:, None].expand(-1, 3), v, "prod"), [True, False, False, False, False, True]),
])
def test_nothing_is_written_out_of_range(function, inside):
    x, v, i, keep = torch.randn(5, 3), torch.randn(6, 3), FAR, torch.tensor(inside)
    simulated = SimulatedModel(function, (x, i, v))
    torch.testing.assert_close(simulated(x, i, v), function(x, i[keep], v[keep]))


# What kernels are made of.

MATMUL = """func.func private @k(%a: tensor<{m}x{k}xf32>, %b: tensor<{k}x{n}xf32>, %o: tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32> {{
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %r = linalg.matmul ins(%a, %b : tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>) outs(%f : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  return %r : tensor<{m}x{n}xf32>
}}"""

SUMS = """func.func private @k(%a: tensor<{m}x{n}xf32>, %o: tensor<{p}xf32>) -> tensor<{p}xf32> {{
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<{p}xf32>) -> tensor<{p}xf32>
  %r = linalg.reduce {{ arith.addf }} ins(%a : tensor<{m}x{n}xf32>) outs(%f : tensor<{p}xf32>) dimensions = [{d}]
  return %r : tensor<{p}xf32>
}}"""

# Each column of a tensor that holds one number: nothing but that tensor says how many terms there are.
CONSTANT = """func.func private @k(%o: tensor<7xi64>) -> tensor<7xi64> {
  %zero = arith.constant 0 : i64
  %two = arith.constant 2 : i64
  %e = tensor.empty() : tensor<5x7xi64>
  %x = linalg.fill ins(%two : i64) outs(%e : tensor<5x7xi64>) -> tensor<5x7xi64>
  %f = linalg.fill ins(%zero : i64) outs(%o : tensor<7xi64>) -> tensor<7xi64>
  %r = linalg.reduce { arith.addi } ins(%x : tensor<5x7xi64>) outs(%f : tensor<7xi64>) dimensions = [0]
  return %r : tensor<7xi64>
}"""

# max(x @ w, 0) as one generic with an accumulator that is dead outside, in bfloat16.
FUSED = """func.func private @k(%x: tensor<5x40xbf16>, %w: tensor<40x7xbf16>, %o: tensor<5x7xbf16>) -> tensor<5x7xbf16> {
  %zero = arith.constant 0.0 : f32
  %last = arith.constant 39 : index
  %e = tensor.empty() : tensor<5x7xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x7xf32>) -> tensor<5x7xf32>
  %r:2 = linalg.generic {indexing_maps = [affine_map<(m,n,k) -> (m,k)>, affine_map<(m,n,k) -> (k,n)>, affine_map<(m,n,k) -> (m,n)>,
      affine_map<(m,n,k) -> (m,n)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<5x40xbf16>, tensor<40x7xbf16>) outs(%f, %o : tensor<5x7xf32>, tensor<5x7xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %acc: f32, %old: bf16):
    %c = arith.extf %a : bf16 to f32
    %d = arith.extf %b : bf16 to f32
    %p = arith.mulf %c, %d : f32
    %s = arith.addf %acc, %p : f32
    %k = linalg.index 2 : index
    %end = arith.cmpi eq, %k, %last : index
    %y = arith.maximumf %s, %zero : f32
    %z = arith.truncf %y : f32 to bf16
    %v = arith.select %end, %z, %old : bf16
    linalg.yield %s, %v : f32, bf16
  } -> (tensor<5x7xf32>, tensor<5x7xbf16>)
  return %r#1 : tensor<5x7xbf16>
}"""

# Row n of a table is doubled as often as a number in memory says, in a loop that carries a tensor.
LOOP = """func.func private @k(%x: tensor<4x6xf32>, %n: tensor<i64>, %o: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %two = arith.constant 2.0 : f32
  %number = tensor.extract %n[] : tensor<i64>
  %end = arith.index_cast %number : i64 to index
  %copy = linalg.copy ins(%x : tensor<4x6xf32>) outs(%o : tensor<4x6xf32>) -> tensor<4x6xf32>
  %r = scf.for %i = %c0 to %end step %c1 iter_args(%t = %copy) -> tensor<4x6xf32> {
    %row = tensor.extract_slice %t[%end, 0] [1, 6] [1, 1] : tensor<4x6xf32> to tensor<1x6xf32>
    %twice = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>], iterator_types = ["parallel", "parallel"]} outs(%row : tensor<1x6xf32>) {
    ^bb0(%v: f32):
      %w = arith.mulf %v, %two : f32
      linalg.yield %w : f32
    } -> tensor<1x6xf32>
    %next = tensor.insert_slice %twice into %t[%end, 0] [1, 6] [1, 1] : tensor<1x6xf32> into tensor<4x6xf32>
    scf.yield %next : tensor<4x6xf32>
  }
  return %r : tensor<4x6xf32>
}"""

# A constant that is not one value, and a slice whose place is read from memory.
SLICE = """func.func private @k(%x: tensor<5x3xf32>, %n: tensor<i64>, %o: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %table = arith.constant dense<[1.0, 2.0, 4.0]> : tensor<3xf32>
  %number = tensor.extract %n[] : tensor<i64>
  %at = arith.index_cast %number : i64 to index
  %part = tensor.extract_slice %x[%at, 0] [2, 3] [1, 1] : tensor<5x3xf32> to tensor<2x3xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (b)>, affine_map<(a,b) -> (a,b)>],
      iterator_types = ["parallel", "parallel"]} ins(%part, %table : tensor<2x3xf32>, tensor<3xf32>) outs(%o : tensor<2x3xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %y = arith.mulf %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}"""


def run(kernel: str, *inputs: torch.Tensor) -> torch.Tensor:
    """The result of the only kernel function of ``kernel``, simulated."""
    arguments, result = re.search(r"@k\((.*?)\) -> (\S+) {", kernel, re.S).groups()
    types = [a.split(": ")[1] for a in re.split(r",\s*(?=%)", arguments)]
    names = ", ".join(f"%{i}" for i in range(len(types) - 1))
    main = f"""func.func @main({", ".join(f"%{i}: {t}" for i, t in enumerate(types[:-1]))}) -> {result} {{
      %e = tensor.empty() : {result}
      %r = call @k({names}, %e) : ({", ".join(types)}) -> {result}
      return %r : {result}
    }}"""
    return Simulated(f"module {{\n{main}\n{kernel}\n}}")(*inputs)[0]


def test_fused_contraction():
    x, w = torch.randn(5, 40).bfloat16(), torch.randn(40, 7).bfloat16()
    exact = torch.relu(x.double() @ w.double())
    error = ((run(FUSED, x, w).double() - exact).norm() / exact.norm()).item()
    assert error <= torch.finfo(torch.bfloat16).eps


def test_loop_of_tensors():
    x = torch.randn(4, 6)
    expected = x.clone()
    expected[3] *= 8
    assert torch.equal(run(LOOP, x, torch.tensor(3)), expected)


def test_slice_at_a_place_in_memory_and_a_table():
    x = torch.randn(5, 3)
    assert torch.equal(run(SLICE, x, torch.tensor(2)), x[2:4] * torch.tensor([1.0, 2.0, 4.0]))


@pytest.mark.parametrize("kernel, launches", [
    (MATMUL.format(m=50, n=60, k=70), 1), (FUSED, 2), (SLICE, 1), (LOOP, 2), (CONSTANT, 1),
    (SUMS.format(m=50, n=700, p=50, d=1), 1), (SUMS.format(m=90, n=50, p=50, d=0), 1), (SUMS.format(m=4, n=1 << 20, p=4, d=1), 2),
], ids=["matmul", "fused", "slice", "loop", "constant", "rows", "columns", "few long rows"])
def test_launches(kernel, launches):
    built = build_gpu(kernel)
    assert built.count('"inferno.launch"') == launches
    # Partial sums of long rows, and the sums of a product before what follows it.
    assert built.count("memref.alloc") == (1 if "1048576" in kernel or kernel == FUSED else 0)


@pytest.mark.parametrize("kernel", [FUSED, LOOP, SLICE], ids=["fused", "loop", "slice"])
def test_every_form_lowers(kernel):
    with idle_context(), ir.Location.unknown():
        module = scheduled(f"module {{\n{kernel}\n}}")
        run_pipeline(module, "generate-kernels{target=sm_90a},inferno-lower")
        device = next(o for o in module.body.operations if o.operation.name == "gpu.module")
        ptx = nvptx.to_ptx(nvptx.llvm_text(device.operation), TARGET)
        assert ".extern" not in ptx
        nvptx.assemble(ptx, TARGET)


def build_gpu(kernel: str) -> str:
    with idle_context(), ir.Location.unknown():
        module = scheduled(f"module {{\n{kernel}\n}}")
        run_pipeline(module, "generate-kernels{target=sm_90a}")
        return str(module)


@pytest.mark.parametrize("m, n, d", [(3, 70000, 1), (70000, 3, 0), (2500, 130, 0), (40, 33, 1), (1, 31, 1), (33, 64, 0), (5, 1025, 1)])
def test_sums_of_every_shape(m, n, d):
    x = torch.rand(m, n)  # of one sign: a sum near zero has no relative error to speak of
    ours = run(SUMS.format(m=m, n=n, p=(m, n)[1 - d], d=d), x)
    exact = x.double().sum(d)
    assert ((ours.double() - exact).norm() / exact.norm()).item() <= torch.finfo(torch.float32).eps


def test_offsets_are_32_bits_wide():
    built = build("module {" + MATMUL.format(m=500, n=600, k=700) + "}", "universal")
    loop = built.ptx[built.ptx.index("fma.rn.f32") - 400:built.ptx.index("fma.rn.f32")]
    assert built.count(r"mul\.lo\.s64|mad\.lo\.s64") == 0 and "ld.global" in loop
    assert built.accesses() == {"ld.global.nc.b32", "st.global.b32"}


def test_offsets_are_64_bits_wide_where_buffers_are_large():
    text = """module { func.func private @k(%a: tensor<70000x40000xf32>, %o: tensor<40000x70000xf32>) -> tensor<40000x70000xf32> {
      %r = linalg.transpose ins(%a : tensor<70000x40000xf32>) outs(%o : tensor<40000x70000xf32>) permutation = [1, 0]
      return %r : tensor<40000x70000xf32> } }"""
    built = build(text, "universal")
    assert not re.search(r"arith\.(muli|addi|divui|remui) .*: i32", built.gpu)


def test_neighbouring_threads_write_neighbours():
    text = """func.func private @k(%a: tensor<64x128xf32>, %o: tensor<128x64xf32>) -> tensor<128x64xf32> {
      %r = linalg.generic {indexing_maps = [affine_map<(m,n) -> (m,n)>, affine_map<(m,n) -> (n,m)>], iterator_types = ["parallel", "parallel"]}
          ins(%a : tensor<64x128xf32>) outs(%o : tensor<128x64xf32>) {
      ^bb0(%x: f32, %old: f32):
        linalg.yield %x : f32
      } -> tensor<128x64xf32>
      return %r : tensor<128x64xf32> }"""
    ptx = build("module {" + text + "}", "universal").ptx
    assert "st.global" in ptx and torch.equal(run(text, torch.arange(64 * 128).float().view(64, 128)), torch.arange(64 * 128).float().view(64, 128).T)


@pytest.mark.parametrize("model, args", [
    (lambda x, i: x.scatter(0, i, 2.5), (torch.randn(90, 70), torch.stack([torch.randperm(90)[:40] for _ in range(70)], 1))),
    (lambda x, i: torch.zeros_like(x).scatter_add(0, i, torch.ones_like(x)), (torch.randn(500), torch.randint(0, 500, (500,)))),
    (lambda x, i: x.index_put((i, i), torch.full((), 3, dtype=x.dtype)), (torch.randn(8, 8), torch.tensor([1, 7, 3]))),
    (lambda x, i: x.index_put((i,), torch.full((3, 64), 2.5, dtype=x.dtype)), (torch.randn(40, 64), torch.tensor([1, 7, 33]))),
    (lambda x, i: (x.index_put((i, i), torch.full((3, 64), 2.5, dtype=x.dtype)), torch.full((3, 64), 2.5)),
     (torch.randn(40, 40, 64), torch.tensor([1, 7, 33]))),
])
def test_one_value_for_all_places(model, args):
    """It is in no memory: a fill or a copy of what it is put into, and the kernel that puts it."""
    made = SimulatedModel(model, args)
    found = check(made, model, args)
    assert found.right, str(found)
    assert len([s for s in made.program.plan.steps if "scatter" in s.kernel]) == 2
