"""Products whose factors are put in order first are the same products."""

import pytest
import torch
from checks import scheduled

from inferno.mlir import idle_context, ir
from inferno.passes.manager import run_pipeline
from inferno.runtime.check.calls import without_schedules
from inferno.schedule.passes import order_operands
from inferno.tools.ir_program import IrProgram

SIZES = {"b": 3, "m": 40, "n": 56, "k": 72}
TF32 = 'attributes {inferno.precision = "tf32"}'


def program(lhs: str, rhs: str, batch: str, attributes: str) -> str:
    """``@main`` that calls one product of float32; the sides' dimensions outermost first."""
    def tensor(dims: str) -> str:
        return f"tensor<{'x'.join(str(SIZES[d]) for d in dims)}xf32>"

    out, loops = batch + "mn", ", ".join(batch + "mnk")
    x, w, o = tensor(lhs), tensor(rhs), tensor(out)
    maps = ", ".join(f"affine_map<({loops}) -> ({', '.join(dims)})>" for dims in (lhs, rhs, out))
    kinds = ", ".join(f'"{"reduction" if d == "k" else "parallel"}"' for d in batch + "mnk")
    return f"""module {{
    func.func @main(%x: {x}, %w: {w}) -> {o} {{
      %e = tensor.empty() : {o}
      %0 = call @product(%x, %w, %e) : ({x}, {w}, {o}) -> {o}
      return %0 : {o}
    }}
    func.func private @product(%x: {x}, %w: {w}, %o: {o}) -> {o} {attributes} {{
      %zero = arith.constant 0.0 : f32
      %s = linalg.fill ins(%zero : f32) outs(%o : {o}) -> {o}
      %0 = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} ins(%x, %w : {x}, {w}) outs(%s : {o}) {{
      ^bb0(%a: f32, %b: f32, %c: f32):
        %m = arith.mulf %a, %b : f32
        %t = arith.addf %c, %m : f32
        linalg.yield %t : f32
      }} -> {o}
      return %0 : {o}
    }}
  }}"""


def ordered(text: str) -> str:
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        run_pipeline(module, "order-operands{target=sm_90a}")
        return str(module)


@pytest.mark.parametrize("lhs, rhs, batch, count", [
    ("mk", "kn", "", 1), ("km", "kn", "", 2), ("km", "nk", "", 1), ("bmk", "bkn", "b", 1), ("mk", "nk", "", 0),
])
def test_transposed_factors(lhs, rhs, batch, count, monkeypatch, tmp_path):
    monkeypatch.setattr(order_operands, "_PAYS_TRANSPOSED", 100.0)
    text = ordered(program(lhs, rhs, batch, TF32))
    assert text.count("call @transpose") == count
    path = tmp_path / "ordered.mlir"
    path.write_text(text)
    torch.manual_seed(0)
    x, w = (torch.randn([SIZES[d] for d in dims]) for dims in (lhs, rhs))
    (made,) = IrProgram.read(path, target="cpu")(x, w)
    expected = torch.einsum(f"{lhs},{rhs}->{batch}mn", x.double(), w.double())
    torch.testing.assert_close(made.double(), expected, rtol=0, atol=2e-5)


def test_only_where_tf32_is_allowed_and_no_library_is_asked_for(monkeypatch):
    monkeypatch.setattr(order_operands, "_PAYS_TRANSPOSED", 100.0)
    text = program("mk", "kn", "", TF32)
    assert "@transpose" not in ordered(program("mk", "kn", "", ""))
    assert "@transpose" not in ordered(text.replace("module {", 'module attributes {inferno.matmul = "library"} {', 1))
    assert "@transpose" in ordered(text)


def test_a_frozen_weight_is_transposed_once(tmp_path):
    text = program("mk", "kn", "", TF32).replace(", %w: tensor<72x56xf32>)", ", %w: tensor<72x56xf32> {inferno.frozen})", 1)
    text = text.replace("tensor<40x56xf32> {", "tensor<40x56xf32> attributes {inferno.freeze = 100000 : i64} {", 1)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        run_pipeline(module, "order-operands{target=sm_90a},assign-schedules{target=sm_90a},prepare-operands{target=sm_90a}")
        made = str(module)
    assert "call @product_frozen(" in made and "rewrite = false" in made
    path = tmp_path / "prepare.mlir"
    path.write_text(without_schedules(made.replace("@main", "@unused").replace("@prepare", "@main")))
    w = torch.randn(72, 56)
    (given,) = IrProgram.read(path, target="cpu")(w)
    assert torch.equal(given, w.t())


@pytest.mark.parametrize("images, size", [(1, 56), (32, 28)])
def test_patches(images, size):
    """Of one image they are a matrix that the copy engine reads, but in tiles of few rows."""
    model, x = torch.nn.Conv2d(96, 192, 2, 2).bfloat16().eval(), torch.randn(images, 96, size, size).bfloat16()
    assert "_ordered(" in scheduled(model, (x,)).ir("scheduled")
