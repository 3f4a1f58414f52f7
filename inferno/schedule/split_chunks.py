"""A contraction whose columns are cut into equal chunks, two of which meet elementwise, as two contractions of slices of its weight.

``g, u = (x @ w).chunk(2, -1); silu(g) * u`` is a SwiGLU whose two weights lie in one tensor.  Each chunk is made by a contraction of the same
lhs: its rhs is the weight seen with one more dimension, (N) as (chunks, N / chunks), of which it reads one position.  What ``fuse-duals`` then
makes of the two is up to it: this only writes the calls that stand for the others, and takes them back.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from inferno.dialect.sizes import SIZES, sizes_attribute, symbol_attributes
from inferno.mlir import clone_onto, func, ir, owner, run_upstream, tensor, users, walk
from inferno.passes.generics import PARALLEL, REDUCTION, dims, inputs, is_elementwise, kinds, maps
from inferno.passes.shapes import (
    argument_attributes, function_of, is_dynamic, materialise, reassociation_attribute, shape, sizes, static, symbol_arguments,
)
from inferno.passes.split_contractions import split_contractions
from inferno.schedule.merge_calls import callee, inputs_of, readers, root_of, tell_sources
from inferno.symbolic import Int, Symbol, product, size_of


@dataclass(frozen=True)
class _Chunk:
    """Chunk ``place`` of ``count`` along the last dimension of a tensor."""

    place: int
    count: int


@dataclass(frozen=True)
class _Cut:
    """A kernel that reads two ``chunks`` of its argument ``number`` and nothing else of it; ``name``: of a kernel that has them instead of it."""

    number: int
    chunks: tuple[_Chunk, _Chunk]
    name: str


@dataclass(frozen=True)
class _Meeting:
    """Kernel ``name`` gets two ``chunks`` of the tensor ``whole``: by ``slices``, calls that copy them, or where there are none in the place of
    operand ``number`` of the call."""

    whole: ir.Value
    chunks: tuple[_Chunk, _Chunk]
    name: str
    number: int = -1
    slices: tuple[ir.Operation, ...] = ()

    def values(self, last: ir.Operation, made: list[ir.Value]) -> list[ir.Value]:
        """What the kernel takes, where these are the chunks."""
        values = inputs_of(last)
        if not self.slices:
            return [*values[: self.number], *made, *values[self.number + 1:]]
        instead = dict(zip((s.results[0] for s in self.slices), made))
        return [instead.get(v, v) for v in values]


@dataclass
class Split:
    """``calls`` in place of ``replaced``, whose results nobody reads now."""

    calls: list[ir.Operation]
    replaced: list[ir.Operation]
    made: list[ir.Operation] = field(default_factory=list)  # all operations, in order

    def undo(self) -> None:
        """Everything as it was, but for functions that nobody calls."""
        self.made[-1].results[0].replace_all_uses_with(self.replaced[-1].results[0])
        for op in reversed(self.made):
            op.erase()

    def finish(self) -> None:
        """Erase what was replaced."""
        for call in reversed(self.replaced):
            for result in call.results:
                for user in list(users(result)):
                    _erase(user)
            call.erase()


def _erase(view: ir.Operation) -> None:
    for user in list(users(view.results[0])):
        _erase(user)
    view.erase()


class Chunks:
    """Finds such calls in ``@main``; keeps the functions that it makes, which equal layers share."""

    def __init__(self, kernels: dict[str, func.FuncOp], free_name: Callable[[str], str]) -> None:
        self.kernels, self.free_name = kernels, free_name
        self.made: dict[tuple, str | None] = {}
        self.cuts: dict[str, _Cut | None] = {}
        self.copies: dict[str, _Chunk | None] = {}

    def split(self, last: ir.Operation) -> Split | None:
        """Calls of the two contractions and of the elementwise kernel of both; None, and nothing is changed, where ``last`` is no such kernel."""
        cut = self.meeting(last) if len(last.results) == 1 else None
        whole = None if cut is None else owner(cut.whole)
        if whole is None or whole.name != "func.call" or len(whole.results) != 1 or callee(whole) not in self.kernels:
            return None
        result, kernel = whole.results[0], self.kernels[callee(whole)]
        expanded = _columns(kernel, cut.chunks[0].count)
        if expanded is None:
            return None
        names = [self.once((callee(whole), c), lambda c=c: _half(kernel, expanded, c)) for c in cut.chunks]
        symbol, meets = None, cut.name
        if flat := result.type.rank != last.results[0].type.rank:
            symbol = _symbol_of(kernel)
            meets = self.once((cut.name, "rows", symbol), lambda: _flat(self.kernels[cut.name], symbol)) if result.type.rank == 2 else None
        if None in (*names, meets):
            return None
        return self.write(whole, last, cut, [self.kernels[n] for n in (*names, meets)], expanded, symbol, flat)

    def meeting(self, last: ir.Operation) -> _Meeting | None:
        """What the kernel of ``last`` is of two chunks of one tensor that nothing else is read of."""
        if (cut := self.cut(callee(last))) is not None:
            whole = root_of(inputs_of(last)[cut.number])
            only = set(readers(whole)) == {last} and [root_of(v) for v in inputs_of(last)].count(whole) == 1
            return _Meeting(whole, cut.chunks, cut.name, cut.number) if only else None
        slices = dict.fromkeys(op for v in inputs_of(last) if (op := owner(v)) is not None and op.name == "func.call" and self.copied(callee(op)))
        chunks, roots = [self.copied(callee(op)) for op in slices], {root_of(inputs_of(op)[-1]) for op in slices}
        if len(chunks) != 2 or len(roots) != 1 or chunks[0].count != chunks[1].count:
            return None
        if set(readers(whole := roots.pop())) != set(slices) or any(set(readers(s.results[0])) != {last} for s in slices):
            return None
        return _Meeting(whole, tuple(chunks), callee(last), slices=tuple(slices))

    def copied(self, name: str) -> _Chunk | None:
        """Which chunk of its last operand a kernel copies; None if it does anything else."""
        if name not in self.copies:
            kernel, self.copies[name] = self.kernels.get(name), None
            found = [o.operation for o in kernel.entry_block.operations if o.operation.name not in _BESIDES] if kernel is not None else []
            if [o.name for o in found] == ["tensor.extract_slice", "linalg.copy"]:
                source, destination = list(kernel.entry_block.arguments)[-2:]
                if found[0].operands[0] == source and list(found[1].operands) == [found[0].results[0], destination]:
                    self.copies[name] = _chunk(found[0])
        return self.copies[name]

    def once(self, key: tuple, make: Callable[[], func.FuncOp | None]) -> str | None:
        """The name of a function that is made the first time it is asked for; None where it cannot be."""
        if key not in self.made:
            function = make()
            if function is not None:
                name = self.free_name(f"{key[0].removesuffix('_part')}_part")
                function.attributes["sym_name"] = ir.StringAttr.get(name)
                self.kernels[name] = function
            self.made[key] = None if function is None else function.name.value
        return self.made[key]

    def cut(self, name: str) -> _Cut | None:
        """What a kernel reads chunks of; None if it does not, or of several tensors."""
        if name not in self.cuts:
            kernel, found = self.kernels.get(name), {}
            for argument in kernel.entry_block.arguments if kernel is not None else ():
                chunks = {user: _chunk(user) for user in users(argument)} if isinstance(argument.type, ir.RankedTensorType) else {}
                if len(chunks) == 2 and None not in chunks.values() and len({c.count for c in chunks.values()}) == 1:
                    found[argument.arg_number] = chunks
            self.cuts[name] = None
            if len(found) == 1:
                (number, chunks), = found.items()
                parted = self.once((name, "parted"), lambda: _parted(kernel, number, list(chunks)))
                self.cuts[name] = None if parted is None else _Cut(number, tuple(chunks.values()), parted)
        return self.cuts[name]

    def write(
        self, whole: ir.Operation, last: ir.Operation, cut: _Meeting, functions: list[func.FuncOp], expanded: dict[int, int], symbol: Symbol | None,
        flat: bool,
    ) -> Split:
        """The calls; ``symbol``: of the contraction's rows, where they vary and ``last`` has them in several dimensions, as ``flat`` says."""
        split, kernel = Split([], [whole, *cut.slices, last]), self.kernels[callee(whole)]
        with ir.InsertionPoint(last), last.location:
            given = inputs_of(whole)
            for number, position in expanded.items():
                given[number] = _expand(given[number], position, cut.chunks[0].count)
                split.made.append(given[number].owner.operation)
            chunks = [self.call(split, function, given, [whole, *cut.slices]) for function in functions[:2]]
            values = cut.values(last, chunks)
            if flat:
                rows = [given[v.arg_number] for s, v in symbol_arguments(kernel.operation).items() if s == symbol]
                values = [*rows, *(v for v in values if not isinstance(v.type, ir.IndexType))]
                for i, v in enumerate(values):
                    if isinstance(v.type, ir.RankedTensorType) and v not in chunks and v.type.rank > 1:
                        values[i] = _collapse(v)
                        split.made.append(values[i].owner.operation)
            result = self.call(split, functions[2], values, [last])
            if flat:
                type_ = last.results[0].type
                groups = [list(range(type_.rank - 1)), [type_.rank - 1]]
                varying = [v for v in sizes(last.results[0], function_of(last)) if not isinstance(v, int)]
                result = tensor.ExpandShapeOp(type_, result, reassociation_attribute(groups), varying, static(shape(last.results[0]))).result
                split.made.append(result.owner.operation)
        last.results[0].replace_all_uses_with(result)
        return split

    def call(self, split: Split, function: func.FuncOp, values: list[ir.Value], sources: list[ir.Operation]) -> ir.Value:
        """Into a new tensor, whose sizes are the destination's by the values that the function is given."""
        type_ = function.type.results[0]
        named = {s: values[v.arg_number] for s, v in symbol_arguments(function.operation).items()}
        known = [s if isinstance(s, int) else materialise(s, named) for s in shape(list(function.entry_block.arguments)[-1])]
        empty = tensor.EmptyOp(known, type_.element_type).result
        made = func.CallOp(function, [*values, empty]).operation
        tell_sources(made, sources)
        split.calls.append(made)
        split.made += [empty.owner.operation, made]
        return made.results[0]


