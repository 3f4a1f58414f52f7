"""The code of elementwise kernels: widths of memory accesses, registers, and what is refused."""

import pytest
import torch
from kernels import build, choose, elementwise, unary

from universal_program import Simulated, SimulatedModel

import inferno
from inferno.capture import capture
from inferno.mlir import idle_context, ir
from inferno.passes.manager import run_pipeline
from inferno.runtime.workers import jobs
from inferno.schedule.assign import kernels
from inferno.schedule.maps.elementwise import Elementwise
from inferno.schedule.maps.elementwise import choose as elementwise_schedule
from inferno.target import find_target

MULTIPLY_ADD_SIGMOID = """
  %p = arith.mulf {0}, {1} : f32
  %s = arith.addf %p, {2} : f32
  %n = arith.negf %s : f32
  %e = math.exp %n : f32
  %one = arith.constant 1.0 : f32
  %d = arith.addf %e, %one : f32
  %q = arith.divf %one, %d : f32
"""


def multiply_add_sigmoid(element, shape=(8192, 8192)):
    if element == "f32":
        body = MULTIPLY_ADD_SIGMOID.format("%x0", "%x1", "%x2") + "linalg.yield %q : f32"
    else:
        wide = "\n".join(f"%w{i} = arith.extf %x{i} : {element} to f32" for i in range(3))
        body = wide + MULTIPLY_ADD_SIGMOID.format("%w0", "%w1", "%w2")
        body += f"%r = arith.truncf %q : f32 to {element}\nlinalg.yield %r : {element}"
    return elementwise([(shape, element)] * 3, (shape, element), ["m,n"] * 4, "mn", body)


@pytest.mark.parametrize("element, vector", [("f32", 4), ("bf16", 8), ("f16", 8)])
def test_moves_16_bytes_and_stays_small(element, vector):
    built = build(multiply_add_sigmoid(element), "elementwise")
    assert built.schedule == Elementwise(threads=256, vector=vector, unroll=1)
    assert built.accesses() == {"ld.global.nc.v4.b32", "st.global.v4.b32"}
    assert built.count(r"ld\.global") == 3 and built.count(r"st\.global") == 1
    assert "div" not in built.ptx and "bra" not in built.ptx  # no slow division, no guard where blocks fit
    if built.resources:
        assert built.resources.registers <= 32 and built.resources.spills == 0


def test_last_points_are_scalar():
    built = build(unary("%y = arith.addf %x0, %x0 : f32", (3001, 1001)), "elementwise")
    assert built.accesses() == {"ld.global.nc.v4.b32", "st.global.v4.b32", "ld.global.nc.b32", "st.global.b32"}


def test_unrolled_loads_come_first():
    built = build(unary("%y = arith.addf %x0, %x0 : f32"), "elementwise", Elementwise(256, 4, 4))
    body = built.ptx
    assert body.count("ld.global.nc.v4") == 4 and body.rindex("ld.global") < body.index("st.global")


@pytest.mark.parametrize("shape, maps, dims, loads", [
    (((4096, 4096), (4096,)), ["m,n", "n", "m,n"], "mn", {"ld.global.nc.v4.b32"}),
    (((4096, 4096), (4096,)), ["m,n", "m", "m,n"], "mn", {"ld.global.nc.v4.b32", "ld.global.nc.b32"}),
    (((4096, 4095), (4095,)), ["m,n", "n", "m,n"], "mn", {"ld.global.nc.v4.b32", "ld.global.nc.b32"}),
    (((64, 32, 4096), (64, 32, 4096)), ["b,a,c", "b,a,c", "a,b,c"], "abc", {"ld.global.nc.v4.b32"}),
], ids=["column bias", "row bias", "ragged bias", "permuted rows"])
def test_broadcast_and_permuted_inputs(shape, maps, dims, loads):
    out = tuple({"m": 4096, "n": shape[0][1], "a": 32, "b": 64, "c": 4096}[d] for d in dims)
    body = "%y = arith.addf %x0, %x1 : f32\nlinalg.yield %y : f32"
    text = elementwise([(s, "f32") for s in shape], (out, "f32"), maps, dims, body)
    built = build(text, "elementwise")
    assert {a for a in built.accesses() if a.startswith("ld")} == loads
    assert "st.global.v4.b32" in built.accesses()


