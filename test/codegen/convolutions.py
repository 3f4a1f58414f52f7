"""Convolution kernels as text, in the form that generators of implicit GEMM take: channels last, padded images, any epilogue."""

from dataclasses import dataclass

from kernels import tensor


@dataclass(frozen=True)
class Form:
    """``image`` is (n, spatial..., c); ``window`` the filter's sizes; ``low`` and ``high`` what the image is padded with; all but ``image`` and
    ``features`` have one number for each spatial dimension."""

    image: tuple[int, ...]
    features: int
    window: tuple[int, ...]
    steps: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()
    element: str = "bf16"
    # Of the epilogue: (dimensions by letters, type) of %e0, %e1, ..., types of its results, and what computes %y0, %y1, ... of the sum %s.
    extras: tuple[tuple[str, str], ...] = ()
    results: tuple[str, ...] = ("bf16",)
    body: str = "%y0 = arith.truncf %s : f32 to bf16"
    transposed: bool = False  # the results have their features in front of the places

    def each(self, name: str, default: int) -> tuple[int, ...]:
        return getattr(self, name) or (default,) * len(self.window)

    @property
    def out(self) -> tuple[int, ...]:
        """(n, spatial..., f) of the result."""
        numbers = zip(self.image[1:-1], self.window, *(self.each(*x) for x in (("steps", 1), ("dilations", 1), ("low", 0), ("high", 0))))
        return (self.image[0], *((size + low + high - (k - 1) * d - 1) // s + 1 for size, k, s, d, low, high in numbers), self.features)

    @property
    def made(self) -> tuple[int, ...]:
        """The sizes of the results, in their order."""
        images, *places, features = self.out
        return (images, features, *places) if self.transposed else self.out

    @property
    def weight(self) -> tuple[int, ...]:
        return (self.features, *self.window, self.image[-1])


def convolution(form: Form) -> str:
    """The kernel ``@conv``; its loops are n, then p, q, ... (places), f, then r, s, ... (taps), c."""
    places, taps = "pqt"[:len(form.window)], "rsu"[:len(form.window)]
    loops, kept = ["n", *places, "f", *taps, "c"], ["n", *places, "f"]
    sizes = dict(zip(loops, (*form.out, *form.window, form.image[-1])))
    steps, dilations, low, high = form.each("steps", 1), form.each("dilations", 1), form.each("low", 0), form.each("high", 0)
    padded = (form.image[0], *(a + b + c for a, b, c in zip(low, form.image[1:-1], high)), form.image[-1])
    walk = ["n", *(f"{p} * {s} + {r} * {d}" for p, s, r, d in zip(places, steps, taps, dilations)), "c"]

    def map_(dims, over) -> str:
        return f"affine_map<({','.join(over)}) -> ({','.join(dims)})>"

    wide, acc = form.element != "f32", tensor(form.out, "f32")
    image, weight, made = tensor(form.image, form.element), tensor(form.weight, form.element), tensor(padded, form.element)
    extras = [tensor(tuple(sizes[d] for d in dims), t) for dims, t in form.extras]
    outs, written = [tensor(form.made, t) for t in form.results], ["n", "f", *places] if form.transposed else kept
    arguments = [f"%x: {image}", f"%w: {weight}", *(f"%a{i}: {t}" for i, t in enumerate(extras)), *(f"%o{i}: {t}" for i, t in enumerate(outs))]
    ends = [", ".join(map(str, (0, *x, 0))) for x in (low, high)]
    block = ", ".join(f"%i{i}: index" for i in range(len(padded)))
    pad = f"""%p = tensor.pad %x low[{ends[0]}] high[{ends[1]}] {{
      ^bb0({block}):
        tensor.yield %none : {form.element} }} : {image} to {made}""" if any((*low, *high)) else ""
    extend = f"""%l = arith.extf %a : {form.element} to f32
        %r = arith.extf %b : {form.element} to f32""" if wide else ""
    factors = "%l, %r" if wide else "%a, %b"
    kinds = ", ".join('"parallel"' if d in kept else '"reduction"' for d in loops)
    maps = ", ".join(map_(x, kept) for x in (kept, *(e[0] for e in form.extras), *([written] * len(outs))))
    inside = ["%s: f32", *(f"%e{i}: {t}" for i, (_, t) in enumerate(form.extras)), *(f"%z{i}: {t}" for i, t in enumerate(form.results))]
    names, types = "".join(f", %a{i}" for i in range(len(extras))), "".join(f", {t}" for t in extras)
    count, returned = f":{len(outs)}" if len(outs) > 1 else "", ", ".join(outs)
    values = ", ".join(f"%1#{i}" for i in range(len(outs))) if count else "%1"
    parallel = ", ".join(['"parallel"'] * len(kept))
    precision = "" if wide else 'attrs = {inferno.precision = "tf32"}'
    return f"""func.func private @conv({", ".join(arguments)}) -> ({returned}) {{
      %zero = arith.constant 0.0 : f32
      %none = arith.constant 0.0 : {form.element}
      {pad}
      %e = tensor.empty() : {acc}
      %f = linalg.fill ins(%zero : f32) outs(%e : {acc}) -> {acc}
      %0 = linalg.generic {{indexing_maps = [{map_(walk, loops)}, {map_(["f", *taps, "c"], loops)}, {map_(kept, loops)}], iterator_types = [{kinds}]}}
          ins({"%p" if pad else "%x"}, %w : {made}, {weight}) outs(%f : {acc}) {precision} {{
      ^bb0(%a: {form.element}, %b: {form.element}, %t: f32):
        {extend}
        %q = arith.mulf {factors} {{inferno.convolution}} : f32
        %u = arith.addf %t, %q : f32
        linalg.yield %u : f32 }} -> {acc}
      %1{count} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{parallel}]}}
          ins(%0{names} : {acc}{types}) outs({", ".join(f"%o{i}" for i in range(len(outs)))} : {returned}) {{
      ^bb0({", ".join(inside)}):
        {form.body}
        linalg.yield {", ".join(f"%y{i}" for i in range(len(outs)))} : {", ".join(form.results)} }} -> ({returned})
      return {values} : {returned}
    }}"""
