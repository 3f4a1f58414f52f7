"""``torch.compile(model, backend="inferno")``: Dynamo captures, AOTAutograd makes forward and backward graphs, Inferno compiles both.

Guards, graph breaks and recompiles are Dynamo's.  Each graph becomes a region (see ``region.py``); the backward graph is
divided from the forward so that what is cheap is computed again (see ``rematerialise.py``).
"""

import functools
import logging
import operator
import time
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import TorchDynamoException
from torch._functorch._aot_autograd.schemas import OutputType
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import _disable_current_modes

from inferno.capture.aliases import IDLE_DROPOUT
from inferno.capture.assertions import with_message
from inferno.capture.attention_by_hand import join_attention
from inferno.capture.capture import copy_graph
from inferno.capture.decompositions import table
from inferno.capture.decompositions.attention import attention
from inferno.capture.decompositions.embedding import even_bags
from inferno.capture.decompositions.losses import multilabel_margin_loss
from inferno.capture.decompositions.padding import pad
from inferno.capture.decompositions.reductions import wide_logsumexp
from inferno.capture.decompositions.resampling import interpolate
from inferno.capture.decompositions.views import results_as_views
from inferno.capture.expand_attention import expand_attention
from inferno.capture.expand_scans import expand_scans
from inferno.capture.functionalise import is_mutable
from inferno.capture.gathered_sums import sum_gathered
from inferno.capture.host_numbers import place_attributes
from inferno.capture.masked_puts import put_item
from inferno.capture.own_data import drop_own_data, sets_as_it_lies, sets_data
from inferno.capture.overlapping_writes import overlapping_write, overlaps
from inferno.capture.rematerialise import partition_training
from inferno.capture.roll_loops import roll_loops
from inferno.capture.scalar_reads import take_places
from inferno.capture.specialise import specialise, varies
from inferno.capture.stack_windows import stack_windows
from inferno.capture.small_matrices import expand_small_matrices
from inferno.capture.sums_of_products import join_products
from inferno.capture.trained_attention import left_to_torch, trained_attention
from inferno.capture.written_inputs import take_writes
from inferno.errors import InfernoError, OptionError, UnsupportedOperation, level_of
from inferno.faults import Fault, as_faults
from inferno.options import Options, make_options
from inferno.runtime import stats
from inferno.runtime.build import build_text
from inferno.runtime.call.transforms import forward_levels, is_about_numbers, modes
from inferno.runtime.check.region_check import check_region
from inferno.runtime.database import require_gpus
from inferno.runtime.device import choose_target
from inferno.runtime.garbage import collection_paused
from inferno.runtime.prepared import share
from inferno.runtime.region.called import called_graphs, compile_called
from inferno.runtime.region.graphs import make_graph
from inferno.runtime.region.original import Original, Regions, count_eager, eager_region, graph_fallback
from inferno.runtime.region.region import Fallback, GraphFailed, Region, build_region, fallback_of
from inferno.runtime.region.second_gradients import SecondGradients
from inferno.runtime.region.written_numbers import kept_writes
from inferno.tf32 import takes_tf32

log = logging.getLogger(__name__)

MODES = {
    "default": {}, "reduce-overhead": {"cuda_graphs": True}, "max-autotune": {"cuda_graphs": True}, "max-autotune-no-cudagraphs": {},
}
# Graphs that do not compile for every size are compiled for each of so many; beyond that their operations run one by one.
_MOST_SIZES = 64
# What torch's errors say of graphs that it makes no forward and backward of: what is written to one input, and another one sees in another type; the
# gradient of a power by a size that varies.
_UNHANDLED = ("aot_autograd() does not yet handle", "NYI SymInt equality")


def inferno(graph: GraphModule, inputs: Sequence[Any], *, mode: str | None = None, options: dict[str, Any] | None = None) -> Callable:
    """The backend: what Dynamo calls with each graph that it captures.

    ``mode`` is one of torch.compile's; ``options`` are those of ``inferno.compile``.  OptionError lists what there is.
    """
    if mode is not None and mode not in MODES:
        raise OptionError(f"mode: expected one of {', '.join(MODES)}, got {mode!r}")
    return compile_captured(graph, inputs, options=make_options({**MODES[mode or "default"], **(options or {})}), regions=[])


