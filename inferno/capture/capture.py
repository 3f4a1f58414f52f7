"""From a user's model to the ``torch`` stage: one graph of ATen operations whose parameters are arguments, as text."""

import contextlib
import copy
import functools
import inspect
import operator
import types
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import SUPPORTED_NODES, TreeSpec, tree_leaves

from inferno.capture.aliases import distinct_examples, name_outputs, remove_idle_dropout, unite_state
from inferno.capture.autocast import State
from inferno.capture.caches import learn_caches, met_a_cache, returning_leaves
from inferno.capture.complex_numbers import split_complex
from inferno.capture.convolution_layouts import convolutions_as_eager, values_as_eager
from inferno.capture.decompose import Decomposed, decompose_kinds, describe
from inferno.capture.decompositions import table
from inferno.capture.draws import drawn, is_philox
from inferno.capture.expand_attention import without_functions
from inferno.capture.expand_grouped import expand_grouped
from inferno.capture.float_sizes import make_tensors_of_floats
from inferno.capture.host_numbers import place_exported
from inferno.capture.input_orders import restore_orders, with_orders
from inferno.capture.known_integers import say_known_integers
from inferno.capture.known_places import slice_known_places
from inferno.capture.known_sizes import say_known_sizes
from inferno.capture.known_values import KnownValues
from inferno.capture.nodes import is_library, is_of_jvp, is_of_vmap, unsupported
from inferno.capture.normalise import normalise
from inferno.capture.number_operands import make_tensors_of_sizes
from inferno.capture.python_state import Change, same_programs
from inferno.capture.random_state import RandomState
from inferno.capture.refusal import REFUSED
from inferno.capture.restrides import replace_restrides
from inferno.capture.roll_loops import roll_loops
from inferno.capture.roll_substitutions import roll_substitutions
from inferno.capture.run_decompositions import run_decompositions
from inferno.capture.signature import Argument, Frozen, Result, Signature, View, types_within, names_of
from inferno.capture.sized_splits import slice_splits
from inferno.capture.small_matrices import expand_small_matrices
from inferno.capture.stack_windows import stack_windows
from inferno.capture.strided_places import read_strided
from inferno.capture.strided_writes import write_strided
from inferno.capture.sums_of_products import join_products
from inferno.capture.symbols import SymbolTable
from inferno.capture.tracing import buffers_watched_as_before, one_at_a_time, to_trace, without_the_graph_so_far
from inferno.capture.views import outputs_as_eager
from inferno.capture.whole_sizes import make_sizes_whole
from inferno.capture.whole_slices import fold_whole_slices
from inferno.capture.written_selects import write_selects
from inferno.errors import CaptureError, InputError, StateNotKept, UnsupportedOperation


@dataclass(frozen=True)
class Captured:
    """A captured program: its graph of ATen operations on tensors alone, and what its arguments and results are.

    The values ("val") of the graph's nodes have shapes and dtypes; with ``exact`` they have the strides that running it gives, too.  ``ranges``: what
    the user said of torch's symbols, which torch takes for 2 at least.
    """

    graph: torch.fx.Graph
    signature: Signature
    exact: bool = True
    frozen: Frozen | None = None
    ranges: dict[Any, Any] = field(default_factory=dict)

    @functools.cached_property
    def text(self) -> str:
        """The ``torch`` stage, with locations.  UnsupportedOperation for an operation that does not import."""
        written = sorted({r.target for r in self.signature.results if r.kind == "mutation"})
        return lower_graph(self.graph, self.signature.arguments, self.frozen, written)


def lower_graph(graph: torch.fx.Graph, arguments: tuple[Argument, ...], frozen: Frozen | None = None, written: Collection[int] = ()) -> str:
    """The text of the ``torch`` stage, with locations, of a graph, which stays as it is; ``written``: the arguments that a call writes to."""
    from inferno.capture.importer import import_graph  # MLIR, which a package does without

    copied = copy_graph(graph)
    say_known_sizes(copied)
    slice_splits(copied)
    fold_whole_slices(copied)
    write_selects(copied, written)
    split_complex(copied)
    arguments = tuple(_as_read(a, n) for a, n in zip(arguments, copied.find_nodes(op="placeholder"), strict=True))
    expand_grouped(copied)
    slice_known_places(copied)
    make_tensors_of_sizes(copied)
    say_known_integers(copied)
    normalise(copied)
    return import_graph(copied, (*arguments, *_take_draws(copied)), frozen, written)


