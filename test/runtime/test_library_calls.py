"""Library calls in a GPU's launch plan, with functions of ours in the places of the driver and of cuBLASLt."""

import ctypes
import threading
from dataclasses import replace

import pytest
from fake_cublaslt import FakeCublasLt
from fake_driver import FakeDriver

from inferno.errors import LaunchError, PlanError
from inferno.library_matmul import LibraryMatmul, Matrix, check_call, from_options, matrix
from inferno.mlir import ExecutionEngine, ir, idle_context
from inferno.runtime.launch import cublaslt, host
from inferno.runtime.launch.cublaslt import MatmulCall
from inferno.runtime.launch.host import ARGUMENTS, ERROR, STEP, STREAM, WORKSPACE, host_program
from inferno.runtime.launch.interpreter import interpreter
from inferno.runtime.plan.plan import Buffer, Launch, LibraryCall, Output, Plan

X, W, V, SCRATCH, OUT = (
    Buffer("argument", 0, (64, 32), "bf16"), Buffer("argument", 1, (48, 32), "bf16"), Buffer("argument", 2, (48,), "bf16"),
    Buffer("workspace", 256, (4096,), "i8"), Buffer("result", 0, (64, 48), "bf16"),
)
PLAIN = LibraryMatmul((1, 64, 48, 32), (0, 32, 1), (0, 1, 32), (0, 48, 1))
BIASED = replace(PLAIN, bias=True, activation="gelu_tanh", offsets=(0, 0, 0, 8, 0), sizes=(1, 64, 40, 32))
KERNEL = Launch("k::k", (4, 2, 1), (128, 1, 1), (1, 1, 1), 0, (OUT,))
WORDS = {0: ARGUMENTS + 3}
FUNCTION = 0x1234


def step(call: LibraryMatmul) -> LibraryCall:
    buffers = {"lhs": X, "rhs": W, "bias": V, "start": OUT, "workspace": SCRATCH, "out": OUT}
    return LibraryCall("cublaslt", call.options(), tuple(buffers[role] for role in call.roles), (), "linear")


def plan_of(*steps) -> Plan:
    return Plan(tuple(s if isinstance(s, Launch) else step(s) for s in steps), (X, W, V), (Output((64, 48), "bf16", result=0),), 8192)


