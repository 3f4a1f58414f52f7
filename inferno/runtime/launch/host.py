"""A launch plan as native code: one function that launches every kernel of the plan, and calls the library where the plan does.

The function's text is the LLVM dialect, compiled by MLIR's execution engine: a loop over a table (``rows.py``), or straight-line
where sizes vary, in 0.5 ms a launch.  Its one argument points to 64-bit words: [unused, own address, error, step, stream, workspace, arguments..., results..., symbols...].  The
first call of the driver that fails leaves its code and the step's number there, and nothing after it is launched.
The parameters of kernels, tensor maps too, are on the caller's stack, so that any number of threads can be in it.
"""

from collections.abc import Sequence

from inferno.runtime.launch.cublaslt import MatmulCall
from inferno.runtime.launch.library_host import library_function
from inferno.runtime.launch.rows import rows_of, run_from_rows
from inferno.runtime.plan.plan import Buffer, Launch, LibraryCall, PixelMap, Plan, Scalar, TensorMap
from inferno.size_forms import build
from inferno.symbolic import Int, product

ERROR, STEP, STREAM, WORKSPACE, ARGUMENTS = 2, 3, 4, 5, 6  # words of the argument

# Values of the driver's enumerations, from cuda.h.
ELEMENTS = {"i8": 0, "ui8": 0, "ui16": 1, "ui32": 2, "i32": 3, "ui64": 4, "i64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9, "f32_ftz": 10, "tf32": 11}
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}

# CUlaunchConfig, and CUlaunchAttribute as 64-bit words: its kind, and the value from the second one on.
_CONFIG = ("gx", "gy", "gz", "bx", "by", "bz", "shared", "stream", "attribute", "attributes")
_CONFIG_TYPES = ("i32",) * 7 + ("!llvm.ptr",) * 2 + ("i32",)
_OF_PIXELS = 16  # more than any rank
_FIRST_STRIDE, _FIRST_BOX = 5, 10  # words of a tensor map's table
LEAST_SIZE, LEAST_STRIDE = 1, 16  # that the driver takes: what a tensor without elements is described with, which nothing is copied of
EARLY = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
COOPERATIVE = 2  # CU_LAUNCH_ATTRIBUTE_COOPERATIVE

# How the functions end: the driver's %code, and the step that it failed in, go to the state.
_END = """\
    %failed = llvm.icmp "ne" %code, %zero : i32
    llvm.cond_br %failed, ^fail, ^out
  ^fail:
    %wide = llvm.sext %code : i32 to i64
    %error = llvm.getelementptr %state[{error}] : (!llvm.ptr) -> !llvm.ptr, i64
    llvm.store %wide, %error : i64, !llvm.ptr
    %at = llvm.getelementptr %state[{step}] : (!llvm.ptr) -> !llvm.ptr, i64
    llvm.store %step, %at : i64, !llvm.ptr
    llvm.br ^out
  ^out:
    llvm.return
  }}
"""