def _chunk(op: ir.Operation) -> _Chunk | None:
    """Which chunk of its operand an operation is; None if it is anything else."""
    if op.name != "tensor.extract_slice" or op.results[0].type.rank != op.operands[0].type.rank:
        return None
    whole, part = (list(shape(v)) for v in (op.operands[0], op.results[0]))
    offsets, strides = (list(ir.DenseI64ArrayAttr(op.attributes[n])) for n in ("static_offsets", "static_strides"))
    if whole[:-1] != part[:-1] or any(offsets[:-1]) or any(s != 1 for s in strides):
        return None
    n, total, begin = part[-1], whole[-1], offsets[-1]
    if not isinstance(n, int) or not isinstance(total, int) or n < 1 or total % n or begin < 0 or begin % n or total == n:
        return None
    return _Chunk(begin // n, total // n)


def _parted(kernel: func.FuncOp, number: int, slices: list[ir.Operation]) -> func.FuncOp | None:
    """The kernel with two arguments in place of one, of which it reads these slices; None where it is not one elementwise operation else."""
    others = [o.operation for o in kernel.entry_block.operations if o.operation not in slices]
    if [o.name for o in others if o.name not in _BESIDES] != ["linalg.generic"]:
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


_BESIDES = ("arith.constant", "tensor.empty", "linalg.fill", "func.return")


def _generics(kernel: func.FuncOp) -> list[ir.Operation]:
    """The operations of a kernel besides constants and what makes its destinations; none where another kind is among them."""
    operations = [o.operation for o in kernel.entry_block.operations]
    found = [o for o in operations if o.name == "linalg.generic"]
    return found if all(o in found or o.name in _BESIDES for o in operations) else []


def _apart(kernel: func.FuncOp) -> tuple[ir.Module, func.FuncOp]:
    """A copy whose sums and epilogues are operations of their own."""
    module = ir.Module.create()
    module.body.append(kernel.operation.clone(ip=False))
    split_contractions(module)
    run_upstream(module, "func.func(cse)")
    return module, module.body.operations[0]


def _columns(kernel: func.FuncOp, count: int) -> dict[int, int] | None:
    """Which arguments of a contraction have a dimension of its columns, and which dimension that is; None where the columns cannot be cut."""
    _, kernel = _apart(kernel)
    generics = _generics(kernel)
    if sum(REDUCTION in kinds(g) for g in generics) != 1 or REDUCTION not in kinds(generics[0]):
        return None
    found: dict[int, int] = {}
    for generic in generics:
        of_results = [dims(m) for m in maps(generic)[len(inputs(generic)):]]
        if any(d is None or not d or d != of_results[0] for d in of_results):
            return None
        loop = of_results[0][-1]
        if kinds(generic)[loop] != PARALLEL or any(ir.IntegerAttr(i.attributes["dim"]).value == loop for i in walk(generic, "linalg.index")):
            return None
        for value, map_ in zip(inputs(generic), maps(generic)):
            if not isinstance(value.type, ir.RankedTensorType):
                continue
            places = [i for i, e in enumerate(map_.results) if ir.AffineDimExpr.get(loop) == e]
            named = {i for i, e in enumerate(map_.results) if f"d{loop}" in str(e).replace("(", " ").replace(")", " ").split()}
            if len(places) > 1 or named != set(places):
                return None
            if isinstance(value, ir.BlockArgument) and places:
                if sum(1 for _ in value.uses) != 1 or not value.type.has_static_shape or value.type.shape[places[0]] % count:
                    return None
                found[value.arg_number] = places[0]
            elif not isinstance(value, ir.BlockArgument) and (places != [value.type.rank - 1] or owner(value) not in generics):
                return None
    return found


def _half(kernel: func.FuncOp, expanded: dict[int, int], chunk: _Chunk) -> func.FuncOp:
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
                value.set_type(_type(value, _cut(list(value.type.shape), at, count)))
        generic.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in indexing])
        for value in [*list(generic.operands)[len(ins):], *generic.results]:
            while value not in narrowed:
                size = list(value.type.shape)
                value.set_type(_type(value, [*size[:-1], size[-1] // count]))
                narrowed.add(value)
                if (made := owner(value)) is not None and made.name == "linalg.fill":
                    value = made.operands[1]
    _retype(new, {last.arg_number: [*known[:-1], known[-1] // count]})
    return new


def _symbol_of(kernel: func.FuncOp) -> Symbol | None:
    """The symbol that is a contraction's number of rows; None where that is a number or computed of symbols."""
    rows = shape(list(kernel.entry_block.arguments)[-1])[0]
    return next((s for s in symbol_arguments(kernel.operation) if rows == size_of(s)), None)


def _flat(kernel: func.FuncOp, symbol: Symbol | None) -> func.FuncOp | None:
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
            value.set_type(_type(value, static(sizes_[value.arg_number])))
    two = {tuple(whole): [0, 1], tuple(columns): [1], (): []}
    generic.attributes["indexing_maps"] = ir.ArrayAttr.get([
        ir.AffineMapAttr.get(ir.AffineMap.get(2, 0, [ir.AffineDimExpr.get(d) for d in two[tuple(p)]])) for p in ranks])
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


def _type(value: ir.Value, size: list[int]) -> ir.Type:
    return ir.RankedTensorType.get(size, value.type.element_type)


def _cut(size: list[int], at: int, count: int) -> list[int]:
    return [*size[:at], count, size[at] // count, *size[at + 1:]]


def _expand(value: ir.Value, at: int, count: int) -> ir.Value:
    """A tensor of known sizes with one dimension as two, of which the first has ``count``."""
    size = list(value.type.shape)
    groups = [[i] if i < at else [at, at + 1] if i == at else [i + 1] for i in range(len(size))]
    cut = _cut(size, at, count)
    return tensor.ExpandShapeOp(_type(value, cut), value, reassociation_attribute(groups), [], cut).result


def _collapse(value: ir.Value) -> ir.Value:
    """A tensor as rows."""
    known, rank = shape(value), value.type.rank
    groups = [list(range(rank - 1)), [rank - 1]]
    return tensor.CollapseShapeOp(_type(value, static([product(known[:-1]), known[-1]])), value, reassociation_attribute(groups)).result
