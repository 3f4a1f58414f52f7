"""The part of a plan's native code that calls cuBLASLt: ``@library``, which reads a call's record (``cublaslt.py``)."""

from collections.abc import Sequence

from inferno.runtime.launch import cublaslt as record

_SET = ((record.TRANSPOSE_A, 4), (record.TRANSPOSE_B, 4), (record.EPILOGUE, 4), (record.BIAS_POINTER, 8))  # attributes, and their bytes
_MATMUL = ("ptr", "ptr", "ptr", "ptr", "ptr", "ptr", "ptr", "ptr", "ptr", "ptr", "ptr", "ptr", "ptr", "ptr", "i64", "ptr")


def library_function(error: int, stream: int, end: str) -> str:
    """``@library(record, values, state, step)``: ``values`` holds the operands' addresses.  ``error`` and ``stream`` are words of the state,
    ``end`` is how the function ends: what becomes of %code."""
    lines = _Lines()
    a, b, c, d, workspace, bias = (_operand(lines, i) for i in range(6))
    create, set_, destroy, matmul = (lines.word(w) for w in (record.CREATE, record.SET, record.DESTROY, record.MATMUL))
    handle, alpha, beta, algorithm, size = (lines.word(w) for w in (record.HANDLE, record.ALPHA, record.BETA, record.ALGORITHM, record.WORKSPACE_BYTES))
    layouts = [lines.word(w) for w in (record.A, record.B, record.C, record.D)]
    compute, scale = (lines.new(f"llvm.trunc {lines.word(w)} : i64 to i32") for w in (record.COMPUTE, record.SCALE))
    prepared = lines.word(record.DESCRIPTOR)
    ready = lines.new(f'llvm.icmp "ne" {prepared}, %nothing : i64')
    lines.add(f"llvm.cond_br {ready}, ^multiply({prepared} : i64), ^describe")
    lines.label("^describe:")
    created = lines.call(create, ("%made", compute, scale), ("!llvm.ptr", "i32", "i32"))
    refused = lines.new(f'llvm.icmp "ne" {created}, %zero : i32')
    lines.add(f"llvm.cond_br {refused}, ^end({created} : i32), ^set")
    lines.label("^set:")
    lines.add(f"llvm.store {bias}, %bias_at : i64, !llvm.ptr")
    made = lines.new("llvm.load %made : !llvm.ptr -> i64")
    values = [lines.pointer(lines.word(record.ATTRIBUTES + i)) for i in range(3)] + ["%bias_at"]
    status = "%zero"
    for (attribute, bytes_), value in zip(_SET, values):
        which, length = lines.new(f"llvm.mlir.constant({attribute} : i32) : i32"), lines.new(f"llvm.mlir.constant({bytes_} : i64) : i64")
        got = lines.call(set_, (lines.pointer(made), which, value, length), ("!llvm.ptr", "i32", "!llvm.ptr", "i64"))
        status = lines.new(f"llvm.or {status}, {got} : i32")
    failed = lines.new(f'llvm.icmp "ne" {status}, %zero : i32')
    lines.add(f"llvm.cond_br {failed}, ^drop({status} : i32), ^multiply({made} : i64)")
    lines.label("^multiply(%descriptor: i64):")
    stream_at = lines.new(f"llvm.getelementptr %state[{stream}] : (!llvm.ptr) -> !llvm.ptr, i64")
    on = lines.new(f"llvm.load {stream_at} : !llvm.ptr -> i64")
    la, lb, lc, ld = layouts
    arguments = (handle, "%descriptor", alpha, a, la, b, lb, beta, c, lc, d, ld, algorithm, workspace, size, on)
    given = tuple(v if t == "i64" else lines.pointer(v) for v, t in zip(arguments, _MATMUL))
    result = lines.call(matmul, given, tuple("!llvm.ptr" if t == "ptr" else t for t in _MATMUL))
    lines.add(f"llvm.cond_br {ready}, ^end({result} : i32), ^drop({result} : i32)")
    lines.label("^drop(%kept: i32):")
    gone = lines.new("llvm.load %made : !llvm.ptr -> i64")
    lines.call(destroy, (lines.pointer(gone),), ("!llvm.ptr",))
    lines.add("llvm.br ^end(%kept : i32)")
    lines.label("^end(%code: i32):")
    return f"""  llvm.func internal @library(%record: i64, %values: !llvm.ptr, %state: !llvm.ptr, %step: i64) {{
    %zero = llvm.mlir.constant(0 : i32) : i32
    %nothing = llvm.mlir.constant(0 : i64) : i64
    %one = llvm.mlir.constant(1 : i32) : i32
    %made = llvm.alloca %one x i64 : (i32) -> !llvm.ptr
    %bias_at = llvm.alloca %one x i64 : (i32) -> !llvm.ptr
    %error_at = llvm.getelementptr %state[{error}] : (!llvm.ptr) -> !llvm.ptr, i64
    %old = llvm.load %error_at : !llvm.ptr -> i64
    %bad = llvm.icmp "ne" %old, %nothing : i64
    llvm.cond_br %bad, ^out, ^go
  ^go:
    %words = llvm.inttoptr %record : i64 to !llvm.ptr
{lines}
{end}"""


def _operand(lines: "_Lines", number: int) -> str:
    """The address where an operand begins, as an i64; ``number`` as the record's places count them."""
    place, begin = lines.word(record.PLACES + number), lines.word(record.PLACES + 6 + number)
    at = lines.new(f"llvm.getelementptr %values[{place}] : (!llvm.ptr, i64) -> !llvm.ptr, i64")
    base = lines.new(f"llvm.load {at} : !llvm.ptr -> i64")
    return lines.new(f"llvm.add {base}, {begin} : i64")


class _Lines:
    """Operations of the LLVM dialect, each with a new name for its value."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._count = 0

    def __str__(self) -> str:
        return "\n".join(self._lines)

    def add(self, text: str) -> None:
        self._lines.append(f"    {text}")

    def label(self, text: str) -> None:
        self._lines.append(f"  {text}")

    def new(self, text: str) -> str:
        self._count += 1
        self.add(f"%l{self._count} = {text}")
        return f"%l{self._count}"

    def word(self, number: int) -> str:
        """A word of the record."""
        at = self.new(f"llvm.getelementptr %words[{number}] : (!llvm.ptr) -> !llvm.ptr, i64")
        return self.new(f"llvm.load {at} : !llvm.ptr -> i64")

    def pointer(self, value: str) -> str:
        return self.new(f"llvm.inttoptr {value} : i64 to !llvm.ptr")

    def call(self, function: str, arguments: Sequence[str], types: Sequence[str]) -> str:
        """The status that a function of the library returns; ``function`` is its address."""
        return self.new(f"llvm.call {self.pointer(function)}({', '.join(arguments)}) : !llvm.ptr, ({', '.join(types)}) -> i32")
