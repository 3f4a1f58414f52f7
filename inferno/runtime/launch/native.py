"""The native side of a plan on the CPU: a small interpreter of launches, in the LLVM dialect, compiled once a process.

One call from Python runs a whole row of launches.  A large one is shared by the threads of the OpenMP library that torch
has loaded: its threads are the ones that torch's own operations use, awake and bound where torch wants them.

A launch is a row of 64-bit words: entry, extent, most parts, number of buffers, and for each buffer the word of the state
that holds its base, and an offset in bytes.  The state is (2 words for the engine, first row, rows, threads, report, bases...).

A kernel sets the report where it meets what eager refuses.  No launch is made after that one, and the word for the rows becomes the
number of launches that were left, itself among them.
"""

import ctypes
import re
from functools import cache

FIRST, ROWS, THREADS, REPORT, BASES = 2, 3, 4, 5, 6


@cache
def openmp_library() -> str | None:
    """The path of the OpenMP library in this process that starts teams as GCC's does; None if there is none."""
    try:
        with open("/proc/self/maps") as maps:
            paths = dict.fromkeys(re.findall(r"/\S*lib(?:gomp|iomp|omp)\S*\.so\S*", maps.read()))
    except OSError:
        return None
    for path in paths:
        try:
            if ctypes.CDLL(path).GOMP_parallel and ctypes.CDLL(path).omp_get_thread_num:
                return path
        except (OSError, AttributeError):
            continue
    return None


def _word(at: str) -> str:
    """The address of a word of an array, whose number is known (``%row[1]``) or a value (``%row[%i]``)."""
    return f"llvm.getelementptr {at} : (!llvm.ptr{', i64' if '[%' in at else ''}) -> !llvm.ptr, i64"


def address_program(entries: list[str]) -> str:
    """``@inferno_addresses(array)``, which stores the addresses of ``entries``."""
    stores = "".join(
        f"    %f{i} = llvm.mlir.addressof @{name} : !llvm.ptr\n    %s{i} = {_word(f'%array[{i}]')}\n"
        f"    llvm.store %f{i}, %s{i} : !llvm.ptr, !llvm.ptr\n"
        for i, name in enumerate(entries)
    )
    declarations = "".join(f"  llvm.func @{name}(!llvm.ptr, i64, i64)\n" for name in entries)
    return f"""module {{
{declarations}
  llvm.func @inferno_addresses(%array: !llvm.ptr) {{
{stores}    llvm.return
  }}
}}
"""