def _as_read(argument: Argument, node: torch.fx.Node) -> Argument:
    """An argument as a graph reads it: of complex numbers it may have pairs."""
    pairs = argument.dtype.is_complex and not node.meta["val"].dtype.is_complex
    return replace(argument, shape=(*argument.shape, 2)) if pairs else argument


def copy_graph(graph: torch.fx.Graph) -> torch.fx.Graph:
    copied = torch.fx.Graph()
    result = copied.graph_copy(graph, {}, return_output_node=True)
    copied.output(result[0]).meta = dict(result[1].meta)
    return copied


def _take_draws(graph: torch.fx.Graph) -> list[Argument]:
    """Rewrite ``graph`` in place so that random numbers are inputs, after all others, and what arguments they are."""
    places = [n for n in graph.nodes if n.op == "placeholder"]
    last, found = places[-1] if places else None, []
    for node in [n for n in graph.nodes if is_philox(n)]:
        seed, offset, draw = drawn(node)
        with graph.inserting_after(last):
            last = graph.placeholder(f"draw_{len(found)}")
        last.meta = dict(node.meta)
        value = node.meta["val"]
        found.append(Argument(last.name, "input", tuple(value.shape), value.dtype, random=(draw, places.index(seed), places.index(offset))))
        node.replace_all_uses_with(last)
        graph.erase_node(node)
    return found


@dataclass(frozen=True, eq=False)
class Exported:
    """A model as torch.export captured it: one graph, whose operations are not decomposed yet.

    ``structure`` is that of the model's output, ``module`` what holds its parameters (none for an ExportedProgram's own).
    """

    program: ExportedProgram
    structure: TreeSpec
    model: Any
    module: torch.nn.Module | None
    args: tuple
    kwargs: dict[str, Any]
    dynamic_shapes: Any = None
    leaves_only: bool = False

    @one_at_a_time
    def capture(self, exact: bool = False) -> Captured:
        """Decompose it; ``exact`` as in Captured, which takes longer.  CaptureError where torch cannot."""
        try:
            program = _decompose(without_functions(self.program), exact)
        except CaptureError as error:
            if self.leaves_only or self.module is None or not met_a_cache(error):
                raise
            return _export_leaves(self.model, self.module, self.args, self.kwargs, self.dynamic_shapes).capture(exact)
        symbols = SymbolTable(dict(program.range_constraints))
        inputs = self._inputs(program, symbols)
        results, outputs = _results(program, inputs, symbols)
        graph = _stateless(program)
        replace_restrides(graph)
        make_sizes_whole(graph)
        make_tensors_of_floats(graph)
        read_strided(graph)
        write_strided(graph)
        roll_substitutions(graph, table())
        roll_loops(graph, table())
        stack_windows(graph, table())
        join_products(graph, table())
        expand_small_matrices(graph, table())
        signature = self._signature(inputs, results, outputs, (*symbols.guards(symbols.take_assertions(graph)), *symbols.sizes_from_zero(graph)))
        values = values_as_eager(self.program) if self.module is None else None
        signature = with_orders(outputs_as_eager(graph, signature, self.program, program, values), self.program)
        restore_orders(graph, signature)
        return Captured(graph, signature, not isinstance(program, Decomposed), ranges=symbols.ranges)

    def arguments(self) -> tuple[Argument, ...]:
        """What the captured program's arguments will be."""
        return self._inputs(self.program, SymbolTable(dict(self.program.range_constraints))).arguments

    def signature(self, results: tuple[Result, ...], outputs: tuple[tuple[bool, Any], ...], views: tuple[View, ...] = ()) -> Signature:
        """The signature with results that are known, of a program without sizes that vary."""
        return with_orders(self._signature(self._inputs(self.program, SymbolTable()), results, outputs, (), views), self.program)

    def _inputs(self, program: ExportedProgram, symbols: SymbolTable) -> "_Inputs":
        names = leaf_names(self.model, self.args, self.kwargs, program.call_spec.in_spec.num_leaves)
        return _inputs(program, self.module, names, symbols)

    def _signature(self, inputs: "_Inputs", results: tuple, outputs: tuple, guards: Sequence[str], views: tuple[View, ...] = ()) -> Signature:
        return Signature(
            inputs.arguments, results, inputs.leaves, inputs.names, self.program.call_spec.in_spec, outputs, self.structure,
            _parameters(self.model), tuple(guards), views,
        )


