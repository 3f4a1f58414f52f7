"""Programs in PyTorch compute what upstream's plainest pipeline computes of the same text."""

import pytest
import torch
from oracle import run_module
from universal_cases import CASES

from inferno.capture import capture
from inferno.runtime.workers import jobs
from inferno.runtime.elements import DTYPES
from inferno.targets.torch_source import to_torch

# Between them every kind of operation that is written.
NAMES = (
    "integers", "i32 and u8", "mathematics", "row sums bf16", "norms", "conv2d", "conv transposed", "permutations", "slices written", "gather", "scatter",
    "scatter reduce", "index put", "cumulative", "sort", "argmax", "where", "concatenation",
)
WRITTEN = {
    "maps of every kind": """
        func.func @main(%x: tensor<5x7xf32>, %y: tensor<1x6xf32>) -> (tensor<7x5xf32>, tensor<3x4xf32>, tensor<5xf32>, tensor<10xf32>) {
          %e0 = tensor.empty() : tensor<7x5xf32>
          %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (0, d1 + 1)>, affine_map<(d0, d1) -> (d0, d1)>],
              iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<5x7xf32>, tensor<1x6xf32>) outs(%e0 : tensor<7x5xf32>) {
          ^bb0(%a: f32, %b: f32, %o: f32):
            %s = arith.addf %a, %b : f32
            linalg.yield %s : f32
          } -> tensor<7x5xf32>
          %e1 = tensor.empty() : tensor<3x4xf32>
          %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0 + 2, d0 * 2 + (d1 floordiv 2))>, affine_map<(d0, d1) -> (0, 5 - d1)>,
              affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
              ins(%x, %y : tensor<5x7xf32>, tensor<1x6xf32>) outs(%e1 : tensor<3x4xf32>) {
          ^bb0(%a: f32, %b: f32, %o: f32):
            %i = linalg.index 1 : index
            %j = arith.index_cast %i : index to i64
            %f = arith.sitofp %j : i64 to f32
            %p = arith.mulf %a, %b : f32
            %s = arith.addf %p, %f : f32
            linalg.yield %s : f32
          } -> tensor<3x4xf32>
          %e2 = tensor.empty() : tensor<5xf32>
          %square = tensor.extract_slice %x[0, 1] [5, 5] [1, 1] : tensor<5x7xf32> to tensor<5x5xf32>
          %2 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0, d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
              ins(%square : tensor<5x5xf32>) outs(%e2 : tensor<5xf32>) {
          ^bb0(%a: f32, %o: f32):
            linalg.yield %a : f32
          } -> tensor<5xf32>
          %zero = arith.constant 0.0 : f32
          %e3 = tensor.empty() : tensor<10xf32>
          %f3 = linalg.fill ins(%zero : f32) outs(%e3 : tensor<10xf32>) -> tensor<10xf32>
          %c3 = tensor.collapse_shape %x [[0, 1]] : tensor<5x7xf32> into tensor<35xf32>
          %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0 * 2 + d1 * 3)>, affine_map<(d0, d1) -> (0, d1)>, affine_map<(d0, d1) -> (d0)>],
              iterator_types = ["parallel", "reduction"]} ins(%c3, %y : tensor<35xf32>, tensor<1x6xf32>) outs(%f3 : tensor<10xf32>) {
          ^bb0(%a: f32, %b: f32, %o: f32):
            %p = arith.mulf %a, %b : f32
            %s = arith.addf %p, %o : f32
            linalg.yield %s : f32
          } -> tensor<10xf32>
          return %0, %1, %2, %3 : tensor<7x5xf32>, tensor<3x4xf32>, tensor<5xf32>, tensor<10xf32>
        }""",
    "a loop over the second dimension, behind which bits are made": """
        func.func @main(%x: tensor<3x4xf32>, %start: tensor<3xf32>, %bits: tensor<3xi1>) -> (tensor<3xf32>, tensor<3xi1>, tensor<3xi1>) {
          %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
              ins(%x : tensor<3x4xf32>) outs(%start : tensor<3xf32>) {
          ^bb0(%a: f32, %o: f32):
            %p = arith.mulf %a, %o : f32
            %s = arith.addf %p, %a : f32
            linalg.yield %s : f32
          } -> tensor<3xf32>
          %true = arith.constant true
          %e = tensor.empty() : tensor<3xi1>
          %1 = linalg.fill ins(%true : i1) outs(%e : tensor<3xi1>) -> tensor<3xi1>
          return %0, %1, %bits : tensor<3xf32>, tensor<3xi1>, tensor<3xi1>
        }""",
    "a reduction that starts from a tensor, and one that only a loop computes": """
        func.func @main(%x: tensor<4x6xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
          %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
              ins(%x : tensor<4x6xf32>) outs(%start : tensor<4xf32>) {
          ^bb0(%a: f32, %o: f32):
            %m = arith.maximumf %o, %a : f32
            linalg.yield %m : f32
          } -> tensor<4xf32>
          %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
              ins(%x : tensor<4x6xf32>) outs(%start : tensor<4xf32>) {
          ^bb0(%a: f32, %o: f32):
            %i = linalg.index 1 : index
            %three = arith.constant 3 : index
            %c = arith.cmpi uge, %i, %three : index
            %p = arith.mulf %o, %a : f32
            %q = arith.addf %o, %a : f32
            %s = arith.select %c, %p, %q : f32
            linalg.yield %s : f32
          } -> tensor<4xf32>
          return %0, %1 : tensor<4xf32>, tensor<4xf32>
        }""",
    "unsigned numbers and single bits": """
        func.func @main(%x: tensor<9xi32>, %b: tensor<9xi1>, %c: tensor<9xi1>) -> (tensor<9xi32>, tensor<9xi64>, tensor<9xi1>, tensor<9xf32>, tensor<i1>) {
          %e0 = tensor.empty() : tensor<9xi32>
          %e1 = tensor.empty() : tensor<9xi64>
          %e2 = tensor.empty() : tensor<9xi1>
          %e3 = tensor.empty() : tensor<9xf32>
          %0:4 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>,
              affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
              ins(%x, %b, %c : tensor<9xi32>, tensor<9xi1>, tensor<9xi1>) outs(%e0, %e1, %e2, %e3 : tensor<9xi32>, tensor<9xi64>, tensor<9xi1>, tensor<9xf32>) {
          ^bb0(%a: i32, %p: i1, %q: i1, %o0: i32, %o1: i64, %o2: i1, %o3: f32):
            %three = arith.constant 3 : i32
            %d = arith.divui %a, %three : i32
            %r = arith.shrui %d, %three : i32
            %u = arith.extui %a : i32 to i64
            %z = arith.extsi %p : i1 to i64
            %w = arith.addi %u, %z : i64
            %s = arith.addi %p, %q : i1
            %l = arith.cmpi ult, %a, %three : i32
            %t = arith.ori %s, %l : i1
            %f = arith.uitofp %t : i1 to f32
            linalg.yield %r, %w, %t, %f : i32, i64, i1, f32
          } -> (tensor<9xi32>, tensor<9xi64>, tensor<9xi1>, tensor<9xf32>)
          %false = arith.constant false
          %e4 = tensor.empty() : tensor<i1>
          %f4 = linalg.fill ins(%false : i1) outs(%e4 : tensor<i1>) -> tensor<i1>
          %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]}
              ins(%b : tensor<9xi1>) outs(%f4 : tensor<i1>) {
          ^bb0(%p: i1, %o: i1):
            %s = arith.ori %p, %o : i1
            linalg.yield %s : i1
          } -> tensor<i1>
          return %0#0, %0#1, %0#2, %0#3, %1 : tensor<9xi32>, tensor<9xi64>, tensor<9xi1>, tensor<9xf32>, tensor<i1>
        }""",
}