_DECLARATIONS = """
  llvm.func internal @launch(%function: i64, %how: i32, %gx: i32, %gy: i32, %gz: i32, %bx: i32, %by: i32, %bz: i32, %shared: i32, %state: !llvm.ptr, %parameters: !llvm.ptr, %step: i64) {{
    %zero = llvm.mlir.constant(0 : i32) : i32
    %one = llvm.mlir.constant(1 : i32) : i32
    %null = llvm.mlir.zero : !llvm.ptr
    %attribute = llvm.alloca %one x !llvm.array<9 x i64> {{alignment = 8 : i64}} : (i32) -> !llvm.ptr
    %config = llvm.alloca %one x {config} {{alignment = 8 : i64}} : (i32) -> !llvm.ptr
    %e = llvm.getelementptr %state[{error}] : (!llvm.ptr) -> !llvm.ptr, i64
    %old = llvm.load %e : !llvm.ptr -> i64
    %zero64 = llvm.mlir.constant(0 : i64) : i64
    %bad = llvm.icmp "ne" %old, %zero64 : i64
    %no_x = llvm.icmp "eq" %gx, %zero : i32
    %no_y = llvm.icmp "eq" %gy, %zero : i32
    %no_z = llvm.icmp "eq" %gz, %zero : i32
    %no_xy = llvm.or %no_x, %no_y : i1
    %empty = llvm.or %no_xy, %no_z : i1
    %skip = llvm.or %bad, %empty : i1
    llvm.cond_br %skip, ^out, ^go
  ^go:
    %s = llvm.getelementptr %state[{stream}] : (!llvm.ptr) -> !llvm.ptr, i64
    %stream = llvm.load %s : !llvm.ptr -> !llvm.ptr
    %f = llvm.inttoptr %function : i64 to !llvm.ptr
    %target = llvm.mlir.constant({launch} : i64) : i64
    %driver = llvm.inttoptr %target : i64 to !llvm.ptr
    %kind = llvm.sext %how : i32 to i64
    %some = llvm.icmp "ne" %how, %zero : i32
    %attributes = llvm.zext %some : i1 to i32
    %one64 = llvm.mlir.constant(1 : i64) : i64
    %allowed = llvm.getelementptr %attribute[1] : (!llvm.ptr) -> !llvm.ptr, i64
    llvm.store %kind, %attribute : i64, !llvm.ptr
    llvm.store %one64, %allowed : i64, !llvm.ptr
{fields}
    %code = llvm.call %driver(%config, %f, %parameters, %null) : !llvm.ptr, (!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
{end}  llvm.func internal @encode(%map: !llvm.ptr, %element: i32, %rank: i32, %address: !llvm.ptr, %table: !llvm.ptr, %swizzle: i32, %l2: i32, %state: !llvm.ptr, %step: i64) {{
    %zero = llvm.mlir.constant(0 : i32) : i32
    %strides = llvm.getelementptr %table[5] : (!llvm.ptr) -> !llvm.ptr, i64
    %box = llvm.getelementptr %table[10] : (!llvm.ptr) -> !llvm.ptr, i64
    %steps = llvm.getelementptr %table[13] : (!llvm.ptr) -> !llvm.ptr, i64
    %nowhere = llvm.mlir.zero : !llvm.ptr
    %empty = llvm.icmp "eq" %address, %nowhere : !llvm.ptr
    llvm.cond_br %empty, ^out, ^go
  ^go:
    %first = llvm.mlir.constant({first} : i32) : i32
    %of_pixels = llvm.icmp "sge" %rank, %first : i32
    llvm.cond_br %of_pixels, ^pixels, ^tiled
  ^tiled:
    %target = llvm.mlir.constant({encode} : i64) : i64
    %driver = llvm.inttoptr %target : i64 to !llvm.ptr
    %tiled = llvm.call %driver(%map, %element, %rank, %address, %table, %strides, %box, %steps, %zero, %swizzle, %l2, %zero) : !llvm.ptr, (!llvm.ptr, i32, i32, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, i32, i32, i32, i32) -> i32
    llvm.br ^end(%tiled : i32)
  ^pixels:
    %dimensions = llvm.sub %rank, %first : i32
    %upper = llvm.getelementptr %box[3] : (!llvm.ptr) -> !llvm.ptr, i32
    %channels_at = llvm.getelementptr %table[9] : (!llvm.ptr) -> !llvm.ptr, i64
    %channels = llvm.load %channels_at : !llvm.ptr -> i32
    %pixels_at = llvm.getelementptr %channels_at[1] : (!llvm.ptr) -> !llvm.ptr, i32
    %pixels = llvm.load %pixels_at : !llvm.ptr -> i32
    %other = llvm.mlir.constant({pixels} : i64) : i64
    %encoder = llvm.inttoptr %other : i64 to !llvm.ptr
    %done = llvm.call %encoder(%map, %element, %dimensions, %address, %table, %strides, %box, %upper, %channels, %pixels, %steps, %zero, %swizzle, %l2, %zero) : !llvm.ptr, (!llvm.ptr, i32, i32, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, i32, i32, !llvm.ptr, i32, i32, i32, i32) -> i32
    llvm.br ^end(%done : i32)
  ^end(%code: i32):
{end}"""