def capture(model: Any, args: tuple, kwargs: dict[str, Any] | None = None, dynamic_shapes: Any = None) -> Captured:
    """Capture ``model`` for arguments like these.  The model is traced on fake tensors: not run, not changed.

    ``dynamic_shapes`` says which sizes vary, as ``torch.export.export`` takes it; they become symbols.

    Raises CaptureError where torch.export cannot make one graph of it.
    """
    return export_model(model, args, kwargs, dynamic_shapes).capture()


@one_at_a_time
def export_model(
    model: Any, args: tuple, kwargs: dict[str, Any] | None = None, dynamic_shapes: Any = None, values: KnownValues | None = None,
    autocast: State = (),
) -> Exported:
    """The first half of ``capture``.  ``values``: integers that are told to the model; ``autocast``: what it runs within."""
    kwargs = kwargs or {}
    if isinstance(model, ExportedProgram):
        if not args and not kwargs and model.example_inputs:
            args, kwargs = model.example_inputs
        return Exported(model, model.call_spec.out_spec, model, None, args, kwargs, dynamic_shapes)
    module = _as_module(model)
    _require_strides(model, module, args, kwargs)
    learn_caches((args, kwargs))
    try:
        program = _export(model, module, args, kwargs, dynamic_shapes, values, autocast)
        return Exported(program, program.call_spec.out_spec, model, module, args, kwargs, dynamic_shapes)
    except CaptureError as error:
        if not met_a_cache(error):
            raise
    return _export_leaves(model, module, args, kwargs, dynamic_shapes, autocast)


