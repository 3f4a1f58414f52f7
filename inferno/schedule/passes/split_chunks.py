"""A contraction whose columns are cut into equal chunks, two of which meet elementwise, as two contractions of slices of its weight.

``g, u = (x @ w).chunk(2, -1); silu(g) * u`` is a SwiGLU whose two weights lie in one tensor.  Each chunk is made by a contraction of the same
lhs: its rhs is the weight seen with one more dimension, (N) as (chunks, N / chunks), of which it reads one position.  What ``fuse-duals`` then
makes of the two is up to it: this only writes the calls that stand for the others, and takes them back.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from inferno.mlir import func, ir, owner, tensor, users
from inferno.passes.programs import callee, operations_in, readers, root_of
from inferno.passes.shapes import function_of, reassociation_attribute, shape, static, symbol_arguments
from inferno.passes.size_values import materialise, sizes
from inferno.schedule.passes.calls import inputs_of, tell_sources
from inferno.schedule.passes.chunk_kernels import (
    BESIDES, Chunk, chunk_kernel, columns_of, cut_dimension, on_rows, read_chunk, symbol_of_rows, type_of, with_chunks,
)
from inferno.symbolic import Symbol, product


@dataclass(frozen=True)
class _Cut:
    """A kernel that reads two ``chunks`` of its argument ``number`` and nothing else of it; ``name``: of a kernel that has them instead of it."""

    number: int
    chunks: tuple[Chunk, Chunk]
    name: str


@dataclass(frozen=True)
class _Meeting:
    """Kernel ``name`` gets two ``chunks`` of the tensor ``whole``: by ``slices``, calls that copy them, or where there are none in the place of
    operand ``number`` of the call."""

    whole: ir.Value
    chunks: tuple[Chunk, Chunk]
    name: str
    number: int = -1
    slices: tuple[ir.Operation, ...] = ()

    def taken(self, kernel: func.FuncOp) -> list[ir.Type]:
        """The types of the chunks that ``kernel``, which has the name, takes."""
        return [s.results[0].type for s in self.slices] or list(kernel.type.inputs)[self.number: self.number + 2]

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
        self.copies: dict[str, Chunk | None] = {}

    def split(self, last: ir.Operation) -> Split | None:
        """Calls of the two contractions and of the elementwise kernel of both; None, and nothing is changed, where ``last`` is no such kernel."""
        cut = self.meeting(last) if len(last.results) == 1 else None
        whole = None if cut is None else owner(cut.whole)
        if whole is None or whole.name != "func.call" or len(whole.results) != 1 or callee(whole) not in self.kernels:
            return None
        result, kernel = whole.results[0], self.kernels[callee(whole)]
        expanded = columns_of(kernel, cut.chunks[0].count)
        if expanded is None:
            return None
        names = [self.once((callee(whole), c), lambda c=c: chunk_kernel(kernel, expanded, c)) for c in cut.chunks]
        symbol, meets = None, cut.name
        if flat := result.type.rank < last.results[0].type.rank:
            symbol = symbol_of_rows(kernel)
            meets = self.once((cut.name, "rows", symbol), lambda: on_rows(self.kernels[cut.name], symbol)) if result.type.rank == 2 else None
        if None in (*names, meets) or (not flat and cut.taken(self.kernels[meets]) != [self.kernels[n].type.results[0] for n in names]):
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

    def copied(self, name: str) -> Chunk | None:
        """Which chunk of its last operand a kernel copies; None if it does anything else."""
        if name not in self.copies:
            kernel, self.copies[name] = self.kernels.get(name), None
            found = [o for o in operations_in(kernel) if o.name not in BESIDES] if kernel is not None else []
            if [o.name for o in found] == ["tensor.extract_slice", "linalg.copy"]:
                source, destination = list(kernel.entry_block.arguments)[-2:]
                if found[0].operands[0] == source and list(found[1].operands) == [found[0].results[0], destination]:
                    self.copies[name] = read_chunk(found[0])
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
                chunks = {user: read_chunk(user) for user in users(argument)} if isinstance(argument.type, ir.RankedTensorType) else {}
                if len(chunks) == 2 and None not in chunks.values() and len({c.count for c in chunks.values()}) == 1:
                    found[argument.arg_number] = chunks
            self.cuts[name] = None
            if len(found) == 1:
                (number, chunks), = found.items()
                parted = self.once((name, "parted"), lambda: with_chunks(kernel, number, list(chunks)))
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
                given[number] = cut_dimension(given[number], position, cut.chunks[0].count)
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


def _collapse(value: ir.Value) -> ir.Value:
    """A tensor as rows."""
    known, rank = shape(value), value.type.rank
    groups = [list(range(rank - 1)), [rank - 1]]
    return tensor.CollapseShapeOp(type_of(value, static([product(known[:-1]), known[-1]])), value, reassociation_attribute(groups)).result