@collection_paused()
def compile_captured(graph: GraphModule, inputs: Sequence[Any], *, options: Options, regions: list[tuple[str, Region]]) -> Callable:
    """A graph that Dynamo captured, compiled; its regions are added to ``regions``, the backward's when it is first needed."""
    held = [n.meta["grapharg"].example for n in graph.graph.nodes if n.op == "placeholder" and n.meta.get("grapharg") is not None]
    captured = _Captured(options, Regions(regions), Original(graph), _device(graph))
    try:
        with as_faults("compiling a graph", leave=(TorchDynamoException,)):
            compiled = _differentiate(captured, graph, inputs)
    except (GraphFailed, Fault) as error:
        if not options.fallback:
            raise
        compiled = captured.give_up(str(error))

    def run(*given: Any) -> Any:
        if (forward_levels["_current_level"] >= 0 or modes()) and not is_about_numbers(given):
            return captured.plain(*given)
        return captured.instead(*given) if captured.instead else captured.second.call(compiled, given)

    run.inferno_graph = make_graph(regions, [t for t in held if isinstance(t, torch.Tensor)])
    return run


def _differentiate(captured: "_Captured", graph: GraphModule, inputs: Sequence[Any]) -> Callable:
    """What computes a graph, and its gradients, by the graphs that AOTAutograd makes of it."""
    _replace_functions(graph)
    sets = [n for n in graph.graph.nodes if sets_data(n)]
    for node in sets:
        if not sets_as_it_lies(node):
            return captured.run_as_it_is(node, "it gives a tensor memory in which it lies otherwise")
    if found := overlapping_write(graph.graph):
        return captured.run_as_it_is(*found)
    compiler = aot_autograd(
        fw_compiler=functools.partial(_compile, captured, "forward"),
        bw_compiler=functools.partial(_compile, captured, "backward"),
        inference_compiler=functools.partial(_compile, captured, "inference"),
        decompositions=table(),
        partition_fn=functools.partial(_partition, captured),
        # It knows no other way to give a tensor another's memory.  What is checked is run twice, of the same inputs.
        keep_inference_input_mutations=bool(sets) or not captured.options.check,
    )
    # AOTAutograd copies a gradient to memory of its output's strides, where elements that overlap would be each other's.
    (output,) = (n for n in graph.graph.nodes if n.op == "output")
    apart = not any(overlaps(n.meta.get("example_value")) for n in output.all_input_nodes)
    guess = apart and torch._functorch.config.guess_tangent_strides_as_outputs
    with kept_writes(graph), results_as_views(), torch._functorch.config.patch(guess_tangent_strides_as_outputs=guess):
        try:
            return compiler(graph, inputs)
        except (AssertionError, RuntimeError) as error:
            said = next((text for text in _UNHANDLED if text in str(error)), None)
            if said is None:
                raise
            last = next(n for n in reversed(graph.graph.nodes) if n.op == "call_function" or n.op == "call_method")
            reason = said + str(error).partition(said)[2].rstrip(".")
            return captured.run_as_it_is(last, " ".join(reason.split()))


def _partition(captured: "_Captured", joint: GraphModule, inputs: Sequence[Any], *, num_fwd_outputs: int, **facts: Any) -> tuple[GraphModule, GraphModule]:
    captured.second.see_joint(joint, num_fwd_outputs)
    on_gpu = choose_target(captured.options.target, _device(joint)).kind == "nvptx"
    return partition_training(joint, inputs, num_fwd_outputs=num_fwd_outputs, last=lambda _: on_gpu, **facts)