def _require_strides(model: Any, module: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
    """CaptureError for a tensor that is not one block of memory: sparse, or nested."""
    leaves = tree_leaves((tuple(args), kwargs))
    inputs = zip((f"argument {name}" for name in leaf_names(model, args, kwargs, len(leaves))), leaves)
    for name, value in (*inputs, *module.named_parameters(), *module.named_buffers()):
        if isinstance(value, torch.Tensor) and (value.layout is not torch.strided or value.is_nested):
            kind = "nested" if value.is_nested else str(value.layout).removeprefix("torch.")
            raise CaptureError(f"{name} is a {kind} tensor, which has no strides to read it by: pass a dense one (to_dense(), or padded)")


def _export_leaves(
    model: Any, module: torch.nn.Module, args: tuple, kwargs: dict[str, Any], dynamic_shapes: Any, autocast: State,
) -> Exported:
    """The model as one that returns the leaves of its output alone."""
    shallow, structures = returning_leaves(module)
    program = _export(model, shallow, args, kwargs, dynamic_shapes, autocast=autocast)
    return Exported(program, structures[0], model, module, args, kwargs, dynamic_shapes, leaves_only=True)


def _export(
    model: Any, module: torch.nn.Module, args: tuple, kwargs: dict[str, Any], dynamic_shapes: Any, values: KnownValues | None = None,
    autocast: State = (),
) -> ExportedProgram:
    try:
        with torch.no_grad(), warnings.catch_warnings(), torch.random.fork_rng(devices=[]), buffers_watched_as_before():
            warnings.simplefilter("ignore")
            args, kwargs = distinct_examples(module, args, kwargs)
            varying = _of_parameters(module, args, kwargs, dynamic_shapes)
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
            f"as one graph{f' (at {line})' if line else ''}: {_first_line(error)}. {hint}"
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
        with to_trace(module, autocast, start, changed) as traced, without_the_graph_so_far(), watched(traced):
            try:
                program = _trace(traced, args, kwargs, varying)
                if drawn := numbers.changes():
                    raise CaptureError(f"forward uses or sets {' and '.join(drawn)}, which are those of the trace in a graph")
            finally:
                numbers.restore()
        if not changed and (not start or same_programs(before, program)):
            return program
        if start or not all(c.is_number for c in changed):
            names = list(dict.fromkeys(c.name for c in (*changed, *start)))
            if lost := next((c.name for c in (*changed, *start) if c.falls_out), None):
                raise StateNotKept(f"forward changes {lost}, a deque with maxlen, of which Dynamo keeps what falls out: use a list, and delete from it")
            raise CaptureError(
                f"forward changes what is no tensor of its graph: {', '.join(names[:5])}{', ...' * (len(names) > 5)}; "
                f"a buffer or an argument that it writes to would be one"
            )


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


def _decompose(program: ExportedProgram, exact: bool) -> ExportedProgram | Decomposed:
    with torch.no_grad(), warnings.catch_warnings(), convolutions_as_eager():
        warnings.simplefilter("ignore")
        _drop_annotations(program)
        try:
            known = table()
            kinds = decompose_kinds(program, known)
            if kinds is not None and not exact:
                return kinds
            refused = kinds.refused if kinds is not None else {}
            whole = run_decompositions(program, {op: call for op, call in known.items() if op not in refused})
            for node in whole.graph.nodes:
                if node.target in refused:
                    node.meta[REFUSED] = refused[node.target]
        except Exception as error:
            raise CaptureError(f"torch could not decompose the model's graph: {_first_line(error)}") from error
    _check_results(program, whole)
    return whole


def _drop_annotations(program: ExportedProgram) -> None:
    """Forget inside of which of torch's own functions an operation was traced: torch 2.13 takes what it notes so of an operation called ``var`` for a
    buffer of this name as well, and the difference for an error."""
    for node in program.graph.nodes:
        if "custom" in node.meta:
            node.meta["custom"] = {key: value for key, value in node.meta["custom"].items() if not key.startswith("_torchdynamo_disable")}


def _check_results(program: ExportedProgram, decomposed: ExportedProgram) -> None:
    """CaptureError for a result that decompositions made another tensor of."""
    results = [[n for n in p.graph.output_node().args[0] if isinstance(n, torch.fx.Node)] for p in (program, decomposed)]
    for expected, made in zip(*results) if len(results[0]) == len(results[1]) else ():
        if not _alike(expected.meta.get("val"), made.meta.get("val")):
            raise CaptureError(f"{expected} would become {describe(made.meta['val'])}, where it is {describe(expected.meta['val'])}")


def _alike(a: Any, b: Any) -> bool:
    """Whether two nodes' values are of one dtype, device and shape; sizes that vary, of which torch sees through one and not the other, as in the example."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return describe(a) == describe(b)
    if a.dtype != b.dtype or a.device != b.device or a.dim() != b.dim():
        return False
    sizes = [[s if isinstance(s, int) else s.node.hint for s in t.shape] for t in (a, b)]
    return all(m is None or n is None or m == n for m, n in zip(*sizes))


def _of_parameters(module: torch.nn.Module, args: tuple, kwargs: dict[str, Any], dynamic_shapes: Any) -> Any:
    """``dynamic_shapes`` as the module's ``forward`` has its parameters: that of a function takes ``*args, **kwargs``."""
    if dynamic_shapes is None or not isinstance(module, _Function):
        return dynamic_shapes
    if isinstance(dynamic_shapes, dict):
        names = list(inspect.signature(module.function).parameters)
        positional = tuple(dynamic_shapes.get(name) for name in names[: len(args)])
        named = {name: dynamic_shapes.get(name) for name in kwargs}
    else:
        positional, named = tuple(dynamic_shapes)[: len(args)], dict(zip(kwargs, tuple(dynamic_shapes)[len(args) :]))
    return {"args": positional, "kwargs": named} if kwargs else {"args": positional}


class _Function(torch.nn.Module):
    """A plain function as a module; modules that it closes over or names are submodules, so their parameters are found."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.function = _as_forward(function)
        self.tensors: dict[str, torch.Tensor] = {}
        try:
            found = inspect.getclosurevars(function)
        except TypeError:
            return
        for name, value in {**found.globals, **found.nonlocals}.items():
            if isinstance(value, torch.nn.Module):
                self.add_module(name, value)
            elif isinstance(value, torch.Tensor):
                self.tensors[name] = value

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def _as_forward(function: Callable) -> Callable:
    """The function under the name that torch.export records lines for: it keeps the frames called ``forward`` alone."""
    if not isinstance(function, types.FunctionType):
        return function
    code = function.__code__.replace(co_name="forward")
    same = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    same.__kwdefaults__ = function.__kwdefaults__
    return same


def _as_module(model: Any) -> torch.nn.Module:
    if isinstance(model, torch.nn.Module):
        return model
    if not callable(model):
        raise InputError(f"model: expected an nn.Module, a function or an ExportedProgram, got {type(model).__name__}")
    return _Function(model)


def _stateless(program: ExportedProgram | Decomposed) -> torch.fx.Graph:
    """The program's graph with tensors alone as arguments and results."""
    graph = program.graph if isinstance(program, Decomposed) else copy.copy(program.graph_module).graph
    specialised = {s.arg.name for s in program.graph_signature.input_specs if not isinstance(s.arg, TensorArgument)}
    for node in list(graph.nodes):
        if node.op == "placeholder" and node.name in specialised:
            if node.users:
                raise CaptureError(f"input {node.name} is not a tensor but the graph uses it; only tensors can vary between calls")
            graph.erase_node(node)
        elif node.op == "output":
            node.args = (tuple(v for v in node.args[0] if isinstance(v, torch.fx.Node)),)
    return graph


@dataclass(frozen=True, eq=False)
class _Inputs:
    """A program's arguments; ``leaves`` and their ``names`` as in Signature; ``index`` by the name of the graph's input."""

    arguments: tuple[Argument, ...]
    leaves: tuple[tuple[bool, Any], ...]
    names: tuple[str, ...]
    index: dict[str, int]


def _inputs(program: ExportedProgram, module: torch.nn.Module | None, names: list[str], symbols: SymbolTable) -> _Inputs:
    values = {n.name: n.meta.get("val") for n in program.graph.nodes}
    arguments: list[Argument] = []
    leaves: list[tuple[bool, Any]] = []
    index: dict[str, int] = {}
    for spec in program.graph_signature.input_specs:
        if isinstance(spec.arg, ConstantArgument):
            leaves.append((False, spec.arg.value))
            continue
        if not isinstance(spec.arg, TensorArgument):
            raise _not_a_tensor(program, spec)
        value = values[spec.arg.name]
        index[spec.arg.name] = len(arguments)
        if spec.kind is InputKind.USER_INPUT:
            name, kind, held, key = names[len(leaves)], "input", None, ""
            leaves.append((True, len(arguments)))
        else:
            name, kind, held, key = _state(spec, program, module)
        arguments.append(Argument(name, kind, symbols.shape(value), value.dtype, held, key))
    return _Inputs(tuple(arguments), tuple(leaves), tuple(names), index)


def _results(program: ExportedProgram, inputs: _Inputs, symbols: SymbolTable) -> tuple[tuple[Result, ...], tuple[tuple[bool, Any], ...]]:
    """The results, and the leaves of the output."""
    values = {n.name: n.meta.get("val") for n in program.graph.nodes}
    by_target = {a.name: i for i, a in enumerate(inputs.arguments) if a.kind != "input"}
    results: list[Result] = []
    outputs: list[tuple[bool, Any]] = []
    for spec in program.graph_signature.output_specs:
        if isinstance(spec.arg, ConstantArgument):
            outputs.append((False, spec.arg.value))
            continue
        value = values[spec.arg.name]
        if not isinstance(value, torch.Tensor):
            raise CaptureError(f"output {spec.arg.name} is a number that depends on the inputs; return it as a tensor")
        shape, dtype = symbols.shape(value), value.dtype
        if spec.kind is OutputKind.USER_OUTPUT:
            outputs.append((True, sum(r.kind == "output" for r in results)))
            results.append(Result("output", -1, shape, dtype))
        elif spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION, getattr(OutputKind, "PARAMETER_MUTATION", None)):
            target = by_target[spec.target] if spec.target in by_target else inputs.index[spec.target]
            results.append(Result("mutation", target, shape, dtype))
        else:
            raise CaptureError(f"output {spec.arg.name} is a {spec.kind.name.lower()}, which is not understood")
    return tuple(results), tuple(outputs)


