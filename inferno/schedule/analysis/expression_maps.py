"""Expressions as the body of an elementwise ``linalg.generic`` again, for generators to inline."""

from collections.abc import Sequence

from inferno.dialect.sizes import symbol_attributes
from inferno.mlir import arith, func, ir, linalg, tensor
from inferno.passes.affine import projection
from inferno.passes.generics import PARALLEL, build
from inferno.passes.shapes import static, symbol_arguments
from inferno.passes.size_values import materialise, mixed
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.expressions import INDEX, READ, Expression, Loop
from inferno.schedule.matmul.contraction import Map
from inferno.symbolic import Symbol, symbols_of


def access_of(read: Expression, numbers: dict[Loop, int]) -> Access:
    """A READ by loops of these numbers."""
    strides = [0] * len(numbers)
    for loop, stride in read.strides:
        strides[numbers[loop]] = stride
    return Access(read.argument, read.type, tuple(strides), read.offset, read.shape)


def make_map(
    module: ir.Module, results: Sequence[Expression], numbers: dict[Loop, int], inner: Expression | None = None, other: Expression | None = None,
) -> Map:
    """A generic in a function of ``module`` that yields ``results`` by the loops that these depend on and those of ``inner``, an accumulator, and
    of the ``other`` one of two."""
    made = {inner, other} - {None}
    leaves = list(dict.fromkeys(e for r in results for e in r.walk(made.__contains__) if e in made or e.name == READ))
    used = {loop for r in results for e in r.walk(made.__contains__) for loop, _ in e.strides}.union(*(e.moves_with() & numbers.keys() for e in made))
    nest = sorted(used, key=numbers.__getitem__)
    sizes = [loop.size for loop in nest]
    shape = static(sizes)
    whole = ir.AffineMap.get_identity(len(nest))

    def tensor_of(e: Expression) -> tuple[ir.Type, ir.AffineMap]:
        own = [n for n, loop in enumerate(nest) if e in made or any(loop == moved for moved, _ in e.strides)]
        map_ = projection(own, len(nest))
        return ir.RankedTensorType.get([shape[n] for n in own], e.type), map_

    types = [tensor_of(e) for e in leaves]
    numbers_used = [e for r in results for e in r.walk(made.__contains__) if e.name == INDEX]
    varying = [*sizes, *(x for e in numbers_used for x in (e.offset, *(step for _, step in e.strides)))]
    symbols = list(dict.fromkeys(s for size in varying for s in symbols_of(size)))
    given = [*[ir.IndexType.get()] * len(symbols), *(t for t, _ in types)]
    with ir.InsertionPoint(module.body):
        function = func.FuncOp(
            f"map{len(module.body.operations)}", (given, [ir.RankedTensorType.get(shape, r.type) for r in results]), visibility="private",
        )
    if symbols:
        said = [symbol_attributes(s) for s in symbols] + [{}] * len(types)
        function.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in said])
    block = function.add_entry_block()
    arguments_of = symbol_arguments(function.operation)

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        known: dict[Expression, ir.Value] = dict(zip(leaves, arguments))
        return [_emit(r, known, nest, arguments_of) for r in results]

    with ir.InsertionPoint(block):
        outs = [tensor.EmptyOp(mixed(sizes, function.operation), r.type).result for r in results]
        maps = [*(m for _, m in types), *[whole] * len(outs)]
        generic = build(list(block.arguments)[len(symbols):], outs, maps, [PARALLEL] * len(nest), fill, ir.Location.unknown())
        func.ReturnOp(list(generic.results))
    sources = (*(None if e in made else access_of(e, numbers) for e in leaves), *[None] * len(outs))
    inners, others = (tuple(i for i, e in enumerate(leaves) if e is one) for one in (inner, other))
    return Map(generic, sources, tuple(numbers[loop] for loop in nest), inners, others)


def _emit(expression: Expression, known: dict[Expression, ir.Value], nest: Sequence[Loop], symbols: dict[Symbol, ir.Value]) -> ir.Value:
    """The expression at the insertion point, each part once."""
    if expression not in known:
        operands = [_emit(e, known, nest, symbols) for e in expression.operands]
        if expression.name == INDEX:
            found = _index(expression, nest, symbols)
            known[expression] = found if isinstance(expression.type, ir.IndexType) else arith.index_cast(expression.type, found)
        elif expression.op is None:
            known[expression] = ir.Operation.create(expression.name, results=[expression.type], operands=operands).results[0]
        else:
            new = expression.op.clone()
            for i, value in enumerate(operands):
                new.operands[i] = value
            known[expression] = new.results[0]
    return known[expression]


def _index(expression: Expression, nest: Sequence[Loop], symbols: dict[Symbol, ir.Value]) -> ir.Value:
    """A sum of loops' numbers, each times its stride."""
    found = materialise(expression.offset, symbols) if expression.offset != 0 or not expression.strides else None
    for loop, stride in expression.strides:
        number = linalg.IndexOp(nest.index(loop)).result
        step = number if stride == 1 else arith.muli(number, materialise(stride, symbols))
        found = step if found is None else arith.addi(found, step)
    return found