def test_booleans_are_bytes():
    text = elementwise([((4096, 4096), "f32")] * 2, ((4096, 4096), "i1"), ["m,n"] * 3, "mn",
                       "%y = arith.cmpf ogt, %x0, %x1 : f32\nlinalg.yield %y : i1")
    built = build(text, "elementwise")
    assert built.accesses() == {"ld.global.nc.v4.b32", "st.global.v2.b32"} and "memref<16777216xi8, 1>" in built.gpu


def test_rows_of_tables_are_vectors():
    body = """
      %i = arith.index_cast %x0 : i64 to index
      %j = linalg.index 1 : index
      %y = tensor.extract %t0[%i, %j] : tensor<5000x1024xf32>
      linalg.yield %y : f32"""
    text = elementwise([((4096,), "i64")], ((4096, 1024), "f32"), ["m", "m,n"], "mn", body, [((5000, 1024), "f32")])
    built = build(text, "elementwise")
    assert {"ld.global.nc.v4.b32", "st.global.v4.b32"} <= built.accesses() and built.count(r"ld\.global") == 2


def test_in_place_is_not_read_through_the_constant_cache():
    text = """func.func private @map(%a: tensor<4096xf32>, %o: tensor<4096xf32>) -> tensor<4096xf32> {
      %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
        ins(%a : tensor<4096xf32>) outs(%o : tensor<4096xf32>) {
        ^bb0(%x: f32, %old: f32):
          %y = arith.addf %x, %old : f32
          linalg.yield %y : f32 } -> tensor<4096xf32>
      return %r : tensor<4096xf32>
    }"""
    accesses = build(text, "elementwise").accesses()
    assert any(a.startswith("ld.global.b") for a in accesses) and any(a.startswith("ld.global.nc") for a in accesses)


@pytest.mark.parametrize("rows, width", [(32768, "i32"), (65536, "i64")])
def test_offsets_are_as_wide_as_they_must_be(rows, width):
    built = build(unary("%y = arith.addf %x0, %x0 : f32", (rows, 40000)), "elementwise")
    assert f"index_cast %block_id_x : index to {width}" in built.gpu


REDUCTION = """func.func private @map(%a: tensor<64x64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %r = linalg.generic {indexing_maps = [affine_map<(i,j) -> (i,j)>, affine_map<(i,j) -> (i)>],
    iterator_types = ["parallel", "reduction"]}
    ins(%a : tensor<64x64xf32>) outs(%o : tensor<64xf32>) {
    ^bb0(%x: f32, %s: f32):
      %y = arith.addf %x, %s : f32
      linalg.yield %y : f32 } -> tensor<64xf32>
  return %r : tensor<64xf32>
}"""


@pytest.mark.parametrize("text", [
    REDUCTION,
    unary("%y = arith.addf %x0, %x0 : f32", (0, 4)),
    elementwise([((4,), "complex<f32>")], ((4,), "f32"), ["i", "i"], "i",
                "%y = complex.re %x0 : complex<f32>\nlinalg.yield %y : f32"),
    elementwise([((8,), "f32")], ((8,), "f32"), ["i floordiv 2", "i"], "i", "linalg.yield %x0 : f32"),
], ids=["reduction", "empty", "complex", "floordiv"])
def test_refuses(text):
    assert choose(text, "elementwise") is None


@pytest.mark.parametrize("element, tile", [("f32", 32), ("bf16", 64), ("i1", 64)])
def test_transposes_go_through_shared_memory(element, tile):
    shape = (1001, 2000)
    text = elementwise([(shape, element)], ((2000, 1001), element), ["n,m", "m,n"], "mn", f"linalg.yield %x0 : {element}")
    built = build(text, "elementwise")
    assert built.schedule.tile == tile and built.count(r"ld\.shared") == built.count(r"ld\.global") == tile * tile // 256
    if built.resources:
        assert built.resources.registers <= 48 and built.resources.spills == 0


