"""torch.export of a module: until its calls leave nothing behind in Python, and with errors that say what to do."""

import contextlib
import warnings
from collections.abc import Collection
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import SUPPORTED_NODES

from inferno.capture.aliases import distinct_examples, name_outputs, remove_idle_dropout, unite_state
from inferno.capture.as_module import Function, of_parameters
from inferno.capture.autocast import State
from inferno.capture.host_numbers import place_exported
from inferno.capture.known_values import KnownValues
from inferno.capture.masked_parts import compute_wholes
from inferno.capture.masked_places import index_by_masks
from inferno.capture.nodes import is_library, is_of_jvp, is_of_vmap
from inferno.capture.python_state import Change, same_programs
from inferno.capture.random_state import RandomState
from inferno.capture.scalar_reads import take_items
from inferno.capture.signature import types_within
from inferno.capture.tracing import buffers_watched_as_before, to_trace, without_the_graph_so_far
from inferno.errors import CaptureError, StateNotKept, UnsupportedOperation
from inferno.faults import first_line


def export(
    model: Any, module: torch.nn.Module, args: tuple, kwargs: dict[str, Any], dynamic_shapes: Any, values: KnownValues | None = None,
    autocast: State = (),
) -> ExportedProgram:
    """The program of a call with these arguments; CaptureError says what cannot be captured, and what to do.  ``values``: the integers that it is made for."""
    try:
        with torch.no_grad(), warnings.catch_warnings(), torch.random.fork_rng(devices=[]), buffers_watched_as_before():
            warnings.simplefilter("ignore")
            args, kwargs = distinct_examples(module, args, kwargs)
            varying = of_parameters(module, args, kwargs, dynamic_shapes)
            program = _trace_settled(module, args, kwargs, varying, values, autocast)
            if any(map(is_of_jvp, program.graph.nodes)):  # its graph does not run, and leaves the process within a derivative where it stops
                raise CaptureError("torch.export has no graph of a forward-mode derivative (torch.func.jvp)")
            if any(map(is_of_vmap, program.graph.nodes)):
                program = program.run_decompositions({})  # operations of all samples, in place of those of one
            if unknown := types_within(program.call_spec.in_spec) - SUPPORTED_NODES.keys():
                raise CaptureError(f"an argument is a {unknown.pop().__name__}, which torch takes apart while it exports, but not at a call")
            _remove_failed(program)
            remove_idle_dropout(program)
            unite_state(program)
            take_items(program.graph)
            index_by_masks(program.graph)
            compute_wholes(program.graph)
            place_exported(program)
            name_outputs(program)
            return program
    except (UnsupportedOperation, CaptureError, StateNotKept):
        raise
    except Exception as error:
        line = _user_line(error)
        hint = "The model must be traceable by torch.export: no branches on tensors' values, and inputs that fit it"
        if "not a known type" in str(error):
            hint = "Return tensors, or teach torch the type by torch.utils._pytree.register_pytree_node; use_cache=False keeps caches out"
        raise CaptureError(
            f"{type(model).__name__ if isinstance(model, torch.nn.Module) else getattr(model, '__name__', 'the model')} could not be captured "
            f"as one graph{f' (at {line})' if line else ''}: {first_line(error)}. {hint}"
        ) from error


def _remove_failed(program: ExportedProgram) -> None:
    """An operation that raised, after which the model went another way (``try``), is in torch.export's graph, without a value."""
    for node in reversed(program.graph.nodes):
        returns = getattr(getattr(node.target, "_schema", None), "returns", ())
        if node.op == "call_function" and returns and not node.users and node.meta.get("val") is None:
            program.graph.erase_node(node)


def _trace_settled(
    module: torch.nn.Module, args: tuple, kwargs: dict[str, Any], varying: Any, values: KnownValues | None, autocast: State,
) -> ExportedProgram:
    """The program of a module whose calls leave nothing in Python that another call depends on: numbers that a call sets may be set, if the call
    behind it has the same program and sets no others.  Else CaptureError."""
    program: ExportedProgram | None = None
    changed: list[Change] = []
    while True:
        before, start, changed, numbers = program, changed, [], RandomState()
        watched = values.watching if values else contextlib.nullcontext
        constants: dict[int, torch.Tensor] = {}
        with to_trace(module, autocast, start, changed, constants) as traced, without_the_graph_so_far(), watched(traced):
            try:
                program = _trace(traced, args, kwargs, varying)
                if drawn := numbers.changes():
                    raise CaptureError(f"forward uses or sets {' and '.join(drawn)}, which are those of the trace in a graph")
            finally:
                numbers.restore()
        if not changed and (not start or same_programs(before, program)):
            _keep_constants(program, constants.values())
            if isinstance(module, Function):
                _drop_unread(program)
            return program
        if start or not all(c.is_number for c in changed):
            names = list(dict.fromkeys(c.name for c in (*changed, *start)))
            if lost := next((c.name for c in (*changed, *start) if c.falls_out), None):
                raise StateNotKept(f"forward changes {lost}, a deque with maxlen, of which Dynamo keeps what falls out: use a list, and delete from it")
            raise CaptureError(
                f"forward changes what is no tensor of its graph: {', '.join(names[:5])}{', ...' * (len(names) > 5)}; "
                f"a buffer or an argument that it writes to would be one"
            )


def _drop_unread(program: ExportedProgram) -> None:
    """Leave out parameters and buffers that a function might have read, and does not."""
    specs = program.graph_signature.input_specs
    for node, spec in list(zip(program.graph.find_nodes(op="placeholder"), specs, strict=True)):
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER) and not node.users:
            program.graph.erase_node(node)
            specs.remove(spec)


def _keep_constants(program: ExportedProgram, originals: Collection[torch.Tensor]) -> None:
    """Let the program's constants be the model's own tensors, in place of others of the same memory: these may get other data."""
    for name, constant in program.constants.items():
        if isinstance(constant, torch.Tensor) and type(constant) is torch.Tensor and constant.numel():
            program.constants[name] = next((t for t in originals if _is_same(t, constant)), constant)


def _is_same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.data_ptr() == b.data_ptr() and a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()


def _trace(module: torch.nn.Module, args: tuple, kwargs: dict[str, Any], dynamic_shapes: Any) -> ExportedProgram:
    """torch.export; where sizes do not vary as asked, once more with attention as plain operations: a fused kernel's questions to its
    inputs (on a GPU, whether a mask padded to eights has a row of one) become conditions that torch cannot prove, and so do orders of
    strides; those are asserted then.  A condition on which the program depends is still an error."""
    from torch._dynamo.exc import UserError  # (1.3 s, which loading a package does not take)

    try:
        return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    except UserError:
        if not dynamic_shapes:
            raise
        with sdpa_kernel(SDPBackend.MATH):
            return torch.export.export(
                module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False, prefer_deferred_runtime_asserts_over_guards=True,
            )


def _user_line(error: BaseException) -> str:
    """``file:line`` of the innermost frame that is neither torch's nor ours."""
    found, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not is_library(name) and "/inferno/" not in name and not name.startswith("<frozen"):
            found = f"{name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found
