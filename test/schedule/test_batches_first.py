"""Products whose batch comes first are the same products."""

import pytest
import torch
from checks import scheduled

from inferno.mlir import idle_context, ir
from inferno.passes.manager import run_pipeline
from inferno.schedule.passes import batches_first
from inferno.tools.ir_program import IrProgram

SIZES = {"b": 12, "g": 3, "m": 40, "n": 56, "k": 72}


class Product(torch.nn.Module):
    def __init__(self, equation: str) -> None:
        super().__init__()
        self.equation = equation

    def forward(self, x, y):
        return torch.einsum(self.equation, x, y)


CASES = {"mkb,nkb->mnb": 3, "kmb,knb->mnb": 3, "mkb,bnk->mnb": 2, "mkb,nkb->bmn": 2, "mkgb,nkgb->mngb": 3, "bmk,bnk->bmn": 0, "mkb,nkb->nbm": 2}


@pytest.mark.covering
@pytest.mark.parametrize("element", ["bf16", "f32"])
@pytest.mark.parametrize("equation, count", CASES.items())
def test_products(equation, count, element, monkeypatch, tmp_path):
    monkeypatch.setattr(batches_first, "_PAYS", 1e6)
    text = program(equation, element)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        run_pipeline(module, "batches-first{target=sm_90a}")
        made = str(module)
    calls = made.split("func.func private")[0].count("call @") - 1
    assert calls == count
    path = tmp_path / "first.mlir"
    path.write_text(made)
    torch.manual_seed(0)
    kind = {"bf16": torch.bfloat16, "f32": torch.float32}[element]
    x, y = (torch.randn([SIZES[d] for d in dims]).to(kind) for dims in equation.split("->")[0].split(","))
    (found,) = IrProgram.read(path, target="cpu")(x, y)
    torch.testing.assert_close(found.double(), torch.einsum(equation, x.double(), y.double()), rtol=0, atol=1e-4)


def program(equation: str, element: str) -> str:
    sides, out = equation.split("->")
    sides = sides.split(",")
    loops = "".join(dict.fromkeys(out + sides[0]))
    types = [f"tensor<{'x'.join(str(SIZES[d]) for d in dims)}x{element}>" for dims in sides]
    result = f"tensor<{'x'.join(str(SIZES[d]) for d in out)}xf32>"
    maps = ", ".join(f"affine_map<({', '.join(loops)}) -> ({', '.join(dims)})>" for dims in (*sides, out))
    kinds = ", ".join('"reduction"' if d == "k" else '"parallel"' for d in loops)
    wide = "" if element == "f32" else f"%p = arith.extf %a : {element} to f32\n%q = arith.extf %b : {element} to f32\n"
    factors = "%a, %b" if element == "f32" else "%p, %q"
    return f"""module {{
    func.func @main(%x: {types[0]}, %y: {types[1]}) -> {result} {{
      %e = tensor.empty() : {result}
      %0 = call @product(%x, %y, %e) : ({types[0]}, {types[1]}, {result}) -> {result}
      return %0 : {result}
    }}
    func.func private @product(%x: {types[0]}, %y: {types[1]}, %o: {result}) -> {result} {{
      %zero = arith.constant 0.0 : f32
      %s = linalg.fill ins(%zero : f32) outs(%o : {result}) -> {result}
      %0 = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} ins(%x, %y : {types[0]}, {types[1]}) outs(%s : {result}) {{
      ^bb0(%a: {element}, %b: {element}, %c: f32):
        {wide}%m = arith.mulf {factors} : f32
        %t = arith.addf %c, %m : f32
        linalg.yield %t : f32
      }} -> {result}
      return %0 : {result}
    }}
  }}"""


@pytest.mark.covering
@pytest.mark.parametrize("element", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("equation", ["ikc,jkc->ijc", "kic,kjc->ijc"])
def test_triangles(equation, element):
    """With an end that reads a tensor of the result's size."""
    x, y, z = (torch.randn(128, 128, 128, dtype=element) for _ in range(3))

    class Gated(Product):
        def forward(self, x, y, z):
            return torch.relu(super().forward(x, y)) + z

    assert "@transpose" in scheduled(Gated(equation).eval(), (x, y, z)).ir("scheduled")


def test_few_rows_stay():
    """Products of few rows, of which generators go over the batch, stay as they are."""
    x, y = torch.randn(4, 8, 4096).bfloat16(), torch.randn(4, 8, 4096).bfloat16()
    assert "@transpose" not in scheduled(Product("ikc,jkc->ijc").eval(), (x, y)).ir("scheduled")
