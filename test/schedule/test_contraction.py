"""What parse_contraction says of kernels in split form: roles of loops, strides, prologues, epilogues, and what it refuses."""

import pytest

from inferno.mlir import ir, idle_context
from inferno.schedule.matmul.parser import parse_contraction

MULTIPLY_ADD = """
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
"""


@pytest.fixture(scope="module")
def context():
    return idle_context()


def parse(context, text):
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        return parse_contraction(module.body.operations[0])


def matmul(lhs, rhs, out, maps, iterators, body=MULTIPLY_ADD, before="", after="", extra="", fill="0.0", attributes=""):
    maps = ", ".join(f"affine_map<{m}>" for m in maps)
    return f"""func.func private @k(%x: tensor<{lhs}>, %w: tensor<{rhs}>{extra}, %o: tensor<{out}>) -> tensor<{out}> {{
      %zero = arith.constant {fill} : f32
      {before}
      %e = tensor.empty() : tensor<{out}>
      %f = linalg.fill ins(%zero : f32) outs(%{"e" if after else "o"} : tensor<{out}>) -> tensor<{out}>
      %0 = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{", ".join(f'"{i}"' for i in iterators)}]}}
        ins(%{"y" if before else "x"}, %w : tensor<{lhs}>, tensor<{rhs}>) outs(%f : tensor<{out}>) {attributes} {{{body}}}
        -> tensor<{out}>
      {after}
      return %{"1" if after else "0"} : tensor<{out}>
    }}"""


MN = ("(m,n,k)->(m,k)", "(m,n,k)->(k,n)", "(m,n,k)->(m,n)")
PPR = ("parallel", "parallel", "reduction")


def test_plain(context):
    c = parse(context, matmul("64x128xf32", "128x32xf32", "64x32xf32", MN, PPR))
    assert (c.B, c.M, c.N, c.K) == (1, 64, 32, 128)
    assert c.lhs.access.strides == (128, 0, 1) and c.rhs.access.strides == (0, 1, 32)
    assert [d.access.strides for d in c.destinations] == [(32, 1, 0)] and c.destinations[0].source is None
    assert c.epilogue is None and not c.tf32 and str(c.accumulator) == "f32"
    assert c.m.stride(c.lhs.access) == 128 and c.k.stride(c.rhs.access) == 32


def test_swaps_so_that_n_is_innermost_in_the_result(context):
    maps = ("(m,n,k)->(m,k)", "(m,n,k)->(k,n)", "(m,n,k)->(n,m)")
    c = parse(context, matmul("64x128xf32", "128x32xf32", "32x64xf32", maps, PPR))
    assert (c.M, c.N) == (32, 64) and c.lhs.access.argument == 1 and c.rhs.access.argument == 0


def test_a_dimension_of_one_operand_joins_m(context):
    maps = ("(b,m,n,k)->(b,m,k)", "(b,m,n,k)->(n,k)", "(b,m,n,k)->(b,m,n)")
    c = parse(context, matmul("7x64x128xf32", "32x128xf32", "7x64x32xf32", maps, ("parallel", *PPR)))
    assert c.m.dims == (0, 1) and c.m.flat and (c.B, c.M, c.N) == (1, 448, 32)
    assert c.m.stride(c.lhs.access) == 128 and c.rhs.access.strides == (0, 0, 128, 1)


def test_a_dimension_of_both_is_batch(context):
    maps = ("(b,m,n,k)->(b,m,k)", "(b,m,n,k)->(b,k,n)", "(b,m,n,k)->(b,m,n)")
    c = parse(context, matmul("7x64x128xf32", "7x128x32xf32", "7x64x32xf32", maps, ("parallel", *PPR)))
    assert c.batch.dims == (0,) and (c.B, c.M) == (7, 64) and c.batch.stride(c.lhs.access) == 64 * 128


def test_permuted_rows_are_a_list(context):
    # Heads are merged in the result but not in the operand: m cannot be one strided dimension.
    maps = ("(h,s,n,k)->(h,s,k)", "(h,s,n,k)->(k,n)", "(h,s,n,k)->(s,h,n)")
    c = parse(context, matmul("4x64x128xf32", "128x32xf32", "64x4x32xf32", maps, ("parallel", *PPR)))
    assert not c.m.flat and c.m.dims == (1, 0) and c.m.sizes == (64, 4) and c.m.strides(c.lhs.access) == (128, 64 * 128)


def test_convolution(context):
    maps = ("(n,h,f,r,c)->(n,c,h*2+r)", "(n,h,f,r,c)->(f,c,r)", "(n,h,f,r,c)->(n,f,h)")
    c = parse(context, matmul("2x8x33xf32", "16x8x3xf32", "2x16x16xf32", maps, ("parallel",) * 3 + ("reduction",) * 2))
    assert (c.M, c.N, c.K) == (16, 32, 24)  # the filters are m: positions are innermost in the result
    image = c.rhs.access
    assert image.strides == (8 * 33, 2, 0, 1, 33) and set(c.k.dims) == {3, 4}


