"""Call compiled code again and again without leaving a trace.

Its kernels write by address, where no dispatch mode sees it.  So what a call writes to is kept before, and put back after each call;
random number generators likewise.  Attributes of Python objects that a forward sets are not put back.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from inferno.runtime.check.isolation import fresh, run_isolated


def written_by(compiled: Any, args: tuple, kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors that a call of a result of torch.compile writes to, wherever they are held: those that eager writes to."""
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
    with torch.compiler.set_stance("force_eager"):
        _, mode = run_isolated(lambda given: compiled(*fresh(args, tensors, given), **fresh(kwargs, tensors, given)), devices_of(compiled, args, kwargs))
    return [tensor for tensor, _ in mode.written]


def devices_of(compiled: Any, args: tuple, kwargs: dict[str, Any]) -> list[torch.device]:
    """The devices of a call's tensors, GPUs first."""
    held = [*compiled.parameters(), *compiled.buffers()] if isinstance(compiled, torch.nn.Module) else []
    found = dict.fromkeys(t.device for t in (*tree_leaves((args, kwargs)), *held) if isinstance(t, Tensor))
    return sorted(found, key=lambda device: device.type != "cuda")


@contextmanager
def restored(written: Sequence[Tensor], devices: Sequence[torch.device]) -> Iterator[Callable[[], None]]:
    """Gives a function that puts back what the ``written`` tensors hold now and the random state; the end does so as well."""
    indices = sorted({d.index or 0 for d in devices if d.type == "cuda"})
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=indices))
        # What is put back is what there was: a backward pass that is still to come may read it.
        stack.enter_context(torch.autograd._unsafe_preserve_version_counter(tuple(t for t in written if not t.is_inference())))
        with torch.no_grad():
            held = [(whole, whole.clone()) for whole in map(_whole, written)]
        states = [torch.random.get_rng_state(), *(torch.cuda.get_rng_state(i) for i in indices)]

        def restore() -> None:
            with torch.no_grad():
                for tensor, value in held:
                    tensor.copy_(value)
            torch.random.set_rng_state(states[0])
            for index, state in zip(indices, states[1:]):
                torch.cuda.set_rng_state(state, index)

        try:
            yield restore
        finally:
            restore()


def _whole(tensor: Tensor) -> Tensor:
    """All of a tensor's memory: a call may write to other parts of it as well."""
    return torch.as_strided(tensor.detach(), (tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)


@contextmanager
def untraced(function: Callable, args: tuple, kwargs: dict[str, Any]) -> Iterator[Callable[[], Callable[[], Any]]]:
    """Gives a function that makes calls of a result of torch.compile ready, one at a time, as if none had been before."""
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
    written = written_by(function, args, kwargs)
    with restored(written, devices_of(function, args, kwargs)) as restore:

        def prepare() -> Callable[[], Any]:
            restore()
            positional, named = fresh(args, tensors, lambda t: t), fresh(kwargs, tensors, lambda t: t)
            return lambda: function(*positional, **named)

        yield prepare
