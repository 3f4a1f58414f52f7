"""Run a plan on the CPU: native kernels, many in one call, and torch's own matmul between them."""

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from inferno.codegen.cpu.native_checks import BY_ZERO
from inferno.errors import CompileError, DivisionByZero, IndexOutOfRange
from inferno.runtime.elements import DTYPES
from inferno.runtime.launch.library import FUNCTIONS
from inferno.runtime.launch.native import BASES, FIRST, REPORT, ROWS, THREADS, address_program, openmp_library, run_program
from inferno.runtime.launch.shared_memory import as_laid
from inferno.runtime.plan.complex_numbers import as_real
from inferno.runtime.plan.plan import Buffer, Launch, LibraryCall, Plan, Scalar
from inferno.targets.cpu import ENTRY, NativeCode
from inferno.targets.cpu import REPORT as REPORTING

# Two threads break even with one where a kernel touches 256 KB (4.4 us a call) and win beyond: x + 1 in float32 on two EPYC cores.
BYTES_PER_THREAD = 1 << 17
ALIGNMENT = 256  # bytes of the workspace, as ``plan/memory.py`` aligns the buffers in it


class Code:
    """The native code of a plan's kernels: ``run`` takes the address of a state, ``addresses`` are the kernels' entries, ``reports`` says
    whether one of them may report what eager refuses."""

    def __init__(self, plan: Plan, texts: dict[str, str]) -> None:
        """``texts``: LLVM dialect text by kernel name."""
        launches = [s for s in plan.steps if isinstance(s, Launch)]
        entries = list(dict.fromkeys(_entry(s) for s in launches))
        self.reports = any(REPORTING in t for t in texts.values())
        most = max((len(s.parameters) for s in launches), default=0)
        self._runner = _runner(1 << max(4, most.bit_length()))  # held: of several threads that ask first each makes one, and the cache keeps the last
        self.run = self._runner.function("inferno_run")
        self._native = NativeCode([*(t for t in texts.values() if t), address_program(entries)])
        array = (ctypes.c_int64 * (len(entries) + 1))()
        value = ctypes.c_int64(ctypes.addressof(array))
        slot = ctypes.c_int64(ctypes.addressof(value))
        self._native.function("inferno_addresses")(ctypes.addressof(slot))
        self.addresses = dict(zip(entries, array))


@functools.cache
def _runner(buffers: int) -> NativeCode:
    """What runs launches of up to so many buffers, whatever the kernels are: it takes 30 ms, half as long as a small kernel."""
    library = openmp_library()
    return NativeCode([run_program(buffers, library is not None)], [library] if library else [])