def test_prologue_and_epilogue(context):
    before = """
      %pe = tensor.empty() : tensor<64x128xf32>
      %y = linalg.generic {indexing_maps = [affine_map<(i,j)->(i,j)>, affine_map<(i,j)->(j)>, affine_map<(i,j)->(i,j)>],
          iterator_types = ["parallel", "parallel"]}
          ins(%x, %g : tensor<64x128xf32>, tensor<128xf32>) outs(%pe : tensor<64x128xf32>) {
        ^bb0(%a: f32, %b: f32, %old: f32):
          %q = arith.mulf %a, %b : f32
          linalg.yield %q : f32 } -> tensor<64x128xf32>"""
    after = """
      %1 = linalg.generic {indexing_maps = [affine_map<(i,j)->(i,j)>, affine_map<(i,j)->(j)>, affine_map<(i,j)->(i,j)>],
          iterator_types = ["parallel", "parallel"]}
          ins(%0, %h : tensor<64x32xf32>, tensor<32xf32>) outs(%o : tensor<64x32xf32>) {
        ^bb0(%a: f32, %b: f32, %old: f32):
          %q = arith.addf %a, %b : f32
          %r = arith.maximumf %q, %zero : f32
          linalg.yield %r : f32 } -> tensor<64x32xf32>"""
    text = matmul("64x128xf32", "128x32xf32", "64x32xf32", MN, PPR, before=before, after=after,
                  extra=", %g: tensor<128xf32>, %h: tensor<32xf32>")
    c = parse(context, text)
    assert c.lhs.access is None and [s.strides for s in c.lhs.reads] == [(128, 0, 1), (0, 0, 1)]
    assert [s.argument for s in c.lhs.reads] == [0, 2]
    assert c.epilogue.accumulators == (0,) and [e.strides for e in c.extras] == [(0, 1, 0)] and c.extras[0].argument == 3
    assert c.destinations[0].source == 0 and c.epilogue.indices == (0, 1)
    assert "arith.constant" in [o.operation.name for o in c.epilogue.block.operations]  # constants are inside


def test_widened_operands(context):
    body = """
      ^bb0(%a: bf16, %b: bf16, %acc: f32):
        %c = arith.extf %a : bf16 to f32
        %d = arith.extf %b : bf16 to f32
        %p = arith.mulf %c, %d : f32
        %s = arith.addf %acc, %p : f32
        linalg.yield %s : f32
    """
    c = parse(context, matmul("64x128xbf16", "128x32xbf16", "64x32xf32", MN, PPR, body=body))
    assert c.lhs.extend == "arith.extf" and str(c.lhs.element) == "bf16"


def test_tf32_is_marked(context):
    mark = 'attrs = {inferno.precision = "tf32"}'
    assert parse(context, matmul("64x128xf32", "128x32xf32", "64x32xf32", MN, PPR, attributes=mark)).tf32


def test_named_operations(context):
    text = """func.func private @k(%x: tensor<2x8x16xf32>, %w: tensor<2x16x4xf32>, %o: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
      %z = arith.constant 0.0 : f32
      %f = linalg.fill ins(%z : f32) outs(%o : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
      %0 = linalg.batch_matmul ins(%x, %w : tensor<2x8x16xf32>, tensor<2x16x4xf32>) outs(%f : tensor<2x8x4xf32>)
        -> tensor<2x8x4xf32>
      return %0 : tensor<2x8x4xf32>
    }"""
    c = parse(context, text)
    assert (c.B, c.M, c.N, c.K) == (2, 8, 4, 16)


SUBTRACT = MULTIPLY_ADD.replace("arith.addf %acc, %p", "arith.subf %acc, %p")


@pytest.mark.parametrize("text", [
    matmul("64x128xf32", "128x32xf32", "64x32xf32", MN, PPR, fill="1.0"),
    matmul("64x128xf32", "128x32xf32", "64x32xf32", MN, PPR, body=SUBTRACT),
    matmul("?x128xf32", "128x32xf32", "?x32xf32", MN, PPR).replace("tensor.empty()", "tensor.empty(%n)").replace(
        "%e =", "%i = arith.constant 0 : index\n%n = tensor.dim %x, %i : tensor<?x128xf32>\n%e ="),
    matmul("64x0xf32", "0x32xf32", "64x32xf32", MN, PPR),
    matmul("64x64xf32", "128x32xf32", "64x32xf32", ("(m,n,k)->(m,k floordiv 2)", *MN[1:]), PPR),
    matmul("64x128xf32", "128x32xf32", "64x32xf32", MN, PPR).replace("arith.addf", "arith.maximumf"),
], ids=["starts from 1", "subtracts", "dynamic", "empty", "floordiv", "maximum"])
def test_refuses(context, text):
    assert parse(context, text) is None
