"""Convolutions by the generator of implicit GEMM on the simulator, against float64; forms and schedules that are drawn.

    python test/codegen/convolution_cases.py SEED COUNT
"""

import random
import sys
from dataclasses import replace

import torch
from convolutions import Form, convolution
from kernels import tensor
from universal_program import Simulated

from inferno.mlir import ir, idle_context
from inferno.schedule import spaces
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import ATTRIBUTE, to_attribute
from inferno.schedule.convolution import halo
from inferno.schedule.convolution.im2col import Im2col, parse_unfolded
from inferno.schedule.tiles.tiling import tile_contraction
from inferno.target import find_target

TARGET = find_target("sm_90a")
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
RELU = {
    "extras": (("f", "f32"), ("npqf", "bf16")), "results": ("bf16",),
    "body": """%b = arith.extf %e1 : bf16 to f32
      %s0 = arith.addf %s, %e0 : f32
      %s1 = arith.addf %s0, %b : f32
      %least = arith.constant 0.0 : f32
      %s2 = arith.maximumf %s1, %least : f32
      %y0 = arith.truncf %s2 : f32 to bf16""",
}
"""Bias, residual and ReLU."""
BOTH = {"results": ("bf16", "f32"), "body": "%y0 = arith.truncf %s : f32 to bf16\n%y1 = arith.mulf %s, %s : f32"}
"""Two results."""
SIGN = {"results": ("bf16", "i1", "f32"), "body": """%least = arith.constant 0.0 : f32
      %y1 = arith.cmpf ogt, %s, %least : f32
      %y2 = arith.maximumf %s, %least : f32
      %y0 = arith.truncf %y2 : f32 to bf16"""}
"""ReLU, and where it is the sum."""
SCALED = {"extras": (("qf", "f32"),), "results": ("f32",), "body": "%y0 = arith.mulf %s, %e0 : f32"}
"""By what is the same for all rows of all images, which so are no one dimension."""
SAME = {"low": (1, 1), "high": (1, 1)}
PLAIN = {"results": ("f32",), "body": "%h = arith.constant 0.5 : f32\n%y0 = arith.mulf %s, %h : f32"}


