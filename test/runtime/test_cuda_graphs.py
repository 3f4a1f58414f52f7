"""Plans as CUDA graphs, with functions of ours in the driver's place: each launch has what the plain launches would have."""

import ctypes
import gc
import random
import threading
from dataclasses import replace

import pytest
from checks import in_threads
from fake_driver import FakeDriver

from inferno.runtime.launch.cuda_graphs import GraphLauncher, Node
from inferno.runtime.launch.host import ARGUMENTS, ERROR, STREAM, WORKSPACE
from inferno.runtime.launch.interpreter import interpreter
from inferno.runtime.plan.plan import Buffer, Launch, LibraryCall, Output, Plan, TensorMap

ARGUMENT, OTHER, SCRATCH, RESULT = (
    Buffer("argument", 0, (64, 64), "bf16"), Buffer("argument", 1, (8,), "f32"), Buffer("workspace", 512, (64,), "f32"),
    Buffer("result", 0, (64,), "f32"),
)
MAP = TensorMap(ARGUMENT, (64, 32), (2, 128), (64, 8), "bf16", 128, 256)
STEPS = (
    Launch("a::a", (4, 2, 1), (128, 1, 1), (1, 1, 1), 1000, (MAP, SCRATCH)),
    Launch("b::b", (5, 1, 1), (32, 1, 1), (1, 1, 1), 0, (SCRATCH, SCRATCH)),
    Launch("c::c", (6, 1, 1), (32, 1, 1), (1, 1, 1), 0, (SCRATCH, OTHER)),
    Launch("d::d", (7, 1, 3), (64, 2, 1), (1, 1, 1), 0, (OTHER, MAP, SCRATCH, RESULT)),
)
PLAN = Plan(STEPS, (ARGUMENT, OTHER), (Output((64,), "f32", result=0),), 1024)
FUNCTIONS, WORDS = [0x1234, 0x5678, 0x9ABC, 0xDEF0], {0: ARGUMENTS + 2}
COUNTS = {f: len(s.parameters) for f, s in zip(FUNCTIONS, STEPS)}


class FakeGraphs:
    """The part of the driver that makes graphs.  ``launches`` has, for each launch of a graph, its stream and its kernels as
    FakeDriver has them; ``refuses`` names the functions that fail."""

    def __init__(self, *refuses: str) -> None:
        self.refuses, self.launches, self.changed, self.edges, self.attributes = set(refuses), [], 0, [], []
        self.capturing: set[int] = set()
        self.alive: dict[int, list] = {}
        self._driver = FakeDriver(COUNTS)
        self._next = 1
        self._lock = threading.Lock()

    def _new(self, at: int) -> int:
        with self._lock:
            self._next += 1
            ctypes.c_int64.from_address(at).value = self._next
            return self._next

    def encode(self, *arguments):
        from inferno.runtime.launch.parameters import encoder

        return 1 if "encode" in self.refuses else encoder(self._driver.encode)(*arguments)

    def is_capturing(self, stream, status):
        ctypes.c_int.from_address(status).value = int(stream in self.capturing)
        return 0

    def create(self, graph, flags):
        self.alive[self._new(graph)] = []
        return 801 if "create" in self.refuses else 0

    def _kernel(self, parameters):
        n = Node.from_address(parameters)
        assert not n.extra and not n.kernel and not n.context
        pointers = (ctypes.c_void_p * COUNTS[n.function]).from_address(n.parameters)
        values = [ctypes.c_int64.from_address(p).value for p in pointers]
        values = [self._driver.maps[v] if isinstance(p, TensorMap) else v for v, p in zip(values, STEPS[FUNCTIONS.index(n.function)].parameters)]
        return n.function, (n.gx, n.gy, n.gz, n.bx, n.by, n.bz, n.shared), values

    def add_kernel(self, node, graph, dependencies, count, parameters):
        assert dependencies is None and count == 0
        self.alive[graph].append([self._new(node), self._kernel(parameters)])
        return 0

    def set_attribute(self, node, kind, value):
        self.attributes.append((node, kind, ctypes.c_int.from_address(value).value))
        return 0

    def add_child(self, node, graph, dependencies, count, child):
        assert dependencies is None and count == 0
        self.alive[graph].append([self._new(node), self.alive[child]])
        return 0

    def set_child(self, executable, node, child):
        self.changed += 1
        next(n for n in self.alive[executable] if n[0] == node)[1] = self.alive[child]
        return 1 if "set_child" in self.refuses else 0

    def create_stream(self, stream, flags):
        self.alive[self._new(stream)] = []
        return 0

    def begin_capture(self, stream, mode):
        self.capturing.add(stream)
        self.alive[stream] = []
        return 0

    def end_capture(self, stream, graph):
        self.capturing.remove(stream)
        self.alive[self._new(graph)] = list(self.alive[stream])
        return 0

    def add_dependencies(self, graph, sources, targets, edges, count):
        nodes = [n for n, _ in self.alive[graph]]
        assert list((ctypes.c_int64 * count).from_address(sources)) == nodes[:-1]
        assert list((ctypes.c_int64 * count).from_address(targets)) == nodes[1:]
        self.edges = [bytes((ctypes.c_ubyte * 8).from_address(edges + 8 * i)) for i in range(count)]
        return 801 if "early" in self.refuses and any(map(any, self.edges)) else 0

    def instantiate(self, executable, graph, flags):
        if "instantiate" in self.refuses:
            return 801
        self.alive[self._new(executable)] = [list(n) for n in self.alive[graph]]
        return 0

    def set_parameters(self, executable, node, parameters):
        self.changed += 1
        next(n for n in self.alive[executable] if n[0] == node)[1] = self._kernel(parameters)
        return 1 if "set_parameters" in self.refuses else 0

    def launch(self, executable, stream):
        self.launches.append((stream, [kernel for _, kernel in self.alive[executable]]))
        return 719 if "launch" in self.refuses else 0

    def destroy_executable(self, executable):
        del self.alive[executable]
        return 0

    destroy = destroy_stream = destroy_executable

    def describe(self, code):
        return f"error {code}"