@dataclass
class _Captured:
    """A graph of Dynamo's that is compiled: its ``regions`` so far, its ``original`` operations, and what runs ``instead`` of all that was compiled of
    it.  A backward is compiled when it is first needed, of what a compiled forward has kept; so that one is run once whatever became of it, and if the
    compiler failed on it, the calls that follow are eager's, forward and backward."""

    options: Options
    regions: Regions
    original: Original
    device: torch.device
    instead: Callable | None = None

    def __post_init__(self) -> None:
        self.second = SecondGradients(lambda: self.plain, self.options.fallback)

    @functools.cached_property
    def plain(self) -> Callable:
        """The original operations as a function."""
        return self.original.module().forward

    def give_up(self, reason: str) -> Callable:
        """The original operations, which run from now on."""
        if self.instead is None:
            self.instead = self.run_original(self.original.fallback(f"{reason}; these are torch's own in its place"), logging.WARNING)
        return self.instead

    def give_up_late(self, reason: str, graph: GraphModule) -> Callable[[list[Any]], list[Any]]:
        """As ``give_up`` from the next call on; what runs an ATen ``graph`` in eager for the call under way."""
        self.give_up(reason)
        region = eager_region(graph.forward, graph_fallback(graph.graph, reason), self.device)
        return lambda values: list(region.run(values))

    def run_as_it_is(self, node: Node, reason: str) -> Callable:
        """The original operations, for the sake of one of them."""
        fallback = fallback_of(node, f"{reason}, and all of its graph runs beside it")
        if not self.options.fallback:
            raise UnsupportedOperation(f"{fallback.operation} is not supported: {fallback.reason}")
        return self.run_original(fallback, logging.INFO)

    def run_original(self, fallback: Fallback, level: int) -> Callable:
        self.regions.clear()
        region = count_eager(eager_region(self.plain, fallback, self.device), level)
        self.regions.append(("eager", region))
        return lambda *given: region.run(list(given))


def _compile(captured: _Captured, kind: str, graph: GraphModule, inputs: Sequence[Any]) -> Callable[[list[Any]], list[Any]]:
    """One ATen graph as a function of the list of its inputs, which it empties."""
    late = kind == "backward"
    before = copy_graph(graph.graph) if late else None
    with _disable_current_modes():  # AOTAutograd's fake tensors are active: a segment's own are real
        try:
            with as_faults(f"compiling a {kind} graph"):
                region = compile_graph(graph, captured.options, captured.regions, kind, late=late)
            run = region.run
            if region.failed:
                captured.give_up(region.failed)
        except Fault as error:
            if before is None or not captured.options.fallback:
                raise
            run = captured.give_up_late(str(error), GraphModule(graph, before))
        except GraphFailed:
            raise
        except InfernoError as error:
            if not varies(graph):
                raise
            log.log(level_of(error), "not for every size, so for each that comes: %s", error)
            run = _Sizes(graph, captured, kind, " ".join(str(error).split()))
    gradients = _gradients(graph) if kind == "backward" else ()
    boxed = (lambda values: run(_resolved(values, gradients))) if gradients else (lambda values: run(values))  # AOTAutograd marks it
    boxed._boxed_call = True
    return boxed


def _gradients(graph: GraphModule) -> tuple[int, ...]:
    """The numbers of a backward graph's inputs that are gradients of floats: nothing guards that memory holds them as they are."""
    inputs = enumerate(n for n in graph.graph.nodes if n.op == "placeholder")
    values = ((i, n.meta.get("val")) for i, n in inputs if n.name.startswith("tangents"))
    return tuple(i for i, v in values if isinstance(v, torch.Tensor) and v.is_floating_point())


def _resolved(values: list[Any], places: tuple[int, ...]) -> list[Any]:
    """The same list, in which nothing at these places is negated only when it is read, as the imaginary part of a conjugate is."""
    for i in places:
        if values[i] is not None:
            values[i] = values[i].resolve_neg()
    return values


