"""The kernels that ``split_chunks`` calls: a contraction of one chunk of its columns, and an elementwise kernel that takes chunks."""

from dataclasses import dataclass

from inferno.dialect.sizes import SIZES, sizes_attribute, symbol_attributes
from inferno.mlir import clone_onto, dim_of, func, ir, isolated_copy, owner, run_upstream, tensor, walk
from inferno.passes.affine import projection
from inferno.passes.generics import PARALLEL, dims, inputs, is_elementwise, is_reduction, kinds, maps, use_count
from inferno.passes.programs import operations_in
from inferno.passes.shapes import argument_attributes, is_dynamic, reassociation_attribute, shape, static, symbol_arguments
from inferno.passes.split_contractions import split_contractions
from inferno.symbolic import Int, Symbol, product, size_of


@dataclass(frozen=True)
class Chunk:
    """Chunk ``place`` of ``count`` along the last dimension of a tensor."""

    place: int
    count: int


def read_chunk(op: ir.Operation) -> Chunk | None:
    """Which chunk of its operand an operation is, maybe without dimensions of size 1; None if it is anything else."""
    if op.name != "tensor.extract_slice" or not op.results[0].type.rank:
        return None
    whole, part = (list(shape(v)) for v in (op.operands[0], op.results[0]))
    offsets, strides = (list(ir.DenseI64ArrayAttr(op.attributes[n])) for n in ("static_offsets", "static_strides"))
    if [s for s in whole[:-1] if s != 1] != [s for s in part[:-1] if s != 1] or any(offsets[:-1]) or any(s != 1 for s in strides):
        return None
    n, total, begin = part[-1], whole[-1], offsets[-1]
    if not isinstance(n, int) or not isinstance(total, int) or n < 1 or total % n or begin < 0 or begin % n or total == n:
        return None
    return Chunk(begin // n, total // n)


def with_chunks(kernel: func.FuncOp, number: int, slices: list[ir.Operation]) -> func.FuncOp | None:
    """The kernel with two arguments in place of one, of which it reads these slices; None where it is not one elementwise operation else."""
    others = [o for o in operations_in(kernel) if o not in slices]
    if [o.name for o in others if o.name not in BESIDES] != ["linalg.generic"]:
        return None
    arguments = list(kernel.entry_block.arguments)
    given = [*arguments[:number], *(o.results[0] for o in slices), *arguments[number + 1:]]
    with ir.InsertionPoint(kernel.operation):
        new = func.FuncOp(kernel.name.value, ([v.type for v in given], kernel.type.results), visibility="private")
    if symbols := list(symbol_arguments(kernel.operation)):
        entries = [{e.name: e.attr for e in entry} for entry in argument_attributes(kernel.operation)]
        entries[number:number + 1] = [{SIZES: sizes_attribute(shape(o.results[0]), symbols)} if is_dynamic(o.results[0]) else {} for o in slices]
        new.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(e) for e in entries])
    known = dict(zip(given, new.add_entry_block().arguments))
    with ir.InsertionPoint(new.entry_block):
        for op in others:
            clone_onto(op, known)
    return new


BESIDES = ("arith.constant", "tensor.empty", "linalg.fill", "func.return")


def _generics(kernel: func.FuncOp) -> list[ir.Operation]:
    """The operations of a kernel besides constants and what makes its destinations; none where another kind is among them."""
    operations = operations_in(kernel)
    found = [o for o in operations if o.name == "linalg.generic"]
    return found if all(o in found or o.name in BESIDES for o in operations) else []


def _apart(kernel: func.FuncOp) -> tuple[ir.Module, func.FuncOp]:
    """A copy whose sums and epilogues are operations of their own."""
    module = isolated_copy(kernel)
    split_contractions(module)
    run_upstream(module, "func.func(cse)")
    return module, module.body.operations[0]


