"""Random numbers become arithmetic in the operations that read them.

Up to here they are arguments of ``@main`` (``inferno.random``), so that every rewrite treats them as what they are to it: a
tensor that is read.  Each element is a function of its position and of the generator's seed and offset (``inferno/philox.py``).
"""

from collections.abc import Sequence
from typing import Any

from inferno.dialect.random import RANDOM, read_random
from inferno.errors import PassError
from inferno.mlir import arith, func, ir, linalg, tensor, users
from inferno.passes.generics import (
    PARALLEL, Operands, body, build, clone_body, dims, inputs, is_elementwise, kinds, maps, outputs,
)
from inferno.passes.programs import RESHAPES, find_main
from inferno.passes.shapes import reassociation_attribute
from inferno.philox import SCORES, Draw, number, score


def draw_numbers(module: ir.Module) -> None:
    """Replace each argument of ``@main`` that is random numbers.

    Where one elementwise operation reads it, each number once, through reshapes or not, the numbers are computed in its body;
    otherwise an operation of their own makes them.
    """
    main = find_main(module)
    if main is None or "arg_attrs" not in main.attributes:
        return
    arguments, attributes = list(main.entry_block.arguments), [ir.DictAttr(a) for a in main.attributes["arg_attrs"]]
    drawn = [i for i, a in enumerate(attributes) if RANDOM in a]
    if not drawn:
        return
    for i in drawn:
        draw, seed, offset = read_random(attributes[i][RANDOM], arguments[i].type)
        for state in (seed, offset):
            if str(arguments[state].type) != "tensor<i64>":
                raise PassError(f"draw-numbers: argument {state} is no state of a generator, a tensor<i64>: {arguments[state].type}")
        _Numbers(main, draw, arguments[seed], arguments[offset]).replace(arguments[i])
    for i in reversed(drawn):
        main.entry_block.erase_argument(i)
    left = list(main.entry_block.arguments)
    main.attributes["arg_attrs"] = ir.ArrayAttr.get([a for i, a in enumerate(attributes) if i not in drawn])
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([a.type for a in left], list(main.type.results)))


