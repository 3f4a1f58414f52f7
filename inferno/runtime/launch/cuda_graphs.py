"""A launch plan as CUDA graphs: all of its kernels go to the GPU in one call of the driver.

Nothing is captured: a plan says what would be, so the graph is built of it, node by node, with the addresses of a call.  A
call with other addresses changes the nodes that have them.  So inputs are not copied, results are new tensors each time, and
workspace comes from torch's allocator, whose pool all graphs share.  A call of the library is a graph in the graph: what it launches is
the library's own business, so that alone is captured, on a stream of ours.  In a loop the allocator gives the same addresses again and
again, and nothing is changed at all.

Each stream has a graph of its own, since a graph runs once at a time.  The plan is launched without a graph where one does not
pay or cannot be: at a stream's first call, at a call that would change most of the nodes (unless it comes again), while the
stream is being captured, and once the driver has refused to make one.
"""

import ctypes
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol

from inferno.runtime.launch import driver
from inferno.runtime.launch.cublaslt import MatmulCall
from inferno.runtime.launch.host import COOPERATIVE, EARLY, ERROR, STEP, STREAM, WORKSPACE, attribute_of
from inferno.runtime.launch.parameters import Layout, Parameters, encoder
from inferno.runtime.plan.plan import LibraryCall, Plan

log = logging.getLogger(__name__)

# Streams of one program that keep their graph; torch's own pool has 32, of which programs use one or two.
_STREAMS = 8
_LEAST_KERNELS = 2  # one kernel alone is one call already
# The first node that may begin before the one in front of it has ended.  Were it the second, the driver (580, CUDA 13) would start library calls
# further on before their operands are there; with the edge from the first node a full one they wait.
_FIRST_EARLY = 2
_NON_BLOCKING, _RELAXED = 1, 2  # a stream that waits for no other; a capture that forbids no other thread anything