class Calls:
    """A launcher, and what the plain launches of the same calls would be."""

    def __init__(self, *refuses: str, early: bool = True) -> None:
        self.api, self.plain, self.reference = FakeGraphs(*refuses), FakeDriver(COUNTS), FakeDriver(COUNTS)
        self._plain = interpreter(PLAN, FUNCTIONS, self.plain.launch, self.plain.encode, WORDS, early)
        self._reference = interpreter(PLAN, FUNCTIONS, self.reference.launch, self.reference.encode, WORDS, early)
        self.launcher = GraphLauncher(PLAN, FUNCTIONS, WORDS, early, self.api, self._plain)

    def __call__(self, *addresses: int, stream: int = 5, workspace: int = 0x10000) -> str:
        """How a call was launched, "graph" or "plain"; it must have been right."""
        state = (ctypes.c_int64 * (ARGUMENTS + 3))(0, 0, 0, 0, stream, workspace, *addresses)
        assert (state[STREAM], state[WORKSPACE]) == (stream, workspace)
        before = len(self.api.launches), len(self.plain.launches)
        self._reference(ctypes.addressof(state))
        self.launcher.run(ctypes.addressof(state))
        assert state[ERROR] == 0
        wanted = kernels(self.reference, 4)
        if len(self.api.launches) > before[0]:
            assert len(self.plain.launches) == before[1]
            assert self.api.launches[-1] == (stream, wanted)
            return "graph"
        assert kernels(self.plain, 4) == wanted and self.plain.launches[-1][2] == stream
        return "plain"


def kernels(driver: FakeDriver, count: int) -> list:
    """The last launches, with tensor maps in their places."""
    return [
        (function, sizes, [driver.maps[v] if isinstance(p, TensorMap) else v for v, p in zip(values, STEPS[FUNCTIONS.index(function)].parameters)])
        for function, sizes, _, _, values in driver.launches[-count:]
    ]


@pytest.mark.parametrize("early", [True, False])
def test_the_first_call_is_plain_and_the_others_are_one_launch(early):
    calls = Calls(early=early)
    assert [calls(16, 32, 48) for _ in range(5)] == ["plain", *["graph"] * 4]
    assert calls.api.changed == 0
    assert calls.api.edges == [bytes(8), *[bytes([early, 0, early, 0, 0, 0, 0, 0])] * 2]  # the second node waits for the first


