"""What a kernel that multiplies and adds over windows computes: a convolution whose windows overlap, and its padding.

``parse_windows`` reads [``tensor.pad`` of the image with zeros] -> multiply-add over (o * stride + k * dilation) -> [elementwise map of the result],
in any order of dimensions: depthwise, with a few channels a group, and with any number of spatial dimensions.
"""

from collections.abc import Container
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, prod

from inferno.element_sizes import element_bytes
from inferno.mlir import func, ir, is_read, isolated_copy, owner, walk
from inferno.passes.affine import linear
from inferno.passes.generics import PARALLEL, REDUCTION, is_reduction, kinds, maps
from inferno.passes.padding import padding, zero_padding
from inferno.passes.programs import operations_in
from inferno.passes.shapes import shape, symbol_arguments
from inferno.passes.split_contractions import split_contractions
from inferno.schedule.analysis.accesses import Access, argument_index, knows_arguments, loop_sizes
from inferno.schedule.analysis.cost import moved_bytes
from inferno.schedule.analysis.unchanged import asked_once, read_by_text
from inferno.schedule.analysis.varying_rows import with_numbers
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.parser import parse_split
from inferno.symbolic import Int, Size, bounds, ceildiv


@dataclass(frozen=True)
class Axis:
    """A dimension of the image, of ``size`` elements: coordinate ``loop * stride + tap * dilation - low``, where the image is zero outside.

    ``loop`` is a parallel loop and ``tap`` one of the sum's; either may be None.  ``checked``: some coordinates are outside.

    All coordinates are multiples of ``dilation`` away from those of one of ``phases`` first outputs: output ``phase + phases * t`` reads the
    coordinates ``phase * stride - low + dilation * (step * t + tap)``.
    """

    loop: int | None
    tap: int | None
    stride: int
    dilation: int
    low: int
    size: Int
    checked: bool

    @property
    def phases(self) -> int:
        return self.dilation // gcd(self.stride, self.dilation)

    @property
    def step(self) -> int:
        return self.stride // gcd(self.stride, self.dilation)


@dataclass(frozen=True)
class WindowKernel:
    """``sizes`` are those of the contraction's loops, by which all strides are.

    ``down`` and ``along`` are the axes over which a thread's outputs lie: it walks along the first, whose rows it reads once, and has a few outputs
    along the second; either may be None.  ``lane`` is the loop that vectors lie along, None where that is ``along``'s own.  ``others`` are the
    further parallel loops, those with the least strides first, and ``further`` the further loops of the sum.

    ``sized``: the same with the sizes that vary, where some do; all else is that of an example.
    """

    contraction: Contraction
    image: Access
    weight: Access
    axes: tuple[Axis, ...]
    down: Axis | None
    along: Axis | None
    lane: int | None
    others: tuple[int, ...]
    further: tuple[int, ...]
    sized: "WindowKernel | None" = None

    @property
    def sizes(self) -> tuple[Int, ...]:
        return self.contraction.sizes

    @property
    def images(self) -> Size | None:
        """How many images there are where that varies, the size of the last loop of ``others``, and nothing else does."""
        if self.sized is None or not self.others:
            return None
        sizes, loop = list(self.sized.sizes), self.others[-1]
        rest = [*sizes[:loop], *sizes[loop + 1:], *(a.size for a in self.sized.axes), *(n for a in self.sized.accesses for n in (a.offset, *a.strides))]
        return sizes[loop] if all(isinstance(n, int) for n in rest) and not isinstance(sizes[loop], int) else None

    @property
    def accesses(self) -> tuple[Access, ...]:
        """Every tensor's."""
        return (self.image, self.weight, *self.contraction.extras, *(d.access for d in self.contraction.destinations))

    @property
    def out(self) -> Access:
        return self.contraction.destinations[0].access

    # What each of thousands of schedules asks for is computed once.

    @cached_property
    def width(self) -> int:
        """Bytes of an element of the image."""
        return element_bytes(self.image.element)

    @cached_property
    def moved(self) -> int:
        """Bytes of all tensors, each once."""
        return moved_bytes(self.contraction)

    @cached_property
    def operations(self) -> int:
        """Of the epilogue, those that take long as often as they take longer than the others."""
        epilogue = self.contraction.epilogue
        names = [op.name for op in walk(epilogue.generic) if op.name.startswith(("arith.", "math."))] if epilogue is not None else []
        return sum(8 if n.startswith("math.") or n == "arith.divf" else 1 for n in names if n != "arith.constant")

    @cached_property
    def depth(self) -> int:
        """Terms that a tap of a window has: channels of a group, and taps along further axes."""
        return prod(self.sizes[d] for d in self.further)

    def outputs(self, axis: Axis | None) -> Int:
        """Outputs along an axis, of one of its phases."""
        return ceildiv(self.sizes[axis.loop], axis.phases) if axis is not None and axis.loop is not None else 1

    def taps(self, axis: Axis | None) -> int:
        return self.sizes[axis.tap] if axis is not None and axis.tap is not None else 1

    @cached_property
    def terms(self) -> int:
        """Products of one sum."""
        return self.taps(self.down) * self.taps(self.along) * self.depth

    @property
    def points(self) -> int:
        """Sums."""
        return prod(n for n, k in zip(self.sizes, self.kinds) if k != REDUCTION)

    @property
    def kinds(self) -> list[str]:
        reduced = {d for a in self.axes for d in (a.tap,) if d is not None} | set(self.further)
        return [REDUCTION if d in reduced else PARALLEL for d in range(len(self.sizes))]

    @property
    def side_by_side(self) -> bool:
        """Whether the neighbours of an element in memory are other lanes, and not other places of the image."""
        return self.lane is not None and self.out.strides[self.lane] == 1