@pytest.mark.parametrize("turn, tile", [
    (lambda w: w.flip(1, 2).permute(3, 1, 2, 0).contiguous(), 64),
    (lambda w: w.flip(1, 2), 0),
], ids=["transposed", "in order"])
def test_windows_flipped(monkeypatch, turn, tile):
    """Read backwards along their taps: through shared memory where they are transposed as well."""
    monkeypatch.setenv("INFERNO_UNMEASURED", "1")
    w, chosen = torch.randn(20, 3, 2, 18).bfloat16(), []

    def choose(kernel):
        chosen.append(elementwise_schedule(kernel, find_target("sm_90a")))
        return chosen[-1]

    assert torch.equal(SimulatedModel(turn, (w,), choose=choose)(w), turn(w))
    assert [s.tile for s in chosen] == [tile]


def test_every_second_tap(monkeypatch):
    """As the phases of a convolution by steps read their windows."""
    monkeypatch.setenv("INFERNO_UNMEASURED", "1")
    text = """func.func @main(%w: tensor<20x3x18xf32>) -> tensor<18x2x20xf32> {
      %e = tensor.empty() : tensor<18x2x20xf32>
      %r = func.call @pick(%w, %e) : (tensor<20x3x18xf32>, tensor<18x2x20xf32>) -> tensor<18x2x20xf32>
      return %r : tensor<18x2x20xf32>
    }
    func.func private @pick(%w: tensor<20x3x18xf32>, %o: tensor<18x2x20xf32>) -> tensor<18x2x20xf32> {
      %two = arith.constant 2 : index
      %r = linalg.generic {indexing_maps = [affine_map<(c, t, f) -> (c, t, f)>], iterator_types = ["parallel", "parallel", "parallel"]}
        outs(%o : tensor<18x2x20xf32>) {
        ^bb0(%old: f32):
          %c = linalg.index 0 : index
          %t = linalg.index 1 : index
          %f = linalg.index 2 : index
          %m = arith.muli %t, %two : index
          %s = arith.subi %two, %m : index
          %x = tensor.extract %w[%f, %s, %c] : tensor<20x3x18xf32>
          linalg.yield %x : f32 } -> tensor<18x2x20xf32>
      return %r : tensor<18x2x20xf32>
    }"""
    w = torch.randn(20, 3, 18)
    (found,) = Simulated(text, lambda kernel: Elementwise(vector=1, tile=32))(w)
    assert torch.equal(found, w[:, [2, 0]].permute(2, 1, 0))


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("model, shapes, dtype, schedule", [
    (lambda x: x.t().contiguous(), ((72, 136),), torch.bfloat16, Elementwise(256, 8, 1, 64)),
    (lambda x: x.t().contiguous(), ((136, 200),), torch.bfloat16, Elementwise(1024, 8, 2, 64, 2)),
    (lambda x, y: torch.relu(x.permute(2, 0, 1) + y).contiguous(), ((3, 20, 44), (44, 3, 20)), torch.float32, Elementwise(64, 4, 1, 32)),
    (lambda x, y, b: (x.mT * y.mT + b).contiguous(), ((2, 32, 68), (2, 32, 68), (68, 1)), torch.float32, Elementwise(256, 4, 2, 32)),
    (lambda x: torch.triu(x.t().contiguous()), ((36, 64),), torch.float32, Elementwise(256, 4, 1, 32, 2)),
    (lambda x: x.t().contiguous(), ((18, 34),), torch.float64, Elementwise(64, 2, 1, 16, 2)),
    (lambda x: x.t().contiguous(), ((144, 80),), torch.bool, Elementwise(256, 16, 1, 128)),
    (lambda x: x.t().float().contiguous(), ((72, 64),), torch.bfloat16, Elementwise(256, 8, 1, 64)),
    (lambda x: x.t().contiguous(), ((70, 134),), torch.bfloat16, Elementwise(256, 2, 1, 64)),
    (lambda x: x.t().contiguous(), ((132, 196),), torch.bfloat16, Elementwise(1024, 4, 2, 64, 2)),
    (lambda x: x.t().contiguous(), ((130, 198),), torch.bfloat16, Elementwise(1024, 2, 2, 64, 2)),
    (lambda x, y, z: (torch.maximum(x.mT, y.mT) + z).contiguous(), ((2, 66, 34), (2, 66, 34), (34, 66)), torch.float16, Elementwise(256, 2, 1, 64)),
    (lambda x: torch.triu(x.t().contiguous()), ((34, 66),), torch.float32, Elementwise(256, 2, 1, 32, 2)),
    (lambda x: x.t().contiguous(), ((132, 76),), torch.bool, Elementwise(256, 4, 1, 128)),
])
def test_transposes_by_vectors(model, shapes, dtype, schedule):
    """Of tiles that the tensor does not fill, too, beside inputs that are read in order and one element for many, and with a body that knows where it is."""
    args = tuple((torch.randn(s) > 0) if dtype == torch.bool else torch.randn(s).to(dtype) for s in shapes)
    own = SimulatedModel(model, args, choose=lambda kernel: schedule)
    torch.testing.assert_close(own(*args), model(*args))


