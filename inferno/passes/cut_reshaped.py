"""Exchange a slice and the reshape behind it, so that the reshaped tensor is sliced: ``qkv.chunk(3, -1)[0].unflatten(-1, (heads, size))``.

Whatever reads a part of an argument or of a product's result takes it where it lies, but not a reshaped one, for which the part would be copied.  Every second
of 256 rows in pairs, ``x[:, ::2].unflatten(1, (64, 2))``, are those of 64 times four.
"""

from collections.abc import Iterator

from inferno.mlir import ir, is_read, owner, tensor, walk
from inferno.passes.generics import knows_sizes
from inferno.passes.name_symbols import expand
from inferno.passes.parts import Part, extract
from inferno.passes.programs import RESHAPES
from inferno.passes.shapes import UnknownSize, function_of, kept_dimensions, reassociation, reassociation_attribute, shape, slice_parts, static
from inferno.symbolic import Int, product


def cut_reshaped(module: ir.Module) -> None:
    """Reshape what slices take parts of instead of the parts, wherever these are parts of that, too."""
    for view in walk(module.operation, *RESHAPES):
        cut = owner(view.operands[0])
        if cut is None or cut.name != "tensor.extract_slice" or not knows_sizes(view) or not knows_sizes(cut):
            continue
        try:
            new = (_expanded if view.name == "tensor.expand_shape" else _collapsed)(cut, view)
        except UnknownSize:
            continue  # where the part begins is computed
        if new is None or new.type != view.results[0].type:
            continue
        view.results[0].replace_all_uses_with(new)
        view.erase()
        if not is_read(cut.results[0]):
            cut.erase()


def _parts(cut: ir.Operation) -> list[Part]:
    return list(zip(*slice_parts(cut)))


def _groups(cut: ir.Operation, view: ir.Operation) -> Iterator[list[int] | None]:
    """For each dimension that is cut the dimensions of the more dimensional side that a view makes of it, None where the cut leaves it out."""
    kept, groups = kept_dimensions(cut), iter(reassociation(view))
    return (next(groups) if d in kept else None for d in range(cut.operands[0].type.rank))


def _restored(cut: ir.Operation, view: ir.Operation) -> ir.Value | None:
    """The slice alone, where a view restores dimensions of one element that the slice leaves out: what is cut stays as it is, for who makes it."""
    left, parts, stays = list(shape(view.results[0])), _parts(cut), []
    for _, count, _ in parts:
        stays.append(left[:1] == [count])
        if stays[-1]:
            left = left[1:]
        elif count != 1:
            return None
    if left:
        return None
    with ir.InsertionPoint(view), view.location:
        return extract(cut.operands[0], parts, stays)


def _expanded(cut: ir.Operation, view: ir.Operation) -> ir.Value | None:
    if (restored := _restored(cut, view)) is not None:
        return restored
    source, wanted = cut.operands[0], shape(view.results[0])
    sizes: list[Int] = []
    groups: list[list[int]] = []
    parts: list[Part] = []
    stays: list[bool] = []
    for n, part, group in zip(shape(source), _parts(cut), _groups(cut, view), strict=True):
        inner = [wanted[d] for d in group[1:]] if group else []
        begin, count, step = part
        found = [(0, s, 1) for s in inner]
        if inner and part == (0, n, 1):
            own, first = wanted[group[0]], (0, wanted[group[0]], 1)
        elif inner:
            whole = product([*inner, step])
            if not all(isinstance(x, int) for x in (n, begin, count, whole)) or not whole or n % whole or begin % whole >= step:
                return None
            own, first = n // whole, (begin // whole, wanted[group[0]], 1)
            inner[-1], found[-1] = inner[-1] * step, (begin % whole, inner[-1], step)  # every step-th of the innermost
        else:
            own, first = n, part
        groups.append(list(range(len(sizes), len(sizes) + 1 + len(inner))))
        sizes += [own, *inner]
        parts += [first, *found]
        stays += [group is not None, *[True] * len(inner)]
    if 0 in sizes or not source.type.rank:
        return None
    with ir.InsertionPoint(view), view.location:
        return extract(expand(source, sizes, groups, function_of(view)), parts, stays)


def _collapsed(cut: ir.Operation, view: ir.Operation) -> ir.Value | None:
    source, given = cut.operands[0], _parts(cut)
    if len(kept_dimensions(cut)) != len(given):
        return None  # a dimension that is left out may lie between two that become one
    sizes, groups, parts = shape(source), reassociation(view), []
    for group in groups:
        begin, count, step = given[group[0]]
        inner = product([sizes[d] for d in group[1:]])
        if any(given[d] != (0, sizes[d], 1) for d in group[1:]) or (len(group) > 1 and step != 1):
            return None
        parts.append((begin * inner, count * inner, step))
    if 0 in sizes or not groups:
        return None
    flat = [product([sizes[d] for d in group]) for group in groups]
    with ir.InsertionPoint(view), view.location:
        type_ = ir.RankedTensorType.get(static(flat), source.type.element_type)
        return extract(tensor.CollapseShapeOp(type_, source, reassociation_attribute(groups)).result, parts)