@pytest.fixture(params=["rows", "straight-line", "interpreter"])
def run(request, monkeypatch):
    """The function (plan, driver, library) -> the state after a call of it."""
    if request.param == "straight-line":
        monkeypatch.setattr(host, "rows_of", lambda *args: None)

    def run(plan, driver, library, early=True, calls=1):
        functions = [FUNCTION if isinstance(s, Launch) else MatmulCall(s, library.library) for s in plan.steps]
        if request.param == "interpreter":
            entry = interpreter(plan, functions, driver.launch, driver.encode, WORDS, early)
        else:
            text = host_program(plan, functions, driver.launch, driver.encode, WORDS, early)
            with idle_context(), ir.Location.unknown():
                engine = ExecutionEngine(ir.Module.parse(text), opt_level=2)
                engine.initialize()
            entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.raw_lookup("run"))
        states = []

        def call():
            state = (ctypes.c_int64 * (ARGUMENTS + 4))()
            state[STREAM], state[WORKSPACE] = 0x57, 0x10000
            state[ARGUMENTS:] = [0x20000, 0x30000, 0x40000 + 4096 * len(states), 0x50000]
            states.append(state)
            state[0], state[1] = ctypes.addressof(state) + 8, ctypes.addressof(state)
            entry(ctypes.addressof(state))

        threads = [threading.Thread(target=call) for _ in range(calls)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return list(states[0])

    return run


def test_a_call_gets_what_it_was_prepared_with_and_the_addresses(run):
    library = FakeCublasLt()
    state = run(plan_of(PLAIN), FakeDriver({}), library)
    (call,) = library.calls
    assert state[ERROR] == 0 and call["addresses"] == [0x30000, 0x20000, 0x50000, 0x50000]  # the transpose of the result: the rhs first
    assert call["workspace"] == (0x10100, 4096) and call["stream"] == 0x57 and call["algorithm"] == 1000 and call["factors"] == (1.0, 0.0)
    # CUDA_R_16BF; the weight is stored by rows of k, the result by rows of n
    assert [m["made of"] for m in call["matrices"]] == [(14, 32, 48, 32), (14, 32, 64, 32), (14, 48, 64, 48), (14, 48, 64, 48)]
    description = call["description"]
    assert description["made of"] == (68, 0) and description["epilogue"] == 1  # CUBLAS_COMPUTE_32F and CUDA_R_32F
    assert (description["transpose_a"], description["transpose_b"]) == (1, 0)


def test_a_bias_is_part_of_each_calls_own_description(run):
    library = FakeCublasLt()
    assert run(plan_of(BIASED, PLAIN, BIASED), FakeDriver({}), library, calls=4)[ERROR] == 0
    biases = [c["description"].get("bias") for c in library.calls]
    assert sorted(b for b in biases if b) == sorted([0x40000 + 4096 * i + 16 for i in range(4)] * 2)
    for call in library.calls:
        assert call["description"]["epilogue"] == (36 if "bias" in call["description"] else 1)
        assert (call["description"]["transpose_a"], call["description"]["transpose_b"]) == (1, 0)
    assert library.asked[0]["description"]["bias"] % 16 == 0 and library.asked[0]["description"]["bias"] > 0


def test_everything_is_given_back():
    library = FakeCublasLt()
    call = MatmulCall(step(BIASED), library.library)
    assert call.run([0x20000, 0x30000, 0x40000, 0x10000, 0x50000], 0) == 0
    del call
    assert [x["kind"] for x in library.alive.values()] == ["handle"]


@pytest.mark.parametrize("early", [True, False])
def test_a_kernel_behind_a_call_waits_for_its_end(run, early):
    log = []
    driver, library = FakeDriver({FUNCTION: 1}), FakeCublasLt(log=log)
    driver.launches = log
    state = run(plan_of(KERNEL, KERNEL, PLAIN, KERNEL, BIASED, BIASED, KERNEL, KERNEL), driver, library, early)
    assert state[ERROR] == 0
    # the calls are where they are in the plan; of the launches only those that follow launches begin early
    attributes = [x[3] if isinstance(x, tuple) else "call" for x in log]
    one = [(6, 1)] if early else []
    assert attributes == [one, one, "call", [], "call", "call", [], one]


@pytest.mark.parametrize("fails", [{"cublasLtMatmul": 15}, {"cublasLtMatmulDescSetAttribute": 7}, {"cublasLtMatmulDescCreate": 3}])
def test_nothing_runs_behind_a_call_that_fails(run, fails):
    driver, library = FakeDriver({FUNCTION: 1}), FakeCublasLt()
    plan = plan_of(KERNEL, BIASED, KERNEL, PLAIN)
    functions = [MatmulCall(s, library.library) for s in plan.steps if isinstance(s, LibraryCall)]
    before, made = len(library.alive), iter(functions)
    library.fails = fails

    class Prepared(MatmulCall):
        def __new__(cls, *_):
            return next(made)

        def __init__(self, *_):
            pass

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{__name__}.MatmulCall", Prepared)
        state = run(plan, driver, library)
    assert (state[ERROR], state[STEP]) == (next(iter(fails.values())), 1) and driver.calls == 1
    assert len(library.calls) == ("cublasLtMatmul" in fails) and len(library.alive) == before + ("cublasLtMatmulDescCreate" in fails)


def test_the_heuristic_is_told_of_alignment_batches_and_the_workspace():
    library = FakeCublasLt(offers=3)
    call = replace(
        PLAIN, sizes=(2, 16, 24, 32), lhs=(512, 32, 1), rhs=(0, 1, 32), out=(384, 24, 1), offsets=(0, 4, 0, 0, 1), beta=0.5, start=(0, 24, 1), algorithm=2,
    )
    MatmulCall(step(call), library.library)
    (asked,) = library.asked
    preference = asked["preference"]
    assert (preference["workspace"], preference["reductions"], asked["count"]) == (4096, 2, 3)
    assert [preference[f"aligned_{x}"] for x in "abcd"] == [8, 16, 16, 2]
    assert [(m["batch"], m["step"]) for m in asked["matrices"]] == [(2, 0), (2, 512), (2, 0), (2, 384)]


@pytest.mark.parametrize(("offers", "number", "taken"), [(3, 2, 1002), (1, 2, 1000), (5, 0, 1000)])
def test_an_algorithm_that_is_not_offered_is_the_first(offers, number, taken):
    library = FakeCublasLt(offers)
    MatmulCall(step(replace(PLAIN, algorithm=number)), library.library).run([16, 32, 48, 64], 0)
    assert library.calls[0]["algorithm"] == taken


def test_a_call_that_the_library_does_not_have_is_an_error():
    with pytest.raises(LaunchError, match="kernel linear: cuBLASLt has no algorithm .* matmul='generated'"):
        MatmulCall(step(PLAIN), FakeCublasLt(offers=0).library)
    library = FakeCublasLt(fails={"cublasLtMatmulAlgoGetHeuristic": 15})
    with pytest.raises(LaunchError, match="kernel linear: .*NOT_SUPPORTED"):
        MatmulCall(step(PLAIN), library.library)
    assert [x["kind"] for x in library.alive.values()] == ["handle"]


def test_without_the_library_there_is_an_error(monkeypatch):
    monkeypatch.setattr(cublaslt, "library_path", lambda: None)
    with pytest.raises(LaunchError, match="there is no libcublasLt.*matmul='generated'"):
        cublaslt.cublaslt.__wrapped__(0)
    monkeypatch.setattr(cublaslt, "library_path", lambda: "libc.so.6")
    with pytest.raises(LaunchError, match="libc.so.6 cannot be used as cuBLASLt"):
        cublaslt.cublaslt.__wrapped__(0)


@pytest.mark.parametrize(("sizes", "strides", "seen"), [
    ((8, 4), (1, 8), Matrix(8, 4, 8, False)), ((8, 4), (1, 10), Matrix(8, 4, 10, False)), ((8, 4), (4, 1), Matrix(4, 8, 4, True)),
    ((8, 4), (5, 1), Matrix(4, 8, 5, True)), ((8, 4), (1, 7), None), ((8, 4), (2, 16), None), ((8, 4), (0, 1), None),
    ((1, 4), (9, 1), Matrix(4, 1, 4, True)), ((1, 4), (1, 9), Matrix(1, 4, 9, False)), ((8, 1), (1, 3), Matrix(8, 1, 8, False)),
    ((8, 1), (5, 1), Matrix(1, 8, 5, True)), ((1, 1), (7, 7), Matrix(1, 1, 1, False)),
])
def test_matrices(sizes, strides, seen):
    assert matrix(*sizes, *strides) == seen


def test_the_options_are_the_call():
    for call in (PLAIN, BIASED, replace(PLAIN, beta=0.5, start=(0, 48, 1), alpha=0.125, activation="gelu_tanh", algorithm=3)):
        assert from_options(call.options()) == call
        check_call(call.options(), [(10**4, "i8" if r == "workspace" else "bf16") for r in call.roles], "here")


@pytest.mark.parametrize(("change", "says"), [
    ({"sizes": [1, 64, 48]}, "sizes is"), ({"sizes": [1, 0, 48, 32]}, "sizes is"), ({"lhs": [0, -32, 1]}, "lhs is"), ({"lhs": None}, "lhs is"),
    ({"compute": "f8"}, "compute is 'f8'"), ({"activation": "relu"}, "activation is 'relu'"), ({"alpha": "1"}, "alpha '1'"), ({"beta": True}, "beta True"),
    ({"beta": float("nan")}, "beta nan"), ({"algorithm": -1}, "algorithm -1"), ({"surprise": 1}, "unknown option 'surprise'"),
    ({"beta": 1.0}, "4 operands; expected lhs, rhs, start, workspace, out"), ({"compute": "f64"}, "does not multiply"),
    ({"sizes": [1, 65, 48, 32]}, "lhs has 2048 elements, and the call touches element 2079"), ({"offsets": [0, 1, 0, 0, 0]}, "rhs has 1536"),
    ({"sizes": [2, 64, 48, 32], "out": [1, 48, 1]}, "out has 3072"), ({"rhs": [0, 1, 31]}, "neither by rows nor by columns"),
])
def test_a_call_that_does_not_fit_its_operands_is_refused(change, says):
    options = {**PLAIN.options(), **change}
    with pytest.raises(PlanError, match=says):
        check_call(options, [(2048, "bf16"), (1536, "bf16"), (4096, "i8"), (3072, "bf16")], "here")