@asked_once
def parse_windows(kernel: func.FuncOp) -> WindowKernel | None:
    """The kernel's windows; None where it has none, or it computes anything else."""
    plain = (ir.AffineDimExpr, ir.AffineConstantExpr)
    operations = operations_in(kernel)
    if not any(o.name == "tensor.pad" or (o.name == "linalg.generic" and not all(isinstance(e, plain) for m in maps(o) for e in m.results))
               for o in operations):
        return None
    if not knows_arguments(kernel):
        return None
    if sum(is_reduction(o) for o in operations) != 1:
        return None
    return _parse(kernel)


@read_by_text
def _parse(kernel: func.FuncOp) -> WindowKernel | None:
    numbers = {symbol: max(2, symbol.low, symbol.hint) for symbol in symbol_arguments(kernel.operation)}
    with kernel.context, kernel.location:
        module = isolated_copy(kernel)
        read = _read(module)
        if read is None or not numbers:
            return _with_roles(*read) if read is not None else None
        varying = {d for d, n in enumerate(read[0].sizes) if not isinstance(n, int)}
        module = with_numbers(kernel, numbers) if varying else None
        example = _read(module) if module is not None else None
        example = _with_roles(*example, varying) if example is not None else None
        return _sized(example, varying, *read) if example is not None else None


def _sized(
    example: WindowKernel, varying: set[int], c: Contraction, image: Access, weight: Access, axes: tuple[Axis, ...], kinds: list[str],
) -> WindowKernel | None:
    """``example``, which has numbers in the place of the kernel's symbols, with the sizes that vary, as they were read.  What loops are for is decided by the
    numbers: they only make some of it faster.  None where the lanes or the windows vary, or a loop is gone that has one step in the example."""
    if any(kinds[d] == REDUCTION or d == example.lane or example.sizes[d] < 2 for d in varying):
        return None
    like = {replace(a, size=0, checked=False): a for a in axes}
    found = {a: like.get(replace(a, size=0, checked=False)) for a in example.axes}
    if None in found.values() or any(a.checked for a in axes if a not in found.values()):
        return None
    down, along = (None if a is None else found[a] for a in (example.down, example.along))
    sized = replace(example, contraction=c, image=image, weight=weight, axes=tuple(found.values()), down=down, along=along)
    return replace(example, sized=sized)


def _read(module: ir.Module) -> tuple[Contraction, Access, Access, tuple[Axis, ...], list[str]] | None:
    """The contraction, its image and its weight, how the image is walked, and the kinds of the loops; the module is changed."""
    split_contractions(module)
    kernel = module.body.operations[0]
    op = next((o.operation for o in kernel.entry_block.operations if is_reduction(o.operation)), None)
    if op is None or len(op.results) != 1 or len(op.operands) != 3:
        return None
    sizes, found = loop_sizes(op), None
    for number in (0, 1):
        axes = _axes(op, number, sizes) if sizes is not None else None
        if axes is None:
            return None
        if any(a.checked or None not in (a.loop, a.tap) for a in axes):
            if found is not None:
                return None  # both factors are windows
            found = number, axes
    if found is None:
        return None
    number, axes = found
    _unpad(op, number)
    image, weight = (argument_index(kernel, op.operands[n]) for n in (number, 1 - number))
    c = parse_split(module, 1)
    if c is None or image is None or weight is None or image == weight or c[0].sizes != sizes or c[0].lhs.access is None or c[0].rhs.access is None:
        return None
    c = c[0]
    places = {a.argument: a for a in (c.lhs.access, c.rhs.access)}
    return (c, places[image], places[weight], tuple(axes), kinds(op)) if set(places) == {image, weight} else None


