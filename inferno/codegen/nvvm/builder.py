"""A thin layer over the bindings for kernels written in the llvm and nvvm dialects: numbers, pointers, control flow.

The protocols of the hardware are in modules that build on this one: ``mbarriers`` (rings of slots), ``tma`` (the copy engine) and
``tensor_core`` (wgmma).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from inferno.codegen.builders.integers import Integer, Integers
from inferno.mlir import arith, func, ir, llvm, nvvm, scf
from inferno.symbolic import Symbol

TENSOR_MAP = "!llvm.ptr {llvm.byval = !llvm.array<16 x i64>, llvm.align = 64 : i64, nvvm.grid_constant}"
"""A kernel parameter: 128 bytes, by value, in constant memory."""

READ_BUFFER, WRITTEN_BUFFER = "!llvm.ptr<1> {llvm.noalias, llvm.readonly}", "!llvm.ptr<1> {llvm.noalias}"
"""Kernel parameters: pointers to buffers in global memory that no other parameter points to."""

SHARED, CLUSTER = 3, 7
"""Address spaces."""


def integer_type(width: int) -> ir.Type:
    """An integer without a sign of so many bits."""
    return ir.IntegerType.get_signless(width)


def pointer_type(space: int = 0) -> ir.Type:
    """A pointer to an address space."""
    return ir.Type.parse(f"!llvm.ptr<{space}>" if space else "!llvm.ptr")


def operation(name: str, results: Sequence[ir.Type], operands: Sequence[ir.Value] = (), **attributes) -> ir.Value | None:
    """An operation by name, for those whose builders in the bindings are awkward; its result, if it has one."""
    parsed = {k: ir.Attribute.parse(v) if isinstance(v, str) else v for k, v in attributes.items()}
    made = ir.Operation.create(name, results=list(results), operands=list(operands), attributes=parsed)
    return made.results[0] if results else None


class Words(Integers):
    """32-bit numbers, with the operations on bits that addresses need; constants fold."""

    def __init__(self, symbols: Mapping[Symbol, ir.Value] | None = None) -> None:
        super().__init__(32, symbols or {})

    def take(self, symbols: Sequence[Symbol], parameters: Sequence[ir.Value]) -> None:
        """Have the symbols' values from as many of a kernel's parameters."""
        self.symbols.update((s, arith.trunci(self.type, p)) for s, p in zip(symbols, parameters))

    def shl(self, a: Integer, bits: int) -> Integer:
        if isinstance(a, int):
            return a << bits
        return arith.shli(a, self.value(bits)) if bits else a

    def shr(self, a: Integer, bits: int) -> Integer:
        if isinstance(a, int):
            return a >> bits
        return arith.shrui(a, self.value(bits)) if bits else a

    def mask(self, a: Integer, bits: int) -> Integer:
        """``a & bits``."""
        return a & bits if isinstance(a, int) else arith.andi(a, self.value(bits))

    def either(self, a: Integer, b: Integer) -> Integer:
        """``a | b``."""
        return a | b if isinstance(a, int) and isinstance(b, int) else arith.ori(self.value(a), self.value(b))

    def xor(self, a: Integer, b: Integer) -> Integer:
        if isinstance(a, int) and isinstance(b, int):
            return a ^ b
        if isinstance(b, int) and b == 0:
            return a
        return arith.xori(self.value(a), self.value(b))

    def equal(self, a: Integer, b: Integer) -> ir.Value:
        return arith.cmpi(arith.CmpIPredicate.eq, self.value(a), self.value(b))

    def at_least(self, a: Integer, b: Integer) -> ir.Value:
        return arith.cmpi(arith.CmpIPredicate.uge, self.value(a), self.value(b))

    def select(self, condition: ir.Value, a: Integer, b: Integer) -> ir.Value:
        return arith.select(condition, self.value(a), self.value(b))

    def widen(self, a: Integer) -> ir.Value:
        """As 64 bits, unsigned."""
        return arith.extui(integer_type(64), self.value(a))


def shared_pointer(words: Words, address: Integer) -> ir.Value:
    """A pointer of an address in shared memory, in bytes."""
    return operation("llvm.inttoptr", [pointer_type(SHARED)], [words.value(address)])


def load_shared(words: Words, address: Integer, element: ir.Type, count: int) -> ir.Value:
    """``count`` neighbours from a shared address that is aligned to all of them; a scalar if it is one."""
    type_ = element if count == 1 else ir.VectorType.get([count], element)
    alignment = ir.IntegerAttr.get(integer_type(64), count * element.width // 8)
    return operation("llvm.load", [type_], [shared_pointer(words, address)], alignment=alignment)


def load_remote(words: Words, address: Integer, rank: Integer, plus: int = 0) -> ir.Value:
    """Four floats (16-byte aligned) from ``plus`` bytes behind this shared address in another block of the cluster."""
    remote = nvvm.MapaOp(pointer_type(CLUSTER), shared_pointer(words, address), words.value(rank)).results[0]
    if plus:
        remote = operation(
            "llvm.getelementptr", [remote.type], [remote], rawConstantIndices=ir.DenseI32ArrayAttr.get([plus]), elem_type=ir.TypeAttr.get(integer_type(8)),
        )
    alignment = ir.IntegerAttr.get(integer_type(64), 16)
    return operation("llvm.load", [ir.VectorType.get([4], ir.F32Type.get())], [remote], alignment=alignment)


def send(words: Words, values: Sequence[ir.Value], address: Integer, barrier: Integer, rank: Integer) -> None:
    """Start to write four floats to this shared address, aligned to 16 bytes, in another block of the cluster, whose mbarrier at ``barrier`` gets the bytes."""
    places = [nvvm.MapaOp(pointer_type(CLUSTER), shared_pointer(words, a), words.value(rank)).results[0] for a in (address, barrier)]
    address, barrier = (operation("llvm.ptrtoint", [words.type], [p]) for p in places)
    text = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [$0], {$1, $2, $3, $4}, [$5];"
    llvm.InlineAsmOp(None, [address, *values, barrier], text, "r,f,f,f,f,r,~{memory}", has_side_effects=True)


def special_register(name: str) -> ir.Value:
    """``tid.x``, ``ctaid.x``, ``cluster.ctarank``, ..."""
    return operation(f"nvvm.read.ptx.sreg.{name}", [integer_type(32)])


def uniform(words: Words, value: ir.Value) -> ir.Value:
    """Lane 0's ``value``, in a form that the assembler knows to be equal in a warp: else it loops over lanes round TMA."""
    return operation(
        "nvvm.shfl.sync", [integer_type(32)], [words.value(-1), value, words.value(0), words.value(31)],
        kind="#nvvm<shfl_kind idx>",
    )


