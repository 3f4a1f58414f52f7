"""Values that blocks of one launch exchange through global memory, and wait for, with a value that cannot occur in place of a flag.

A word is a float32.  A kernel in front fills all of them with one NaN of those that there are, which nobody leaves: it is written as another one.  Words are
written once, and each by itself, so nothing needs an order.
"""

from collections.abc import Sequence

from inferno.codegen.builders.elements import join
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.nvvm.builder import assembly
from inferno.codegen.nvvm.filled_words import add_filling, launch_filled
from inferno.mlir import arith, ir, llvm, memref

_MARK, _OTHER = -1, 0x7FFFFFFF  # as bits


def add_marking(module: ir.Operation, name: str, count: int) -> None:
    """A kernel ``@name`` in a ``gpu.module`` that marks ``count`` words."""
    add_filling(module, name, count, 32, _MARK)


def launch_marked(module: str, name: str, count: int) -> ir.Value:
    """In a launcher: the words as a parameter, once that kernel has marked them."""
    return launch_filled(module, name, count, 32)


class MarkedWords:
    """In the kernel: the words of a buffer, by their numbers."""

    def __init__(self, ints: Integers, memory: ir.Value) -> None:
        self.ints = ints
        self.base = arith.index_cast(ir.IntegerType.get_signless(64), memref.ExtractAlignedPointerAsIndexOp(memory).result)

    def put(self, at: Integer, value: ir.Value) -> None:
        """Leave a number."""
        i32 = ir.IntegerType.get_signless(32)
        bits = arith.bitcast(i32, value)
        marked = arith.cmpi(arith.CmpIPredicate.eq, bits, arith.constant(i32, _MARK))
        bits = arith.select(marked, arith.constant(i32, _OTHER), bits)
        text = "{ .reg .b64 a; mad.wide.u32 a, $1, 4, $0; st.relaxed.gpu.global.b32 [a], $2; }"
        assembly(text, [self.base, self.ints.word(at), bits])

    def wait(self, places: Sequence[Integer], lanes: int) -> list[ir.Value]:
        """The numbers at ``places``, of which so many ``lanes`` lie together and are aligned so, as soon as all are there: a vector for each place."""
        i32, f32, count = ir.IntegerType.get_signless(32), ir.F32Type.get(), lanes * len(places)
        type_ = f".v{lanes}.b32" if lanes > 1 else ".b32"
        lines = [f"{{ .reg .pred p; .reg .b32 most; .reg .b64 a<{len(places)}>;"]
        lines += [f"mad.wide.u32 a{i}, ${count + 1 + i}, 4, ${count};" for i in range(len(places))]
        lines.append("AGAIN:")
        for i in range(len(places)):
            into = ", ".join(f"${i * lanes + j}" for j in range(lanes))
            lines.append(f"ld.relaxed.gpu.global{type_} {f'{{{into}}}' if lanes > 1 else into}, [a{i}];")
        lines.append("mov.b32 most, $0;")
        lines += [f"max.u32 most, most, ${i};" for i in range(1, count)]
        lines.append(f"setp.eq.s32 p, most, {_MARK}; @p bra AGAIN; }}")
        constraints = ",".join(["=&r"] * count + ["l"] + ["r"] * len(places) + ["~{memory}"])
        result = i32 if count == 1 else ir.Type.parse(f"!llvm.struct<({', '.join(['i32'] * count)})>")
        found = llvm.InlineAsmOp(result, [self.base, *map(self.ints.word, places)], " ".join(lines), constraints, has_side_effects=True).res
        words = [found] if count == 1 else [llvm.extractvalue(i32, found, ir.DenseI64ArrayAttr.get([i])) for i in range(count)]
        values = [arith.bitcast(f32, w) for w in words]
        return [join(values[i:i + lanes]) for i in range(0, count, lanes)]
