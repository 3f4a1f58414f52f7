"""The part of a plan's native code that launches from a table, where every size of the plan is a number.

Straight-line code takes half a millisecond a launch to compile, 0.4 s for TinyLlama's 724, most of starting from the cache.  This is
a loop over rows of 64-bit words that compiles in a few milliseconds and takes some nanoseconds a parameter more.

A row is (function, how, grid, block, shared memory, number of parameters), then for each parameter (kind, a, b): a number ``a``, or the
address that the state's word ``a`` holds plus ``b``; for a tensor map of that address (element, rank, swizzle, promotion) and the
table of 16 words that ``@encode`` takes are behind it.  ``how`` is the kind of a launch's attribute, or says that the function is the
record of a library call (``cublaslt.py``), which has no grid.
"""

from collections.abc import Callable, Sequence

from inferno.runtime.plan.plan import Buffer, Launch, LibraryCall, Scalar, TensorMap

_NUMBER, _ADDRESS, _MAP = 0, 1, 2  # kinds of parameters
_LIBRARY = 1000  # no kind of attribute
_HEAD, _PARAMETER, _MAP_HEAD = 10, 3, 7  # words before the parameters, of a parameter, and before a map's table
_TABLE = 16  # words of a map's table

# The types of ``host.py``'s functions.
_ENCODE = "(!llvm.ptr, i32, i32, !llvm.ptr, !llvm.ptr, i32, i32, !llvm.ptr, i64) -> ()"
_LAUNCH = "(i64, i32, i32, i32, i32, i32, i32, i32, i32, !llvm.ptr, !llvm.ptr, i64) -> ()"
_CALL = "(i64, !llvm.ptr, !llvm.ptr, i64) -> ()"


def rows_of(
    steps: Sequence[Launch | LibraryCall], functions: Sequence[int], how: Sequence[int], place: Callable[[Buffer], tuple[int, int]],
    encode: Callable[[TensorMap], tuple[list, list]],
) -> list[int] | None:
    """The words of the table; None where a size varies.

    ``how`` gives the kind of each launch's attribute, 0 for none; ``place`` the word of the state and
    the offset of a buffer; ``encode`` a tensor map's (element, rank, swizzle, promotion) and its table.
    """
    words: list = []
    for step, function, kind in zip(steps, functions, how):
        launch = [kind, *step.grid, *step.block, step.shared] if isinstance(step, Launch) else [_LIBRARY, *[0] * 7]
        words += [function, *launch, len(step.parameters)]
        for parameter in step.parameters:
            if isinstance(parameter, Scalar):
                words += [_NUMBER, parameter.value, 0]
            elif isinstance(parameter, TensorMap):
                head, table = encode(parameter)
                words += [_MAP, *place(parameter.buffer), *head, *table]
            else:
                words += [_ADDRESS, *place(parameter)]
    return words if all(isinstance(w, int) for w in words) else None


