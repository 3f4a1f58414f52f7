"""``inferno.compile``: from a model to a CompiledModule."""

import contextlib
import functools
import logging
import operator
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from inferno.capture import Captured, Exported, autocast, export_model
from inferno.capture.as_module import leaf_names
from inferno.capture.devices import capturing_for
from inferno.capture.dynamic_shapes import check_dynamic_shapes
from inferno.capture.examples import check_examples
from inferno.capture.known_values import KnownValues, asks_for_values, known_values, reads_tokens, unrolls
from inferno.capture.refusal import selects_by_constants, preferences, refusals
from inferno.capture.replace_draws import draws
from inferno.errors import CaptureError, CompileError, InfernoError, InputError, ModelChanged, NoLowering, PassError, UnsupportedOperation, level_of
from inferno.faults import Fault, as_faults
from inferno.options import Options, make_options
from inferno.runtime.build import build_program, build_text, text_key
from inferno.runtime.cache.cache import open_cache
from inferno.runtime.cache.recall import capture_key, recall, remember
from inferno.runtime.call.transforms import run_plain
from inferno.runtime.database import require_gpus
from inferno.runtime.device import choose_target, features, find_device
from inferno.runtime.face import Face, make_recipe
from inferno.runtime.garbage import collection_paused
from inferno.runtime.module import CompiledModule
from inferno.runtime.prepared import freeze, shares
from inferno.runtime.region.generator import generator_of
from inferno.runtime.report import counted
from inferno.runtime.workers.pool import pool
from inferno.target import Target
from inferno.tf32 import takes_tf32

log = logging.getLogger(__name__)

# A worker that is started for each so many nodes of an exported graph has work: BERT-base's 450 make 18 kernels, TinyLlama's 1500 make 43.
_NODES = 30
# With what a model ends that does not become one graph.
_NO_GRAPH = (CaptureError, UnsupportedOperation, Fault)


def compile(
    model: Any = None, example_inputs: Sequence[Any] | Any = None, *, inputs: Sequence[Any] | Any = None,
    kwargs: dict[str, Any] | None = None, dynamic_shapes: Any = None, **options: Any,
) -> Any:
    """Compile ``model`` for inputs like ``example_inputs``.

    ``model`` is an nn.Module, a function of tensors or a torch.export.ExportedProgram; ``example_inputs`` are its
    positional arguments (one tensor may stand alone) and ``kwargs`` its keyword arguments.  ``dynamic_shapes`` says which
    sizes vary from call to call, as ``torch.export.export`` takes it.  The other options are those of ``inferno.options``:
    ``target`` names the machine to compile for (``sm_90a``, ``cpu``, ...), by default the one that the tensors are on.

    Returns a CompiledModule, which is called like the model.  What cannot be compiled runs in eager between the compiled
    segments, and a model that is not one graph is captured in several by Dynamo.  Without a model this is a decorator,
    ``@inferno.compile(inputs=...)``: on a function it compiles at once, on an nn.Module class each instance compiles at
    its first call.

    Raises InputError for example inputs that the model cannot be called with, and OptionError for an unknown option or target, and for
    sizes in ``dynamic_shapes`` that the example does not have.  With
    ``fallback=False``, CaptureError when the model is not one graph of tensor operations, and UnsupportedOperation for an operation
    that has no way into the compiler.  The model is not run and not changed.  With ``check=True`` the first call raises CheckError
    if its result is wrong.
    """
    if example_inputs is not None and inputs is not None:
        raise InputError("give example_inputs or inputs, not both: they are the same thing, inputs= is for the decorator")
    examples = inputs if example_inputs is None else example_inputs
    request = _Request(make_options(options), dynamic_shapes)
    if isinstance(model, Face):
        raise InputError(f"model: expected an nn.Module, a function or an ExportedProgram, got {model!r}, which is compiled; compile what it was compiled of")
    if isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        raise InputError("model: TorchScript, of which torch makes no graph; compile the nn.Module or function that it was made of")
    if model is None:
        return functools.partial(_decorate, examples=examples, kwargs=kwargs, request=request)
    if isinstance(model, type) or (example_inputs is None and inputs is not None):
        return _decorate(model, examples=examples, kwargs=kwargs, request=request)
    if examples is None and not kwargs and not isinstance(model, torch.export.ExportedProgram):
        raise InputError("example_inputs is missing: pass a tuple of tensors like those that the model will be called with")
    return _compile(model, _as_tuple(examples), kwargs or {}, request)


