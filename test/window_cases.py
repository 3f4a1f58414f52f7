"""Kernels with windows as text, of any layout, and what they compute: for the simulator and for a GPU."""

import re
from dataclasses import dataclass
from random import Random
from types import ModuleType

import torch
from contractions import varying
from kernels import tensor

from inferno.mlir import ir, idle_context
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import ATTRIBUTE, to_attribute
from inferno.schedule.convolution import windows
from inferno.schedule.convolution.staged_windows import StagedWindows
from inferno.schedule.convolution.window_kernel import WindowKernel
from inferno.target import find_target

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


@dataclass(frozen=True)
class Case:
    """A convolution of ``image`` (batch, channels, sizes...) by ``window`` (features a group, channels a group, sizes...), of as many groups as they say.

    ``last``: channels last, windows as (window..., [group,] channel, feature), or with ``inner`` as ([group,] feature, window..., channel); otherwise as
    torch has them.  Groups of one channel, or of one feature, have no loop of that.  ``epilogue``: a bias for each feature and the residual are added, and
    the result is at least 0.
    """

    image: tuple[int, ...]
    window: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    element: str = "bf16"
    last: bool = True
    epilogue: bool = True
    inner: bool = False

    @property
    def spatial(self) -> int:
        return len(self.image) - 2

    @property
    def groups(self) -> int:
        return self.image[1] // self.window[1]

    @property
    def outputs(self) -> tuple[int, ...]:
        sizes = zip(self.image[2:], self.window[2:])
        return tuple((n + 2 * self.padding - self.dilation * (k - 1) - 1) // self.stride + 1 for n, k in sizes)

    def inputs(self) -> list[torch.Tensor]:
        """In float32, as torch has them: image, window, bias and residual."""
        features = self.groups * self.window[0]
        made = [torch.randn(self.image), torch.randn(features, *self.window[1:])]
        if self.epilogue:
            made += [torch.randn(features), torch.randn(self.image[0], features, *self.outputs)]
        return [x.to(DTYPES[self.element]) for x in made]

    def eager(self, image, window, bias=None, residual=None):
        convolution = (torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d)[self.spatial - 1]
        found = convolution(image, window, bias, self.stride, self.padding, self.dilation, self.groups)
        return torch.relu(found + residual) if self.epilogue else found

    def arguments(self, image, window, bias=None, residual=None) -> list[torch.Tensor]:
        """In the kernel's layout."""
        window = window.unflatten(0, (self.groups, -1))
        if self.last:
            image, window = image.movedim(1, -1), window.movedim(2, -1) if self.inner else window.permute(*range(3, 3 + self.spatial), 0, 2, 1)
            residual = residual.movedim(1, -1) if residual is not None else None
        given = {"image": image, "weight": window, "bias": bias, "out": residual}
        return [x.reshape(self._shapes()[name]).contiguous() for name, x in given.items() if x is not None]

    def result(self, found: torch.Tensor) -> torch.Tensor:
        """As torch has it."""
        found = found.view(self.shape("out"))
        return found.movedim(-1, 1) if self.last else found

    def shape(self, which: str) -> tuple[int, ...]:
        sizes = self._sizes()
        return tuple(sizes[d] for d in self._letters()[which])

    def _sizes(self) -> dict[str, int]:
        b, (features, channels, *window) = self.image[0], self.window
        sizes = {"b": b, "g": self.groups, "f": features, "c": channels, "F": self.groups * features, "C": self.image[1]}
        return sizes | dict(zip("xyz", self.outputs)) | dict(zip("XYZ", self.image[2:])) | dict(zip("ijk", window))

    def _letters(self) -> dict[str, list[str]]:
        n = self.spatial
        if self.last:
            return {"image": ["b", *"XYZ"[:n], "C"], "out": ["b", *"xyz"[:n], "F"]}
        return {"image": ["b", "C", *"XYZ"[:n]], "out": ["b", "F", *"xyz"[:n]]}

    def _kept(self) -> tuple[list[str], list[str], list[str]]:
        """Of groups, channels and features those that the kernel has loops of; those of the image's channels, and of the result's."""
        sizes = self._sizes()
        kept = [d for d in "gcf" if sizes[d] > 1 or (d == "g" and sizes["f"] == 1)]
        return kept, [d for d in kept if d in "gc"], [d for d in kept if d in "gf"]

    def _weight(self) -> list[str]:
        kept, n = self._kept()[0], self.spatial
        if self.inner:
            return [*(d for d in "gf" if d in kept), *"ijk"[:n], *(d for d in "c" if d in kept)]
        return [*"ijk"[:n], *(d for d in "gcf" if d in kept)] if self.last else [*(d for d in "gfc" if d in kept), *"ijk"[:n]]

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the kernel's tensors."""
        sizes, (_, channel, feature), flat = self._sizes(), self._kept(), self._letters()
        found = {"weight": self._weight(), "bias": feature}
        for name, of in (("image", channel), ("out", feature)):
            found[name] = [d for x in flat[name] for d in (of if x in "CF" else (x,))]
        return {name: tuple(sizes[d] for d in letters) for name, letters in found.items()}

    def text(self, main: bool = True, schedule: object = None) -> str:
        """A module at the ``fused`` stage: one kernel, maybe with a ``schedule``, and the program that calls it."""
        n, element = self.spatial, self.element
        kept, channel, feature = self._kept()
        move = {o: f"{o} * {self.stride} + {k} * {self.dilation}" for o, k in zip("xyz"[:n], "ijk")}
        weight = self._weight()
        if self.last:
            image, out = ["b", *(move[o] for o in "xyz"[:n]), *channel], ["b", *"xyz"[:n], *feature]
        else:
            image, out = ["b", *channel, *(move[o] for o in "xyz"[:n])], ["b", *feature, *"xyz"[:n]]
        loops = [*out, *(d for d in kept if d not in out), *"ijk"[:n]]
        reduced = set("ijk") | {"c"}

        def map_(results, over):
            return f"affine_map<({', '.join(over)}) -> ({', '.join(results)})>"

        shapes = self._shapes()
        source, p = shapes["image"], self.padding
        around = [p if (x in "XYZ") else 0 for x in self._letters()["image"] for _ in (channel if x == "C" else (x,))]
        padded = tuple(s + 2 * a for s, a in zip(source, around))
        kinds = ", ".join('"reduction"' if d in reduced else '"parallel"' for d in loops)
        o, acc = tensor(shapes["out"], element), tensor(shapes["out"], "f32")
        x, w, bias = tensor(source, element), tensor(shapes["weight"], element), tensor(shapes["bias"], element)
        pad = "" if not p else f"""%p = tensor.pad %x low{around} high{around} {{
        ^bb0({", ".join(f"%i{i}: index" for i in range(len(source)))}):
          tensor.yield %none : {element} }} : {x} to {tensor(padded, element)}"""
        image_value, image_type = ("%p", tensor(padded, element)) if p else ("%x", x)
        wide = f"%l = arith.extf %a : {element} to f32\n%r = arith.extf %v : {element} to f32" if element != "f32" else ""
        factors = "%l, %r" if wide else "%a, %v"
        extended = "" if element == "f32" else f"%bw = arith.extf %e0 : {element} to f32\n%rw = arith.extf %e1 : {element} to f32"
        terms = ("%bw", "%rw") if extended else ("%e0", "%e1")
        narrow = f"%y = arith.truncf %m : f32 to {element}\nlinalg.yield %y : {element}" if extended else "linalg.yield %m : f32"
        if self.epilogue:
            body, extra_maps, extras = f"""^bb0(%s: f32, %e0: {element}, %e1: {element}, %old: {element}):
              {extended}
              %t = arith.addf %s, {terms[0]} : f32
              %u = arith.addf %t, {terms[1]} : f32
              %m = arith.maximumf %u, %zero : f32
              {narrow}""", [map_(feature, out), map_(out, out)], [("%bias", bias), ("%residual", o)]
        else:
            body, extra_maps, extras = f"^bb0(%m: f32, %old: {element}):\n{narrow}", [], []
        arguments = [("%x", x), ("%w", w), *extras, ("%o", o)]
        parallel = ", ".join(['"parallel"'] * len(out))
        ins = ", ".join(["%0", *(e for e, _ in extras)]) + " : " + ", ".join([acc, *(t for _, t in extras)])
        with idle_context():
            scheduled = f"attributes {{{ATTRIBUTE} = {to_attribute(schedule)}}}" if schedule is not None else ""
        kernel = f"""func.func private @conv({", ".join(f"{a}: {t}" for a, t in arguments)}) -> {o} {scheduled} {{
          %zero = arith.constant 0.0 : f32
          %none = arith.constant 0.0 : {element}
          {pad}
          %e = tensor.empty() : {acc}
          %f = linalg.fill ins(%zero : f32) outs(%e : {acc}) -> {acc}
          %0 = linalg.generic {{indexing_maps = [{map_(image, loops)}, {map_(weight, loops)}, {map_(out, loops)}], iterator_types = [{kinds}]}}
              ins({image_value}, %w : {image_type}, {w}) outs(%f : {acc}) {{
            ^bb0(%a: {element}, %v: {element}, %s: f32):
              {wide}
              %q = arith.mulf {factors} : f32
              %t = arith.addf %s, %q : f32
              linalg.yield %t : f32 }} -> {acc}
          %1 = linalg.generic {{indexing_maps = [{", ".join([map_(out, out), *extra_maps, map_(out, out)])}], iterator_types = [{parallel}]}}
              ins({ins}) outs(%o : {o}) {{
            {body} }} -> {o}
          return %1 : {o}
        }}"""
        given = arguments[:-1]
        program = f"""func.func @main({", ".join(f"{a}: {t}" for a, t in given)}) -> {o} {{
          %e = tensor.empty() : {o}
          %0 = call @conv({", ".join(a for a, _ in given)}, %e) : ({", ".join(t for _, t in arguments)}) -> {o}
          return %0 : {o}
        }}"""
        functions = [program, kernel] if main else [kernel]
        return "module {\n" + "\n".join(functions) + "\n}"


NAMED = {
    "3x3": Case((2, 16, 9, 10), (1, 1, 3, 3), padding=1),
    "3x3, channels first": Case((2, 12, 9, 10), (1, 1, 3, 3), padding=1, last=False),
    "7x7 f32": Case((1, 24, 9, 11), (1, 1, 7, 7), padding=3, element="f32"),
    "7x7 f32, channels first, every second": Case((1, 6, 15, 12), (1, 1, 7, 7), 2, 3, element="f32", last=False),
    "5x5, dilated by 3, every second": Case((1, 8, 20, 21), (1, 1, 5, 5), 2, 4, 3, "f16"),
    "3x3, dilated, channels first": Case((1, 8, 20, 21), (1, 1, 3, 3), 1, 2, 2, "f16", last=False),
    "no padding": Case((2, 16, 9, 10), (1, 1, 3, 3), epilogue=False),
    "steps over rows": Case((1, 16, 16, 15), (1, 1, 2, 2), 3),
    "one dimension": Case((2, 8, 40), (1, 1, 4), 1, 3),
    "one dimension, channels first": Case((2, 5, 40), (1, 1, 4), 1, 3, last=False),
    "three dimensions": Case((1, 4, 6, 7, 8), (1, 1, 3, 3, 3), 1, 1),
    "three dimensions, channels first": Case((1, 3, 6, 7, 8), (1, 1, 3, 3, 3), 2, 1, last=False),
    "two features a channel": Case((1, 8, 6, 7), (2, 1, 3, 3), 1, 1),
    "two features a channel, channels first": Case((1, 8, 6, 7), (2, 1, 3, 3), 1, 1, last=False),
    "groups of 4": Case((1, 8, 6, 7), (4, 4, 3, 3), 1, 1),
    "groups of 4, channels first": Case((1, 8, 6, 7), (4, 4, 3, 3), 1, 1, last=False),
    "three channels": Case((1, 3, 15, 16), (8, 3, 3, 3), 2, 1),
    "three channels, channels first": Case((1, 3, 15, 16), (8, 3, 3, 3), 2, 1, last=False),
}

BANDS = {
    "7x7": Case((2, 32, 9, 10), (1, 1, 7, 7), padding=3),
    "7x7 f16, small images": Case((3, 32, 7, 7), (1, 1, 7, 7), padding=3, element="f16"),
    "7x3, a part of the channels": Case((1, 40, 6, 17), (1, 1, 7, 3), padding=2),
    "3x9, no epilogue": Case((1, 32, 5, 20), (1, 1, 3, 9), epilogue=False),
}

STAGED = {
    "3x3": (Case((3, 16, 9, 10), (1, 1, 3, 3), padding=1), StagedWindows(2, 4, 5, 8, 3, 3)),
    "7x7 f32, a part of the channels": (Case((2, 12, 11, 9), (1, 1, 7, 7), padding=3, element="f32"), StagedWindows(1, 4, 11, 4, 2, 2)),
    "3x3, every second, f16": (Case((2, 16, 13, 12), (1, 1, 3, 3), 2, 1, element="f16"), StagedWindows(4, 2, 7, 2, 3, 4)),
    "3x3, channels first": (Case((2, 6, 10, 16), (1, 1, 3, 3), padding=1, last=False), StagedWindows(1, 8, 4, 3, 2, 3)),
    "7x7 f32, channels first, every second": (Case((2, 4, 15, 12), (1, 1, 7, 7), 2, 3, element="f32", last=False), StagedWindows(1, 2, 8, 2, 3, 2)),
    "3x3, channels first, whole tiles": (Case((3, 4, 10, 16), (1, 1, 3, 3), padding=1, last=False), StagedWindows(1, 8, 2, 2, 2, 2, 1, 3)),
    "5x5 by 2, whole tiles": (Case((2, 8, 11, 12), (1, 1, 5, 5), 2, 2), StagedWindows(2, 3, 3, 4, 2, 2, 2, 1)),
    "2x3 by 3, no epilogue": (Case((1, 8, 11, 12), (1, 1, 2, 3), 3, epilogue=False), StagedWindows(1, 2, 2, 8, 2, 2)),
}


GROUPS = {
    "24 of 24": Case((3, 48, 9, 10), (24, 24, 3, 3), padding=1, inner=True),
    "8 of 8, f16": Case((2, 64, 7, 7), (8, 8, 3, 3), padding=1, element="f16", inner=True),
    "16 of 40, every second": Case((2, 120, 13, 15), (16, 40, 3, 3), 2, 1, inner=True),
    "32, dilated": Case((2, 64, 11, 9), (32, 32, 3, 3), 1, 2, 2, inner=True),
    "2x5 by 3, dilated by 2": Case((1, 48, 17, 21), (8, 16, 2, 5), 3, 2, 2, "f16", inner=True),
    "one dimension": Case((2, 32, 40), (16, 16, 4), 1, 3, inner=True),
    "one row of a window": Case((2, 32, 5, 12), (16, 16, 1, 3), inner=True, epilogue=False),
    "4 of 4": Case((2, 32, 9, 10), (4, 4, 3, 3), padding=1, inner=True),
    "4 of 2, every second, f16": Case((2, 32, 11, 9), (4, 2, 3, 3), 2, 1, element="f16", inner=True),
    "2 of 1, 5x5 by 2": Case((2, 32, 9, 11), (2, 1, 5, 5), 2, 2, inner=True),
    "12 of 12, dilated": Case((2, 48, 9, 8), (12, 12, 3, 3), 1, 2, 2, inner=True),
    "18, one group": Case((2, 18, 9, 10), (18, 18, 3, 3), padding=1, inner=True),
    "12 to 36, one group": Case((2, 12, 9, 10), (36, 12, 3, 3), 2, 1, inner=True),
    "18 to 10, one group": Case((2, 18, 9, 10), (10, 18, 3, 3), padding=1, inner=True),
    "20 to 10, two groups": Case((2, 40, 9, 7), (10, 20, 3, 3), padding=1, inner=True),
    "72, no epilogue": Case((1, 144, 6, 7), (72, 72, 3, 3), padding=1, epilogue=False, inner=True),
}
"""With several channels a group, channels innermost."""


def parsed(case: Case, generator: ModuleType = windows) -> WindowKernel | None:
    """What the kernel computes, where the generator takes it."""
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(case.text(main=False))
        return generator.read(kernels(module)[0], find_target("sm_90a"))


def drawn(case: Case, generator: ModuleType, seed: int) -> object:
    """One of the generator's schedules of the kernel."""
    return Random(seed).choice(list(generator.schedules(parsed(case, generator))))


def any_number(case: Case, least: int = 1) -> str:
    """A module whose kernel and program take any number of images; ``case`` has a number that nothing else is."""
    number = case.image[0]
    kernel = varying(case.text(main=False).removeprefix("module {").removesuffix("}").strip(), {number: (least, 100)})
    arguments, out = re.search(r"@conv\((.*), %o: tensor<(\S+)> {.*?}\) -> ", kernel).groups()
    shape = ", ".join(["s0", *out.split("x")[1:-1]])
    names, types = re.findall(r"(%\w+): ", arguments), re.findall(r": (tensor<\S+>|index)", arguments)
    return f"""module {{ func.func @main({arguments}) -> (tensor<{out}> {{inferno.sizes = affine_map<()[s0] -> ({shape})>}}) {{
      %e = tensor.empty(%n0) : tensor<{out}>
      %r = func.call @conv({", ".join(names)}, %e) : ({", ".join(types)}, tensor<{out}>) -> tensor<{out}>
      return %r : tensor<{out}>
    }}
    {kernel} }}"""