CASES = {
    # Strides, dilations, padding that differs by side, channels and features that fill no tile, images that end inside of one, 1 to 3 dimensions.
    "relu": (Form((2, 5, 7, 72), 40, (3, 3), **SAME, **RELU), Im2col(64, 64, 3, 1)),
    "strides, two results": (Form((3, 9, 8, 8), 72, (2, 3), (2, 3), (1, 2), (1, 0), (2, 3), "f16", **BOTH), Im2col(64, 64, 3, 1)),
    "1x1": (Form((1, 7, 9, 200), 24, (1, 1), (2, 2), **PLAIN), Im2col(64, 32, 4, 1)),
    "1d": (Form((2, 41, 16), 40, (7,), (2,), (3,), (4,), (9,), "f32", **PLAIN), Im2col(64, 64, 2, 1)),
    "3d": (Form((2, 3, 5, 4, 16), 16, (3, 2, 2), (1, 2, 1), (), (1, 0, 1), (1, 1, 0)), Im2col(64, 32, 3, 1)),
    "across": (Form((1, 9, 9, 32), 104, (3, 3), **SAME), Im2col(128, 64, 3, 2, cluster=2, across=True)),
    "cluster": (Form((1, 9, 9, 32), 40, (3, 3), **SAME), Im2col(64, 64, 3, 1, cluster=2)),
    "split": (Form((1, 8, 9, 32), 40, (3, 3), **SAME, **RELU), Im2col(64, 64, 6, 1, split=3, persistent=False)),
    "spread": (Form((1, 7, 20, 40), 64, (3, 3), **SAME), Im2col(128, 64, 4, 2, split=2, persistent=False, spread=True)),
    "few rows": (Form((1, 5, 6, 72), 24, (3, 3), **SAME), Im2col(64, 24, 3, 1, lhs_rows=32, chunks=2)),
    "64 bytes": (Form((1, 7, 9, 24), 40, (3, 3), **SAME), Im2col(64, 64, 6, 1, row=64)),
    "32 bytes": (Form((2, 9, 9, 16), 24, (3, 3), **SAME, **RELU), Im2col(128, 32, 5, 2, cluster=2, across=True, row=32)),
    "32 bytes, 3 side by side": (Form((1, 8, 8, 20), 16, (2, 3), (1, 2), element="f32", **PLAIN), Im2col(64, 16, 3, 1, row=32, chunks=3)),
    "rows apart": (Form((2, 9, 6, 24), 40, (3, 3), **SAME, **SCALED), Im2col(64, 64, 3, 1)),
    # Windows as the right factor: results with their features in front of their places.
    "features first": (Form((2, 8, 8, 72), 40, (3, 3), **SAME, transposed=True), Im2col(64, 64, 3, 1)),
    "features first, with a residual": (Form((2, 4, 10, 64), 136, (3, 3), (1, 2), **SAME, **RELU, transposed=True), Im2col(128, 24, 3, 2)),
    "features first, by elements": (Form((2, 5, 7, 24), 40, (3, 3), **SAME, transposed=True), Im2col(64, 40, 3, 1)),
    "features first, in turns": (Form((3, 6, 6, 20), 72, (3, 3), **SAME, element="f32", **PLAIN, transposed=True), Im2col(64, 32, 3, 2, pingpong=True)),
    "features first, in clusters": (Form((1, 9, 8, 32), 104, (3, 3), **SAME, transposed=True), Im2col(128, 32, 3, 2, cluster=2, across=True)),
    "weights are kept": (Form((2, 9, 7, 72), 64, (3, 3), **SAME, **RELU), Im2col(128, 64, 3, 2, kept=18)),
    "weights are kept, in turns": (Form((2, 9, 9, 24), 64, (3, 3), **SAME), Im2col(64, 64, 3, 2, kept=9, pingpong=True)),
    # An image's pixels with their halo, once for several taps.
    "halo": (Form((2, 9, 11, 72), 40, (3, 3), **SAME, **RELU), Im2col(64, 64, 2, 1, patch=104, span=3, weights=3)),
    "halo, a column of taps at a time": (Form((3, 9, 7, 24), 72, (3, 3), **SAME, **BOTH), Im2col(64, 64, 2, 1, patch=80, span=1, weights=2)),
    "halo, dilated, blocks side by side": (
        Form((1, 20, 18, 72), 72, (3, 2), (), (2, 1), (1, 0), (2, 3), "f16", **BOTH), Im2col(128, 64, 2, 2, patch=208, span=2, wide=2, weights=3)),
    "halo, weights are kept": (Form((1, 20, 18, 72), 64, (3, 3), **SAME, **RELU), Im2col(128, 64, 2, 2, patch=184, span=3, kept=18)),
    "halo, in turns": (Form((1, 20, 18, 72), 64, (5, 3), (), (), (2, 1), (2, 1)), Im2col(128, 64, 2, 2, patch=192, span=1, wide=2, weights=3, pingpong=True)),
    "halo, weights are kept, in turns": (
        Form((1, 20, 18, 72), 64, (3, 3), **SAME, **RELU), Im2col(64, 64, 2, 2, patch=80, span=1, kept=18, pingpong=True)),
    "halo, tf32": (Form((1, 9, 20, 40), 40, (3, 3), **SAME, element="f32", **PLAIN), Im2col(64, 64, 2, 1, patch=104, span=3, weights=3)),
    "halo, whole rows": (Form((2, 9, 13, 72), 40, (3, 3), **SAME, **RELU), Im2col(64, 64, 2, 1, patch=96, span=3, width=16, weights=3)),
    "halo, whole rows in turns": (
        Form((2, 9, 28, 24), 64, (3, 3), **SAME, **RELU), Im2col(128, 64, 2, 2, patch=192, span=3, width=32, kept=9, pingpong=True)),
    "halo, 3d": (
        Form((2, 3, 9, 7, 72), 40, (3, 3, 2), (), (1, 1, 2), (1, 1, 0), (2, 0, 2)), Im2col(64, 64, 2, 1, patch=104, span=2, weights=3)),
    "halo, 3d, weights are kept, in turns": (
        Form((1, 5, 9, 9, 24), 64, (2, 3, 3), (), (), (0, 1, 1), (1, 1, 1), **PLAIN), Im2col(64, 64, 2, 2, patch=80, span=1, kept=18, pingpong=True)),
    "halo, 64 bytes": (Form((1, 9, 20, 24), 40, (3, 3), **SAME, **RELU), Im2col(64, 64, 2, 1, row=64, patch=112, span=3, weights=3)),
    "halo, 32 bytes": (Form((1, 9, 20, 40), 64, (3, 3), **SAME), Im2col(128, 64, 2, 2, row=32, patch=192, span=3, kept=27)),
    # By two pixels: of each chunk of channels four patches, of every other row and column.
    "halo by 2": (Form((2, 18, 22, 128), 40, (3, 3), (2, 2), **SAME, **RELU), Im2col(64, 64, 3, 1, patch=88, span=3, weights=3)),
    "halo by 2, one pixel more": (
        Form((1, 20, 18, 64), 72, (3, 3), (2, 2), (), (0, 0), (1, 1), **BOTH), Im2col(128, 64, 2, 2, patch=160, span=3, wide=2, weights=3)),
    "halo by 2, 5x4, dilated": (
        Form((1, 22, 34, 32), 40, (5, 4), (2, 2), (1, 3), (2, 1), (2, 5), "f16"), Im2col(64, 64, 4, 2, row=64, patch=144, span=4, weights=3, pingpong=True)),
    "halo by 2, weights are kept, in turns": (
        Form((2, 36, 34, 64), 64, (3, 3), (2, 2), **SAME, **RELU), Im2col(64, 64, 3, 2, patch=88, span=3, kept=9, pingpong=True)),
    "halo by 2, weights are kept": (Form((2, 36, 34, 64), 64, (3, 3), (2, 2), **SAME), Im2col(128, 64, 3, 2, patch=160, span=3, kept=9)),
    "halo by 2, whole rows": (Form((2, 20, 26, 64), 40, (3, 3), (2, 2), **SAME), Im2col(64, 64, 2, 1, patch=80, span=3, width=16, weights=3)),
    "halo by 2, tf32": (Form((1, 18, 22, 32), 40, (3, 3), (2, 2), **SAME, element="f32", **PLAIN), Im2col(64, 64, 3, 1, patch=88, span=3, weights=3)),
    # Signs beside sums: bytes that the copy engine writes, or threads do where lines are no multiple of 16 bytes.
    "signs": (Form((2, 7, 9, 24), 48, (3, 3), **SAME, **SIGN), Im2col(64, 64, 3, 1)),
    "signs, by elements": (Form((2, 7, 9, 24), 40, (3, 3), **SAME, **SIGN), Im2col(64, 64, 3, 1)),
    "halo, signs": (Form((2, 9, 11, 72), 48, (3, 3), **SAME, **SIGN), Im2col(64, 64, 2, 1, patch=104, span=3, weights=3)),
    "halo, signs, in turns": (
        Form((1, 20, 18, 72), 64, (3, 3), **SAME, **SIGN), Im2col(64, 64, 2, 2, patch=80, span=1, kept=18, pingpong=True)),
    "ping-pong": (Form((1, 9, 17, 24), 24, (3, 3), **SAME), Im2col(64, 32, 3, 2, pingpong=True, inside=True)),
}


