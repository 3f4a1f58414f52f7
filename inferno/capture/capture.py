"""From a user's model to the ``torch`` stage: one graph of ATen operations whose parameters are arguments, as text."""

import copy
import functools
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import TensorArgument
from torch.utils._pytree import TreeSpec, tree_leaves

from inferno.capture.as_module import as_module, leaf_names, parameters
from inferno.capture.autocast import State
from inferno.capture.caches import learn_caches, met_a_cache, returning_leaves
from inferno.capture.complex_numbers import split_complex
from inferno.capture.convolution_layouts import convolutions_as_eager, values_as_eager
from inferno.capture.decompose import Decomposed, decompose_kinds, describe
from inferno.capture.decompositions import table
from inferno.capture.draws import drawn, is_philox
from inferno.capture.expand_attention import without_functions
from inferno.capture.expand_grouped import expand_grouped
from inferno.capture.export import export
from inferno.capture.float_sizes import make_tensors_of_floats
from inferno.capture.input_orders import restore_orders, with_orders
from inferno.capture.known_integers import say_known_integers
from inferno.capture.known_places import slice_known_places
from inferno.capture.known_sizes import say_known_sizes
from inferno.capture.known_values import KnownValues
from inferno.capture.nodes import operation_name
from inferno.capture.normalise import normalise
from inferno.capture.number_operands import make_tensors_of_sizes
from inferno.capture.overlapping_writes import overlapping_write
from inferno.capture.program_tensors import Inputs, inputs_of, results_of
from inferno.capture.refusal import REFUSED
from inferno.capture.restrides import replace_restrides
from inferno.capture.roll_loops import roll_loops
from inferno.capture.roll_substitutions import roll_substitutions
from inferno.capture.run_decompositions import run_decompositions
from inferno.capture.signature import Argument, Frozen, Result, Signature, View
from inferno.capture.sized_splits import slice_splits
from inferno.capture.small_matrices import expand_small_matrices
from inferno.capture.stack_windows import stack_windows
from inferno.capture.strided_places import read_strided
from inferno.capture.strided_writes import write_strided
from inferno.capture.sums_of_products import join_products
from inferno.capture.symbols import SymbolTable
from inferno.capture.tracing import one_at_a_time
from inferno.capture.views import outputs_as_eager
from inferno.capture.whole_sizes import make_sizes_whole
from inferno.capture.whole_slices import fold_whole_slices
from inferno.capture.written_selects import write_selects
from inferno.errors import CaptureError
from inferno.faults import as_faults, first_line


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


@as_faults("lowering a graph")
def lower_graph(graph: torch.fx.Graph, arguments: tuple[Argument, ...], frozen: Frozen | None = None, written: Collection[int] = ()) -> str:
    """The text of the ``torch`` stage, with locations, of a graph, which stays as it is; ``written``: the arguments that a call writes to.

    UnsupportedOperation for an operation that does not import, and a Fault where a pass fails."""
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
    """A graph with copies of all nodes, and what is known of them."""
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
    @as_faults("capturing the model")
    def capture(self, exact: bool = False) -> Captured:
        """Decompose it; ``exact`` as in Captured, which takes longer.  CaptureError where torch cannot, and a Fault where a pass fails."""
        if found := overlapping_write(self.program.graph):
            raise CaptureError(f"forward writes to a tensor by {operation_name(found[0])}, and {found[1]}: no graph does that as eager would")
        try:
            program = _decompose(without_functions(self.program), exact)
        except CaptureError as error:
            if self.leaves_only or self.module is None or not met_a_cache(error):
                raise
            return _export_leaves(self.model, self.module, self.args, self.kwargs, self.dynamic_shapes).capture(exact)
        symbols = SymbolTable(dict(program.range_constraints))
        inputs = self._inputs(program, symbols)
        results, outputs = results_of(program, inputs, symbols)
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

    def _inputs(self, program: ExportedProgram, symbols: SymbolTable) -> Inputs:
        names = leaf_names(self.model, self.args, self.kwargs, program.call_spec.in_spec.num_leaves)
        return inputs_of(program, self.module, names, symbols)

    def _signature(self, inputs: Inputs, results: tuple, outputs: tuple, guards: Sequence[str], views: tuple[View, ...] = ()) -> Signature:
        return Signature(
            inputs.arguments, results, inputs.leaves, inputs.names, self.program.call_spec.in_spec, outputs, self.structure,
            parameters(self.model), tuple(guards), views,
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
    module = as_module(model)
    _require_strides(model, module, args, kwargs)
    learn_caches((args, kwargs))
    try:
        program = export(model, module, args, kwargs, dynamic_shapes, values, autocast)
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
    program = export(model, shallow, args, kwargs, dynamic_shapes, autocast=autocast)
    return Exported(program, structures[0], model, module, args, kwargs, dynamic_shapes, leaves_only=True)


def _refuse_leaked(program: ExportedProgram) -> None:
    """CaptureError for a tensor of a transform that has ended, as ``torch.func.vjp`` leaves of its forward: whoever reads its data ends the process."""
    for value in program.constants.values():
        if isinstance(value, torch.Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(value):
            raise CaptureError("torch.export keeps a tensor of a torch.func transform that has ended: torch.compile(model, backend=\"inferno\") traces these")


def _decompose(program: ExportedProgram, exact: bool) -> ExportedProgram | Decomposed:
    _refuse_leaked(program)
    with torch.no_grad(), warnings.catch_warnings(), convolutions_as_eager():
        warnings.simplefilter("ignore")
        _drop_annotations(program)
        try:
            known = table()
            kinds = decompose_kinds(program, known)
            if kinds is not None and not exact:
                return kinds
            refused = kinds.refused if kinds is not None else {}
            # The table itself where it can be: what it is for others is found once.
            whole = run_decompositions(program, {op: call for op, call in known.items() if op not in refused} if refused else known)
            for node in whole.graph.nodes:
                if node.target in refused:
                    node.meta[REFUSED] = refused[node.target]
        except Exception as error:
            raise CaptureError(f"torch could not decompose the model's graph: {first_line(error)}") from error
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