@dataclass(frozen=True)
class _Request:
    """How to compile, beside the model and its inputs."""

    options: Options
    dynamic_shapes: Any = None


def _as_tuple(examples: Any) -> tuple:
    if examples is None:
        return ()
    return tuple(examples) if isinstance(examples, (tuple, list)) else (examples,)


def _decorate(model: Any, *, examples: Any, kwargs: dict[str, Any] | None, request: _Request) -> Any:
    if isinstance(model, type):
        if not issubclass(model, torch.nn.Module):
            raise InputError(f"model: expected a torch.nn.Module class or a function, got class {model.__name__}")
        return _compiled_class(model, examples, kwargs, request)
    compiled = _compile(model, _as_tuple(examples), kwargs or {}, request)
    return functools.update_wrapper(compiled, model) if isinstance(model, Callable) and hasattr(model, "__name__") else compiled


def _compiled_class(cls: type, examples: Any, kwargs: dict[str, Any] | None, request: _Request) -> type:
    """A subclass whose instances compile at their first call, for ``examples`` or, without them, for that call's arguments."""

    def compiled(self: torch.nn.Module, *args: Any, **keywords: Any) -> CompiledModule:
        state = self.__dict__
        if "_inferno" not in state:
            state["_inferno"] = None  # the capture calls the module: let it through to the original
            try:
                given, named = (args, keywords) if examples is None else (_as_tuple(examples), kwargs or {})
                state["_inferno"] = _compile(self, given, named, request)
            finally:
                if state["_inferno"] is None:
                    del state["_inferno"]
        return state["_inferno"]

    class Compiled(cls):
        def __call__(self, *args: Any, **keywords: Any) -> Any:
            if self.__dict__.get("_inferno", self) is None:
                return super().__call__(*args, **keywords)
            try:
                return compiled(self, *args, **keywords)(*args, **keywords)
            except ModelChanged:
                del self.__dict__["_inferno"]
            return compiled(self, *args, **keywords)(*args, **keywords)

        def __getstate__(self) -> dict[str, Any]:
            return {k: v for k, v in self.__dict__.items() if k != "_inferno"}  # a copy compiles at its own first call

        def ir(self, stage: str) -> str:
            """The IR at ``stage``; the instance must have been called, or the decorator must hold the inputs."""
            return _existing(self).ir(stage)

        def explain(self, *args: Any, **keywords: Any) -> Any:
            """The report; the instance must have been called, or the decorator must hold the inputs.  Given a call's arguments, it is timed."""
            return _existing(self).explain(*args, **keywords)

    def _existing(self: torch.nn.Module) -> CompiledModule:
        if examples is None and "_inferno" not in self.__dict__:
            raise InputError(f"{cls.__name__} has not been compiled yet: call it once, or give inputs= to the decorator")
        return compiled(self)

    return functools.update_wrapper(Compiled, cls, updated=())


def _compile(model: Any, args: tuple, kwargs: dict[str, Any], request: _Request, values: KnownValues | None = None) -> CompiledModule:
    check_examples(model, args, kwargs)
    check_dynamic_shapes(model, args, kwargs, request.dynamic_shapes)
    state = autocast.around()
    with collection_paused(), autocast.outside(state), as_faults("compiling the model"):
        compiled = _compile_unchecked(model, args, kwargs, request, values, state)
    if isinstance(compiled, CompiledModule):
        compiled.hold_for(state)
    compiled.attach(model, make_recipe(args, kwargs, request.dynamic_shapes, asdict(request.options)))
    if request.options.check and isinstance(compiled, CompiledModule):  # graphs that Dynamo captures are checked one by one
        from inferno.runtime.check.checking import check_first_call

        return check_first_call(compiled, model)
    return compiled