def host_program(
    plan: Plan, functions: Sequence[int | MatmulCall], launch: int, encode: int, result_words: dict[int, int], early: bool,
    pixels: int = 0,
) -> str:
    """The text of a module with ``@run``.

    ``functions`` are the kernels' handles and the library's calls, one for each step; ``launch`` and ``encode`` the addresses of cuLaunchKernelEx and
    cuTensorMapEncodeTiled, ``pixels`` that of cuTensorMapEncodeIm2col; ``result_words`` gives the word of each fresh result's address.  ``early``: kernels wait for those
    before them themselves (``await-kernels``), and are launched before those have ended.  The values of the plan's symbols are behind the last result.
    """
    functions = [f.record if isinstance(f, MatmulCall) else f for f in functions]
    how = [attribute_of(plan.steps, number, early) for number in range(len(plan.steps))]
    rows = rows_of(plan.steps, functions, how, lambda b: _place(b, result_words), lambda m: (_head(m), _table_words(m)))
    if rows is not None:
        run = run_from_rows(rows, plan.steps)
    else:
        first = 1 + max([ARGUMENTS + len(plan.arguments) - 1, *result_words.values()])
        writer = _Writer(result_words, {s.name: first + i for i, s in enumerate(plan.symbols)})
        for number, (step, function) in enumerate(zip(plan.steps, functions)):
            writer.step(number, step, function, how[number])
        run = writer.module()
    config = f"!llvm.struct<({', '.join(_CONFIG_TYPES)})>"
    fields = "\n".join(
        f"    %at_{name} = llvm.getelementptr %config[0, {i}] : (!llvm.ptr) -> !llvm.ptr, {config}\n"
        f"    llvm.store %{name}, %at_{name} : {type_}, !llvm.ptr"
        for i, (name, type_) in enumerate(zip(_CONFIG, _CONFIG_TYPES))
    )
    end = _END.format(error=ERROR, step=STEP)
    declarations = _DECLARATIONS.format(
        error=ERROR, end=end, stream=STREAM, launch=launch, encode=encode, pixels=pixels, first=_OF_PIXELS, config=config, fields=fields,
    )
    if any(isinstance(s, LibraryCall) for s in plan.steps):
        declarations += library_function(ERROR, STREAM, end)
    return f"module {{\n{declarations}{run}}}\n"


def attribute_of(steps: Sequence[Launch | LibraryCall], number: int, early: bool) -> int:
    """The kind of attribute that a step is launched with, which is 1 then; 0 for none.  A kernel behind a kernel is launched before that has ended, and a
    program's first one, too, but for those whose blocks wait for each other."""
    step = steps[number]
    if isinstance(step, Launch) and step.cooperative:
        return COOPERATIVE
    return EARLY if early and isinstance(step, Launch) and (number == 0 or isinstance(steps[number - 1], Launch)) else 0


def _place(buffer: Buffer, result_words: dict[int, int]) -> tuple[int, Int]:
    """The word of the state that holds a buffer's base, and the offset from there."""
    if buffer.place == "workspace":
        return WORKSPACE, buffer.index
    return ARGUMENTS + buffer.index if buffer.place == "argument" else result_words[buffer.index], buffer.offset


def _head(map_: TensorMap) -> list[int]:
    """What ``@encode`` takes of a tensor map by value: its element type, rank (of pixels so much more), swizzle and promotion."""
    return [ELEMENTS[map_.element], len(map_.sizes) + _OF_PIXELS * isinstance(map_, PixelMap), SWIZZLES[map_.swizzle], PROMOTIONS[map_.l2]]


def _table_words(map_: TensorMap) -> list[Int]:
    """A tensor map's sizes, strides, box sizes and steps; of pixels the corners instead of the box, whose sizes are behind the strides."""
    strides, box = _padded(map_.strides[1:], 5), map_.box
    if isinstance(map_, PixelMap):
        strides[4], box = _pairs(map_.box, 1)[0], (*_padded(map_.lower, 3), *map_.upper)
    return [*_padded(map_.sizes, 5), *strides, *_pairs(box, 3), *_pairs(element_steps(map_), 3)]


def element_steps(map_: TensorMap) -> list[int]:
    """A number for each dimension."""
    return [1, *map_.steps, 1] if isinstance(map_, PixelMap) else [1] * len(map_.sizes)


