"""Vectors at unaligned addresses: read as aligned 16 bytes, and shifted into place in registers: two loads instead of eight."""

from collections.abc import Sequence

from inferno.codegen.builders.elements import from_memory, join, lanes_of, load_vector
from inferno.codegen.builders.gpu_function import stored_type
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.nvvm.builder import integer_type
from inferno.element_sizes import element_bytes
from inferno.mlir import arith, ir, llvm, vector
from inferno.symbolic import Int, floordiv

_WORD = 4  # bytes of a register


def piece(element: ir.Type, lanes: int) -> int:
    """Elements of a piece, of which ``lanes`` neighbours are one or several; 1 where they are less than a register."""
    width = min(lanes, 16 // element_bytes(element))
    return width if width * element_bytes(element) >= _WORD else 1


def load_pieces(ints: Integers, buffer: ir.Value, offset: Integer, element: ir.Type, lanes: int, count: Int) -> ir.Value:
    """``lanes`` neighbours from ``offset`` on, which are aligned together; of those that are not in the buffer, of ``count`` elements, whole pieces are not
    read."""
    width = piece(element, lanes)
    if width == lanes:
        return load_vector(ints, buffer, offset, element, lanes, lanes)
    last = floordiv(count - 1, width) * width
    parts = [load_vector(ints, buffer, ints.min(ints.add(offset, i), last), element, width, width) for i in range(0, lanes, width)]
    return join([x for p in parts for x in lanes_of(p)])


def load_unaligned(ints: Integers, buffer: ir.Value, offset: Integer, element: ir.Type, lanes: int, past: Integer, count: Int) -> ir.Value:
    """``lanes`` neighbours from ``offset`` on, which lies ``past`` elements behind the beginning of a piece.  What is not in the buffer, of ``count`` elements,
    is anything."""
    width, bytes_ = piece(element, lanes), element_bytes(element)
    stored, last = stored_type(element), floordiv(count - 1, width) * width
    begin, parts = ints.sub(offset, past), []
    for i in range(lanes // width + 1):
        at = ints.min(ints.add(begin, i * width), last)
        parts.append(vector.LoadOp(ir.VectorType.get([width], stored), buffer, [ints.index(at)], alignment=width * bytes_).result)
    return from_memory(place_pieces(ints, parts, past, lanes), element)


def place_pieces(ints: Integers, parts: Sequence[ir.Value], past: Integer, lanes: int) -> ir.Value:
    """``lanes`` neighbours that begin ``past`` elements behind the first of ``parts``, neighbouring vectors of one length."""
    element = parts[0].type.element_type
    bytes_ = element_bytes(element)
    words = [w for p in parts for w in lanes_of(vector.bitcast(ir.VectorType.get([p.type.shape[0] * bytes_ // _WORD], integer_type(32)), p))]
    moved = _moved(ints, words, past, lanes * bytes_ // _WORD, bytes_)
    return vector.bitcast(ir.VectorType.get([lanes], element), join(moved))


def _moved(ints: Integers, words: list[ir.Value], past: Integer, wanted: int, bytes_: int) -> list[ir.Value]:
    """The ``wanted`` words that begin ``past`` elements of ``bytes_`` behind the first."""
    of_words = ints.div(past, _WORD // bytes_) if bytes_ < _WORD else ints.mul(past, bytes_ // _WORD)
    split, step = bytes_ < _WORD, (len(words) - wanted) // 2
    while step:  # by powers of two, the largest first
        needed = wanted + step - 1 + split
        far = ints.less(step - 1, ints.rem(of_words, 2 * step))
        words = [arith.select(far, words[i + step], words[i]) if i + step < len(words) else words[i] for i in range(min(needed, len(words)))]
        step //= 2
    if not split:
        return words[:wanted]
    i32 = integer_type(32)
    bits = ints.value(ints.mul(ints.rem(past, _WORD // bytes_), 8 * bytes_))
    bits = bits if bits.type == i32 else arith.trunci(i32, bits)
    return [llvm.CallIntrinsicOp(i32, "llvm.fshr.i32", [high, low, bits], [], []).operation.results[0] for low, high in zip(words, words[1:])][:wanted]