def compile_graph(graph: GraphModule, options: Options, regions: list, kind: str, one_size: str = "", late: bool = False) -> Region:
    """The region of a graph; it is added to ``regions``.  ``one_size``: as the region's.

    GraphFailed where the graph's original operations should run instead, as far as ``fallback`` allows.  Where it is too ``late`` for that, because a call
    is under way, the region's ``failed`` says so.
    """
    begin = time.perf_counter()
    if any(map(is_mutable, graph.graph.nodes)):
        graph = GraphModule(graph, copy_graph(graph.graph))  # one that does not compile for every size is compiled for others
    written = [n.name for n in take_writes(graph.graph, views=_views_of_inputs(graph) if kind == "inference" else None)]
    expand_attention(graph)
    expand_scans(graph, table())
    roll_loops(graph.graph, table())
    stack_windows(graph.graph, table())
    join_products(graph.graph, table())
    expand_small_matrices(graph.graph, table())
    sum_gathered(graph.graph, table())
    place_attributes(graph)
    device = _device(graph)
    target = choose_target(options.target, device)
    tune = options.tune and (target.kind == "nvptx" or not torch.cuda.is_available())  # what a model does on the CPU beside is not tuned
    if tune:
        require_gpus(target)
    build = functools.partial(build_text, target=target, tf32=takes_tf32(), matmul=options.matmul, tune=tune)
    # AOTAutograd gives a backward what the forward kept for it, and the gradients; of what came from outside, "primals", it only says where it is.
    given = {n.name for n in graph.graph.nodes if n.op == "placeholder" and kind == "backward" and not n.name.startswith("primals")}
    frozen = _frozen(graph, options) if kind == "inference" else {}
    parts: list[Region] = []
    compile_ = lambda called: parts.append(compile_graph(called, options, regions, "called", late=late)) or parts[-1]  # noqa: E731
    called = {name: compile_called(m, compile_) for name, m in called_graphs(graph).items()} if options.fallback else {}
    attributes = lambda name: called[name] if name in called else _attribute(graph, name)  # noqa: E731
    region = build_region(
        graph.graph, device, build, options.fallback, attributes, options.cuda_graphs, given=given, frozen=frozen, written=written, has_original=not late,
    )
    if options.check:
        region = check_region(region, graph, device)
    region = replace(region, one_size=one_size, failed=next((r.failed for r in (region, *parts) if r.failed), ""))
    regions.append((kind, region))
    stats.add(
        graphs=1, segments=len(region.programs), kernels=sum(len(p.kernels) for p in region.programs), fallbacks=len(region.fallbacks),
    )
    log.info(
        "%s graph for %s: %d segments, %d operations in eager, %.2f s", kind, target.name, len(region.programs),
        len(region.fallbacks), time.perf_counter() - begin,
    )
    log.debug("the region's function:\n%s", region.text)
    for fallback in region.fallbacks:
        log.info("%s", fallback)
    return region


def _views_of_inputs(graph: GraphModule) -> dict[int, int]:
    """Of an inference graph's results that AOTAutograd makes views of inputs for whoever calls, the numbers of these inputs."""
    context = torch._guards.TracingContext.try_get()
    facts = context.fw_metadata if context is not None else None
    results, inputs = graph.graph.output_node().args[0], graph.graph.find_nodes(op="placeholder")
    if facts is None or len(facts.output_info) != len(results) or len(facts.input_info) != len(inputs):
        return {}
    return {i: info.base_idx for i, info in enumerate(facts.output_info) if info.output_type is OutputType.alias_of_input}


def _frozen(graph: GraphModule, options: Options) -> dict[str, int]:
    """The names of the inputs that are parameters and buffers, which the graph does not write to, each with its share of the limit."""
    context = torch._guards.TracingContext.try_get() if options.freeze is not False else None
    facts = context.fw_metadata if context is not None else None
    if facts is None:
        return {}
    inputs = [n for n in graph.graph.nodes if n.op == "placeholder"]
    held = [i for i in facts.static_input_indices if i < len(inputs) and i < len(facts.input_info) and not facts.input_info[i].mutates_data]
    tensors = {inputs[i].name: inputs[i].meta["val"] for i in held if isinstance(inputs[i].meta.get("val"), torch.Tensor)}
    sizes = {name: t for name, t in tensors.items() if all(isinstance(s, int) for s in t.shape)}
    return share(sizes, options.freeze) if sizes else {}


class _Sizes:
    """A graph whose sizes vary, and that does not compile for all of them for a ``reason``: compiled for the sizes of each call, once."""

    def __init__(self, graph: GraphModule, captured: _Captured, kind: str, reason: str) -> None:
        self._graph, self._captured, self._kind, self._reason = graph, captured, kind, reason
        self._beyond: Region | None = None
        self._made: dict[tuple, Callable[[list[Any]], list[Any]]] = {}

    def __call__(self, values: list[Any]) -> list[Any]:
        key = tuple(tuple(v.shape) if isinstance(v, torch.Tensor) else v for v in values)
        run = self._made.get(key)
        if run is None and len(self._made) >= _MOST_SIZES:
            return self._eager(values)
        if run is None:
            run = self._made[key] = self._make(values)
        return run(values)

    def _make(self, values: list[Any]) -> Callable[[list[Any]], list[Any]]:
        if self._made:
            stats.add(recompiles=1)
        try:
            with as_faults(f"compiling a {self._kind} graph for the sizes of a call"):
                graph, places = specialise(self._graph, values)
                region = compile_graph(graph, self._captured.options, self._captured.regions, self._kind, self._reason, late=True)
        except Fault as error:
            if not self._captured.options.fallback:
                raise
            return self._captured.give_up_late(str(error), self._graph)
        if region.failed:
            self._captured.give_up(region.failed)

        def run(given: list[Any]) -> list[Any]:
            tensors = [given[i] for i in places]
            given.clear()
            return region.run(tensors)

        return run

    def _eager(self, values: list[Any]) -> list[Any]:
        reason = f"its graph met more than {_MOST_SIZES} different sizes, and does not compile for every one: {self._reason}"
        if not self._captured.options.fallback:
            raise UnsupportedOperation(f"the model's call is not compiled: {reason}. fallback=True runs further sizes in eager")
        if self._beyond is None:
            fallback = fallback_of(next(n for n in self._graph.graph.nodes if n.op == "call_function"), reason)
            self._beyond = count_eager(eager_region(self._graph.forward, fallback, _device(self._graph)), logging.INFO)
            self._captured.regions.append(("eager", self._beyond))
        return list(self._beyond.run(values))