@pytest.mark.parametrize("element, vector", [("f32", 4), ("bf16", 8), ("f64", 2)])
def test_vectors_of_transposes_are_whole(element, vector):
    def text(m, n):
        return elementwise([((m, n), element)], ((n, m), element), ["n,m", "m,n"], "mn", f"linalg.yield %x0 : {element}")

    built = build(text(512, 1024), "elementwise")
    assert (built.schedule.vector, built.schedule.tile) == (vector, 8 * vector)
    bits = 64 if element == "f64" else 32
    assert built.accesses() == {f"{a}.v{128 // bits}.b{bits}" for a in ("ld.global.nc", "st.global")}
    if built.resources:
        assert built.resources.registers <= 32 and built.resources.spills == 0
    assert choose(text(512, 1025), "elementwise").vector == 1
    assert choose(text(512, 1026), "elementwise").vector == choose(text(1026, 512), "elementwise").vector == 2
    assert choose(text(516, 1028), "elementwise").vector == min(4, vector)
    many = build(text(4096, 8192), "elementwise")
    assert many.schedule.sides == (16 * vector, 16 * vector) and many.count("ld.global") == many.count("st.global") == 2


@pytest.mark.parametrize("scale", [0.01, 1.0, 8.0])
def test_gelu_of_16_bits(scale):
    """Is the exact function's rounded value, or one beside it where that lies between two."""
    x = (torch.randn(64, 64) * scale).bfloat16()
    own = SimulatedModel(torch.nn.functional.gelu, (x,), choose=lambda kernel: Elementwise(64, 8))(x).double()
    exact = torch.nn.functional.gelu(x.double())
    assert bool(((own - exact).abs() <= (1 / 256 + 1e-3) * exact.abs().clamp(min=1e-8)).all())


