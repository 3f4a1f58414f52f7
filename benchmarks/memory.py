"""What a training step under ``torch.compile(backend="inferno")`` keeps in a GPU's memory, told without a GPU.

    python -m benchmarks.memory [--target sm_90a] [MODEL ...]

The graphs are captured and compiled for the target, and the step runs on the CPU with segments that launch nothing: they make and let go the
results, workspaces and arguments that the launch plans say, in the chunks in which a GPU's segments run.  So the bytes are those of torch's
allocator, without its rounding and without what torch's libraries take for themselves; the numbers that are computed mean nothing.
"""

import argparse
import contextlib
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.training import MODELS
from inferno.runtime import executables
from inferno.runtime.launch.chunks import cut, run_chunks
from inferno.runtime.program import Program
from inferno.runtime.region import backend, segment

F = nn.functional


class Meter(TorchDispatchMode):
    """Counts the bytes that tensors made under it hold: those ``alive``, and the most that there were."""

    def __init__(self) -> None:
        super().__init__()
        self.alive = self.most = 0
        self._seen: weakref.WeakSet = weakref.WeakSet()

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        out = function(*args, **(kwargs or {}))
        for tensor in torch.utils._pytree.tree_leaves(out):
            if isinstance(tensor, Tensor):
                self._count(tensor.untyped_storage())
        return out

    def _count(self, storage: torch.UntypedStorage) -> None:
        if storage not in self._seen:
            self._seen.add(storage)
            self.alive += storage.nbytes()
            self.most = max(self.most, self.alive)
            weakref.finalize(storage, self._drop, storage.nbytes())

    def _drop(self, count: int) -> None:
        self.alive -= count


class PlannedExecutable:
    """Stands for the executable of a program for a GPU: makes what it makes, when it does, and launches nothing."""

    def __init__(
        self, program: Program, device: torch.device, dtypes: Sequence[torch.dtype], interpret: bool = False, cuda_graphs: bool = False,
        given: Collection[int] = (), writes: Sequence[tuple[int, int]] = (),
    ) -> None:
        """As ``make_executable``."""
        self._plan, self._dtypes = executables.plan_in_place(program, writes), dtypes
        self._chunks = cut(self._plan, given)
        self.takes = len(self._chunks) > 1
        self._fresh = [i for i, o in enumerate(self._plan.outputs) if o.result == i]

    def run(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        owned = {i: self._make(i) for i in self._fresh}
        workspace = self._workspace()
        del workspace
        return self._outputs(arguments, owned)

    def run_taking(self, arguments: list[Tensor]) -> list[Tensor]:
        owned: dict[int, Tensor] = {}
        workspace = self._workspace()
        nothing = [lambda base: None] * len(self._chunks)
        run_chunks(self._chunks, nothing, 0, lambda i: owned.update({i: self._make(i)}), lambda begin: False, arguments)
        del workspace
        return self._outputs(arguments, owned)

    def _workspace(self) -> Tensor:
        return torch.empty(self._plan.workspace_bytes, dtype=torch.uint8)

    def _make(self, index: int) -> Tensor:
        return torch.empty(self._plan.outputs[index].shape, dtype=self._dtypes[index])

    def _outputs(self, arguments: Sequence[Tensor], owned: dict[int, Tensor]) -> list[Tensor]:
        given = [arguments[o.argument] if o.argument >= 0 else owned[o.result] for o in self._plan.outputs]
        return [t.view(o.shape).view(dtype) for t, o, dtype in zip(given, self._plan.outputs, self._dtypes)]


@contextlib.contextmanager
def planned(meter: Meter) -> Iterator[None]:
    """What the backend compiles meanwhile runs on stand-ins, under ``meter``."""
    executable, compile_graph = executables.make_executable, backend.compile_graph

    def metered(*args: Any, **more: Any) -> Any:
        region = compile_graph(*args, **more)

        def run(values: list[Any]) -> list[Any]:
            with meter:
                return region.run(values)

        return replace(region, run=run)

    segment.make_executable = executables.make_executable = PlannedExecutable  # of segments, and of what prepares their weights
    backend.compile_graph = metered
    try:
        yield
    finally:
        segment.make_executable = executables.make_executable = executable
        backend.compile_graph = compile_graph


@dataclass(frozen=True)
class Memory:
    """Bytes beyond parameters and inputs: ``kept`` between forward and backward, with the forward's results; the most that there are in
    the ``forward`` and, with all gradients, in the ``backward``."""

    kept: int
    forward: int
    backward: int


def measure(model: nn.Module, loss: Callable[[Callable], Tensor], target: str) -> Memory:
    """The memory of ``loss(compiled model).backward()``.  The first time compiles; the second counts."""
    meter = Meter()
    torch._dynamo.reset()
    with planned(meter):
        compiled = torch.compile(model, backend="inferno", options={"target": target})

        def forward(*args: Any) -> Any:
            out = compiled(*args)
            nonlocal kept, most
            kept, most = meter.alive, meter.most
            meter.most = 0
            return out

        for _ in range(2):
            kept = most = meter.most = 0
            model.zero_grad()
            before = meter.alive
            result = loss(forward)
            result.backward()
            del result
    return Memory(kept - before, most - before, meter.most - before)


def of_model(name: str, target: str, small: bool) -> Memory:
    """The memory of a step of one of the models of ``benchmarks.training``."""
    torch.manual_seed(0)
    model, batch = MODELS[name](small)
    x, y = batch(torch.Generator().manual_seed(1))
    return measure(model.train(), lambda call: F.cross_entropy(call(x), y), target)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--target", default="sm_90a")
    arguments = parser.parse_args()
    for name in arguments.models:
        found = of_model(name, arguments.target, small=False)
        parts = [f"{part} {getattr(found, part) / 2**20:.1f} MiB" for part in ("kept", "forward", "backward")]
        print(f"{name}: {', '.join(parts)}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