def test_kernels_whose_blocks_wait_for_each_other():
    """Their nodes say so, and they begin behind those in front of them."""
    plan = replace(PLAN, steps=(*STEPS[:2], replace(STEPS[2], cooperative=True), STEPS[3]))
    api, plain = FakeGraphs(), FakeDriver(COUNTS)
    launcher = GraphLauncher(plan, FUNCTIONS, WORDS, True, api, interpreter(plan, FUNCTIONS, plain.launch, plain.encode, WORDS, True))
    for _ in range(2):
        state = (ctypes.c_int64 * (ARGUMENTS + 3))(0, 0, 0, 0, 5, 0x10000, 16, 32, 48)
        launcher.run(ctypes.addressof(state))
    assert [x[3] for x in plain.launches] == [[(6, 1)], [(6, 1)], [(2, 1)], [(6, 1)]]
    assert [edge[0] for edge in api.edges] == [0, 0, 1] and len(api.launches) == 1
    assert [(kind, value) for _, kind, value in api.attributes] == [(2, 1)]


def test_other_addresses_change_the_kernels_that_have_them():
    calls = Calls()
    calls(16, 32, 48)
    assert calls(16, 32, 48) == "graph"
    for addresses, changed in ((16, 32, 64), 1), ((16, 96, 64), 2), ((80, 96, 64), 2), ((80, 96, 64), 0), ((80, 32, 64), 2):
        before = calls.api.changed
        assert calls(*addresses) == "graph" and calls.api.changed - before == changed


def test_a_call_that_changes_most_kernels_is_plain_unless_it_comes_again():
    calls = Calls()
    calls(16, 32, 48)
    assert calls(16, 32, 48) == "graph"
    assert calls(16, 32, 48, workspace=0x20000) == "plain" and calls.api.changed == 0
    assert calls(16, 32, 48) == "graph" and calls.api.changed == 0
    assert calls(16, 32, 48, workspace=0x20000) == "plain"
    assert calls(16, 32, 48, workspace=0x20000) == "graph" and calls.api.changed == 4
    assert calls(16, 32, 48, workspace=0x20000) == "graph" and calls.api.changed == 4


def test_random_calls_on_several_streams():
    calls, generator = Calls(), random.Random(0)
    ways = [
        calls(*(16 * generator.randrange(1, 4) for _ in range(3)), stream=generator.randrange(1, 4), workspace=generator.choice((0x10000, 0x20000)))
        for _ in range(300)
    ]
    assert 30 < ways.count("graph") < 270


def test_each_stream_has_its_graph_and_old_ones_go():
    calls = Calls()
    for stream in range(1, 20):
        assert [calls(16, 32, 48, stream=stream) for _ in range(2)] == ["plain", "graph"]
    assert len(calls.api.alive) == 2 * 8  # graphs, and what is instantiated of them
    assert calls(16, 32, 48, stream=1) == "plain"
    del calls.launcher
    assert not calls.api.alive


def test_a_stream_that_is_captured_gets_the_kernels():
    calls = Calls()
    calls(16, 32, 48)
    assert calls(16, 32, 48) == "graph"
    calls.api.capturing.add(5)
    assert calls(16, 32, 48) == "plain"
    calls.api.capturing.clear()
    assert calls(16, 32, 48) == "graph"


@pytest.mark.parametrize("refused", ["create", "instantiate", "encode", "set_parameters"])
def test_what_the_driver_refuses_is_launched_one_by_one(refused, caplog):
    calls = Calls(refused)
    ways = [calls(16, 32, 48 + 16 * i) for i in range(5)]
    assert ways == ["plain"] * 5 if refused != "set_parameters" else ["plain", "graph", *["plain"] * 3]
    assert sum("the driver makes no graph of this program" in r.message for r in caplog.records) == 1
    assert not calls.api.alive


def test_kernels_that_must_not_begin_early_make_a_graph_all_the_same():
    calls = Calls("early")
    assert [calls(16, 32, 48) for _ in range(3)] == ["plain", "graph", "graph"]
    assert calls.api.edges == [bytes(8)] * 3


def test_a_launch_that_fails_is_an_error():
    calls = Calls()
    calls(16, 32, 48)
    calls(16, 32, 48)
    calls.api.refuses.add("launch")
    state = (ctypes.c_int64 * (ARGUMENTS + 3))(0, 0, 0, 0, 5, 0x10000, 16, 32, 48)
    calls.launcher.run(ctypes.addressof(state))
    assert state[ERROR] == 719