def _replace_functions(graph: GraphModule) -> None:
    """Functions that autograd, which comes before any decomposition, takes in a form of its own.

    Attention becomes contractions around a softmax, the backward of torch's fused kernels being theirs, or an operation of ours, also where a program writes
    it by hand.  Of interpolation autograd's form has places in float32, and of multilabel_margin_loss it is wrong.
    Bags of embeddings are of one size where they are rows of a tensor, which nothing behind says.  A border that goes around is copied side by side, and
    dropout that drops nothing is its argument, of which autograd's form makes another tensor."""
    for module in graph.modules():
        if not isinstance(module, GraphModule):
            continue
        join_attention(module.graph)
        drop_own_data(module.graph)
        take_places(module.graph)
        for node in module.graph.nodes:
            if node.op == "call_method" and node.target in _METHODS:
                node.op, node.target = "call_function", _METHODS[node.target]
            if node.op == "call_function":
                node.target = _REPLACED.get(node.target, node.target)
        module.recompile()


def _instead(original: Callable, function: Callable) -> Callable:
    """``function``, or ``original`` for arguments that it leaves alone."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> torch.Tensor:
        found = function(*args, **kwargs)
        return original(*args, **kwargs) if found is NotImplemented else found

    return call


def _attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """torch's names: a program may say them."""
    found = trained_attention(query, key, value, *args, **kwargs)
    return attention(query, key, value, *args, **kwargs) if found is NotImplemented and not left_to_torch(query, key, value, *args, **kwargs) else found


_REPLACED = {
    original: _instead(original, function) for original, function in (
        (torch._C._nn.scaled_dot_product_attention, _attention), (torch.nn.functional.interpolate, interpolate),
        (torch.nn.functional.multilabel_margin_loss, multilabel_margin_loss), (torch.nn.functional.embedding_bag, even_bags),
        (torch._C._nn.pad, pad), *IDLE_DROPOUT.items(), (torch.logsumexp, wide_logsumexp), (torch.special.logsumexp, wide_logsumexp),
        (torch._assert_async, with_message), (operator.setitem, put_item),
    )
}
_METHODS = {"logsumexp": torch.logsumexp}  # those that are replaced, as functions


def _with(function: Callable, **others: Callable) -> Callable:
    """A copy of a function of torch, to which these names mean something else, and its own name the copy."""
    scope = {**function.__globals__, **others}
    scope[function.__name__] = made = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
    return made


# Dynamo does not look into this one, and calls attention there.
_REPLACED[torch.nn.functional.multi_head_attention_forward] = _with(
    torch.nn.functional.multi_head_attention_forward, scaled_dot_product_attention=_REPLACED[torch._C._nn.scaled_dot_product_attention],
)


def _device(graph: GraphModule) -> torch.device:
    """Where the graph computes: the first GPU that a tensor of it is on, else the CPU."""
    devices = dict.fromkeys(
        v.device for n in graph.graph.nodes for v in torch.utils._pytree.tree_leaves(n.meta.get("val", n.meta.get("example_value")))
        if isinstance(v, torch.Tensor)
    )
    return next((d for d in devices if d.type == "cuda"), torch.device("cpu"))


def _attribute(graph: GraphModule, name: str) -> Any:
    value: Any = graph
    for part in name.split("."):
        value = getattr(value, part)
    return value