class _Numbers:
    """The numbers of one draw."""

    def __init__(self, main: func.FuncOp, draw: Draw, seed: ir.Value, offset: ir.Value) -> None:
        self.main, self.draw, self.state = main, draw, (seed, offset)

    def replace(self, argument: ir.Value) -> None:
        reads = _reads(argument)
        reader, place, view = reads[0] if len(reads) == 1 else (None, -1, argument)
        fits = self.draw.kind != SCORES or list(view.type.shape)[-2:] == list(self.draw.shape)[-2:]
        if reader is not None and fits and is_elementwise(reader) and place < len(inputs(reader)) and maps(reader)[place].is_permutation:
            with ir.InsertionPoint(reader), reader.location:
                flat = self.draw.kind != SCORES and self._alone(reader)
                made = self._flat(reader) if flat else self._inside(reader, place, view)
            for old, new in zip(reader.results, made):
                old.replace_all_uses_with(new)
            reader.erase()
        elif reads:
            with ir.InsertionPoint.at_block_begin(self.main.entry_block), argument.owner.owner.location:
                if self.draw.kind == SCORES:
                    value = self._scores(argument.type)
                else:
                    value = self._expand(self._generic(argument.type.element_type, lambda n: n), argument.type)
            argument.replace_all_uses_with(value)
        _erase_views(argument)

    def _alone(self, reader: ir.Operation) -> bool:
        """Whether the operation is a function of the number alone, element by element."""
        identity = ir.AffineMap.get_identity(len(kinds(reader)))
        return len(reader.operands) == 2 and all(m == identity for m in maps(reader)) and not _has_index(reader)

    def _flat(self, reader: ir.Operation) -> list[ir.Value]:
        """The operation on the elements in the order that they are drawn in."""
        type_ = reader.results[0].type
        block = body(reader)
        made = self._generic(type_.element_type, lambda n: clone_body(block, [n, *[None] * (len(block.arguments) - 1)])[0])
        return [self._expand(made, type_)]

    def _generic(self, element: ir.Type, fill: Any) -> ir.Value:
        """A tensor of one dimension, whose elements are ``fill(number)``.

        The loops are over vectors and their elements, where a thread of torch's draws for several neighbours: what these have in
        common, nearly all, is plain to see, and computed once.
        """
        vector = self.draw.vector
        shape = [self.draw.count // vector, vector] if vector else [self.draw.count]
        out = tensor.EmptyOp(shape, element).result
        scalar, same = ir.AffineMap.get(len(shape), 0, []), ir.AffineMap.get_identity(len(shape))
        here = ir.Location.current

        def compute(arguments: list[ir.Value]) -> list[ir.Value]:
            return [fill(self._number(*arguments[:2], *(linalg.IndexOp(d).result for d in range(len(shape)))))]

        made = build(list(self.state), [out], [scalar, scalar, same], [PARALLEL] * len(shape), compute, here).results[0]
        if not vector:
            return made
        flat = ir.RankedTensorType.get([self.draw.count], element)
        return tensor.CollapseShapeOp(flat, made, reassociation_attribute([[0, 1]])).result

    def _scores(self, type_: ir.Type) -> ir.Value:
        """All of them, each in its place."""
        sizes = list(type_.shape)
        scalar, same = ir.AffineMap.get(len(sizes), 0, []), ir.AffineMap.get_identity(len(sizes))

        def compute(arguments: list[ir.Value]) -> list[ir.Value]:
            return [self._at(arguments[0], arguments[0], sizes, range(len(sizes)))]

        out = tensor.EmptyOp(sizes, type_.element_type).result
        return build([self.state[0]], [out], [scalar, same], [PARALLEL] * len(sizes), compute, ir.Location.current).results[0]

    def _expand(self, flat: ir.Value, type_: ir.Type) -> ir.Value:
        shape = list(ir.RankedTensorType(type_).shape)
        if len(shape) == 1:
            return flat
        if not shape:
            return tensor.CollapseShapeOp(type_, flat, reassociation_attribute([])).result
        return tensor.ExpandShapeOp(type_, flat, reassociation_attribute([list(range(len(shape)))]), [], shape).result

    def _inside(self, reader: ir.Operation, place: int, view: ir.Value) -> list[ir.Value]:
        """The operation with the numbers computed in its body."""
        shape, read, count = list(view.type.shape), dims(maps(reader)[place]), len(kinds(reader))
        operands = Operands()
        scalar = ir.AffineMap.get(count, 0, [])
        kept = [-1 if i == place else operands.number(v, m) for i, (v, m) in enumerate(zip(inputs(reader), maps(reader)))]
        seed, offset = (operands.number(v, scalar) for v in self.state)
        outs = maps(reader)[len(inputs(reader)) :]

        def fill(arguments: list[ir.Value]) -> list[ir.Value]:
            made = self._at(arguments[seed], arguments[offset], shape, read)
            given = [made if i < 0 else arguments[i] for i in kept] + arguments[len(operands.values) :]
            return clone_body(body(reader), given)

        new = build(operands.values, outputs(reader), [*operands.maps, *outs], kinds(reader), fill, reader.location)
        return list(new.results)

    def _at(self, seed: ir.Value, offset: ir.Value, shape: Sequence[int], read: Sequence[int]) -> ir.Value:
        """The number of the element of a tensor of ``shape`` that is at the loops ``read``."""
        numbers = [linalg.IndexOp(dim).result for dim in read]
        if self.draw.kind != SCORES:
            return self._number(seed, offset, _position(numbers, shape))
        *heads, query, key = numbers
        words = [_constant(32, 0) if n is None else arith.index_cast(ir.IntegerType.get_signless(32), n) for n in (_position(heads, shape), query, key)]
        return score(IrWords(), self.draw, seed, *words)

    def _number(self, seed: ir.Value, offset: ir.Value, position: ir.Value | None, within: ir.Value | None = None) -> ir.Value:
        i32 = ir.IntegerType.get_signless(32)
        word = _constant(32, 0) if position is None else arith.index_cast(i32, position)
        return number(IrWords(), self.draw, seed, offset, word, None if within is None else arith.index_cast(i32, within))


def _reads(value: ir.Value) -> list[tuple[ir.Operation, int, ir.Value]]:
    """(operation, operand number, the view that it reads) of every use, looking through reshapes."""
    found = []
    for op in {u: None for u in users(value)}:
        if op.name in RESHAPES:
            found += _reads(op.results[0])
        else:
            found += [(op, i, value) for i, v in enumerate(op.operands) if v == value]
    return found


def _erase_views(value: ir.Value) -> None:
    for op in list({u: None for u in users(value)}):
        _erase_views(op.results[0])
        op.erase()


def _position(numbers: Sequence[ir.Value], shape: Sequence[int]) -> ir.Value | None:
    """The element at these numbers of a tensor of ``shape``, row by row."""
    position: ir.Value | None = None
    for size, index in zip(shape, numbers):
        scaled = index if position is None else arith.muli(position, arith.constant(ir.IndexType.get(), size))
        position = index if position is None else arith.addi(scaled, index)
    return position


def _has_index(op: ir.Operation) -> bool:
    return any(o.operation.name == "linalg.index" for o in body(op).operations)


def _constant(width: int, value: int) -> ir.Value:
    type_ = ir.IntegerType.get_signless(width)
    return arith.constant(type_, value - 2**width if value >= 2 ** (width - 1) else value)


class IrWords:
    """``Words`` as operations at the insertion point; words are i32."""

    def divide(self, a: ir.Value, by: int) -> tuple[ir.Value, ir.Value]:
        if by & (by - 1) == 0:
            return arith.shrui(a, _constant(32, by.bit_length() - 1)), arith.andi(a, _constant(32, by - 1))
        return arith.divui(a, _constant(32, by)), arith.remui(a, _constant(32, by))

    def add(self, a: ir.Value, b: int) -> ir.Value:
        return arith.addi(a, _constant(32, b)) if b else a

    def multiply(self, a: ir.Value, by: int) -> tuple[ir.Value, ir.Value]:
        # Apart, LLVM makes an instruction each of them; of one product of 64 bits it makes three.
        high = arith.shrsi(arith.muli(_wide(a), _constant(64, by)), _constant(64, 32))
        return _word(high), arith.muli(a, _constant(32, by))

    def xor(self, a: Any, b: Any) -> Any:
        return a if isinstance(b, int) and not b else arith.xori(a, b)

    def select(self, which: ir.Value, values: list[ir.Value]) -> ir.Value:
        found = values[-1]
        for i in reversed(range(len(values) - 1)):
            found = arith.select(arith.cmpi(arith.CmpIPredicate.eq, which, _constant(32, i)), values[i], found)
        return found

    def split(self, number: ir.Value) -> tuple[ir.Value, ir.Value]:
        return _word(number), _word(arith.shrsi(number, _constant(64, 32)))

    def block(self, offset: ir.Value, ahead: Any) -> ir.Value:
        blocks = arith.shrsi(offset, _constant(64, 2))
        if isinstance(ahead, int):
            return arith.addi(blocks, _constant(64, ahead)) if ahead else blocks
        return arith.addi(blocks, _wide(ahead))

    def convert(self, draw: Draw, words: list[ir.Value]) -> ir.Value:
        if draw.kind == SCORES:
            return arith.uitofp(ir.F32Type.get(), words[0])
        if draw.kind == "float32":
            f32 = ir.F32Type.get()
            scaled = arith.mulf(arith.uitofp(f32, words[0]), arith.constant(f32, 2.0**-32))
            return arith.addf(scaled, arith.constant(f32, 2.0**-33))
        if draw.kind == "float64":
            f64 = ir.F64Type.get()
            bits = arith.xori(_wide(words[0]), arith.shli(_wide(words[1]), _constant(64, 21)))
            return arith.addf(arith.mulf(arith.sitofp(f64, bits), arith.constant(f64, 2.0**-53)), arith.constant(f64, 2.0**-54))
        return arith.addi(_wide(arith.remui(words[0], _constant(32, draw.span))), _constant(64, draw.base))


def _wide(word: ir.Value) -> ir.Value:
    return arith.extui(ir.IntegerType.get_signless(64), word)


def _word(number: ir.Value) -> ir.Value:
    return arith.trunci(ir.IntegerType.get_signless(32), number)