def _axes(op: ir.Operation, number: int, sizes: tuple[Int, ...]) -> list[Axis] | None:
    """How a factor's dimensions are walked, of the tensor behind a padding; None where that is not known, or a loop walks several dimensions."""
    value, kind = op.operands[number], kinds(op)
    low = [0] * len(value.type.shape)
    if (pad := owner(value)) is not None and pad.name == "tensor.pad":
        if (low := _padding(pad)) is None:
            return None
        value = pad.operands[0]
    axes, walked = [], []
    for map_result, size, before in zip(maps(op)[number].results, shape(value), low):
        part = linear(map_result, len(kind))
        if part is None:
            return None
        coefficients, constant = part
        used = [d for d, c in enumerate(coefficients) if c]
        loops, taps = ([d for d in used if sizes[d] != 1 and (kind[d] == REDUCTION) == reduced] for reduced in (False, True))
        if len(loops) > 1 or len(taps) > 1 or any(coefficients[d] < 1 for d in used):
            return None
        walked += used
        loop, tap = loops[0] if loops else None, taps[0] if taps else None
        stride = coefficients[loop] if loop is not None else 1
        dilation = coefficients[tap] if tap is not None else stride
        last = constant - before + sum(coefficients[d] * (sizes[d] - 1) for d in used)
        checked = before > constant or bounds(size - last)[0] < 1
        axes.append(Axis(loop, tap, stride if loop is not None else dilation, dilation, before - constant, size, checked))
    return axes if len(set(walked)) == len(walked) else None


def _padding(pad: ir.Operation) -> list[int] | None:
    """Zeros in front of each dimension; None where something else is, or less than nothing."""
    zeros = zero_padding(pad)
    if zeros is None or len(pad.regions[0].blocks[0].operations) > 2:
        return None
    return zeros[0] if all(n < 1 << 31 for ends in zeros for n in ends) else None


def _unpad(op: ir.Operation, number: int) -> None:
    """Let a factor be read from in front of its padding: by a map that is only right inside of it."""
    pad, every = owner(op.operands[number]), maps(op)
    if pad is None or pad.name != "tensor.pad":
        return
    low, _ = padding(pad)
    moved = [e - n if n else e for e, n in zip(every[number].results, low)]
    every[number] = ir.AffineMap.get(every[number].n_dims, 0, moved)
    op.operands[number] = pad.operands[0]
    op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in every])
    if not is_read(pad.results[0]):
        pad.erase()


def _with_roles(
    c: Contraction, image: Access, weight: Access, axes: tuple[Axis, ...], kinds: list[str], varying: Container[int] = (),
) -> WindowKernel | None:
    """``varying`` are loops of whose sizes these are an example: vectors do not lie along such a one, which a thread has a few outputs of at most."""
    out, sizes = c.destinations[0].access, c.sizes
    loops = sorted((d for d, k in enumerate(kinds) if k != REDUCTION and sizes[d] > 1), key=lambda d: out.strides[d])
    axes = tuple(a for a in axes if a.checked or None not in (a.loop, a.tap) or (a.loop in loops[:1] and a.loop in varying))
    if not loops or any(out.strides[d] < 1 for d in loops):
        return None
    by_loop = {a.loop: a for a in axes if a.loop is not None and sizes[a.loop] > 1}
    moving = [by_loop[d] for d in loops if d in by_loop]
    plain = [d for d in loops if d not in by_loop]
    if loops[0] in by_loop:
        along, down = moving[0], next((a for a in moving[1:] if a.tap is not None), None)
        features = [d for d in plain if image.strides[d] == 0 and weight.strides[d]]
        lane = features[0] if features else None
    else:
        lane = loops[0]
        along, down = (moving[0], moving[1]) if len(moving) > 1 else (None, moving[0] if moving else None)
    walked = {a.loop for a in (along, down) if a is not None}
    taps = {a.tap for a in (along, down) if a is not None}
    others = tuple(d for d in loops if d not in walked and d != lane)
    further = tuple(d for d, k in enumerate(kinds) if k == REDUCTION and d not in taps)
    return WindowKernel(c, image, weight, axes, down, along, lane, others, further)