def run_program(buffers: int, threads: bool) -> str:
    """``@inferno_run(state)``; ``buffers`` is the most that a launch has."""
    return f"""module {{
{_TEAM if threads else ""}
  llvm.func @inferno_run(%state: !llvm.ptr) {{
    %zero = llvm.mlir.constant(0 : i64) : i64
    %one = llvm.mlir.constant(1 : i64) : i64
    %two = llvm.mlir.constant(2 : i64) : i64
    %four = llvm.mlir.constant(4 : i64) : i64
    %count = llvm.mlir.constant({buffers + 1} : i64) : i64
    %job_words = llvm.mlir.constant(3 : i64) : i64
    %none = llvm.mlir.constant(0 : i32) : i32
    %slots = llvm.alloca %count x i64 : (i64) -> !llvm.ptr
    %addresses = {_word("%slots[1]")}
    %report_at = {_word(f"%state[{REPORT}]")}
    llvm.store %report_at, %slots : !llvm.ptr, !llvm.ptr
    %job = llvm.alloca %job_words x i64 : (i64) -> !llvm.ptr
    %first_at = {_word(f"%state[{FIRST}]")}
    %first = llvm.load %first_at : !llvm.ptr -> !llvm.ptr
    %rows_at = {_word(f"%state[{ROWS}]")}
    %rows = llvm.load %rows_at : !llvm.ptr -> i64
    %threads_at = {_word(f"%state[{THREADS}]")}
    %threads = llvm.load %threads_at : !llvm.ptr -> i64
    llvm.br ^next(%first, %rows : !llvm.ptr, i64)
  ^next(%row: !llvm.ptr, %left: i64):
    %more = llvm.icmp "sgt" %left, %zero : i64
    llvm.cond_br %more, ^read, ^end
  ^read:
    %entry = llvm.load %row : !llvm.ptr -> !llvm.ptr
    %extent_at = {_word("%row[1]")}
    %extent = llvm.load %extent_at : !llvm.ptr -> i64
    %parts_at = {_word("%row[2]")}
    %parts = llvm.load %parts_at : !llvm.ptr -> i64
    %buffers_at = {_word("%row[3]")}
    %buffers = llvm.load %buffers_at : !llvm.ptr -> i64
    llvm.br ^buffer(%zero : i64)
  ^buffer(%i: i64):
    %open = llvm.icmp "slt" %i, %buffers : i64
    llvm.cond_br %open, ^address, ^start
  ^address:
    %twice = llvm.mul %i, %two : i64
    %word = llvm.add %twice, %four : i64
    %base_word_at = {_word("%row[%word]")}
    %base_word = llvm.load %base_word_at : !llvm.ptr -> i64
    %after = llvm.add %word, %one : i64
    %offset_at = {_word("%row[%after]")}
    %offset = llvm.load %offset_at : !llvm.ptr -> i64
    %base_at = {_word("%state[%base_word]")}
    %base = llvm.load %base_at : !llvm.ptr -> i64
    %address = llvm.add %base, %offset : i64
    %address_at = {_word("%addresses[%i]")}
    llvm.store %address, %address_at : i64, !llvm.ptr
    %i_next = llvm.add %i, %one : i64
    llvm.br ^buffer(%i_next : i64)
  ^start:
    %fewer = llvm.icmp "slt" %threads, %parts : i64
    %team = llvm.select %fewer, %threads, %parts : i1, i64
    %alone = llvm.icmp "sle" %team, %one : i64
    llvm.cond_br {"%alone, ^single, ^shared" if threads else "%alone, ^single, ^single"}
  ^single:
    llvm.call %entry(%slots, %zero, %extent) : !llvm.ptr, (!llvm.ptr, i64, i64) -> ()
    llvm.br ^done
{_SHARED if threads else ""}
  ^done:
    %report = llvm.load %report_at : !llvm.ptr -> i64
    %fine = llvm.icmp "eq" %report, %zero : i64
    llvm.cond_br %fine, ^following, ^failed
  ^failed:
    llvm.store %left, %rows_at : i64, !llvm.ptr
    llvm.br ^end
  ^following:
    %length = llvm.mul %buffers, %two : i64
    %row_words = llvm.add %length, %four : i64
    %row_next = {_word("%row[%row_words]")}
    %left_next = llvm.sub %left, %one : i64
    llvm.br ^next(%row_next, %left_next : !llvm.ptr, i64)
  ^end:
    llvm.return
  }}
}}
"""


_TEAM = """
  llvm.func @GOMP_parallel(!llvm.ptr, !llvm.ptr, i32, i32)
  llvm.func @omp_get_thread_num() -> i32
  llvm.func @omp_get_num_threads() -> i32
  llvm.func @inferno_part(%job: !llvm.ptr) {
    %one = llvm.mlir.constant(1 : i64) : i64
    %entry = llvm.load %job : !llvm.ptr -> !llvm.ptr
    %addresses_at = llvm.getelementptr %job[1] : (!llvm.ptr) -> !llvm.ptr, i64
    %addresses = llvm.load %addresses_at : !llvm.ptr -> !llvm.ptr
    %extent_at = llvm.getelementptr %job[2] : (!llvm.ptr) -> !llvm.ptr, i64
    %extent = llvm.load %extent_at : !llvm.ptr -> i64
    %thread32 = llvm.call @omp_get_thread_num() : () -> i32
    %team32 = llvm.call @omp_get_num_threads() : () -> i32
    %thread = llvm.sext %thread32 : i32 to i64
    %team = llvm.sext %team32 : i32 to i64
    %next = llvm.add %thread, %one : i64
    %low = llvm.mul %extent, %thread : i64
    %begin = llvm.sdiv %low, %team : i64
    %high = llvm.mul %extent, %next : i64
    %end = llvm.sdiv %high, %team : i64
    llvm.call %entry(%addresses, %begin, %end) : !llvm.ptr, (!llvm.ptr, i64, i64) -> ()
    llvm.return
  }
"""

_SHARED = """  ^shared:
    %job1 = llvm.getelementptr %job[1] : (!llvm.ptr) -> !llvm.ptr, i64
    %job2 = llvm.getelementptr %job[2] : (!llvm.ptr) -> !llvm.ptr, i64
    llvm.store %entry, %job : !llvm.ptr, !llvm.ptr
    llvm.store %slots, %job1 : !llvm.ptr, !llvm.ptr
    llvm.store %extent, %job2 : i64, !llvm.ptr
    %part = llvm.mlir.addressof @inferno_part : !llvm.ptr
    %team32 = llvm.trunc %team : i64 to i32
    llvm.call @GOMP_parallel(%part, %job, %team32, %none) : (!llvm.ptr, !llvm.ptr, i32, i32) -> ()
    llvm.br ^done
"""
