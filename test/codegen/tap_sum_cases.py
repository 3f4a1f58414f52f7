"""Gradients of depthwise convolutions' weights as kernels' text, in both layouts, and what they compute: for the simulator and for a GPU."""

from dataclasses import dataclass

import torch
from kernels import tensor

from inferno.mlir import idle_context
from inferno.schedule.attributes import ATTRIBUTE, to_attribute
from inferno.schedule.convolution.tap_sums import TapSums

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


@dataclass(frozen=True)
class Case:
    """Of a convolution of ``image`` (batch, channels, sizes...) by a ``window`` a channel, padded by ``low`` and ``high``; ``last``: channels last,
    ``mixed``: the gradient has them where the image has not."""

    image: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()
    element: str = "bf16"
    last: bool = True
    mixed: bool = False

    def each(self, name: str, default: int) -> tuple[int, ...]:
        return getattr(self, name) or (default,) * len(self.window)

    @property
    def padded(self) -> tuple[int, ...]:
        return tuple(a + n + b for a, n, b in zip(self.each("low", 0), self.image[2:], self.each("high", 0)))

    @property
    def gradient(self) -> tuple[int, ...]:
        """The shape of the result's gradient."""
        sizes = zip(self.padded, self.window, self.each("strides", 1), self.each("dilations", 1))
        return *self.image[:2], *((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in sizes)

    @property
    def result(self) -> tuple[int, ...]:
        return self.image[1], *self.window

    def laid(self, shape: tuple, gradient: bool = False) -> tuple:
        """In the order of memory of the image, or of the gradient."""
        return (shape[0], *shape[2:], shape[1]) if self.last != (gradient and self.mixed) else tuple(shape)

    def operands(self) -> list[torch.Tensor]:
        return [torch.randn(shape).to(DTYPES[self.element]) for shape in (self.image, self.gradient)]

    def arguments(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """In the kernel's layout."""
        return [t.permute(self.laid(tuple(range(t.dim())), gradient)).contiguous() for t, gradient in zip(tensors, (False, True))]

    def expected(self, x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        """The result, in the precision of its operands."""
        pads = [p for pair in list(zip(self.each("low", 0), self.each("high", 0)))[::-1] for p in pair]
        weight, rank = torch.zeros(self.image[1], 1, *self.window, dtype=x.dtype, device=x.device), len(self.window)
        how = list(self.each("strides", 1)), [0] * rank, list(self.each("dilations", 1)), False, [0] * rank, self.image[1]
        return torch.ops.aten.convolution_backward(g, torch.nn.functional.pad(x, pads), weight, None, *how, [False, True, False])[1].squeeze(1)

    def text(self, schedule: TapSums | None = None, main: bool = True) -> str:
        """A module at the ``fused`` stage: the kernel ``@taps``, maybe with a schedule, and the program that calls it."""
        rank, element = len(self.window), self.element
        taps, places = "rst"[:rank], "pqu"[:rank]
        loops = ["c", *taps, "n", *places]
        steps, dilations, low, high = self.each("strides", 1), self.each("dilations", 1), self.each("low", 0), self.each("high", 0)
        walk = self.laid(("n", "c", *(f"{p} * {s} + {r} * {d}" for p, s, r, d in zip(places, steps, taps, dilations))))
        image, made = (tensor(self.laid(x), element) for x in (self.image, (*self.image[:2], *self.padded)))
        gradient = tensor(self.laid(self.gradient, True), element)
        acc, result = tensor(self.result, "f32"), tensor(self.result, element)
        ends = [", ".join(map(str, self.laid((0, 0, *x)))) for x in (low, high)]
        block = ", ".join(f"%i{i}: index" for i in range(rank + 2))
        pad = f"""%p = tensor.pad %x low[{ends[0]}] high[{ends[1]}] {{
          ^bb0({block}):
            tensor.yield %none : {element} }} : {image} to {made}""" if any((*low, *high)) else ""
        kinds = ", ".join('"parallel"' if d in loops[:rank + 1] else '"reduction"' for d in loops)
        maps = ", ".join(f"affine_map<({', '.join(loops)}) -> ({', '.join(x)})>" for x in (walk, self.laid(("n", "c", *places), True), loops[:rank + 1]))
        same = f"affine_map<({', '.join(loops[:rank + 1])}) -> ({', '.join(loops[:rank + 1])})>"
        parallel = ", ".join(['"parallel"'] * (rank + 1))
        wide = f"%l = arith.extf %a : {element} to f32\n%w = arith.extf %b : {element} to f32" if element != "f32" else ""
        narrow = f"%y = arith.truncf %a : f32 to {element}\nlinalg.yield %y : {element}" if element != "f32" else "linalg.yield %a : f32"
        with idle_context():
            scheduled = f" attributes {{{ATTRIBUTE} = {to_attribute(schedule)}}}" if schedule is not None else ""
        kernel = f"""func.func private @taps(%x: {image}, %g: {gradient}, %o: {result}) -> {result}{scheduled} {{
          %zero = arith.constant 0.0 : f32
          %none = arith.constant 0.0 : {element}
          {pad}
          %e = tensor.empty() : {acc}
          %f = linalg.fill ins(%zero : f32) outs(%e : {acc}) -> {acc}
          %0 = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
              ins({"%p" if pad else "%x"}, %g : {made}, {gradient}) outs(%f : {acc}) {{
          ^bb0(%a: {element}, %b: {element}, %t: f32):
            {wide}
            %q = arith.mulf {"%l, %w" if wide else "%a, %b"} {{inferno.convolution}} : f32
            %u = arith.addf %t, %q : f32
            linalg.yield %u : f32 }} -> {acc}
          %1 = linalg.generic {{indexing_maps = [{same}, {same}], iterator_types = [{parallel}]}} ins(%0 : {acc}) outs(%o : {result}) {{
          ^bb0(%a: f32, %b: {element}):
            {narrow} }} -> {result}
          return %1 : {result}
        }}"""
        program = f"""func.func @main(%x: {image}, %g: {gradient}) -> {result} {{
          %o = tensor.empty() : {result}
          %r = func.call @taps(%x, %g, %o) : ({image}, {gradient}, {result}) -> {result}
          return %r : {result}
        }}"""
        return "module {\n" + "\n".join([program, kernel] if main else [kernel]) + "\n}"


NAMED = {
    "3x3": Case((3, 16, 9, 10), (3, 3), low=(1, 1), high=(1, 1)),
    "3x3, channels first": Case((3, 6, 9, 8), (3, 3), low=(1, 1), high=(1, 1), last=False),
    "7x7": Case((2, 12, 11, 13), (7, 7), low=(3, 3), high=(3, 3), element="f16"),
    "7x7, channels first": Case((2, 3, 11, 16), (7, 7), low=(3, 3), high=(3, 3), last=False),
    "5x5 by 2": Case((3, 8, 13, 14), (5, 5), (2, 2), low=(2, 2), high=(2, 1)),
    "5x5 by 2, channels first": Case((3, 5, 13, 16), (5, 5), (2, 2), low=(2, 2), high=(2, 1), last=False, element="f16"),
    "3x3 dilated, f32": Case((2, 10, 14, 15), (3, 3), (1, 2), (2, 3), (2, 3), (2, 3), "f32"),
    "3x3 dilated, f32, channels first": Case((2, 3, 14, 15), (3, 3), (1, 2), (2, 3), (2, 3), (2, 3), "f32", False),
    "one dimension": Case((3, 8, 120), (4,), low=(3,)),
    "one dimension, channels first": Case((3, 5, 120), (4,), low=(3,), last=False),
    "odd sizes, without padding": Case((5, 7, 11, 9), (2, 3)),
    "odd sizes, without padding, channels first": Case((5, 7, 11, 9), (2, 3), last=False),
    "one row": Case((3, 8, 12, 14), (1, 5), low=(0, 2), high=(0, 2)),
    "one row, channels first": Case((3, 8, 12, 14), (1, 5), low=(0, 2), high=(0, 2), last=False),
    "one column": Case((3, 4, 12, 14), (5, 1), low=(2, 0), high=(2, 0)),
    "one column, channels first": Case((3, 4, 12, 14), (5, 1), (2, 1), low=(2, 0), high=(2, 0), last=False),
    "one channel": Case((4, 1, 12, 14), (3, 3), low=(1, 1), high=(1, 1)),
    "128 taps in a row": Case((2, 4, 300), (128,), low=(100,), high=(30,)),
    "channels last and first": Case((3, 16, 9, 10), (3, 3), low=(1, 1), high=(1, 1), mixed=True),
    "channels first and last": Case((3, 6, 9, 8), (3, 3), low=(1, 1), high=(1, 1), last=False, mixed=True),
    "channels last and first, by 2, dilated, f32": Case((2, 10, 14, 15), (3, 3), (1, 2), (2, 3), (2, 3), (2, 3), "f32", mixed=True),
    "channels first and last, by 2, dilated, f32": Case((2, 10, 14, 15), (3, 3), (1, 2), (2, 3), (2, 3), (2, 3), "f32", False, True),
    "channels first and last, 32 of 16 pixels": Case((2, 32, 8, 16), (5, 5), low=(2, 2), high=(2, 2), last=False, mixed=True, element="f16"),
    "channels last and first, 7 in one dimension": Case((3, 7, 120), (4,), low=(3,), mixed=True),
    "channels first and last, one column": Case((3, 4, 12, 14), (5, 1), (2, 1), low=(2, 0), high=(2, 0), last=False, mixed=True),
    "one image": Case((1, 8, 20, 14), (3, 3), low=(1, 1), high=(1, 1)),
}
