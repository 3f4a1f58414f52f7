"""The sizes that vary become ``index`` arguments of ``@main``, and every other size an expression of them.

The import computes sizes wherever it needs them, from ``tensor.dim`` of whatever is at hand.  Here each is found out as an
expression of the symbols (``shapes``) and computed of their arguments alone, once, at the top of ``@main``: sizes that are
equal are one value, conditions on sizes that the ranges decide are gone, and a reshape says its new sizes itself.
"""

from collections.abc import Sequence

from inferno.dialect.sizes import SYMBOLS, read_symbol, symbol_attributes
from inferno.errors import PassError
from inferno.mlir import arith, func, ir, is_read, is_unread, owner, tensor, walk
from inferno.passes.programs import find_main
from inferno.passes.shapes import (
    UnknownSize, argument_attributes, function_of, is_dynamic, number, reassociation_attribute, shape, static, symbol_arguments, truth,
)
from inferno.passes.size_values import materialise, mixed
from inferno.symbolic import Int, Size, floordiv, product, quotient


def name_symbols(module: ir.Module) -> None:
    """Give ``@main`` an argument for each symbol of its ``inferno.symbols``, and express its sizes by them.

    A program without symbols stays as it is.  UnknownSize where a tensor has a size that is no expression of the symbols.
    """
    main = find_main(module)
    if main is None:
        raise PassError("name-symbols: the module has no @main")
    if SYMBOLS in main.attributes:
        _add_arguments(main)
    if symbol_arguments(main.operation):
        resolve_sizes(main)


def _add_arguments(main: func.FuncOp) -> None:
    symbols = [read_symbol(ir.DictAttr(a)) for a in main.attributes["inferno.symbols"]]
    attributes = argument_attributes(main.operation)
    block = main.regions[0].blocks[0]
    for _ in symbols:
        block.add_argument(ir.IndexType.get(main.context), main.location)
    with main.context:
        main.attributes["arg_attrs"] = ir.ArrayAttr.get([*attributes, *(ir.DictAttr.get(symbol_attributes(s)) for s in symbols)])
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([a.type for a in block.arguments], list(main.type.results)))
        del main.attributes["inferno.symbols"]


def resolve_sizes(main: func.FuncOp) -> None:
    """Compute every size of the function's body of its symbols' arguments."""
    for op in walk(main.operation, "tensor.reshape"):
        _reshape(op)
    resolve_scalars(main)
    for op in walk(main.operation):
        for result in op.results:
            if is_dynamic(result) and isinstance(result.type, ir.RankedTensorType):
                try:
                    shape(result)
                except UnknownSize as error:
                    raise UnknownSize(f"name-symbols: {op.name} at {op.location}: {error}") from error


def resolve_scalars(function: func.FuncOp) -> None:
    """Compute every index and integer that is a size of the function's symbols; what the ranges decide is a constant."""
    _Resolver(function).run()


class _Resolver:
    def __init__(self, main: func.FuncOp) -> None:
        self._main = main
        self._symbols = symbol_arguments(main.operation)
        self._values: dict[tuple[Int, str], ir.Value] = {}

    def run(self) -> None:
        found = []  # each is replaced before those behind it are asked: of what is read twice there may be many ways to the same size
        for op in walk(self._main.operation):
            if len(op.results) != 1 or op.name == "arith.constant" or not isinstance(op.results[0].type, (ir.IndexType, ir.IntegerType)):
                continue
            type_ = op.results[0].type
            if isinstance(type_, ir.IntegerType) and type_.width == 1:
                size = truth(op.results[0]) if op.name in ("arith.cmpi", "arith.andi", "arith.ori") else None
            else:
                size = number(op.results[0])
            if size is not None:
                found.append(op)
                op.results[0].replace_all_uses_with(self._value(size, type_))
        for op in reversed(found):
            if not is_read(op.results[0]):
                op.erase()

    def _value(self, size: Int, type_: ir.Type) -> ir.Value:
        key = (size, str(type_))
        if key not in self._values:
            with self._place(), ir.Location.unknown(self._main.context):
                if isinstance(size, (bool, int)):
                    value = arith.constant(type_, int(size))
                elif isinstance(type_, ir.IndexType):
                    value = materialise(size, self._symbols)
                else:
                    value = self._cast(size, type_)
            self._values[key] = value
        return self._values[key]

    def _cast(self, size: Size, type_: ir.Type) -> ir.Value:
        return arith.index_cast(type_, materialise(size, self._symbols))

    def _place(self) -> ir.InsertionPoint:
        return ir.InsertionPoint.at_block_begin(self._main.regions[0].blocks[0])


