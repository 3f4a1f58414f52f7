"""Where a graph is traced, a convolution's result lies in memory as eager's does.

torch.export turns cuDNN and oneDNN off while it traces, so that no operation comes apart into theirs.  But it is by them that eager gives the result of
a convolution in channels last where its image or its window is, and so do all that follow: without them the program's results would be row-major, each
by a kernel that transposes it (an H200, bf16, 3x3, 128 channels of 32x256x256 to 64 in channels last: 402 us, and 634 with that).
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram
from torch.fx import Interpreter, Node

aten = torch.ops.aten
_OPERATIONS = (aten.convolution.default, aten.convolution_backward.default)


@contextmanager
def convolutions_as_eager() -> Iterator[None]:
    """Fake tensors of convolutions are those of cuDNN and oneDNN as they are set now; for one thread at a time."""
    rules, switches = getattr(fake_impls, "op_implementations_dict", {}), _switches()
    before, known = {op: rules[op] for op in _OPERATIONS if op in rules}, FakeTensorMode.cache
    rules.update({op: _with(switches, rule) for op, rule in before.items()})
    FakeTensorMode.cache = _known(switches)
    try:
        yield
    finally:
        rules.update(before)
        FakeTensorMode.cache = known


def values_as_eager(program: ExportedProgram) -> dict[Node, Any]:
    """The fake values of a program's nodes, of one that was exported elsewhere, by convolutions as eager has them; none where it calls no convolution, or
    sizes vary, or it does not run."""
    values = [n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"]
    fake = [v for v in values if isinstance(v, FakeTensor)]
    fixed = all(isinstance(v, FakeTensor) and all(isinstance(n, int) for n in (*v.shape, *v.stride())) for v in values)
    if not fake or not fixed or not any("conv" in str(n.target) for n in program.graph.nodes if n.op == "call_function"):
        return {}
    run = _Values(program.graph_module)
    try:
        with convolutions_as_eager(), fake[0].fake_mode, torch.no_grad():
            run.run(*values)
    except Exception:  # what torch knows of it holds
        return {}
    return run.found


class _Values(Interpreter):
    """Keeps what each node of a graph is."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.found: dict[Node, Any] = {}

    def run_node(self, n: Node) -> Any:
        self.found[n] = super().run_node(n)
        return self.found[n]


def _switches() -> tuple[bool, bool]:
    """Whether cuDNN and oneDNN are used."""
    return torch._C._get_cudnn_enabled(), torch._C._get_mkldnn_enabled()


def _set(cudnn: bool, mkldnn: bool) -> None:
    torch._C._set_cudnn_enabled(cudnn)
    torch._C._set_mkldnn_enabled(mkldnn)


def _with(switches: tuple[bool, bool], rule: Callable) -> Callable:
    def call(*args: Any, **kwargs: Any) -> Any:
        given = _switches()
        _set(*switches)
        try:
            return rule(*args, **kwargs)
        finally:
            _set(*given)

    return call


@functools.cache
def _known(switches: tuple[bool, bool]) -> dict:
    """What torch knows of operations on fake tensors, which its own exports learn without the libraries."""
    return {}
