"""The generator of kernels whose contraction a library computes.

The kernel is split into the elementwise maps of the operands, the contraction, and the map of its result.  The maps become
loops; the contraction is an ``inferno.library`` operation.  Where it can, its result goes to the kernel's destination, and
the last map runs over it in place.
"""

from collections.abc import Callable

from inferno.codegen.builders import launcher as host
from inferno.codegen.cpu.loops import build, code_module, emit_launches
from inferno.mlir import func, ir
from inferno.schedule.analysis.accesses import Access, merge
from inferno.schedule.convolution.convolution import parse_convolution
from inferno.schedule.cpu.library import Library
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.contraction_parts import ContractionParts, Temporary
from inferno.symbolic import Int, hint, product
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: Library, target: Target) -> None:
    """Make ``kernel`` the launcher of the library's call and of the loops around it."""
    name = kernel.name.value
    if schedule.function == "convolution":
        _generate_convolution(kernel)
        return
    with kernel.context, ir.Location.unknown():
        c = parse_contraction(kernel)
        parts = ContractionParts(c)
        built = [build(p.kernel, f"{name}__part{i}") for i, p in enumerate(parts.before + parts.after)]
        if built:
            ir.InsertionPoint(kernel.operation).insert(code_module(name, *(module for module, _ in built)))
        with host.launcher(kernel) as arguments:
            made: dict[int, ir.Value] = {}

            def buffer(place: int | Temporary) -> ir.Value:
                if not isinstance(place, Temporary):
                    return arguments[place]
                if id(place) not in made:
                    made[id(place)] = host.temporary(place.shape, place.element)
                return made[id(place)]

            for number, (part, (_, steps)) in enumerate(zip(parts.before + parts.after, built)):
                if number == len(parts.before):
                    _call(c, parts, schedule.function, buffer)
                emit_launches(name, steps, [buffer(b) for b in part.buffers])
            if not parts.after:
                _call(c, parts, schedule.function, buffer)


def _generate_convolution(kernel: func.FuncOp) -> None:
    found = parse_convolution(kernel)
    with kernel.context, ir.Location.unknown(), host.launcher(kernel) as arguments:
        operands = [found.image, found.weight, *([found.start] if found.start is not None else []), len(arguments) - 1]
        options = {
            "image": found.image_shape, "weight": found.weight_shape, "groups": found.groups, "strides": found.strides, "padding": found.padding,
            "dilations": found.dilations, "bias": found.bias,
        }
        for name, lies in (("image", found.image_lies), ("weight", found.weight_lies), ("result", found.result_lies)):
            options |= {f"{name}_sizes": lies.sizes, f"{name}_order": lies.order}
        host.library([host.pointer(arguments[i]) for i in operands], "convolution", options)


def _call(c: Contraction, parts: ContractionParts, function: str, buffer: Callable[[int | Temporary], ir.Value]) -> None:
    """The library's call, at the insertion point."""
    places = [*parts.operands, parts.result]
    walked = [a for _, a in places]
    groups: dict[str, list[tuple[int, Int]]] = {}
    for role in ("batch", "m", "n", "k"):
        dims = getattr(c, role).dims
        by = walked[0] if role == "k" else walked[2]
        dims = sorted(dims, key=lambda d, by=by: -hint(by.strides[d]))
        groups[role] = [(run[-1], product(c.sizes[d] for d in run)) for run in merge(dims, c.sizes, walked)]

    def strides(at: Access, *roles: str) -> list[Int]:
        return [at.strides[d] for role in roles for d, _ in groups[role]]

    options = {
        **{role: [size for _, size in runs] for role, runs in groups.items()},
        "lhs": strides(walked[0], "batch", "m", "k"), "rhs": strides(walked[1], "batch", "k", "n"),
        "out": strides(walked[2], "batch", "m", "n"), "offsets": [a.offset for a in walked],
    }
    host.library([host.pointer(buffer(b)) for b, _ in places], function, options)