def expected(form: Form, x: torch.Tensor, w: torch.Tensor, extras: list[torch.Tensor]) -> list[torch.Tensor]:
    """The results in float64."""
    convolve = getattr(torch.nn.functional, f"conv{len(form.window)}d")
    pads = [p for pair in list(zip(form.each("low", 0), form.each("high", 0)))[::-1] for p in pair]
    image = torch.nn.functional.pad(x.double().movedim(-1, 1), pads)
    sums = convolve(image, w.double().movedim(-1, 1), stride=form.each("steps", 1), dilation=form.each("dilations", 1)).movedim(1, -1)
    if form.extras == SCALED["extras"]:
        return [sums * extras[0].double()]
    if form.extras:
        return [torch.relu(sums + extras[0].double() + extras[1].double())]
    if len(form.results) == 2:
        return [sums, sums * sums]
    if len(form.results) == 3:
        return [torch.relu(sums), sums > 0, torch.relu(sums)]
    return [sums * 0.5 if form.body == PLAIN["body"] else sums]


def operands(form: Form, device: str = "cpu") -> list[torch.Tensor]:
    """Small whole numbers, of which products and sums are exact, so that results are rounded once."""
    return [torch.randint(-4, 5, shape, device=device).to(DTYPES[t]) for shape, t in shapes(form)]


def shapes(form: Form) -> list[tuple[tuple[int, ...], str]]:
    """Of the inputs, and their types."""
    sizes = dict(zip(["n", *"pqt"[:len(form.window)], "f"], form.out))
    return [(form.image, form.element), (form.weight, form.element), *((tuple(sizes[d] for d in dims), t) for dims, t in form.extras)]