def test_one_kernel_needs_no_graph():
    api, plain = FakeGraphs(), []
    launcher = GraphLauncher(Plan(STEPS[:1], PLAN.arguments, (), 1024), FUNCTIONS[:1], {}, True, api, plain.append)
    state = (ctypes.c_int64 * (ARGUMENTS + 2))(0, 0, 0, 0, 5, 0x10000, 16, 32)
    for _ in range(3):
        launcher.run(ctypes.addressof(state))
    assert len(plain) == 3 and not api.alive


def test_threads_on_one_stream_take_turns():
    """Each launch has the addresses of its own call, whoever else calls at the same time."""
    api, plain = FakeGraphs(), FakeDriver(COUNTS)
    launcher = GraphLauncher(PLAN, FUNCTIONS, WORDS, True, api, interpreter(PLAN, FUNCTIONS, plain.launch, plain.encode, WORDS, True))

    def work(number):
        for _ in range(100):
            state = (ctypes.c_int64 * (ARGUMENTS + 3))(0, 0, 0, 0, 5 + number % 2, 0x10000, 16, 32, 1000 * number)
            launcher.run(ctypes.addressof(state))

    in_threads(work, range(1, 5))
    results = [(stream, launched[3][2][3] // 1000) for stream, launched in api.launches]
    results += [(stream, values[3] // 1000) for function, _, stream, _, values in plain.launches if function == FUNCTIONS[3]]
    assert sorted(results) == sorted((5 + n % 2, n) for n in range(1, 5) for _ in range(100))


class LibraryCalls:
    """Calls of a plan of a kernel, a library call and two kernels."""

    STEPS = (STEPS[0], LibraryCall("cublaslt", {}, (SCRATCH, OTHER), (), "mm"), STEPS[2], STEPS[3])

    def __init__(self, *refuses: str, status: int = 0) -> None:
        self.api, self.plain, self.log = FakeGraphs(*refuses), FakeDriver(COUNTS), []
        functions = [FUNCTIONS[0], self, *FUNCTIONS[2:]]
        plan = replace(PLAN, steps=self.STEPS)
        self.status, self.run = status, self._run
        self.launcher = GraphLauncher(plan, functions, WORDS, True, self.api, interpreter(plan, functions, self.plain.launch, self.plain.encode, WORDS, True))

    def _run(self, addresses, stream):
        if stream in self.api.capturing:
            self.api.alive[stream].append(tuple(addresses))
        else:
            self.log.append((tuple(addresses), stream))
        return self.status if stream in self.api.capturing else 0

    def __call__(self, *addresses: int) -> str:
        state = (ctypes.c_int64 * (ARGUMENTS + 3))(0, 0, 0, 0, 5, 0x10000, *addresses)
        before, made = len(self.api.launches), len(self.log)
        self.launcher.run(ctypes.addressof(state))
        assert state[ERROR] == 0
        if len(self.api.launches) > before:
            assert len(self.log) == made and self.api.launches[-1][1][1] == [(0x10000 + 512, addresses[1])]
            return "graph"
        assert self.log[-1] == ((0x10000 + 512, addresses[1]), 5)
        return "plain"


def test_a_library_call_is_a_graph_in_the_graph():
    calls = LibraryCalls()
    assert [calls(16, 32, 48) for _ in range(3)] == ["plain", "graph", "graph"] and calls.api.changed == 0
    # no edge from or to it lets anything begin early
    assert [e[2] for e in calls.api.edges] == [0, 0, 1]
    assert calls(16, 32, 64) == "graph" and calls.api.changed == 1
    assert calls(16, 64, 64) == "plain" and calls(16, 64, 64) == "graph" and calls.api.changed == 4
    # what was captured is given back: a graph, its executable and the stream are left
    assert len(calls.api.alive) == 3
    api = calls.api
    del calls
    gc.collect()
    assert not api.alive


@pytest.mark.parametrize("refuses", [("set_child",), ()])
def test_a_library_call_that_no_graph_takes_is_called(refuses):
    calls = LibraryCalls(*refuses, status=0 if refuses else 15)
    assert calls(16, 32, 48) == "plain" and calls(16, 32, 48) == ("graph" if refuses else "plain")
    assert [calls(16, 64, 64) for _ in range(3)] == ["plain"] * 3