class CpuExecutable:
    """A plan with its native code.  Safe to run from several threads: each call has a context of its own."""

    def __init__(self, plan: Plan, code: "Code", dtypes: Sequence[torch.dtype]) -> None:
        """``plan`` has numbers for all sizes; ``dtypes``: of the outputs, which tell signed from unsigned."""
        self.plan = plan
        self._dtypes = tuple(dtypes)
        for step in plan.steps:
            if isinstance(step, LibraryCall) and step.function not in FUNCTIONS:
                raise CompileError(f"the plan calls {step.function}, which is not among {', '.join(FUNCTIONS)}")
        self._fresh = [i for i, o in enumerate(plan.outputs) if o.result == i]
        self._shapes = [(plan.outputs[i].shape, dtypes[i]) for i in self._fresh]
        self._simple = [o.result for o in plan.outputs] == self._fresh
        self._code, self._run = code, code.run
        # Words of the state: the arguments' addresses, the fresh results', the workspace's, the numbers'.
        self._bases = {("argument", i): BASES + i for i in range(len(plan.arguments))}
        self._bases.update({("result", i): BASES + len(plan.arguments) + n for n, i in enumerate(self._fresh)})
        self._workspace_word = BASES + len(plan.arguments) + len(self._fresh)
        self.shares = False  # whether threads share any of the kernels
        self._numbers = (ctypes.c_int64 * max(1, len(numbers := _numbers(plan))))(*numbers)
        self._segments, self._rows = self._build_segments(code.addresses, {n: i for i, n in enumerate(numbers)})
        self.contexts: list[_Context] = []  # free ones; append and pop are atomic

    def _build_segments(self, addresses: dict[str, int], numbers: dict[int, int]) -> tuple[list, ctypes.Array]:
        """Steps as (first word of the rows, number of rows) or (library function, its buffers); and the rows.  A kernel gets a size as
        the address of one of ``numbers``."""
        segments: list = []
        words: list[int] = []
        for step in self.plan.steps:
            if isinstance(step, LibraryCall):
                segments.append((FUNCTIONS[step.function](step.options), step.parameters))
                continue
            if segments and isinstance(segments[-1][0], int):
                segments[-1] = (segments[-1][0], segments[-1][1] + 1)
            else:
                segments.append((len(words), 1))
            touched = sum(math.prod(p.shape) * DTYPES[p.element].itemsize for p in step.parameters if isinstance(p, Buffer))
            most = min(step.grid[0], touched // BYTES_PER_THREAD)
            self.shares = self.shares or most > 1
            words += [addresses[_entry(step)], step.grid[0], most, len(step.parameters)]
            for p in step.parameters:
                if isinstance(p, Scalar):
                    words += [self._workspace_word + 1, 8 * numbers[p.value]]
                    continue
                words += [self._workspace_word, p.index] if p.place == "workspace" else [self._bases[p.place, p.index], p.offset]
        rows = (ctypes.c_int64 * max(1, len(words)))(*words)
        base = ctypes.addressof(rows)
        return [(base + 8 * s[0], s[1]) if isinstance(s[0], int) else s for s in segments], rows

    @property
    def all_results_are_new(self) -> bool:
        """Whether no result is an argument, or another result in another shape."""
        return self._simple

    @property
    def only_segment(self) -> tuple[int, int] | None:
        """The state's first two words where one call of the native code runs the whole plan, else None."""
        return self._segments[0] if len(self._segments) == 1 and isinstance(self._segments[0][0], int) else None

    @property
    def native(self) -> Callable[[int], None]:
        """The native code; takes the address of a context's state."""
        return self._run

    @property
    def reports(self) -> bool:
        """Whether the report in the state must be looked at after a run."""
        return self._code.reports

    def fail(self, state: ctypes.Array) -> None:
        """Raise the error that a run left in ``state``: IndexOutOfRange or DivisionByZero."""
        done = 0
        for first, second in self._segments:
            if first == state[FIRST]:
                break
            done += second if isinstance(first, int) else 1
        step = self.plan.steps[done + second - state[ROWS]]
        where = f"in kernel {step.kernel.split('::')[0].removesuffix('_code')} ({', '.join(step.source) or 'its source is not known'})"
        if state[REPORT] == BY_ZERO:
            raise DivisionByZero(f"an integer is divided by zero {where}: every divisor must be nonzero")
        raise IndexOutOfRange(
            f"an index is out of range {where}: each must be at least 0, or minus the size of its dimension where indices count from the "
            f"end, and below that size"
        )

    def new_results(self) -> list[Tensor]:
        return [torch.empty(shape, dtype=dtype, device="cpu") for shape, dtype in self._shapes]

    def new_context(self) -> "_Context":
        return _Context(self)

    def run(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """The outputs for these arguments, which must be contiguous."""
        fresh = self.new_results()
        try:
            context = self.contexts.pop()
        except IndexError:
            context = self.new_context()
        state, base = context.state, context.base
        word = BASES
        for tensor in arguments:
            state[word] = tensor.data_ptr()
            word += 1
        for tensor in fresh:
            state[word] = tensor.data_ptr()
            word += 1
        state[THREADS], state[REPORT] = torch.get_num_threads(), 0
        for segment in context.segments:
            first, second = segment
            if isinstance(first, int):
                state[FIRST], state[ROWS] = segment
                self._run(base)
                if state[REPORT]:
                    self.fail(state)
            else:
                with torch.no_grad():
                    first(*[view(arguments, fresh) for view in second])
        self.contexts.append(context)
        if self._simple:
            return fresh
        owned = dict(zip(self._fresh, fresh))
        # The plan knows bits, not types: what is int8 for one output may be uint8 for another, or for the argument.
        given = [arguments[o.argument] if o.argument >= 0 else owned[o.result] for o in self.plan.outputs]
        return [as_laid(t, o.shape, dtype) for t, o, dtype in zip(given, self.plan.outputs, self._dtypes)]


class _Context:
    """What one call at a time uses: the state, and the workspace, which stays, since making memory anew costs more than to
    compute in it."""

    def __init__(self, executable: CpuExecutable) -> None:
        plan = executable.plan
        self.state = (ctypes.c_int64 * (executable._workspace_word + 2))()
        self.base = ctypes.addressof(self.state)
        self.state[0], self.state[1] = self.base + 8, self.base  # the engine wants a pointer to a pointer to the argument
        memory = torch.empty(plan.workspace_bytes + ALIGNMENT, dtype=torch.uint8, device="cpu")
        self._workspace = memory[-memory.data_ptr() % ALIGNMENT :]  # torch aligns to 64
        self.state[executable._workspace_word] = self._workspace.data_ptr()
        self.state[executable._workspace_word + 1] = ctypes.addressof(executable._numbers)
        self.segments = [
            s if isinstance(s[0], int) else (s[0], [self._view(executable, b) for b in s[1]]) for s in executable._segments
        ]

    def _view(self, executable: CpuExecutable, buffer: Buffer) -> Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor]:
        """Gives the tensor of a buffer, from the call's arguments and fresh results."""
        if buffer.place == "workspace":
            dtype = DTYPES[buffer.element]
            end = buffer.index + dtype.itemsize * math.prod(buffer.shape)
            tensor = self._workspace[buffer.index : end].view(dtype).view(buffer.shape)
            return lambda arguments, fresh: tensor
        begin, number = buffer.offset // DTYPES[buffer.element].itemsize, buffer.index
        if begin:
            whole = self._view(executable, replace(buffer, offset=0))
            return lambda arguments, fresh: whole(arguments, fresh).view(-1)[begin : begin + math.prod(buffer.shape)].view(buffer.shape)
        if buffer.place == "argument":
            return lambda arguments, fresh: as_real(arguments[number], buffer.element)
        number = executable._fresh.index(number)
        return lambda arguments, fresh: as_real(fresh[number], buffer.element)


def _numbers(plan: Plan) -> list[int]:
    """The sizes that kernels get as numbers, each once."""
    steps = [s for s in plan.steps if isinstance(s, Launch)]
    return list(dict.fromkeys(p.value for s in steps for p in s.parameters if isinstance(p, Scalar)))


def _entry(step: Launch) -> str:
    return step.kernel.split("::")[1] + ENTRY
