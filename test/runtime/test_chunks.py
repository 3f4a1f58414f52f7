"""Plans in chunks: the same launches, results made when they are first written, arguments let go when they are last read."""

import ctypes
import random
import weakref

import pytest
import torch
from fake_driver import FakeDriver

from inferno.runtime.launch import chunks
from inferno.runtime.launch.chunks import cut, run_chunks
from inferno.runtime.launch.host import ARGUMENTS, ERROR
from inferno.runtime.launch.interpreter import interpreter
from inferno.runtime.plan.plan import Buffer, Launch, Output, Plan

MB = 1 << 20


def make_plan(generator: random.Random, steps: int = 30, arguments: int = 8, results: int = 5) -> Plan:
    """Steps that read any of the arguments and write any of the results, each of 1 to 8 MB."""
    inputs = [Buffer("argument", i, (generator.randrange(1, 9) * MB // 4,), "f32") for i in range(arguments)]
    outputs = [Output((generator.randrange(1, 9) * MB // 4,), "f32", result=i) for i in range(results)]
    outputs.append(Output(inputs[0].shape, "f32", argument=0))
    places = [*inputs[:-1], *(Buffer("result", i, o.shape, "f32") for i, o in enumerate(outputs[:-1])), Buffer("workspace", 0, (64,), "f32")]
    launches = tuple(Launch(f"k{i}::k", (1, 1, 1), (32, 1, 1), (1, 1, 1), 0, tuple(generator.sample(places, 3))) for i in range(steps))
    return Plan(launches, tuple(inputs), tuple(outputs), 256)


def used(plan: Plan, place: str, index: int) -> list[int]:
    return [n for n, s in enumerate(plan.steps) if any((p.place, p.index) == (place, index) for p in s.parameters)]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("size", [1, 4 * MB, 20 * MB, 1 << 40])
def test_chunks_are_all_there_is_in_order(monkeypatch, seed, size):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", size)
    monkeypatch.setattr(chunks, "_LEAST_SAVED", 0)
    plan = make_plan(random.Random(seed))
    found = cut(plan, range(len(plan.arguments)))
    assert [c.begin for c in found] == [0, *(c.end for c in found[:-1])] and found[-1].end == len(plan.steps) and len(found) <= 32
    assert all(c.begin < c.end for c in found)
    assert len(found) == 1 if size == 1 << 40 else len(found) > 1 or size > MB
    assert sorted(i for c in found for i in c.results) == list(range(5)) and sorted(i for c in found for i in c.arguments) == list(range(1, 8))
    for c in found:
        for i in c.results:
            assert not any(n < c.begin for n in used(plan, "result", i))
        for i in c.arguments:
            assert not any(n >= c.end for n in used(plan, "argument", i))


def test_chunks_are_cut_where_they_save():
    """Steps that turn one argument into one result each: half of the bytes are enough."""
    inputs = [Buffer("argument", i, (16 * MB,), "f32") for i in range(8)]
    outputs = [Output((16 * MB,), "f32", result=i) for i in range(8)]
    steps = [Launch(f"k{i}::k", (1, 1, 1), (32, 1, 1), (1, 1, 1), 0, (inputs[i], Buffer("result", i, (16 * MB,), "f32"))) for i in range(8)]
    plan = Plan(tuple(steps), tuple(inputs), tuple(outputs), 0)
    assert len(cut(plan, range(8))) > 4
    assert len(cut(plan, ())) == 1 and len(cut(plan, (7,))) == 1
    all_at_once = Launch("k::k", (1, 1, 1), (32, 1, 1), (1, 1, 1), 0, tuple(inputs))
    assert len(cut(Plan((*steps, all_at_once), tuple(inputs), tuple(outputs), 0), range(8))) == 1


def test_each_chunk_has_its_share(monkeypatch):
    monkeypatch.setattr(chunks, "_LEAST_SAVED", 0)
    plan = make_plan(random.Random(0), steps=200, arguments=60, results=60)
    big = [Buffer("argument", a.index, (a.shape[0] * 16,), "f32") for a in plan.arguments]
    sizes = []
    for c in cut(Plan(plan.steps, tuple(big), plan.outputs, 256), range(60)):
        sizes.append(sum(4 * big[i].shape[0] for i in c.arguments) + sum(4 * plan.outputs[i].shape[0] for i in c.results))
    assert len(sizes) > 8 and max(sizes) < 3 * sum(sizes) / len(sizes)


@pytest.mark.parametrize("plan", [Plan((), (), (), 0), Plan((), (Buffer("argument", 0, (4,), "f32"),), (Output((4,), "f32", argument=0),), 0)])
def test_plans_of_nothing(plan):
    (chunk,) = cut(plan, range(len(plan.arguments)))
    assert (chunk.begin, chunk.results, chunk.arguments) == (0, (), ())


class Runs:
    """A plan run in chunks by the interpreter, with a driver of ours."""

    def __init__(self, plan: Plan, fails_at: int = -1) -> None:
        self.plan, self.chunks = plan, cut(plan, range(len(plan.arguments)))
        self.driver = FakeDriver({100 + i: 3 for i in range(len(plan.steps))}, launch_fails_at=fails_at)
        self.words = {i: ARGUMENTS + len(plan.arguments) + i for i, o in enumerate(plan.outputs) if o.result == i}
        functions = [100 + i for i in range(len(plan.steps))]

        def part(c):
            steps = Plan(plan.steps[c.begin:c.end], plan.arguments, plan.outputs, 256)
            return interpreter(steps, functions[c.begin:c.end], self.driver.launch, self.driver.encode, self.words, True)

        self.natives = [part(c) for c in self.chunks]

    def run(self, arguments: list) -> tuple[ctypes.Array, dict, list[int]]:
        """The state afterwards, the results, and how many arguments were left after each chunk."""
        state = (ctypes.c_int64 * (ARGUMENTS + len(self.plan.arguments) + len(self.words)))(0, 0, 0, 0, 5, 4096, *(t.data_ptr() for t in arguments))
        made, left, alive = {}, [], [weakref.ref(t) for t in arguments]

        def make(index):
            made[index] = torch.empty(4)
            state[self.words[index]] = made[index].data_ptr()

        def failed(begin):
            left.append(sum(r() is not None for r in alive))
            return state[ERROR] != 0

        run_chunks(self.chunks, self.natives, ctypes.addressof(state), make, failed, arguments)
        left.append(sum(r() is not None for r in alive))
        return state, made, left


def test_launches_are_those_of_the_whole_and_memory_goes(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 8 * MB)
    plan = make_plan(random.Random(3))
    runs, arguments = Runs(plan), [torch.empty(4) for _ in plan.arguments]
    assert len(runs.chunks) > 3
    addresses = {("argument", i): t.data_ptr() for i, t in enumerate(arguments)} | {("workspace", 0): 4096}
    state, made, left = runs.run(arguments)
    assert state[ERROR] == 0 and sorted(made) == list(range(5))
    addresses |= {("result", i): t.data_ptr() for i, t in made.items()}
    assert [x[0] for x in runs.driver.launches] == [100 + i for i in range(len(plan.steps))]
    for launch, step in zip(runs.driver.launches, plan.steps):
        assert launch[-1] == [addresses[p.place, p.index] for p in step.parameters]
    assert arguments[0] is not None and arguments[1:] == [None] * 7 and left[-1] == 1  # the first is an output
    assert left == sorted(left, reverse=True) and left[len(left) // 2] < 8


def test_nothing_runs_behind_a_failure(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 8 * MB)
    runs = Runs(make_plan(random.Random(3)), fails_at=12)
    state, _, left = runs.run([torch.empty(4) for _ in runs.plan.arguments])
    assert state[ERROR] == 719 and len(runs.driver.launches) == 12 and len(left) < len(runs.chunks) + 1


def test_regions_give_their_tensors_away(monkeypatch):
    """Segments that take are called with a list that alone holds what is not needed later."""
    from inferno.runtime.region import segment

    before, left = segment.Segment.__init__, []

    def taking(self, *args, **kwargs):
        before(self, *args, **kwargs)
        call = self.call

        def take(tensors):
            assert type(tensors) is list
            results = call(*tensors)
            alive = [weakref.ref(t) for t in tensors]
            tensors.clear()
            left.append(sum(r() is not None for r in alive))
            return results

        self.takes, self.call = True, take

    monkeypatch.setattr(segment.Segment, "__init__", taking)
    x, y = torch.randn(8, 8), torch.randn(8, 8)
    function = lambda x, y: torch.linalg.svdvals(torch.relu(x @ y) * 2) @ (torch.tanh(x + 1) * y).sigmoid() + x  # noqa: E731
    compiled = torch.compile(function, backend="inferno", fullgraph=True)
    torch.testing.assert_close(compiled(x, y), function(x, y))
    assert len(left) == 2