class _Writer:
    def __init__(self, result_words: dict[int, int], symbol_words: dict[str, int]) -> None:
        self._result_words, self._symbol_words = result_words, symbol_words
        self._numbers: dict[Int, str] = {}
        self._known: dict[str, str] = {}
        self._held: dict[int, str] = {}
        self._lines: list[str] = []
        self._globals: list[str] = []
        self._count = 0
        self._most = 1
        self._maps = 1

    def module(self) -> str:
        """The globals and ``@run``."""
        head = [
            f"%most = llvm.mlir.constant({self._most} : i32) : i32", "%values = llvm.alloca %most x i64 : (i32) -> !llvm.ptr",
            "%parameters = llvm.alloca %most x !llvm.ptr : (i32) -> !llvm.ptr",
            f"%count = llvm.mlir.constant({self._maps} : i32) : i32",
            "%maps = llvm.alloca %count x !llvm.array<16 x i64> {alignment = 64 : i64} : (i32) -> !llvm.ptr",
            "%single = llvm.mlir.constant(1 : i32) : i32",
            "%table = llvm.alloca %single x !llvm.array<16 x i64> {alignment = 64 : i64} : (i32) -> !llvm.ptr",
        ]
        body = "\n    ".join([*head, *self._lines, "llvm.return"])
        return "\n".join(self._globals) + f"\n  llvm.func @run(%state: !llvm.ptr) {{\n    {body}\n  }}\n"

    def step(self, number: int, step: Launch | LibraryCall, function: int, how: int) -> None:
        """Fill the parameters of one kernel and launch it, or call the library."""
        self._most = max(self._most, len(step.parameters))
        maps, blocks = 0, product(step.grid) if isinstance(step, Launch) else 1
        for i, parameter in enumerate(step.parameters):
            if isinstance(parameter, TensorMap):
                slot = self._once(f"llvm.getelementptr %maps[{maps}] : (!llvm.ptr) -> !llvm.ptr, !llvm.array<16 x i64>")
                self._encode(number, slot, parameter, blocks)
                maps += 1
            else:
                slot = self._once(f"llvm.getelementptr %values[{i}] : (!llvm.ptr) -> !llvm.ptr, i64")
                value = self._number(parameter.value) if isinstance(parameter, Scalar) else self._address(parameter)
                self._lines.append(f"llvm.store {value}, {slot} : i64, !llvm.ptr")
            if self._held.get(i) != slot:  # else the launch before left it there
                self._held[i] = slot
                place = self._once(f"llvm.getelementptr %parameters[{i}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr")
                self._lines.append(f"llvm.store {slot}, {place} : !llvm.ptr, !llvm.ptr")
        self._maps = max(self._maps, maps)
        handle, position = self._constant(function, "i64"), self._constant(number, "i64")
        if isinstance(step, LibraryCall):
            self._lines.append(f"llvm.call @library({handle}, %values, %state, {position}) : (i64, !llvm.ptr, !llvm.ptr, i64) -> ()")
            return
        numbers = (how, *step.grid, *step.block, step.shared)
        sizes = [self._constant(v, "i32") if isinstance(v, int) else self._narrow(v) for v in numbers]
        self._lines.append(
            f"llvm.call @launch({handle}, {', '.join(sizes)}, %state, %parameters, {position}) : "
            "(i64, i32, i32, i32, i32, i32, i32, i32, i32, !llvm.ptr, !llvm.ptr, i64) -> ()"
        )

    def _encode(self, number: int, slot: str, map_: TensorMap, blocks: Int) -> None:
        """Call the driver to make a tensor map, unless there are no blocks for it: of kernels for ranges of sizes a call launches one."""
        table = self._table(_table_words(map_))
        where = self._new(f"llvm.inttoptr {self._address(map_.buffer)} : i64 to !llvm.ptr")
        head = [self._constant(v, "i32") for v in _head(map_)]
        values, tail = head[:2], head[2:]
        position = self._constant(number, "i64")
        call = (
            f"llvm.call @encode({slot}, {', '.join(values)}, {where}, {table}, {', '.join(tail)}, %state, {position}) : "
            "(!llvm.ptr, i32, i32, !llvm.ptr, !llvm.ptr, i32, i32, !llvm.ptr, i64) -> ()"
        )
        if isinstance(blocks, int):
            self._lines.append(call)
            return
        some = self._once(f'llvm.icmp "ne" {self._number(blocks)}, {self._constant(0, "i64")} : i64')
        name = f"map{len(self._lines)}"
        self._lines += [f"llvm.cond_br {some}, ^{name}, ^behind_{name}", f"^{name}:", call, f"llvm.br ^behind_{name}", f"^behind_{name}:"]

    def _table(self, words: list[Int]) -> str:
        """The address of a table of 16 words: a constant, or on the stack where some vary."""
        if all(isinstance(w, int) for w in words):
            name = f"table{len(self._globals)}"
            self._globals.append(f"  llvm.mlir.global internal constant @{name}(dense<{words}> : tensor<16xi64>) : !llvm.array<16 x i64>")
            return self._new(f"llvm.mlir.addressof @{name} : !llvm.ptr")
        for i, word in enumerate(words):
            place = self._new(f"llvm.getelementptr %table[{i}] : (!llvm.ptr) -> !llvm.ptr, i64")
            value = self._number(word)
            if not isinstance(word, int):
                least = self._constant(LEAST_STRIDE if _FIRST_STRIDE <= i < _FIRST_BOX else LEAST_SIZE, "i64")
                value = self._new(f"llvm.intr.smax({value}, {least}) : (i64, i64) -> i64")
            self._lines.append(f"llvm.store {value}, {place} : i64, !llvm.ptr")
        return "%table"

    def _number(self, value: Int) -> str:
        """A size as an i64, computed of the symbols' words once."""
        if value not in self._numbers:
            self._numbers[value] = build(
                value, lambda s: self._word(self._symbol_words[s.name]), lambda a, b: self._new(f"llvm.add {a}, {b} : i64"),
                lambda a, b: self._new(f"llvm.mul {a}, {b} : i64"), self._apply, lambda c: self._constant(c, "i64"),
            )
        return self._numbers[value]

    def _apply(self, kind: str, a: str, b: str) -> str:
        if kind == "floordiv":
            divisor = self._new(f"llvm.intr.smax({b}, {self._constant(1, 'i64')}) : (i64, i64) -> i64")
            return self._new(f"llvm.udiv {a}, {divisor} : i64")
        return self._new(f"llvm.intr.s{kind}({a}, {b}) : (i64, i64) -> i64")

    def _narrow(self, value: Int) -> str:
        """A size as an i32, at most the largest there is: the driver refuses a grid that is too large."""
        most = self._new(f"llvm.intr.smin({self._number(value)}, {self._constant(2**31 - 1, 'i64')}) : (i64, i64) -> i64")
        return self._new(f"llvm.trunc {most} : i64 to i32")

    def _address(self, buffer: Buffer) -> str:
        """The address of a buffer, as an i64."""
        word, offset = _place(buffer, self._result_words)
        base = self._word(word)
        return base if offset == 0 else self._new(f"llvm.add {base}, {self._number(offset)} : i64")

    def _word(self, index: int) -> str:
        place = self._once(f"llvm.getelementptr %state[{index}] : (!llvm.ptr) -> !llvm.ptr, i64")
        return self._once(f"llvm.load {place} : !llvm.ptr -> i64")

    def _constant(self, value: int, type_: str) -> str:
        return self._once(f"llvm.mlir.constant({value} : {type_}) : {type_}")

    def _once(self, text: str) -> str:
        """The value of an operation that gives the same wherever it stands; compiling takes as long as there are operations."""
        if text not in self._known:
            self._known[text] = self._new(text)
        return self._known[text]

    def _new(self, text: str) -> str:
        name = f"%v{self._count}"
        self._count += 1
        self._lines.append(f"{name} = {text}")
        return name


def _padded(values: Sequence[int], count: int) -> list[int]:
    return [*values, *[0] * (count - len(values))]


def _pairs(values: Sequence[int], count: int) -> list[int]:
    """32-bit values, two in each 64-bit word, which is signed."""
    padded = _padded(values, 2 * count)
    return [padded[2 * i] & 0xFFFFFFFF | padded[2 * i + 1] << 32 for i in range(count)]