def _reshape(op: ir.Operation) -> None:
    """``tensor.reshape``, whose new sizes are a tensor, as collapse_shape and expand_shape."""
    value, new = op.operands[0], shape(op.results[0])
    flat = owner(value)
    if flat is not None and flat.name == "tensor.collapse_shape" and common_groups(shape(flat.operands[0]), new) is not None:
        value = flat.operands[0]
    with ir.InsertionPoint(op), op.location:
        made = reshape(value, new, op, equal=True)
        if made.type != op.results[0].type:
            made = tensor.CastOp(op.results[0].type, made).result
    op.results[0].replace_all_uses_with(made)
    sizes = owner(op.operands[1])
    op.erase()
    if flat is not None and flat.name == "tensor.collapse_shape" and not is_read(flat.results[0]):
        flat.erase()
    if sizes is not None and is_unread(sizes):
        sizes.erase()


def reshape(value: ir.Value, new: Sequence[Int], op: ir.Operation, equal: bool = False) -> ir.Value:
    """``value`` with other sizes, at the insertion point: the fewest dimensions are merged and cut again.

    ``op`` is an operation of the function; UnknownSize where the numbers of elements are not known to be equal, and ``equal`` does not say that they are.
    """
    old = list(shape(value))
    groups = common_groups(old, new)
    groups = _inferred_groups(old, new) if groups is None else groups  # (of no dimensions there are none)
    groups = _between_common_ends(old, new) if groups is None and equal else groups
    if groups is None:
        raise UnknownSize(f"a reshape from {old} to {list(new)} is not understood")
    element = value.type.element_type
    known = ir.RankedTensorType.get(static(old), element)
    if value.type != known:  # the import forgets numbers that it reshapes to
        value = tensor.CastOp(known, value).result
    merged = [product([old[d] for d in a]) for a, _ in groups]
    if len(merged) < len(old):
        value = tensor.CollapseShapeOp(ir.RankedTensorType.get(static(merged), element), value, reassociation_attribute([a for a, _ in groups])).result
    if len(merged) < len(new):
        value = expand(value, new, [b for _, b in groups], op)
    return value


def expand(value: ir.Value, new: Sequence[Int], groups: Sequence[Sequence[int]], op: ir.Operation) -> ir.Value:
    """``tensor.expand_shape`` to the sizes ``new`` at the insertion point."""
    type_ = ir.RankedTensorType.get(static(new), value.type.element_type)
    given = mixed(new, function_of(op))
    return tensor.ExpandShapeOp(
        type_, value, reassociation_attribute(groups), [v for v in given if not isinstance(v, int)], static(new),
    ).result


def common_groups(old: Sequence[Int], new: Sequence[Int]) -> list[tuple[list[int], list[int]]] | None:
    """The shortest runs of dimensions of the two shapes whose products are equal, in order; None where there are none."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        if i == len(old) or j == len(new):  # what is left are sizes of 1
            if not groups or any(s != 1 for s in (*old[i:], *new[j:])):
                return None
            groups[-1][0].extend(range(i, len(old)))
            groups[-1][1].extend(range(j, len(new)))
            break
        a, b, left, right = [i], [j], old[i], new[j]
        i, j = i + 1, j + 1
        while left != right:
            more_left = _divides(left, right) and not (_divides(right, left) and left != 1)
            if more_left and i < len(old):
                left, i = left * old[i], i + 1
                a.append(i - 1)
            elif j < len(new):
                right, j = right * new[j], j + 1
                b.append(j - 1)
            elif i < len(old):
                left, i = left * old[i], i + 1
                a.append(i - 1)
            else:
                return None
        groups.append((a, b))
    return groups


def _inferred_groups(old: Sequence[Int], new: Sequence[Int]) -> list[tuple[list[int], list[int]]] | None:
    """All dimensions as one run where one of the new sizes is what the others leave of the elements, as -1 says: torch asks that none be left over."""
    total = product(old)
    rests = (product([*new[:d], *new[d + 1:]]) for d in range(len(new)))
    inferred = any(size == floordiv(total, rest) for size, rest in zip(new, rests) if isinstance(size, Size))
    return [(list(range(len(old))), list(range(len(new))))] if inferred else None


def _between_common_ends(old: Sequence[Int], new: Sequence[Int]) -> list[tuple[list[int], list[int]]] | None:
    """All dimensions between the first and the last ones that are the same as one run: of a reshape from the program, whose numbers of elements torch asked
    to be equal, as a condition on each call where the symbols alone do not say so: ``s0*s1`` and ``4 * (s0*s1 // 4)``, or ``s2*s3``."""
    least = min(len(old), len(new))
    first = next((d for d in range(least) if old[d] != new[d]), least)
    last = next((d for d in range(least - first) if old[-1 - d] != new[-1 - d]), least - first)
    i, j = len(old) - last, len(new) - last
    if first == i or first == j:  # nothing, which is 1
        return None
    ends = [([i + d], [j + d]) for d in range(last)]
    return [*(([d], [d]) for d in range(first)), (list(range(first, i)), list(range(first, j))), *ends]


def _divides(a: Int, b: Int) -> bool:
    """Whether ``b`` is known to be a multiple of ``a``, so that ``a`` may still grow to it."""
    return a == 1 or quotient(b, a) is not None