def opaque(words: Words, value: Integer, *beside: ir.Value) -> ir.Value:
    """``value`` as a number that LLVM knows nothing about, but that it may depend on what is given ``beside``.  What it can see to grow by a
    constant from turn to turn of a loop, or to be the same, it carries along, and with it each of the columns that are computed of it, in
    registers that are needed for sums."""
    return llvm.inline_asm(words.type, [words.value(value), *beside], "mov.b32 $0, $1;", ",".join(["=r", "r", *["r"] * len(beside)]))


def elect() -> ir.Value:
    """True in one lane of the warp."""
    return nvvm.ElectSyncOp(results=[integer_type(1)]).results[0]


def loop(
    words: Words, begin: Integer, end: Integer, step: Integer, carried: Sequence[ir.Value],
    body: Callable[..., Sequence[ir.Value]],
) -> list[ir.Value]:
    """``for i in range(begin, end, step): carried = body(i, *carried)``; returns what is carried out."""
    op = scf.ForOp(words.value(begin), words.value(end), words.value(step), list(carried))
    with ir.InsertionPoint(op.body):
        scf.yield_(list(body(op.induction_variable, *op.inner_iter_args)))
    return list(op.results)


def loop_while(
    carried: Sequence[ir.Value], goes_on: Callable[..., ir.Value], body: Callable[..., Sequence[ir.Value]],
) -> list[ir.Value]:
    """``while goes_on(*carried): carried = body(*carried)``; returns what is carried out."""
    types, where = [v.type for v in carried], [ir.Location.unknown()] * len(carried)
    op = scf.WhileOp(types, list(carried))
    probe, inside = (ir.Block.create_at_start(region, types, where) for region in (op.before, op.after))
    with ir.InsertionPoint(probe):
        scf.ConditionOp(goes_on(*probe.arguments), list(probe.arguments))
    with ir.InsertionPoint(inside):
        scf.yield_(list(body(*inside.arguments)))
    return list(op.results)