def _not_a_tensor(program: ExportedProgram, spec: Any) -> Exception:
    """The error for an argument of another kind; a token stands for an operation with a side effect."""
    for node in program.graph.nodes:
        if node.op == "call_function" and str(node.target) == "with_effects":
            # Factorizations check their result by an operation of their own: the user wrote what it checks.
            checked = next((n for n in node.all_input_nodes if n.op == "call_function"), node)
            while checked.target is operator.getitem:
                checked = checked.args[0]
            written = node.args[1] if checked is node else checked.meta.get("original_aten")  # of which it may be a part
            return unsupported(checked, "it has a side effect", target=written)
    return CaptureError(f"input {spec.arg.name} is a {type(spec.arg).__name__}; only tensors and constants are understood")


def _state(spec: Any, program: ExportedProgram, module: torch.nn.Module | None) -> tuple[str, str, dict, str]:
    """Name, kind, and where the tensor of a parameter, buffer or constant is held."""
    kind = {InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer"}.get(spec.kind, "constant")
    if kind != "constant" and module is not None:
        path, _, key = spec.target.rpartition(".")
        try:
            owner = module.get_submodule(path)
        except AttributeError as error:  # torch.export takes tensors of other classes apart, into parametrizations of its own
            raise CaptureError(f"{spec.target} is a part of a {kind}, which is a tensor of another class") from error
        held = owner._parameters if key in owner._parameters else owner._buffers
        if key in held:
            return spec.target, kind, held, key
    held = program.state_dict if spec.target in program.state_dict else program.constants
    if spec.target not in held or not isinstance(held[spec.target], torch.Tensor):
        raise CaptureError(f"{spec.target} is a {spec.kind.name.lower()}, which is not understood")
    return _original(spec.target, held[spec.target], module) if kind == "constant" else (spec.target, kind, held, spec.target)


def _original(target: str, lifted: torch.Tensor, module: torch.nn.Module | None) -> tuple[str, str, dict, str]:
    """Where the user holds a tensor that torch.export found on its own: an attribute of a module, or a name of a function."""
    path, _, key = target.rpartition(".")
    try:
        attributes = module.get_submodule(path).__dict__ if module is not None else {}
    except AttributeError:
        attributes = {}
    if isinstance(attributes.get(key), torch.Tensor):
        return target, "constant", attributes, key
    if isinstance(module, _Function):
        for name, tensor in module.tensors.items():
            same = tensor.data_ptr() == lifted.data_ptr() and tensor.shape == lifted.shape and tensor.stride() == lifted.stride()
            if same and lifted.numel() and tensor.dtype == lifted.dtype:
                return name, "constant", module.tensors, name
    return target, "constant", {target: lifted}, target


def _parameters(model: Any) -> inspect.Signature | None:
    if isinstance(model, ExportedProgram):
        return None
    try:
        return inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model)
    except (TypeError, ValueError):
        return None


def leaf_names(model: Any, args: tuple, kwargs: dict[str, Any], count: int) -> list[str]:
    """A name for each leaf of the inputs, as the user would write it: ``x``, ``batch['ids']``."""
    names = names_of(_parameters(model), args, kwargs)
    return names if len(names) == count else [f"input {i}" for i in range(count)]


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:500]


def _user_line(error: BaseException) -> str:
    """``file:line`` of the innermost frame that is neither torch's nor ours."""
    found, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not is_library(name) and "/inferno/" not in name and not name.startswith("<frozen"):
            found = f"{name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found