def inputs_of(text: str) -> list[torch.Tensor]:
    module = jobs.parse(text)
    main = next(o for o in module.body.operations if o.operation.name == "func.func" and o.name.value == "main")
    generator = torch.Generator().manual_seed(0)
    made = []
    for type_ in main.type.inputs:
        dtype, shape = DTYPES[str(type_.element_type)], tuple(type_.shape)
        floating = dtype.is_floating_point
        made.append(torch.randn(shape, generator=generator).to(dtype) if floating else torch.randint(-3, 3, shape, generator=generator).to(dtype))
    return made


def run_source(text: str, arguments: list[torch.Tensor]) -> list[torch.Tensor]:
    source = to_torch(jobs.parse(text))
    assert not source.missing, source.missing
    scope: dict = {}
    exec(source.text, scope)
    made = scope["main"](*arguments)
    return [made] if isinstance(made, torch.Tensor) else list(made)


def assert_same(text: str, arguments: list[torch.Tensor]) -> None:
    copies = [a.clone() for a in arguments]
    expected, made = run_module(text, arguments), run_source(text, arguments)
    for a, b in zip(made, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        torch.testing.assert_close(a, b, equal_nan=True)
    assert all(torch.equal(a, b) for a, b in zip(arguments, copies))


@pytest.mark.parametrize("name", WRITTEN)
def test_written(name):
    assert_same(WRITTEN[name], inputs_of(WRITTEN[name]))


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("name", NAMES)
def test_models(name):
    model, arguments = CASES[name]()
    captured = capture(model, arguments)
    fused = jobs.fuse(jobs.lower_to_linalg(captured.text)[0], "cpu")
    held = [a.table[a.key] for a in captured.signature.arguments if a.kind != "input"]
    tensors = iter(arguments)
    given = [next(tensors).contiguous() if a.kind == "input" else held.pop(0) for a in captured.signature.arguments]
    constants = [torch.frombuffer(bytearray(data), dtype=DTYPES[e]).reshape(shape) for e, shape, data in fused.constants]
    given = [t.view(torch.int8) if t.dtype is torch.uint8 else t.detach() for t in (*given, *constants)]
    assert_same(fused.stages["scheduled"], given)


def test_what_has_no_form_raises_and_says_so():
    text = """
        func.func @main(%x: tensor<4xf32>) -> tensor<4xi32> {
          %e = tensor.empty() : tensor<4xi32>
          %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
              ins(%x : tensor<4xf32>) outs(%e : tensor<4xi32>) {
          ^bb0(%a: f32, %o: i32):
            %b = arith.bitcast %a : f32 to i32
            linalg.yield %b : i32
          } -> tensor<4xi32>
          return %0 : tensor<4xi32>
        }"""
    source = to_torch(jobs.parse(text))
    assert "arith.bitcast" in source.missing["main"] and "# No PyTorch form: arith.bitcast" in source.text
    scope: dict = {}
    exec(source.text, scope)
    with pytest.raises(NotImplementedError, match=r"@main: no PyTorch form: arith\.bitcast"):
        scope["main"](torch.ones(4))


def test_float64_in_every_types_place():
    model, arguments = CASES["layer norm"]()
    captured = capture(model, arguments)
    fused = jobs.fuse(jobs.lower_to_linalg(captured.text)[0], "cpu")
    source = to_torch(jobs.parse(fused.stages["scheduled"]))
    scope: dict = {}
    exec(source.text, scope)
    scope.update(f32=torch.float64, f16=torch.float64, bf16=torch.float64)
    held = iter([a.table[a.key].double() for a in captured.signature.arguments if a.kind != "input"])
    given = [arguments[0].double() if a.kind == "input" else next(held) for a in captured.signature.arguments]
    expected = model.double()(arguments[0].double())
    error = (scope["main"](*given) - expected).norm() / expected.norm()
    assert error < 1e-8  # the constants alone are float32's