def widen_pointer(words: Words, base: ir.Value, offset: Integer, plus: int, element: ir.Type) -> ir.Value:
    """The address ``plus`` bytes behind element ``offset`` (not negative, below 2^31) of an array.

    The constant is added last, where LLVM can make it the access's immediate offset.
    """
    if not (isinstance(offset, int) and offset == 0):
        base = advance(base, words.widen(offset), element)
    if plus:
        base = operation(
            "llvm.getelementptr", [base.type], [base], rawConstantIndices=ir.DenseI32ArrayAttr.get([plus]),
            elem_type=ir.TypeAttr.get(integer_type(8)),
        )
    return base


def advance(base: ir.Value, offset: ir.Value, element: ir.Type) -> ir.Value:
    """The address of an array's element ``offset``, of 64 bits."""
    dynamic = ir.DenseI32ArrayAttr.get([-2147483648])
    return operation("llvm.getelementptr", [base.type], [base, offset], rawConstantIndices=dynamic, elem_type=ir.TypeAttr.get(element))


def store(value: ir.Value, pointer: ir.Value, alignment: int) -> None:
    """Store a value at a multiple of ``alignment`` bytes."""
    operation("llvm.store", [], [value, pointer], alignment=ir.IntegerAttr.get(integer_type(64), alignment))


@dataclass(frozen=True)
class Device:
    """A new GPU kernel: its parameters in order, and the address of its dynamic shared memory (None without any)."""

    parameters: list[ir.Value]
    shared: ir.Value | None


@contextmanager
def device_module(kernel: func.FuncOp) -> Iterator[ir.Block]:
    """Add ``gpu.module @<name>_gpu`` in front of the kernel function ``name``; yields its block, which takes the kernels."""
    text = f"""gpu.module @"{kernel.name.value}_gpu" {{
      llvm.mlir.global external @shared() {{addr_space = 3 : i32, alignment = 1024 : i64}} : !llvm.array<0 x i8>
    }}"""
    shell = ir.Module.parse(text, kernel.context)
    module = shell.body.operations[0].operation
    with kernel.location:
        yield module.regions[0].blocks[0]
    ir.InsertionPoint(kernel.operation).insert(module.detach_from_parent())


@contextmanager
def device_kernel(
    module: ir.Block, name: str, parameters: Sequence[str], threads: int, cluster: int = 1, shared: bool = False, resident: int = 1,
) -> Iterator[Device]:
    """Add the kernel ``@name`` to a block of ``device_module``; the insertion point is its body.

    ``parameters`` are types with their attributes, as text.  The bound of ``resident`` blocks a multiprocessor lets a thread have
    more registers by setmaxnreg, up to 240 if it is one.
    """
    arguments = ", ".join(f"%a{i}: {p}" for i, p in enumerate(parameters))
    clusters = f", nvvm.cluster_dim = array<i32: {cluster}, 1, 1>" if cluster > 1 else ""
    text = f"""llvm.func @"{name}"({arguments}) attributes {{gpu.kernel, nvvm.kernel, nvvm.reqntid = array<i32: {threads}, 1, 1>,
        nvvm.minctasm = {resident} : i32{clusters}}} {{ llvm.return }}"""
    shell = ir.Module.parse(text, module.owner.context)
    function = shell.body.operations[0].operation.detach_from_parent()
    module.append(function)
    block = function.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_terminator(block):
        base = None
        if shared:
            address = llvm.mlir_addressof(pointer_type(SHARED), "shared")
            base = operation("llvm.ptrtoint", [integer_type(32)], [address])
        yield Device(list(block.arguments), base)


def assembly(text: str, operands: Sequence[ir.Value]) -> None:
    """An instruction that gives nothing back and is about memory, of pointers and of numbers of 32 and 64 bits."""
    registers = ["r" if str(x.type) in ("i32", f"!llvm.ptr<{SHARED}>") else "l" for x in operands]
    llvm.InlineAsmOp(None, list(operands), text, ",".join([*registers, "~{memory}"]), has_side_effects=True)
