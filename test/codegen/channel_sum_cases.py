"""Convolutions with the sums of their results' channels: programs as text, and what is right of them."""

from dataclasses import asdict, replace

import torch
from convolution_cases import BOTH, CASES, RELU, SAME, expected, shapes
from convolutions import Form, convolution
from kernels import tensor

from inferno.mlir import ir, idle_context
from inferno.passes.manager import run_pipeline
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import ATTRIBUTE, to_attribute
from inferno.schedule.convolution.channel_sums import ChannelSums
from inferno.schedule.convolution.im2col import Im2col
from inferno.schedule.matmul.wgmma_schedule import Wgmma


def sums(shape: tuple[int, ...], element: str, kind: str, squares: bool) -> str:
    """The kernel ``@sums`` of a tensor's channels, its last dimension."""
    x, out, rank = tensor(shape, element), tensor(shape[-1:], kind), len(shape)
    loops, last = ", ".join(f"d{d}" for d in range(rank)), f"d{rank - 1}"
    kinds = ", ".join(['"reduction"'] * (rank - 1) + ['"parallel"'])
    maps = [f"affine_map<({loops}) -> ({loops})>", *[f"affine_map<({loops}) -> ({last})>"] * (1 + squares)]
    count, outs = ":2" if squares else "", ", ".join([out] * (1 + squares))
    return f"""func.func private @sums(%x: {x}, {", ".join(f"%o{i}: {out}" for i in range(1 + squares))}) -> ({outs}) {{
      %zero = arith.constant 0.0 : {kind}
      {" ".join(f"%f{i} = linalg.fill ins(%zero : {kind}) outs(%o{i} : {out}) -> {out}" for i in range(1 + squares))}
      %0{count} = linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = [{kinds}]}}
          ins(%x : {x}) outs({"%f0, %f1" if squares else "%f0"} : {outs}) {{
      ^bb0(%a: {element}, {", ".join(f"%t{i}: {kind}" for i in range(1 + squares))}):
        {f"%w = arith.extf %a : {element} to {kind}" if element != kind else ""}
        %y0 = arith.addf {"%w" if element != kind else "%a"}, %t0 : {kind}
        {f"%s = arith.mulf %w, %w : {kind}" if squares else ""}
        {f"%y1 = arith.addf %s, %t1 : {kind}" if squares else ""}
        linalg.yield {"%y0, %y1" if squares else "%y0"} : {", ".join([kind] * (1 + squares))} }} -> ({outs})
      return {"%0#0, %0#1" if squares else "%0"} : {outs}
    }}"""


def program(form: Form, kind: str, squares: bool) -> str:
    """A module that is a convolution and the sums of its first result, at the ``fused`` stage."""
    inputs, made = [tensor(*x) for x in shapes(form)], [tensor(form.made, t) for t in form.results]
    added = [tensor(form.out[-1:], kind)] * (1 + squares)
    outputs = [*made, *added]
    values = ", ".join(f"%{i}: {t}" for i, t in enumerate(inputs))
    given = ", ".join([*(f"%{i}" for i in range(len(inputs))), *(f"%o{i}" for i in range(len(made)))])
    many = len(made) > 1
    results = [f"%r#{i}" for i in range(len(made))] if many else ["%r"]
    totals = ["%s#0", "%s#1"] if squares else ["%s"]
    empties = [f"%o{i} = tensor.empty() : {t}" for i, t in enumerate(outputs)]
    into = ", ".join(f"%o{len(made) + i}" for i in range(1 + squares))
    return f"""module {{
    func.func @main({values}) -> ({", ".join(outputs)}) {{
      {" ".join(empties)}
      %r{f":{len(made)}" if many else ""} = func.call @conv({given}) : ({", ".join([*inputs, *made])}) -> ({", ".join(made)})
      %s{":2" if squares else ""} = func.call @sums({results[0]}, {into}) : ({", ".join([made[0], *added])}) -> ({", ".join(added)})
      return {", ".join([*results, *totals])} : {", ".join(outputs)}
    }}
    {convolution(form)}
    {sums(form.out, form.results[0], kind, squares)}
    }}"""


def fused(text: str, schedule: ChannelSums | None = None) -> str:
    """The same with one kernel, maybe of this schedule."""
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        run_pipeline(module, "fuse-channel-sums{target=sm_90a always=1}")
        (kernel,) = kernels(module)
        if schedule is not None:
            kernel.attributes[ATTRIBUTE] = to_attribute(schedule)
        return str(module)


def with_sums(schedule: Wgmma, squares: bool = True) -> ChannelSums:
    return ChannelSums(**asdict(replace(schedule, group=1)), sums=1 + squares, windows=isinstance(schedule, Im2col))


DOUBLED = "%y0 = arith.addf %s, %s : f32"
# Tiles that hang over images, tiles side by side, blocks with several turns, ping-pong, weights that are kept, several results.
TAKEN = {
    "rows that there are not": (Form((2, 5, 7, 24), 40, (3, 3), **SAME, **RELU), Im2col(64, 64, 3, 1)),
    "tiles side by side": (Form((2, 9, 7, 24), 136, (3, 3), **SAME), Im2col(128, 64, 3, 2)),
    "ping-pong": (Form((3, 9, 17, 24), 64, (3, 3), **SAME), Im2col(64, 64, 3, 2, pingpong=True)),
    "wide": (Form((2, 9, 7, 24), 96, (2, 3), (2, 1), **SAME, **BOTH), Im2col(128, 128, 3, 1)),
    "float32": (Form((2, 9, 7, 24), 40, (3, 3), **SAME, results=("f32",), body=DOUBLED), Im2col(64, 64, 3, 1)),
    "1x1": (Form((3, 9, 7, 24), 104, (1, 1)), Wgmma(128, 64, 3, 2)),
    "terms side by side": (Form((2, 9, 35, 24), 40, (3, 3), (2, 2)), Wgmma(64, 64, 3, 1)),
    **{name: CASES[name] for name in (
        "halo", "halo, in turns", "halo, weights are kept, in turns", "halo, whole rows", "halo, whole rows in turns",
        "halo, 3d", "halo, 64 bytes", "halo, tf32", "halo by 2, weights are kept, in turns")},
}


def has_squares(form: Form) -> bool:
    """Whether the squares are added up, too."""
    return form.results[0] == "bf16"


def wrong(form: Form, tensors: list[torch.Tensor], found: list[torch.Tensor]) -> str:
    """What is not right to the last bit, if anything; ``tensors`` are whole numbers, whose sums are exact."""
    right = expected(form, *tensors[:2], tensors[2:])
    if form.body == DOUBLED:
        right = [2 * right[0]]
    rounded = right[0].to(found[0].dtype).double()
    totals = [t.flatten(0, -2).sum(0) for t in (rounded, rounded * rounded)[: 1 + has_squares(form)]]
    for number, (ours, exact) in enumerate(zip(found, [*right, *totals], strict=True)):
        if not torch.equal(ours, exact.to(ours.dtype)):
            return f"result {number}: {(ours != exact.to(ours.dtype)).sum().item()} of {ours.numel()}"
    return ""
