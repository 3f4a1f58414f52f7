"""Gradients of gradients of a graph that is compiled: gradient penalties, MAML's inner steps, Hessians.

AOTAutograd makes no graph of them: a gradient that is taken with ``create_graph=True`` is not connected to the inputs it depends on, so that another one
through it raises, or is zero where that is allowed.  So each call leaves what it was given at the node that autograd keeps of it.  A backward under
``create_graph=True`` runs the graph's original operations on that once more and differentiates them, in eager: all further gradients are autograd's own.
Any other backward lets go of what was given, and runs what was compiled.
"""

import logging
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.autograd.graph import get_gradient_edge
from torch.fx import GraphModule

from inferno.capture import autocast
from inferno.capture.draws import SEEDS
from inferno.errors import UnsupportedOperation

log = logging.getLogger(__name__)

# Those that torch runs as autograd does what they hold; others have gradients of their own, made when the graph was, that nothing behind is connected to.
_DIFFERENTIABLE = {torch.ops.higher_order.tag_activation_checkpoint}


class SecondGradients:
    """What knows how the calls of one graph are differentiated twice: by its original operations, ``plain()`` of a GraphModule, within the autocasting
    that is on now.  Where ``fallback`` does not allow that they are not."""

    def __init__(self, plain: Callable[[], Callable], fallback: bool) -> None:
        self._plain, self._fallback = plain, fallback
        self._state = autocast.around()
        self._said = self._draws = self._draws_otherwise = False
        self._unasked = False  # torch has no place to ask at, so that calls need leave nothing
        self._reads: frozenset[int] | None = None  # the numbers of the inputs that the gradients depend on, where AOTAutograd has as many
        self._count = 0

    def see_joint(self, joint: GraphModule, num_fwd_outputs: int) -> None:
        """Note what the gradients are computed of, which behind ``num_fwd_outputs`` are the results of AOTAutograd's ``joint`` graph."""
        primals = [n for n in joint.graph.find_nodes(op="placeholder") if n.name.startswith("primals")]
        (results,) = joint.graph.output_node().args
        found = {n for n in results[num_fwd_outputs:] if n is not None}
        todo = list(found)
        while todo:
            new = set(todo.pop().all_input_nodes) - found
            found |= new
            todo += new
        self._reads, self._count = frozenset(i for i, n in enumerate(primals) if n in found), len(primals)
        drawing = [n for n in joint.graph.nodes if torch.Tag.nondeterministic_seeded in getattr(n.target, "tags", ())]
        self._draws = bool(drawing)
        self._draws_otherwise = any(n.target is torch.ops.aten.randint.default and n.args[0] == SEEDS for n in drawing)  # attention's dropout

    def call(self, compiled: Callable, given: Sequence[Any]) -> Any:
        """A call of what was compiled, which leaves at its node what a second gradient is computed of."""
        if self._unasked or not torch.is_grad_enabled():
            return compiled(*given)
        versions = _versions(given)
        states = _generators(given) if self._draws and not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()) else None
        results = compiled(*given)
        nodes: dict[Any, dict[int, int]] = {}
        for i, result in enumerate(results):
            node = result.grad_fn if isinstance(result, Tensor) else None
            if hasattr(type(node), "_forward_cls"):
                nodes.setdefault(node, {}).setdefault(result.output_nr, i)
        asking = {node: places for node, places in nodes.items() if _prepare(type(node)._forward_cls)}
        self._unasked = bool(nodes) and not asking
        kept = _kept(given, versions) if asking else given
        for node, places in asking.items():
            node.inferno_call = _Call(self, kept, versions, states, places)
        return results

    def gradients(self, node: Any, call: "_Call", grads: Sequence[Tensor | None]) -> list[Tensor | None] | str:
        """The gradients of the inputs of a call's ``node``, connected to what they depend on; a reason where they cannot be had."""
        given = call.alive()
        if reason := self._refusal(call, given):
            return reason
        edges = {_key(get_gradient_edge(v)): i for i, v in enumerate(given) if isinstance(v, Tensor) and v.requires_grad}
        wanted = [edges.get(edge) for edge in node.next_functions if edge[0] is not None]
        if None in wanted or any(g is not None and i not in call.places for i, g in enumerate(grads)):
            return "what the graph takes or gives is a view of another tensor that it takes or gives"
        # Each input apart: one may be computed of another one.  What is written to (statistics of a norm) was, when the call was made.
        apart = [(v.view_as(v) if v.requires_grad else v.clone()) if isinstance(v, Tensor) else v for v in given]
        now = _generators(given)
        if call.states is not None:
            _set_generators(given, call.states)
        try:
            with torch.enable_grad(), autocast.within(self._state):
                results = self._plain()(*apart)
            if call.states is None and not all(map(torch.equal, now, _generators(given))):
                return "its graph draws random numbers, which would be others"
        finally:
            _set_generators(given, now)
        pairs = [(results[i], grads[nr]) for nr, i in call.places.items() if grads[nr] is not None and results[i].requires_grad]
        if not pairs:
            return [None] * len(node.needs_input_grad)
        of, wrt = [r for r, _ in pairs], [apart[i] for i in wanted]
        found = iter(torch.autograd.grad(of, wrt, [g for _, g in pairs], create_graph=True, allow_unused=True))
        return [next(found) if needed else None for needed in node.needs_input_grad]

    def _refusal(self, call: "_Call", given: Sequence[Any]) -> str:
        """Why a call is not to be differentiated twice; empty where it may be."""
        if not self._fallback:
            return "it is eager's, which fallback=False does not allow"
        if self._draws_otherwise:
            return "its graph draws other random numbers than eager, for dropout in attention"
        module = self._plain().__self__
        nodes = (n for m in module.modules() if isinstance(m, GraphModule) for n in m.graph.nodes)
        if other := next((n.target for n in nodes if isinstance(n.target, HigherOrderOperator) and n.target not in _DIFFERENTIABLE), None):
            return f"its graph has the operation {other.name()}, of whose gradients torch keeps no graph"
        known = self._reads is not None and self._count == len(given)
        for i, (value, before, version) in enumerate(zip(given, call.versions, _versions(given))):
            if version != before and (value.requires_grad or not known or i in self._reads):
                return f"input {i} of its graph, a tensor of shape {tuple(value.shape)} that it is computed of, was changed in place by the call or behind it"
        if not self._said:
            self._said = True
            log.info("gradients of gradients of a graph are eager's")
        return ""