def columns_of(kernel: func.FuncOp, count: int) -> dict[int, int] | None:
    """Which arguments of a contraction have a dimension of its columns, and which dimension that is; None where the columns cannot be cut."""
    _, kernel = _apart(kernel)
    generics = _generics(kernel)
    if sum(is_reduction(g) for g in generics) != 1 or not is_reduction(generics[0]):
        return None
    found: dict[int, int] = {}
    for generic in generics:
        of_results = [dims(m) for m in maps(generic)[len(inputs(generic)):]]
        if any(d is None or not d or d != of_results[0] for d in of_results):
            return None
        loop = of_results[0][-1]
        if kinds(generic)[loop] != PARALLEL or any(dim_of(i) == loop for i in walk(generic, "linalg.index")):
            return None
        for value, map_ in zip(inputs(generic), maps(generic)):
            if not isinstance(value.type, ir.RankedTensorType):
                continue
            places = [i for i, e in enumerate(map_.results) if ir.AffineDimExpr.get(loop) == e]
            named = {i for i, e in enumerate(map_.results) if f"d{loop}" in str(e).replace("(", " ").replace(")", " ").split()}
            if len(places) > 1 or named != set(places):
                return None
            if isinstance(value, ir.BlockArgument) and places:
                if use_count(value) != 1 or not value.type.has_static_shape or value.type.shape[places[0]] % count:
                    return None
                found[value.arg_number] = places[0]
            elif not isinstance(value, ir.BlockArgument) and (places != [value.type.rank - 1] or owner(value) not in generics):
                return None
    return found


