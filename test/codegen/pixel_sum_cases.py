"""Gradients of convolutions' weights by the generator of sums over pixels on the simulator, against float64."""

import torch
from convolution_cases import DTYPES
from convolutions import Form
from kernels import tensor
from universal_program import Simulated

from inferno.mlir import idle_context
from inferno.schedule.attributes import ATTRIBUTE, to_attribute
from inferno.schedule.convolution.pixel_sums import PixelSums

CASES = {
    "3x3": (Form((2, 9, 11, 64), 40, (3, 3), (), (), (1, 1), (1, 1)), PixelSums(64, 64, 3, 1)),
    "by 2": (Form((3, 10, 9, 64), 72, (3, 2), (2, 3), (), (1, 0), (1, 1), "f16"), PixelSums(128, 128, 2, 2)),
    "dilated, split": (Form((1, 14, 15, 32), 64, (2, 3), (), (2, 1), (2, 0), (1, 2)), PixelSums(64, 96, 3, 1, split=2, persistent=False, panel=32)),
    "one tap": (Form((2, 12, 9, 24), 16, (1, 1), (2, 2)), PixelSums(64, 32, 4, 1)),
    "3d": (Form((1, 3, 5, 5, 64), 16, (2, 2, 1), (1, 2, 1), (), (1, 1, 0), (0, 1, 0)), PixelSums(64, 128, 2, 1)),
}


def gradient(form: Form) -> str:
    """The kernel ``@sums``; its loops are f, then r, s, ... (taps), c, then n, p, q, ... (places)."""
    places, taps = "pqt"[:len(form.window)], "rsu"[:len(form.window)]
    loops = ["f", *taps, "c", "n", *places]
    steps, dilations, low, high = form.each("steps", 1), form.each("dilations", 1), form.each("low", 0), form.each("high", 0)
    padded = (form.image[0], *(a + b + c for a, b, c in zip(low, form.image[1:-1], high)), form.image[-1])
    walk = ["n", *(f"{p} * {s} + {r} * {d}" for p, s, r, d in zip(places, steps, taps, dilations)), "c"]
    image, upper, made, out = tensor(form.image, form.element), tensor(form.out, form.element), tensor(padded, form.element), form.weight
    acc, result = tensor(out, "f32"), tensor(out, form.element)
    ends, block = [", ".join(map(str, (0, *x, 0))) for x in (low, high)], ", ".join(f"%i{i}: index" for i in range(len(padded)))
    pad = f"""%p = tensor.pad %x low[{ends[0]}] high[{ends[1]}] {{
      ^bb0({block}):
        tensor.yield %none : {form.element} }} : {image} to {made}""" if any((*low, *high)) else ""
    kinds = ", ".join('"parallel"' if d in loops[:len(out)] else '"reduction"' for d in loops)
    maps = ", ".join(f"affine_map<({', '.join(loops)}) -> ({', '.join(x)})>" for x in (walk, ["n", *places, "f"], loops[:len(out)]))
    same = f"affine_map<({', '.join(loops[:len(out)])}) -> ({', '.join(loops[:len(out)])})>"
    parallel = ", ".join(['"parallel"'] * len(out))
    return f"""func.func private @sums(%x: {image}, %g: {upper}, %o: {result}) -> {result} {{
      %zero = arith.constant 0.0 : f32
      %none = arith.constant 0.0 : {form.element}
      {pad}
      %e = tensor.empty() : {acc}
      %f = linalg.fill ins(%zero : f32) outs(%e : {acc}) -> {acc}
      %0 = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
          ins({"%p" if pad else "%x"}, %g : {made}, {upper}) outs(%f : {acc}) {{
      ^bb0(%a: {form.element}, %b: {form.element}, %t: f32):
        %l = arith.extf %a : {form.element} to f32
        %r = arith.extf %b : {form.element} to f32
        %q = arith.mulf %l, %r {{inferno.convolution}} : f32
        %u = arith.addf %t, %q : f32
        linalg.yield %u : f32 }} -> {acc}
      %1 = linalg.generic {{indexing_maps = [{same}, {same}], iterator_types = [{parallel}]}} ins(%0 : {acc}) outs(%o : {result}) {{
      ^bb0(%a: f32, %b: {form.element}):
        %y = arith.truncf %a : f32 to {form.element}
        linalg.yield %y : {form.element} }} -> {result}
      return %1 : {result}
    }}"""


def program(form: Form, schedule: PixelSums | None = None) -> str:
    """A module that is one call of ``@sums``, at the ``fused`` stage, maybe with a schedule."""
    kernel = gradient(form)
    if schedule is not None:
        with idle_context():
            kernel = kernel.replace(" {\n", f" attributes {{{ATTRIBUTE} = {to_attribute(schedule)}}} {{\n", 1)
    image, upper, result = tensor(form.image, form.element), tensor(form.out, form.element), tensor(form.weight, form.element)
    return f"""module attributes {{inferno.unmeasured}} {{
    func.func @main(%x: {image}, %g: {upper}) -> {result} {{
      %o = tensor.empty() : {result}
      %r = func.call @sums(%x, %g, %o) : ({image}, {upper}, {result}) -> {result}
      return %r : {result}
    }}
    {kernel}
    }}"""


def operands(form: Form, device: str = "cpu") -> list[torch.Tensor]:
    """Small whole numbers, of which products and sums are exact, so that results are rounded once."""
    return [torch.randint(-2, 3, shape, device=device).to(DTYPES[form.element]) for shape in (form.image, form.out)]


def expected(form: Form, x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    """The result in float64."""
    pads = [p for pair in list(zip(form.each("low", 0), form.each("high", 0)))[::-1] for p in pair]
    image = torch.nn.functional.pad(x.double().movedim(-1, 1), pads)
    rank, weight = len(form.window), torch.zeros(form.features, form.image[-1], *form.window, dtype=torch.float64, device=x.device)
    how = list(form.each("steps", 1)), [0] * rank, list(form.each("dilations", 1)), False, [0] * rank, 1
    return torch.ops.aten.convolution_backward(g.double().movedim(-1, 1), image, weight, None, *how, [False, True, False])[1].movedim(1, -1)


def check(form: Form, schedule: PixelSums, early: bool = False) -> None:
    """Right to the last bit."""
    torch.manual_seed(0)
    tensors = operands(form)
    (found,) = Simulated(program(form), lambda kernel: schedule, early)(*tensors)
    right = expected(form, *tensors).to(found.dtype)
    assert torch.equal(found, right), (form, schedule, (found != right).nonzero()[:5], (found != right).sum())