@pytest.mark.covering
@pytest.mark.parametrize("number", [
    lambda i: i // 4 * 3 + i % 4, lambda i: (i - 100) // 8 + (i - 100) % 8, lambda i: (i * 300_000_007 >> 3) + (i * 300_000_007) % 8,
    lambda i: (i >> 2 & 1) + (i & 3) * 2,
], ids=["groups", "negative", "wrapping", "bits"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_numbers_of_groups_of_points(number, dtype):
    """Computed once for the points that have one, and for each where numbers are negative or wrap around."""
    def model(x):
        return x + number(torch.arange(32 * 64, dtype=dtype).view(32, 64))

    x = torch.zeros(32, 64, dtype=dtype)
    assert torch.equal(SimulatedModel(model, (x,), choose=lambda kernel: Elementwise(64, 8))(x), model(x))


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("element, vectors", [("f32", [4, 4, 4, 4]), ("bf16", [8, 8, 8, 8]), ("i8", [16, 16, 1, 1])])
def test_tiles_of_several_inputs_fit(element, vectors):
    add = "arith.addi" if element == "i8" else "arith.addf"
    for count, vector in enumerate(vectors, 1):
        body = "\n".join(f"%s{i} = {add} {f'%s{i - 1}' if i > 1 else '%x0'}, %x{i} : {element}" for i in range(1, count))
        body += f"\nlinalg.yield {f'%s{count - 1}' if count > 1 else '%x0'} : {element}"
        text = elementwise([((4096, 8192), element)] * count, ((8192, 4096), element), ["n,m"] * count + ["m,n"], "mn", body)
        built = build(text, "elementwise")
        assert built.schedule.vector == vector
        assert built.resources is None or built.resources.spills == 0


def test_permuted_rows_do_not():
    text = elementwise([((64, 32, 128), "f32")], ((32, 64, 128), "f32"), ["b,a,c", "a,b,c"], "abc", "linalg.yield %x0 : f32")
    assert choose(text, "elementwise").tile == 0


def test_a_tensor_full_of_a_constant_is_a_constant():
    text = """func.func private @map(%a: tensor<4096xf32>, %o: tensor<4096xf32>) -> tensor<4096xf32> {
      %two = arith.constant 2.0 : f32
      %e = tensor.empty() : tensor<4096xf32>
      %f = linalg.fill ins(%two : f32) outs(%e : tensor<4096xf32>) -> tensor<4096xf32>
      %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
        iterator_types = ["parallel"]} ins(%a, %f : tensor<4096xf32>, tensor<4096xf32>) outs(%o : tensor<4096xf32>) {
        ^bb0(%x: f32, %c: f32, %old: f32):
          %y = arith.addf %x, %c : f32
          linalg.yield %y : f32 } -> tensor<4096xf32>
      return %r : tensor<4096xf32>
    }"""
    built = build(text, "elementwise")
    assert built.count(r"ld\.global") == 1 and "0f40000000" in built.ptx


@pytest.mark.covering
@pytest.mark.parametrize("unroll", [1, 2])
@pytest.mark.parametrize("size", [3, 255, 256, 257, 511, 512, 513, 515, 1024, 1025])
def test_no_point_outside(size, unroll):
    """Vectors that fill their blocks, and points that are left over; the simulator checks every access."""
    x = torch.randn(size)
    model = SimulatedModel(lambda x: x * 2 + 1, (x,), choose=lambda kernel: Elementwise(64, 4, unroll))
    assert torch.equal(model(x), x * 2 + 1)


def test_what_is_reused_is_known_before_functions_are_expanded(caplog):
    """A row that a thread reads once for two others, and functions of many operations behind it."""
    def program(x, y):
        return torch.nn.functional.gelu(torch.nn.functional.gelu(x + y[0]))

    compiled = inferno.compile(program, (torch.randn(436, 9600).bfloat16(), torch.randn(436, 9600).bfloat16()), target="sm_90a")
    (row,) = compiled.explain().rows
    assert row.generator == "elementwise" and not caplog.records, caplog.text


@pytest.mark.parametrize("columns, vector", [(222, 2), (289, 1), (224, 8)])
def test_several_rows_of_an_odd_length_are_read_by_vectors(columns, vector):
    """Lanes of a vector are in one row then; what a thread has in all is the same."""
    x, row = (torch.empty(n, dtype=torch.float16, device="meta") for n in ((50000, columns), (columns,)))
    linalg, _ = jobs.lower_to_linalg(capture(lambda x, y, z: x * y + z, (x, row, row.clone())).text)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(linalg)
        run_pipeline(module, "inferno-fuse")
        (schedule,) = [elementwise_schedule(k, find_target("sm_90a")) for k in kernels(module)]
    assert schedule.vector == vector and schedule.vector * schedule.unroll == 8


def test_halves_that_become_bytes_are_two_vectors_a_thread():
    """A vector of the result is half a store; the last points are scalar."""
    for narrow in (torch.float8_e4m3fn, torch.int8):
        chosen = inferno.compile(lambda x: x.to(narrow), (torch.empty(1 << 26, dtype=torch.bfloat16),), target="sm_90a").explain().rows[0].schedule  # noqa: B023
        assert "unroll=2" in str(chosen) and "vector=8" in str(chosen)
    x, whole = torch.randn(4099).bfloat16(), lambda x: (x * 8).to(torch.int8)
    assert torch.equal(SimulatedModel(whole, (x,), choose=lambda kernel: Elementwise(128, 8, 2))(x), whole(x))