def chunk_kernel(kernel: func.FuncOp, expanded: dict[int, int], chunk: Chunk) -> func.FuncOp:
    """The contraction that makes one chunk."""
    _module, apart = _apart(kernel)
    with ir.InsertionPoint(kernel.operation):
        new, count = apart.operation.clone().opview, chunk.count
    last = new.entry_block.arguments[len(new.type.inputs) - 1]
    known, narrowed = list(shape(last)), set()
    for generic in _generics(new):
        ins, indexing = inputs(generic), maps(generic)
        for i, (value, map_) in enumerate(zip(ins, indexing)):
            if isinstance(value, ir.BlockArgument) and value.arg_number in expanded:
                at = expanded[value.arg_number]
                exprs = list(map_.results)
                indexing[i] = ir.AffineMap.get(map_.n_dims, 0, [*exprs[:at], ir.AffineConstantExpr.get(chunk.place), *exprs[at:]])
                value.set_type(type_of(value, cut_shape(list(value.type.shape), at, count)))
        generic.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in indexing])
        for value in [*list(generic.operands)[len(ins):], *generic.results]:
            while value not in narrowed:
                size = list(value.type.shape)
                value.set_type(type_of(value, [*size[:-1], size[-1] // count]))
                narrowed.add(value)
                if (made := owner(value)) is not None and made.name == "linalg.fill":
                    value = made.operands[1]
    _retype(new, {last.arg_number: [*known[:-1], known[-1] // count]})
    return new


def symbol_of_rows(kernel: func.FuncOp) -> Symbol | None:
    """The symbol that is a contraction's number of rows; None where that is a number or computed of symbols."""
    rows = shape(list(kernel.entry_block.arguments)[-1])[0]
    return next((s for s in symbol_arguments(kernel.operation) if rows == size_of(s)), None)


def on_rows(kernel: func.FuncOp, symbol: Symbol | None) -> func.FuncOp | None:
    """An elementwise kernel on rows: all dimensions but the last as one, which is ``symbol`` where it varies; None where an operand is neither of
    all dimensions nor of the last."""
    indices = [a.arg_number for a in kernel.entry_block.arguments if isinstance(a.type, ir.IndexType)]
    if bool(indices) != (symbol is not None) or indices != list(range(len(indices))):
        return None
    if any(not isinstance(s, int) for s in shape(list(kernel.entry_block.arguments)[-1])[-1:]):
        return None
    generics = _generics(kernel)
    if len(generics) != 1 or not is_elementwise(generics[0]) or walk(generics[0], "linalg.index"):
        return None
    generic, = generics
    rank = len(kinds(generic))
    whole, columns = list(range(rank)), [rank - 1]
    ranks = [dims(m) for m in maps(generic)]
    if any(d not in (whole, columns, []) for d in ranks) or any(not isinstance(v, ir.BlockArgument) for v in generic.operands):
        return None
    known = {v.arg_number: shape(v) for v in generic.operands if isinstance(v.type, ir.RankedTensorType)}
    new = _clone(kernel)
    generic, = _generics(new)
    sizes_: dict[int, list[Int]] = {}
    for value, places in zip(generic.operands, ranks):
        if places == whole and rank > 1:
            rows = product(known[value.arg_number][:-1])
            sizes_[value.arg_number] = [rows if symbol is None else size_of(symbol), known[value.arg_number][-1]]
            value.set_type(type_of(value, static(sizes_[value.arg_number])))
    two = {tuple(whole): [0, 1], tuple(columns): [1], (): []}
    generic.attributes["indexing_maps"] = ir.ArrayAttr.get([
        ir.AffineMapAttr.get(projection(two[tuple(p)], 2)) for p in ranks])
    generic.attributes["iterator_types"] = ir.ArrayAttr.get([ir.Attribute.parse(PARALLEL)] * 2)
    for result, value in zip(generic.results, list(generic.operands)[len(inputs(generic)):]):
        result.set_type(value.type)
    if symbol is not None:
        entries = [{} if not isinstance(a.type, ir.IndexType) else symbol_attributes(symbol) for a in new.entry_block.arguments]
        for number, size in sizes_.items():
            entries[number] = {SIZES: sizes_attribute(size, [symbol])}
        for number in reversed(indices[1:]):
            new.entry_block.erase_argument(number)
        kept = [e for i, e in enumerate(entries) if i not in indices[1:]]
        new.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(e) for e in kept])
    _retype(new, {})
    return new


def _clone(kernel: func.FuncOp) -> func.FuncOp:
    with ir.InsertionPoint(kernel.operation):
        return kernel.operation.clone().opview


def _retype(function: func.FuncOp, sizes_: dict[int, list[Int]]) -> None:
    """Let a function's type, and what its arguments say of sizes that vary, be what its block's arguments are."""
    end = list(function.entry_block.operations)[-1]
    arguments = list(function.entry_block.arguments)
    symbols = list(symbol_arguments(function.operation))
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([a.type for a in arguments], [v.type for v in end.operands]))
    if not symbols:
        return
    entries = [{e.name: e.attr for e in ir.DictAttr(a)} for a in function.attributes["arg_attrs"]]
    for number, size in sizes_.items():
        if SIZES in entries[number]:
            entries[number][SIZES] = sizes_attribute(size, symbols)
    function.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(e) for e in entries])


def type_of(value: ir.Value, size: list[int]) -> ir.Type:
    """A tensor's type, of its elements and of another size."""
    return ir.RankedTensorType.get(size, value.type.element_type)


def cut_shape(size: list[int], at: int, count: int) -> list[int]:
    """Sizes of which that of dimension ``at`` is cut into ``count`` chunks, a dimension of their own in front."""
    return [*size[:at], count, size[at] // count, *size[at + 1:]]


def cut_dimension(value: ir.Value, at: int, count: int) -> ir.Value:
    """A tensor of known sizes with one dimension as two, of which the first has ``count``."""
    size = list(value.type.shape)
    groups = [[i] if i < at else [at, at + 1] if i == at else [i + 1] for i in range(len(size))]
    cut = cut_shape(size, at, count)
    return tensor.ExpandShapeOp(type_of(value, cut), value, reassociation_attribute(groups), [], cut).result