class Node(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2, as cuda.h has it."""

    _fields_ = [
        ("function", ctypes.c_void_p), *((n, ctypes.c_uint) for n in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        ("parameters", ctypes.c_void_p), ("extra", ctypes.c_void_p), ("kernel", ctypes.c_void_p), ("context", ctypes.c_void_p),
    ]


class Api(Protocol):
    """What is needed of the driver; each function returns a CUresult, handles are stored where an address says."""

    def encode(self, *arguments: int) -> int: ...
    def is_capturing(self, stream: int, status: int) -> int: ...
    def create(self, graph: int, flags: int) -> int: ...
    def add_kernel(self, node: int, graph: int, dependencies: int | None, count: int, parameters: int) -> int: ...
    def set_attribute(self, node: int, kind: int, value: int) -> int: ...
    def add_dependencies(self, graph: int, sources: int, targets: int, edges: int, count: int) -> int: ...
    def add_child(self, node: int, graph: int, dependencies: int | None, count: int, child: int) -> int: ...
    def instantiate(self, executable: int, graph: int, flags: int) -> int: ...
    def set_parameters(self, executable: int, node: int, parameters: int) -> int: ...
    def set_child(self, executable: int, node: int, child: int) -> int: ...
    def create_stream(self, stream: int, flags: int) -> int: ...
    def destroy_stream(self, stream: int) -> int: ...
    def begin_capture(self, stream: int, mode: int) -> int: ...
    def end_capture(self, stream: int, graph: int) -> int: ...
    def launch(self, executable: int, stream: int) -> int: ...
    def destroy_executable(self, executable: int) -> int: ...
    def destroy(self, graph: int) -> int: ...
    def describe(self, code: int) -> str: ...


class Driver:
    """The driver's functions, in the versions that the structures here are of (CUDA 12.3 and later)."""

    def __init__(self) -> None:
        pointer, unsigned = ctypes.c_void_p, ctypes.c_uint

        def entry(name: str, *types: type) -> Callable[..., int]:
            return ctypes.CFUNCTYPE(ctypes.c_int, *types)(driver.address(name))

        self.encode = encoder(driver.address("cuTensorMapEncodeTiled"), driver.address("cuTensorMapEncodeIm2col"))
        self.is_capturing = entry("cuStreamIsCapturing", pointer, pointer)
        self.create = entry("cuGraphCreate", pointer, unsigned)
        self.add_kernel = entry("cuGraphAddKernelNode_v2", pointer, pointer, pointer, ctypes.c_size_t, pointer)
        self.set_attribute = entry("cuGraphKernelNodeSetAttribute", pointer, ctypes.c_int, pointer)
        self.add_dependencies = entry("cuGraphAddDependencies_v2", pointer, pointer, pointer, pointer, ctypes.c_size_t)
        self.instantiate = entry("cuGraphInstantiateWithFlags", pointer, pointer, ctypes.c_ulonglong)
        self.set_parameters = entry("cuGraphExecKernelNodeSetParams_v2", pointer, pointer, pointer)
        self.launch = entry("cuGraphLaunch", pointer, pointer)
        self.add_child = entry("cuGraphAddChildGraphNode", pointer, pointer, pointer, ctypes.c_size_t, pointer)
        self.set_child = entry("cuGraphExecChildGraphNodeSetParams", pointer, pointer, pointer)
        self.create_stream = entry("cuStreamCreate", pointer, unsigned)
        self.destroy_stream = entry("cuStreamDestroy_v2", pointer)
        self.begin_capture = entry("cuStreamBeginCapture_v2", pointer, ctypes.c_int)
        self.end_capture = entry("cuStreamEndCapture", pointer, pointer)
        self.destroy_executable = entry("cuGraphExecDestroy", pointer)
        self.destroy = entry("cuGraphDestroy", pointer)
        self.describe = driver.describe


def graphs(
    plan: Plan, functions: Sequence[int | MatmulCall], result_words: dict[int, int], early: bool, plain: Callable[[int], None],
) -> Callable[[int], None]:
    """The function of a state's address that launches the plan as CUDA graphs; ``plain``, which launches it kernel by kernel, where
    the driver is too old for them."""
    try:
        api = Driver()
    except AttributeError as error:
        log.warning("cuda_graphs: the driver lacks %s; kernels are launched one by one", error)
        return plain
    return GraphLauncher(plan, functions, result_words, early, api, plain).run


_NOT_SUPPORTED = 801  # CUDA_ERROR_NOT_SUPPORTED: said of a library call that cannot be captured


class Refused(Exception):
    """The driver refused to make a graph; holds its error code."""


class GraphLauncher:
    """``run`` is the same function of the same state as ``host``'s native code, which is ``plain``.

    Safe from several threads: those on one stream take turns, as their kernels do.
    """

    def __init__(
        self, plan: Plan, functions: Sequence[int | MatmulCall], result_words: dict[int, int], early: bool, api: Api, plain: Callable[[int], None],
    ) -> None:
        self._layout = Layout(plan, result_words)
        self._functions, self._early, self._api, self._plain = functions, early, api, plain
        self._state = ctypes.c_int64 * self._layout.words
        self._bytes = 8 * (self._layout.words - WORKSPACE)
        self._usable = len(plan.steps) >= _LEAST_KERNELS
        self._lock = threading.Lock()
        self._streams: OrderedDict[int, _Stream] = OrderedDict()
        if not self._usable:
            log.info("a program of %d kernels is launched without a CUDA graph", len(plan.steps))

    def run(self, base: int) -> None:
        """Launch everything on the stream of the state at ``base``; what fails leaves its code and step there."""
        state = self._state.from_address(base)
        if not self._usable or self._is_captured(state[STREAM]):
            self._plain(base)
            return
        stream = self._stream(state[STREAM])
        with stream.lock:
            if not self._prepare(stream, state, ctypes.string_at(base + 8 * WORKSPACE, self._bytes)):
                self._plain(base)
                return
            error = self._api.launch(stream.graph.executable, state[STREAM])
            if error:
                state[ERROR], state[STEP] = error, 0

    def _stream(self, handle: int) -> "_Stream":
        with self._lock:
            stream = self._streams.get(handle)
            if stream is None:
                stream = self._streams[handle] = _Stream()
                if len(self._streams) > _STREAMS:
                    self._streams.popitem(last=False)  # its graph is destroyed when nobody uses it any more
            self._streams.move_to_end(handle)
            return stream

    def _prepare(self, stream: "_Stream", state: ctypes.Array, words: bytes) -> bool:
        """Whether the stream's graph has the addresses of this call."""
        again, stream.last = stream.last == words, words
        if stream.words == words:
            return True
        try:
            if stream.graph is None:
                if not again and stream.calls == 0:
                    stream.calls = 1
                    return False
                stream.graph = self._build(state)
            elif not stream.graph.change(state, force=again):
                return False
        except Refused as error:
            self._give_up(stream, error.args[0])
            return False
        stream.words = words
        return True

    def _build(self, state: ctypes.Array) -> "_Graph":
        if self._early:
            try:
                return _Graph(self._layout, self._functions, True, self._api, state)
            except Refused as error:
                log.info("no CUDA graph whose kernels begin early: %s", self._api.describe(error.args[0]))
        return _Graph(self._layout, self._functions, False, self._api, state)

    def _give_up(self, stream: "_Stream", code: int) -> None:
        log.warning("cuda_graphs: the driver makes no graph of this program (%s); its kernels are launched one by one", self._api.describe(code))
        self._usable, stream.graph, stream.words = False, None, None

    def _is_captured(self, stream: int) -> bool:
        """Whether somebody captures the stream, into a graph of theirs: then the kernels go there."""
        status = ctypes.c_int(0)
        return self._api.is_capturing(stream, ctypes.addressof(status)) != 0 or status.value != 0


class _Stream:
    """What a stream has: its graph, the state's words that the graph was made for, and those of its last call."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.graph: _Graph | None = None
        self.words: bytes | None = None
        self.last: bytes | None = None
        self.calls = 0


class _Graph:
    """One executable graph: the plan's steps in a row, each behind the one before it."""

    def __init__(self, layout: Layout, functions: Sequence[int | MatmulCall], early: bool, api: Api, state: Sequence[int]) -> None:
        self._layout, self._functions, self._api = layout, functions, api
        self._graph, self.executable, self._stream = ctypes.c_void_p(), None, ctypes.c_void_p()
        self._memory = Parameters(layout)
        self._memory.values[:] = self._memory.read(state)
        self._check(self._memory.make_maps(api.encode)[0])
        steps = layout.steps
        self._parameters = {
            i: Node(f, *s.grid, *s.block, s.shared, p, None, None, None)
            for i, (f, s, p) in enumerate(zip(functions, steps, self._memory.pointers)) if not isinstance(s, LibraryCall)
        }
        self._nodes = (ctypes.c_void_p * len(functions))()
        first, allowed = ctypes.addressof(self._nodes), (ctypes.c_uint64 * 8)(1)
        self._check(api.create(ctypes.addressof(self._graph), 0))
        for i in range(len(functions)):
            if i in self._parameters:
                self._check(api.add_kernel(first + 8 * i, self._graph.value, None, 0, ctypes.addressof(self._parameters[i])))
                if attribute_of(steps, i, early) == COOPERATIVE:
                    self._check(api.set_attribute(self._nodes[i], COOPERATIVE, ctypes.addressof(allowed)))
            else:
                self._with_captured(i, lambda child, i=i: api.add_child(first + 8 * i, self._graph.value, None, 0, child))
        # CUgraphEdgeData: bytes for the port, 1 when all blocks have let the next kernel come, 0, and the type, 1 for programmatic.
        edges = (ctypes.c_ubyte * 8 * (len(functions) - 1))()
        for i, edge in enumerate(edges, 1):
            edge[0] = edge[2] = int(i >= _FIRST_EARLY and attribute_of(steps, i, early) == EARLY)
        self._check(api.add_dependencies(self._graph.value, first, first + 8, ctypes.addressof(edges), len(functions) - 1))
        executable = ctypes.c_void_p()
        self._check(api.instantiate(ctypes.addressof(executable), self._graph.value, 0))
        self.executable = executable.value

    def change(self, state: Sequence[int], force: bool) -> bool:
        """Give the nodes the addresses of a state.  Without ``force`` not where most of them would change; False says so.

        What is on its way to the GPU is not affected: a graph's nodes are copied when it is launched.
        """
        memory = self._memory
        values = memory.read(state)
        changed = [i for i, (new, old) in enumerate(zip(values, memory.values)) if new != old]
        steps = sorted({step for i in changed for step in self._layout.users[i]})
        if not force and 2 * len(steps) > len(self._nodes):
            return False
        memory.values[:] = values
        self._check(memory.make_maps(self._api.encode)[0])
        for step in steps:
            node = self._nodes[step]
            if step in self._parameters:
                self._check(self._api.set_parameters(self.executable, node, ctypes.addressof(self._parameters[step])))
            else:
                self._with_captured(step, lambda child, node=node: self._api.set_child(self.executable, node, child))
        return True

    def _with_captured(self, step: int, use: Callable[[int], int]) -> None:
        """Capture a library call into a graph for the driver to copy: ``use`` has it do so."""
        api, child = self._api, ctypes.c_void_p()
        if self._stream.value is None:
            self._check(api.create_stream(ctypes.addressof(self._stream), _NON_BLOCKING))
        stream = self._stream.value
        self._check(api.begin_capture(stream, _RELAXED))
        status = self._functions[step].run([self._memory.values[p] for p in self._layout.positions(self._layout.steps[step])], stream)
        code = api.end_capture(stream, ctypes.addressof(child))
        try:
            self._check(code or (_NOT_SUPPORTED if status else 0))
            self._check(use(child.value))
        finally:
            if child.value:
                api.destroy(child.value)

    def __del__(self) -> None:
        if self.executable:
            self._api.destroy_executable(self.executable)
        if self._graph.value:
            self._api.destroy(self._graph.value)
        if self._stream.value:
            self._api.destroy_stream(self._stream.value)

    @staticmethod
    def _check(code: int) -> None:
        if code:
            raise Refused(code)


__all__ = ["Api", "Driver", "GraphLauncher", "Node", "graphs"]