@dataclass(frozen=True, slots=True)
class _Call:
    """What a call was ``given`` (see ``_kept``), the ``versions`` of the tensors and, where it drew, the ``states`` of the generators then; ``places``: the
    numbers of the graph's results by those of the node's."""

    owner: SecondGradients
    given: Sequence[Any]
    versions: Sequence[int]
    states: Sequence[Tensor] | None
    places: dict[int, int]

    def alive(self) -> list[Any]:
        """What it was given.  An error where that is freed: it could not be connected to what it was computed of, and a gradient would be zero."""
        found = [v() if isinstance(v, weakref.ref) else v for v in self.given]
        if any(a is not b and b is None for a, b in zip(self.given, found)):
            raise _error("an input of its graph is freed: it was written to, or hooks on saved tensors (a checkpoint, save_on_cpu) saved memory")
        return found


def _prepare(function: Any) -> bool:
    """Let AOTAutograd's ``function`` of a graph ask here first when its backward runs; whether it is one that can."""
    if not hasattr(function, "_bwd_fn"):  # before torch 2.13, or a function of the user's
        return False
    if not hasattr(function._bwd_fn, "inferno_first"):
        function._bwd_fn = _asking(function._bwd_fn)
    return True


def _asking(original: Callable) -> Callable:
    @torch._dynamo.disable  # which looks into what runs behind a graph break
    def backward(flat_args: tuple, ctx: Any, *others: Any) -> Any:
        call = getattr(ctx, "inferno_call", None)
        if call is None:
            return original(flat_args, ctx, *others)
        if not torch.is_grad_enabled():
            if not torch._C._autograd._get_current_graph_task_keep_graph():
                ctx.inferno_call = None
            return original(flat_args, ctx, *others)
        found = call.owner.gradients(ctx, call, flat_args[0])
        if not isinstance(found, str):
            return tuple(found)
        connected = [t for t in (*call.alive(), *flat_args[0]) if isinstance(t, Tensor) and t.requires_grad]
        return _Refused.apply(found, lambda: original(flat_args, ctx, *others), *connected)

    backward.inferno_first = True
    return backward


class _Refused(torch.autograd.Function):
    """First gradients, whose own gradients are an error with a reason."""

    @staticmethod
    def forward(ctx: Any, reason: str, compute: Callable[[], Any], *connected: Tensor) -> Any:
        ctx.reason = reason
        return compute()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise _error(ctx.reason)


def _error(reason: str) -> UnsupportedOperation:
    return UnsupportedOperation(
        f"a gradient of a gradient of a compiled graph is not supported: {reason}. Leave the part that is differentiated twice to eager "
        f"with torch.compiler.disable"
    )


def _kept(given: Sequence[Any], versions: Sequence[int]) -> Sequence[Any]:
    """What a call leaves of what it was given, with these ``versions`` before: all of it, but no more than weak references of what is computed where hooks
    put away what autograd saves, and of what was written to, whose history the node is then itself."""
    hooked, now = torch._C._autograd._top_saved_tensors_default_hooks(False) is not None, _versions(given)
    if not hooked and now == versions:
        return given
    computed = [isinstance(v, Tensor) and v.grad_fn is not None for v in given]
    return [weakref.ref(v) if c and (hooked or a != b) else v for v, c, a, b in zip(given, computed, versions, now)]


def _key(edge: Any) -> tuple[Any, int]:
    return edge.node, edge.output_nr


def _versions(values: Sequence[Any]) -> list[int]:
    try:
        return [v._version for v in values]
    except (AttributeError, RuntimeError):  # a size that varies; a tensor that was made in inference mode
        return [v._version if isinstance(v, Tensor) and not v.is_inference() else 0 for v in values]


def _gpus(values: Collection[Any]) -> list[torch.device]:
    return list(dict.fromkeys(v.device for v in values if isinstance(v, Tensor) and v.is_cuda))


def _generators(values: Sequence[Any]) -> list[Tensor]:
    """The states of the generators that operations on these tensors draw from."""
    return [torch.get_rng_state(), *map(torch.cuda.get_rng_state, _gpus(values))]


def _set_generators(values: Sequence[Any], states: Sequence[Tensor]) -> None:
    torch.set_rng_state(states[0])
    for device, state in zip(_gpus(values), states[1:], strict=True):
        torch.cuda.set_rng_state(state, device)