def program(form: Form, schedule: Im2col | None = None) -> str:
    """A module that is one call of ``@conv``, at the ``fused`` stage, maybe with a schedule."""
    inputs, outputs = [tensor(*x) for x in shapes(form)], [tensor(form.made, t) for t in form.results]
    values, made = ", ".join(f"%{i}: {t}" for i, t in enumerate(inputs)), f"%r:{len(outputs)}" if len(outputs) > 1 else "%r"
    given = ", ".join([*(f"%{i}" for i in range(len(inputs))), *(f"%o{i}" for i in range(len(outputs)))])
    results = ", ".join(f"%r#{i}" for i in range(len(outputs))) if len(outputs) > 1 else "%r"
    kernel = convolution(form)
    if schedule is not None:
        with idle_context():
            kernel = kernel.replace(") {\n", f") attributes {{{ATTRIBUTE} = {to_attribute(schedule)}}} {{\n", 1)
    return f"""module {{
    func.func @main({values}) -> ({", ".join(outputs)}) {{
      {" ".join(f"%o{i} = tensor.empty() : {t}" for i, t in enumerate(outputs))}
      {made} = func.call @conv({given}) : ({", ".join([*inputs, *outputs])}) -> ({", ".join(outputs)})
      return {results} : {", ".join(outputs)}
    }}
    {kernel}
    }}"""


def wrong(form: Form, tensors: list[torch.Tensor], found: list[torch.Tensor]) -> str:
    """What is not right to the last bit, if anything."""
    for number, (ours, right) in enumerate(zip(found, expected(form, *tensors[:2], tensors[2:]), strict=True)):
        right = (right.movedim(-1, 1) if form.transposed else right).to(ours.dtype)
        if not torch.equal(ours, right):
            places = (ours != right).nonzero()
            where = tuple(places[0].tolist())
            return f"result {number}: {len(places)} of {right.numel()}, at {where} {ours[where].item()} for {right[where].item()}"
    return ""


def check(form: Form, schedule: Im2col, early: bool = False, seed: int = 0) -> None:
    """Right to the last bit."""
    torch.manual_seed(seed)
    tensors = operands(form)
    run = Simulated(program(form), lambda kernel: schedule, early)
    assert not (problem := wrong(form, tensors, run(*tensors))), (problem, form, schedule)


def schedules(form: Form) -> list[Im2col]:
    """All that the kernel may have."""
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(program(form))
        kernel = kernels(module)[0]
        return [s for _, s in spaces.find("im2col").space(kernel, TARGET)]


def with_halo(form: Form, tile: Im2col, kept: bool = False) -> Im2col:
    """``tile``, which says the columns of taps that a patch serves, with its patch and as many slots as fit."""
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(program(form))
        c = parse_unfolded(kernels(module)[0], TARGET)
        width = 4 if form.element == "f32" else 2
        steps = tile_contraction(c, width, only_along_k=width == 4).k_steps(tile.row // width)
        return halo.fit(replace(tile, kept=steps if kept else 0), c, TARGET)


def drawn(draw: random.Random) -> Form:
    """Small, and of any kind."""
    dimensions = draw.choice([1, 2, 2, 2, 3])
    element = draw.choice(["bf16", "bf16", "f16", "f32"])
    window = tuple(draw.randint(1, {1: 7, 2: 5, 3: 3}[dimensions]) for _ in range(dimensions))
    form = Form(
        (draw.randint(1, 3), *(draw.randint(5, {1: 60, 2: 14, 3: 8}[dimensions]) for _ in range(dimensions)),
         draw.randint(1, 12) * (4 if element == "f32" else 8)),
        draw.choice([8, 24, 40, 72, 100]), window, *(tuple(draw.randint(low, high) for _ in window) for low, high in ((1, 3), (1, 2), (0, 3), (0, 3))),
        element, **draw.choice([{}, RELU if dimensions == 2 else PLAIN, BOTH, PLAIN]),
    )
    return form if min(form.out) > 0 and any(x != 1 for x in (*window, *form.steps, 1 + max(form.low))) else drawn(draw)


def main() -> None:
    seed, count = map(int, sys.argv[1:])
    for number in range(seed, seed + count):
        draw = random.Random(number)
        form = drawn(draw)
        found = [s for s in schedules(form) if not s.stream]
        schedule = draw.choice(found)
        short = replace(schedule, stages=min(schedule.stages, 4), raw=2) if schedule.split == 1 else schedule
        print(number, form, short, flush=True)
        check(form, short, early=number % 2 == 0, seed=number)


if __name__ == "__main__":
    main()