def _compile_unchecked(
    model: Any, args: tuple, kwargs: dict[str, Any], request: _Request, values: KnownValues | None, state: autocast.State,
) -> CompiledModule:
    device = find_device(model, args, kwargs)
    target = choose_target(request.options.target, device)
    if request.options.tune:
        require_gpus(target)
    with capturing_for(target.hopper):
        return _compile_for(target, device, model, args, kwargs, request, values, state)


def _compile_apart(
    model: Any, args: tuple, kwargs: dict[str, Any], request: _Request, target: Target, device: torch.device, error: InfernoError,
) -> Face:
    """A model that is not one graph: for the values of integers that decide on sizes it may be one, else Dynamo captures it in several."""
    from inferno.runtime.region.dynamo import DynamoModule

    def by_dynamo(model: Any) -> Face:
        log.log(level_of(error), "not one graph, so Dynamo captures it: %s", error)
        made = DynamoModule(model, args, kwargs, request.options, target, device, str(error))
        return made.attach(model, make_recipe(args, kwargs, request.dynamic_shapes, asdict(request.options)))

    def for_values(model: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[CompiledModule, set]:
        values = known_values(model, args, kwargs)
        return _compile(model, args, kwargs, request, values), values.used

    if asks_for_values(error) and not request.dynamic_shapes:
        from inferno.runtime.values import ValuesModule

        try:
            compiled, used = for_values(model, args, kwargs)
            names = leaf_names(model, args, kwargs, len(tree_leaves((args, kwargs))))
            return ValuesModule(model, args, kwargs, compiled, used, names, for_values, by_dynamo) if used else compiled
        except _NO_GRAPH as other:
            log.info("nor for the values of integers: %s", other)
    return by_dynamo(model)


def _compile_for(
    target: Target, device: torch.device, model: Any, args: tuple, kwargs: dict[str, Any], request: _Request, values: KnownValues | None,
    state: autocast.State,
) -> CompiledModule:
    """Capture the model, and compile it whole where that can be, else in pieces."""
    begin = time.perf_counter()
    options, tf32 = request.options, takes_tf32()
    may_fall_back = options.fallback and not isinstance(model, torch.export.ExportedProgram) and values is None
    try:
        exported = export_model(model, args, kwargs, request.dynamic_shapes, values, state)
        if values is not None:
            _check_values(exported, values)
        key = capture_key(exported, target, {**asdict(options), "tf32": tf32, "features": features()})
        program = recall(key, exported, target) if key else None
        if program is not None:
            log.info("from the cache: %s for %s", counted(len(program.kernels), "kernel"), target.name)
            return CompiledModule(program, device, time.perf_counter() - begin, cuda_graphs=options.cuda_graphs)
        if key or not open_cache():  # there is something to compile, unless only the capture was not kept
            pool().warm(1 + len(exported.program.graph.nodes) // _NODES, target.kind)
        captured = exported.capture()
        if options.freeze is not False:
            captured = replace(captured, frozen=freeze(captured.signature, options.freeze))
    except _NO_GRAPH as error:
        if not may_fall_back:
            raise
        return _compile_apart(model, args, kwargs, request, target, device, error)
    if values is None and request.dynamic_shapes is None and selects_by_constants(captured.graph):
        with contextlib.suppress(*_NO_GRAPH):
            return _compile_for(target, device, model, args, kwargs, request, KnownValues({}), state)
    log.info("captured in %.2f s", time.perf_counter() - begin)
    failures: dict[str, InfernoError] = {}
    compiled = _compile_whole(exported, captured, key, target, device, tf32, options, failures, begin)
    if compiled is None:
        from inferno.runtime.region.region import GraphFailed

        try:
            with as_faults("compiling the model's graph in pieces"):
                compiled = _compile_pieces(exported, captured, target, device, tf32, options, failures, begin)
        except (GraphFailed, Fault) as error:
            if not options.fallback:
                raise
            compiled = _run_original(exported, captured, target, device, begin, error)
        except (CompileError, PassError, UnsupportedOperation) as error:
            if not may_fall_back or request.dynamic_shapes is None:
                raise
            log.log(level_of(error), "not for every size, so by pieces, where each call's may be numbers: %s", error)
            return _compile_apart(model, args, kwargs, request, target, device, error)
    log.info("compiled for %s: %s, %.2f s", target.name, counted(len(compiled.program.kernels), "kernel"), compiled.compile_seconds)
    return compiled


def _check_values(exported: Exported, values: KnownValues) -> None:
    """CaptureError where a model is not to be compiled for the values of a call's integers."""
    if reads_tokens(exported.program, values.used):
        raise CaptureError("tokens decide on sizes, and each text would be compiled")
    if unrolls(exported.program):
        raise CaptureError("recurrent layers of many steps are left beside the pieces")


def _compile_whole(
    exported: Exported, captured: Captured, key: str | None, target: Target, device: torch.device, tf32: bool, options: Options,
    failures: dict[str, InfernoError], begin: float,
) -> CompiledModule | None:
    """The graph as one program.  None where some of it has to run in eager, or it does not compile: then its text is among ``failures``.  ``begin``: when
    compiling began, in seconds."""
    generator = generator_of(device)
    if generator is not None and draws(captured.graph, generator):  # a region gives its segments the generator's states
        return None
    if options.fallback and (refusals(captured.graph, device) or preferences(captured.graph, device)):
        return None
    try:
        program = build_program(captured, target, tf32, explain=not options.fallback, matmul=options.matmul, tune=options.tune)
        compiled = CompiledModule(program, device, time.perf_counter() - begin, cuda_graphs=options.cuda_graphs)
        if key:
            remember(key, exported, captured, text_key(captured.text, target, tf32, options.matmul, options.tune), target)
    except (CompileError, PassError, UnsupportedOperation) as error:
        if not options.fallback:
            raise
        log.log(level_of(error), "not whole: %s", error)
        from inferno.runtime.region.region import text_without_names

        if not isinstance(error, (UnsupportedOperation, Fault)) or isinstance(error, NoLowering):  # it has a text, which was compiled
            failures[text_without_names(captured.text)] = error
        return None
    return compiled


def _compile_pieces(
    exported: Exported, captured: Captured, target: Target, device: torch.device, tf32: bool, options: Options, failures: dict[str, InfernoError],
    begin: float,
) -> CompiledModule:
    """The graph as compiled segments with eager operations between them; ``failures`` are texts that are known not to compile."""
    from inferno.runtime.region.backend import compile_graph
    from inferno.runtime.region.called import called_graphs, compile_called
    from inferno.runtime.region.piecewise import PiecewiseModule
    from inferno.runtime.region.region import Region, build_region

    if not captured.exact:  # operations in eager see strides
        captured = replace(exported.capture(exact=True), frozen=captured.frozen)
    build = functools.partial(build_text, target=target, tf32=tf32, matmul=options.matmul, tune=options.tune)
    owner = captured.graph.owning_module
    called: list[tuple[str, Region]] = []
    unchecked = replace(options, check=False)  # what is called is checked as part of the whole
    compile_ = lambda graph: compile_graph(graph, unchecked, called, "called")  # noqa: E731
    functions = {name: compile_called(m, compile_) for name, m in called_graphs(owner).items()} if options.fallback and owner is not None else {}
    region = build_region(
        captured.graph, device, build, options.fallback, attributes=lambda name: functions.get(name) or operator.attrgetter(name)(owner),
        cuda_graphs=options.cuda_graphs, failures=failures, frozen=shares(captured, options.freeze), ranges=captured.ranges, has_original=True,
    )
    examples = [n.meta["val"] for n in captured.graph.nodes if n.op == "placeholder"]
    return PiecewiseModule(region, examples, captured.signature, target, device, time.perf_counter() - begin, tuple(r for _, r in called))


def _run_original(exported: Exported, captured: Captured, target: Target, device: torch.device, begin: float, error: InfernoError) -> CompiledModule:
    """The model in eager, where the compiler failed on its graph."""
    from inferno.runtime.region.eager import EagerModule
    from inferno.runtime.region.original import count_eager, eager_region, graph_fallback

    fallback = graph_fallback(exported.program.graph, f"{error}; the model itself runs in its place")
    region = count_eager(eager_region(run_plain, fallback, device), logging.WARNING)
    examples = [n.meta["val"] for n in captured.graph.nodes if n.op == "placeholder"]
    return EagerModule(region, examples, captured.signature, target, device, time.perf_counter() - begin)
