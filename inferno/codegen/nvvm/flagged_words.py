"""Values that blocks of one launch exchange through global memory, and wait for by a flag.

A word of 64 bits has 32 of a value and, above them, whether it is there: it is written and read whole, and nothing but the word itself needs an order.
A kernel in front clears the words.
"""

from collections.abc import Sequence

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.nvvm.builder import assembly
from inferno.codegen.nvvm.filled_words import add_filling, launch_filled
from inferno.mlir import arith, ir, llvm, memref
from inferno.symbolic import Int


def word_type() -> ir.Type:
    """A value of 32 bits, and whether it is there."""
    return ir.IntegerType.get_signless(64)


def halves(type_: ir.Type) -> int:
    """Words of a value."""
    return 2 if type_.width == 64 else 1


def add_clearing(module: ir.Operation, name: str, count: Int, most: int = 0) -> None:
    """A kernel ``@name`` in a ``gpu.module`` that clears ``count`` words, at most so many where their number varies."""
    add_filling(module, name, count, 64, 0, most)


def launch_cleared(module: str, name: str, count: Int) -> ir.Value:
    """In a launcher: the words as a parameter, once that kernel has cleared them."""
    return launch_filled(module, name, count, 64)


class FlaggedWords:
    """In the kernel: the words of a buffer, by their numbers."""

    def __init__(self, ints: Integers, memory: ir.Value) -> None:
        self.ints = ints
        self.base = arith.index_cast(word_type(), memref.ExtractAlignedPointerAsIndexOp(memory).result)

    def put(self, condition: ir.Value, at: Integer, value: ir.Value, step: int) -> None:
        """Leave a value; its second half lies ``step`` words behind the first."""
        with only_if(condition):
            for half, bits in enumerate(_split(value)):
                text = "{ .reg .b64 a, v; mad.wide.u32 a, $1, 8, $0; mov.b64 v, {$2, 1}; st.relaxed.gpu.global.b64 [a], v; }"
                assembly(text, [self.base, self.ints.word(self.ints.add(at, half * step)), bits])

    def wait(self, place: Integer, distances: Sequence[int], each: int, wanted: Integer, once: bool = False) -> list[ir.Value]:
        """The lower halves (i32) of the words so far behind ``place``, as soon as the first ``wanted`` groups of ``each`` are there; the others may be
        anything.  ``once``: what is there is not read again while others are waited for, which many readers of the same words delay."""
        i32, n = ir.IntegerType.get_signless(32), len(distances)
        lines = [f"{{ .reg .pred p; .reg .b32 f, all; .reg .b64 a, w<{n}>; mad.wide.u32 a, ${n + 1}, 8, ${n};"]
        if once:
            lines += [f"setp.gt.u32 p, ${n + 2}, {i // each}; selp.b64 w{i}, 0, {1 << 32}, p;" for i in range(n)]
            lines.append("AGAIN: mov.b32 all, 1;")
            for i, d in enumerate(distances):
                lines.append(f"mov.b64 {{${i}, f}}, w{i}; setp.eq.u32 p, f, 0; @p ld.relaxed.gpu.global.b64 w{i}, [a+{8 * d}];")
            lines += [f"mov.b64 {{${i}, f}}, w{i}; and.b32 all, all, f;" for i in range(n)]
        else:
            lines.append("AGAIN: mov.b32 all, 1;")
            lines += [f"ld.relaxed.gpu.global.b64 w{i}, [a+{8 * d}];" for i, d in enumerate(distances)]
            lines += [f"mov.b64 {{${i}, f}}, w{i}; setp.gt.u32 p, ${n + 2}, {i // each}; @p and.b32 all, all, f;" for i in range(n)]
        lines.append("setp.eq.u32 p, all, 0; @p bra AGAIN; }")
        constraints = ",".join(["=&r"] * n + ["l", "r", "r", "~{memory}"])
        type_ = i32 if n == 1 else ir.Type.parse(f"!llvm.struct<({', '.join(['i32'] * n)})>")
        operands = [self.base, self.ints.word(place), self.ints.word(wanted)]
        found = llvm.InlineAsmOp(type_, operands, " ".join(lines), constraints, has_side_effects=True).res
        return [found] if n == 1 else [llvm.extractvalue(i32, found, ir.DenseI64ArrayAttr.get([i])) for i in range(n)]

    @staticmethod
    def join(words: list[ir.Value], type_: ir.Type) -> ir.Value:
        """The value of these halves."""
        bits = ir.IntegerType.get_signless(type_.width)
        if bits.width == 64:
            low, high = (arith.extui(bits, w) for w in words)
            whole = arith.ori(low, arith.shli(high, arith.constant(bits, 32)))
        else:
            whole = words[0] if bits.width == 32 else arith.trunci(bits, words[0])
        return whole if type_ == bits else arith.bitcast(type_, whole)


def _split(value: ir.Value) -> list[ir.Value]:
    """Words of 32 bits."""
    bits, i32 = ir.IntegerType.get_signless(value.type.width), ir.IntegerType.get_signless(32)
    whole = value if value.type == bits else arith.bitcast(bits, value)
    if bits.width == 64:
        return [arith.trunci(i32, whole), arith.trunci(i32, arith.shrui(whole, arith.constant(bits, 32)))]
    return [whole if bits == i32 else arith.extui(i32, whole)]