def run_from_rows(words: Sequence[int], steps: Sequence[Launch | LibraryCall]) -> str:
    """The table, and ``@run``, which launches what it holds."""
    parameters = max([1, *(len(s.parameters) for s in steps)])
    maps = max([1, *(sum(isinstance(p, TensorMap) for p in s.parameters) for s in steps)])
    words = words or [0]
    load = _load("row", 1, ("how", "gx", "gy", "gz", "bx", "by", "bz", "shared"))
    describe = _load("at", _PARAMETER, ("element", "rank", "swizzle", "promotion"))
    branch = _BRANCH if any(isinstance(s, LibraryCall) for s in steps) else ""
    return f"""  llvm.mlir.global internal constant @rows(dense<{list(words)}> : tensor<{len(words)}xi64>) : !llvm.array<{len(words)} x i64>
  llvm.func @run(%state: !llvm.ptr) {{
    %zero = llvm.mlir.constant(0 : i64) : i64
    %one = llvm.mlir.constant(1 : i64) : i64
    %map_kind = llvm.mlir.constant({_MAP} : i64) : i64
    %steps = llvm.mlir.constant({len(steps)} : i64) : i64
    %most = llvm.mlir.constant({parameters} : i32) : i32
    %most_maps = llvm.mlir.constant({maps} : i32) : i32
    %values = llvm.alloca %most x i64 : (i32) -> !llvm.ptr
    %parameters = llvm.alloca %most x !llvm.ptr : (i32) -> !llvm.ptr
    %maps = llvm.alloca %most_maps x !llvm.array<16 x i64> {{alignment = 64 : i64}} : (i32) -> !llvm.ptr
    %first_row = llvm.mlir.addressof @rows : !llvm.ptr
    llvm.br ^step(%first_row, %zero : !llvm.ptr, i64)
  ^step(%row: !llvm.ptr, %number: i64):
    %more = llvm.icmp "slt" %number, %steps : i64
    llvm.cond_br %more, ^read, ^end
  ^read:
    %function = llvm.load %row : !llvm.ptr -> i64
{load}
    %count_at = llvm.getelementptr %row[{_HEAD - 1}] : (!llvm.ptr) -> !llvm.ptr, i64
    %count = llvm.load %count_at : !llvm.ptr -> i64
    %first = llvm.getelementptr %row[{_HEAD}] : (!llvm.ptr) -> !llvm.ptr, i64
    llvm.br ^parameter(%first, %zero, %zero : !llvm.ptr, i64, i64)
  ^parameter(%at: !llvm.ptr, %i: i64, %m: i64):
    %open = llvm.icmp "slt" %i, %count : i64
    llvm.cond_br %open, ^kind, ^launch
  ^kind:
    %kind = llvm.load %at : !llvm.ptr -> i64
    %a_at = llvm.getelementptr %at[1] : (!llvm.ptr) -> !llvm.ptr, i64
    %a = llvm.load %a_at : !llvm.ptr -> i64
    %b_at = llvm.getelementptr %at[2] : (!llvm.ptr) -> !llvm.ptr, i64
    %b = llvm.load %b_at : !llvm.ptr -> i64
    %behind = llvm.getelementptr %at[{_PARAMETER}] : (!llvm.ptr) -> !llvm.ptr, i64
    %slot = llvm.getelementptr %values[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
    %place = llvm.getelementptr %parameters[%i] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.ptr
    %i_next = llvm.add %i, %one : i64
    %is_number = llvm.icmp "eq" %kind, %zero : i64
    llvm.cond_br %is_number, ^store(%a : i64), ^address
  ^address:
    %word = llvm.getelementptr %state[%a] : (!llvm.ptr, i64) -> !llvm.ptr, i64
    %base = llvm.load %word : !llvm.ptr -> i64
    %address = llvm.add %base, %b : i64
    %is_map = llvm.icmp "eq" %kind, %map_kind : i64
    llvm.cond_br %is_map, ^map, ^store(%address : i64)
  ^store(%value: i64):
    llvm.store %value, %slot : i64, !llvm.ptr
    llvm.store %slot, %place : !llvm.ptr, !llvm.ptr
    llvm.br ^parameter(%behind, %i_next, %m : !llvm.ptr, i64, i64)
  ^map:
{describe}
    %table = llvm.getelementptr %at[{_MAP_HEAD}] : (!llvm.ptr) -> !llvm.ptr, i64
    %behind_map = llvm.getelementptr %at[{_MAP_HEAD + _TABLE}] : (!llvm.ptr) -> !llvm.ptr, i64
    %map = llvm.getelementptr %maps[%m] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.array<16 x i64>
    %where = llvm.inttoptr %address : i64 to !llvm.ptr
    llvm.call @encode(%map, %element, %rank, %where, %table, %swizzle, %promotion, %state, %number) : {_ENCODE}
    llvm.store %map, %place : !llvm.ptr, !llvm.ptr
    %m_next = llvm.add %m, %one : i64
    llvm.br ^parameter(%behind_map, %i_next, %m_next : !llvm.ptr, i64, i64)
  ^launch:
{branch}    llvm.call @launch(%function, %how, %gx, %gy, %gz, %bx, %by, %bz, %shared, %state, %parameters, %number) : {_LAUNCH}
    llvm.br ^next
  ^next:
    %number_next = llvm.add %number, %one : i64
    llvm.br ^step(%at, %number_next : !llvm.ptr, i64)
  ^end:
    llvm.return
  }}
"""


_BRANCH = f"""\
    %library = llvm.mlir.constant({_LIBRARY} : i32) : i32
    %is_call = llvm.icmp "eq" %how, %library : i32
    llvm.cond_br %is_call, ^call, ^kernel
  ^call:
    llvm.call @library(%function, %values, %state, %number) : {_CALL}
    llvm.br ^next
  ^kernel:
"""


def _load(pointer: str, first: int, names: Sequence[str]) -> str:
    """Neighbouring words, from number ``first`` behind a pointer on, as i32."""
    return "\n".join(
        f"    %{name}_at = llvm.getelementptr %{pointer}[{first + i}] : (!llvm.ptr) -> !llvm.ptr, i64\n"
        f"    %{name}_wide = llvm.load %{name}_at : !llvm.ptr -> i64\n    %{name} = llvm.trunc %{name}_wide : i64 to i32"
        for i, name in enumerate(names)
    )
