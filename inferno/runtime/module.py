"""The compiled module: what a user calls, prints and asks."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from inferno.capture import Argument, autocast
from inferno.capture.as_module import modules_of
from inferno.errors import InputError, LaunchError
from inferno.runtime.executables import constants_of, make_executable, make_prepared
from inferno.runtime.face import Face, compile_again, rebind
from inferno.runtime.call.finish import Finish
from inferno.runtime.call.transforms import in_memory, run_model, why_eager
from inferno.runtime.prepared import Prepared
from inferno.runtime.program import Program
from inferno.runtime.report import counted
from inferno.runtime.call.sizes import SizeCheck, expected_shape

log = logging.getLogger(__name__)


class CompiledModule(Face):
    """A compiled model.  Call it like the model; ``ir(stage)`` prints it at any stage, ``explain()`` says what became of it.

    Inputs must have the shapes, dtypes and device of the examples, but for sizes that vary; any strides will do.  Safe to call from several threads.
    """

    _regions: tuple = ()  # none where there is one program and nothing else
    _autocast: autocast.State = ()  # what it was compiled within

    def __init__(self, program: Program, device: torch.device, seconds: float, interpret: bool = False, cuda_graphs: bool = False) -> None:
        """``interpret``: the plan is run without a compiler; ``cuda_graphs``: as CUDA graphs (see ``GpuExecutable``)."""
        self.programs = (program,)
        self.fallbacks = ()
        executable = make_executable(program, device, [r.dtype for r in program.signature.results], interpret, cuda_graphs)
        constants = constants_of(program, device)
        self._bind(program, device, seconds, executable, constants, make_prepared(program, device, constants, interpret))
        self._fast = _fast_call(self)

    def _bind(
        self, program: Program, device: torch.device, seconds: float, executable: Any, constants: list[torch.Tensor], prepared: Prepared | None = None,
    ) -> None:
        self.program = program
        self.device = device
        self.compile_seconds = seconds
        signature = program.signature
        self._executable = executable
        self._constants = constants
        self._prepared = prepared
        self._expected = [
            (expected_shape(a), a.dtype, a.kind == "input", a.kind == "input" or a.dtype.is_complex, a.kind != "input" and a.order is not None)
            for a in signature.arguments
        ]
        self._check_sizes = SizeCheck(signature) if any(shape is None for shape, *_ in self._expected) else None
        self._finish = Finish(signature, executable) if executable else None
        self._elsewhere: dict[autocast.State, Face] = {}
        self._arity, self._names = signature.simple_arity, signature.simple_names
        self._fast = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._before is not None and self._before():
            return self._hooked(args, kwargs)
        if self._fast is not None and len(args) == self._arity and len(kwargs) == len(self._names):
            if not kwargs:
                return self._fast(*args)
            try:
                named = [kwargs[name] for name in self._names]
            except KeyError:
                return self._call(args, kwargs)
            return self._fast(*args, *named)
        return self._call(args, kwargs)

    def _run(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        return self._call(args, kwargs)

    def _parts(self, model: Any) -> dict[str, torch.nn.Module]:
        tables = {id(table) for _, table, _ in self.program.signature.held}
        parts = modules_of(model) if isinstance(model, Callable) else {}
        return {n: m for n, m in parts.items() if not m.state_dict() or any(id(t) in tables for s in m.modules() for t in (s._parameters, s._buffers))}

    def _copy_for(self, model: Any, memo: dict[int, Any]) -> "CompiledModule":
        copied = type(self).__new__(type(self))
        copied.__dict__.update({k: v for k, v in self.__dict__.items() if k not in (*copied.__dict__, "_call")})
        program = replace(self.program, signature=rebind(self.program.signature, self._model, model, memo))
        copied._bind(program, self.device, self.compile_seconds, self._executable, self._constants, self._prepared and self._prepared.copy())
        if len(self.programs) == 1 and self.programs[0] is self.program:
            copied.programs = (program,)
            copied._fast = _fast_call(copied)
        copied.hold_for(self._autocast)
        return copied.attach(model, self._recipe)

    def _call(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The general way of a call: any nesting, any strides, and the errors."""
        if self._executable is None:
            raise LaunchError(
                f"compiled for {self.program.target.name}, which is not what {self.device} is; "
                f"ir() and explain() work, calls need that machine"
            )
        if (reason := why_eager()) is not None:
            return run_model(self, reason, args, kwargs)
        state = autocast.around()
        if not state and not self._autocast:
            return self._call_plain(args, kwargs)
        if state != self._autocast and self._recipe is not None and not isinstance(self._model, torch.export.ExportedProgram):
            return self._call_within(state, args, kwargs)
        with autocast.outside(state):
            return self._call_plain(args, kwargs)

    def hold_for(self, state: autocast.State) -> None:
        """Calls within ``state`` of autocast are its own; for others the model is compiled once more."""
        self._autocast = state
        if state:
            self._fast = None

    def _call_within(self, state: autocast.State, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call of the model compiled for another state of autocast than this."""
        if state not in self._elsewhere:
            log.info("compiled again: it is called within %s, and was compiled within %s", *map(autocast.describe, (state, self._autocast)))
            self._elsewhere[state] = compile_again(self._model, self._recipe)
        other = self._elsewhere[state]
        if isinstance(other, CompiledModule):
            return other._run(args, kwargs)
        if self._before is not None and self._before():  # this call has run the model's hooks, and the other would
            return run_model(self, f"it has hooks, and is called within {autocast.describe(state)}", args, kwargs)
        return other(*args, **kwargs)

    def _call_plain(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """With autocast off."""
        signature, device = self.program.signature, self.device
        tensors = signature.arguments_of(args, kwargs)
        if (reason := why_eager(tensors)) is not None:
            return run_model(self, reason, args, kwargs)
        if self._check_sizes is not None:
            self._check_sizes(tensors)
        ready = tensors
        # Weights that are read to prepare alone need not be ready to be read.
        unread = self._prepared.only if self._prepared is not None and self._prepared.holds(tensors) else ()
        for i, (tensor, (shape, dtype, is_input, may_be_lazy, permuted)) in enumerate(zip(tensors, self._expected)):
            if (
                permuted or not isinstance(tensor, torch.Tensor) or (shape is not None and tensor.shape != shape)
                or tensor.dtype is not dtype or tensor.device != device
                or not tensor.is_contiguous() or (address := tensor.data_ptr()) & 15 or (is_input and tensor.requires_grad)
                or (not address and tensor.numel()) or (may_be_lazy and (tensor.is_conj() or tensor.is_neg()))
            ) and i not in unread:
                ready = list(tensors) if ready is tensors else ready
                ready[i] = self._adapt(i, tensor)
        self._finish.check(tensors)
        if self._prepared is not None:
            ready = [*ready, *self._constants, *self._prepared.get(tensors, ready)]
        elif self._constants:
            ready = [*ready, *self._constants]
        return self._finish(tensors, self._executable.run(ready))

    def refresh(self) -> None:
        """Prepare frozen weights again, as after a change of theirs that torch does not count; see ``docs/freezing.md``."""
        for other in self._elsewhere.values():
            other.refresh()
        if self._prepared is None or self._executable is None:
            return
        self._prepared.forget()
        signature = self.program.signature
        tensors: list[Any] = [None] * len(signature.arguments)
        for i, table, key in signature.held:
            tensors[i] = table.get(key)
        ready = list(tensors)
        for i in self._prepared.weights:
            ready[i] = self._adapt(i, tensors[i])
        with torch.no_grad():
            self._prepared.get(tensors, ready)

    def _adapt(self, index: int, tensor: Any) -> torch.Tensor:
        """The tensor as the kernels need it, contiguous and 16-byte aligned; InputError if it does not fit at all."""
        argument = self.program.signature.arguments[index]
        shape, dtype, is_input, *_ = self._expected[index]
        if not isinstance(tensor, torch.Tensor):
            like = f"{tuple(argument.outer_shape)} {dtype}"
            raise InputError(f"argument {argument.name}: expected a tensor of {like}, got {type(tensor).__name__} {' '.join(repr(tensor).split()):.100}")
        if tensor.layout is not torch.strided:
            layout = str(tensor.layout).removeprefix("torch.")
            raise InputError(f"argument {argument.name}: expected a dense tensor, got one of layout {layout}; pass {argument.name}.to_dense()")
        elsewhere = tensor.device != self.device and not (tensor.dim() == 0 and tensor.device.type == "cpu")
        if (shape is not None and tensor.shape != shape) or tensor.dtype is not dtype or elsewhere:
            self._refuse(argument, tensor)
        if is_input and tensor.requires_grad and torch.is_grad_enabled():
            raise InputError(
                f"argument {argument.name}: expected a tensor that needs no gradient, got one with requires_grad=True; "
                f"compiled modules compute no gradients: call under torch.no_grad() or pass {argument.name}.detach()"
            )
        if tensor.device != self.device:
            tensor = tensor.to(self.device)  # a scalar, which may come from the CPU as it may in eager
        if argument.kind != "input" and argument.order is not None:
            tensor = tensor.permute(argument.order)
        return in_memory(tensor.detach().contiguous())

    def _refuse(self, argument: Argument, tensor: torch.Tensor) -> None:
        given = tuple(tensor.shape)
        if argument.kind == "input" and argument.order is not None and len(given) == len(argument.order):
            given = tuple(given[argument.order.index(d)] for d in range(len(given)))
        if argument.part is not None and given == argument.shape:
            given = argument.part.shape
        expected = f"{tuple(argument.outer_shape)} {argument.dtype} on {self.device}"
        got = f"{given} {tensor.dtype} on {tensor.device}"
        raise InputError(
            f"argument {argument.name}: expected {expected}, got {got}; "
            f"pass a tensor like the example's or compile again for this one",
        )

    def ir(self, stage: str) -> str:
        """The program's text at ``stage``, one of torch, linalg, fused, scheduled, gpu, llvm, ptx, sass."""
        return self.program.ir(stage)

    def explain(self, *args: Any, **kwargs: Any) -> Any:
        """A report: each kernel with what it fuses, its generator and schedule, grid, registers, flops and bytes; and each piece
        that runs in eager, with the reason.  Given the arguments of a call, that call is timed, and each piece's share of it."""
        from inferno.runtime.report import report_of

        timing = self._measure(args, kwargs) if args or kwargs else None
        steps = [region.steps for region in (self._regions if timing is None else [self._regions[i] for i in timing.steps])]  # those that run
        return report_of(self.program.target.name, self.programs, self.fallbacks, self.compile_seconds, steps=steps, timing=timing)

    def _measure(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The times of a call, which is run several times and leaves no trace."""
        from inferno.runtime.check.restoring import restored
        from inferno.runtime.region.timing import measure

        signature = self.program.signature
        tensors = signature.arguments_of(args, kwargs)
        written = [tensors[r.target] for r in signature.results if r.kind == "mutation"]

        def prepare() -> Callable[[], Any]:
            restore()
            return lambda: self._run(args, kwargs)

        with restored(written, [self.device]) as restore:
            self._run(args, kwargs)
            return measure(prepare, self._regions, self.device)

    def save(self, path: Any, ir: bool = True) -> None:
        """Write the program and its weights, as they are now, to one file that ``inferno.load`` reads; see ``package.save``."""
        from inferno.runtime.package.save import save

        save(self, path, ir)

    def __repr__(self) -> str:
        return f"CompiledModule({counted(len(self.program.kernels), 'kernel')} for {self.program.target.name})"


def _fast_call(compiled: CompiledModule) -> Any:
    """The function that calls of the usual kind go to; None where there is none."""
    if compiled._executable is None:
        return None
    if compiled.program.target.kind == "cpu" and compiled._check_sizes is not None:
        from inferno.runtime.call.sized import make_sized_cpu_call as make
    elif compiled.program.target.kind == "cpu":
        from inferno.runtime.call.cpu import make_fast_cpu_call as make
    else:
        from inferno.runtime.call.gpu import make_fast_call as make
    signature = compiled.program.signature
    count, names = signature.simple_arity, signature.simple_names
    slow = (lambda *given: compiled._call(given[:count], dict(zip(names, given[count:])))) if names else lambda *given: compiled._call(given, {})
    return make(signature, compiled._executable, compiled._constants, slow, compiled._prepared)
