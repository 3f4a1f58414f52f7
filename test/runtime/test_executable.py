"""GpuExecutable on the CPU: torch's and the driver's CUDA are functions of ours, and kernels are computed by torch."""

import contextlib
import ctypes
import threading
import types
import weakref

import pytest
import torch
from fake_cublaslt import FakeCublasLt

from inferno.errors import CompileError, LaunchError
from inferno.library_matmul import LibraryMatmul
from inferno.runtime.launch import chunks
from inferno.runtime.launch import executable, spread_blocks, steps, threads
from inferno.runtime.plan.plan import Buffer, Launch, LibraryCall, Output, Plan

N = 64
A, B = Buffer("argument", 0, (N,), "f32"), Buffer("argument", 1, (N,), "f32")
R0, R1, SCRATCH = Buffer("result", 0, (N,), "f32"), Buffer("result", 1, (N,), "f32"), Buffer("workspace", 256, (N,), "f32")


def step(name: str, *parameters: Buffer) -> Launch:
    return Launch(f"{name}::{name}", (1, 1, 1), (N, 1, 1), (1, 1, 1), 0, parameters)


STEPS = (step("add", A, B, SCRATCH), step("twice", SCRATCH, R0), step("add", R0, A, SCRATCH), step("twice", SCRATCH, R1))
OUTPUTS = (Output((N,), "f32", result=0), Output((N,), "f32", result=1))
PLAN = Plan(STEPS, (A, B), OUTPUTS, 512)
KERNELS = {"add": (11, lambda x, y, out: torch.add(x, y, out=out), 3), "twice": (12, lambda x, out: torch.mul(x, 2, out=out), 2)}
_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)


class Cuda:
    """What executable.py finds as ``torch`` and as ``driver``."""

    def __init__(self) -> None:
        self.launched, self.fails_at, self.contexts = [], -1, {threading.get_ident(): 7}
        by_handle = {handle: (name, compute, count) for name, (handle, compute, count) in KERNELS.items()}

        def launch(config, function, parameters, extra):
            if len(self.launched) == self.fails_at:
                return 719
            if not self.current_context():
                return 201
            name, compute, count = by_handle[function]
            pointers = [ctypes.c_int64.from_address(parameters[i]).value for i in range(count)]
            compute(*(torch.frombuffer((ctypes.c_float * N).from_address(p), dtype=torch.float32) for p in pointers))
            self.launched.append(name)
            return 0

        self._launch = _LAUNCH(launch)

    def __getattr__(self, name):
        return getattr(torch, name)

    def device(self, *_):
        return torch.device("cpu")

    @property
    def cuda(self):
        return types.SimpleNamespace(
            device=lambda _: contextlib.nullcontext(), current_device=lambda: 0,
            current_stream=lambda: types.SimpleNamespace(synchronize=lambda: None),
        )

    @property
    def _C(self):
        return types.SimpleNamespace(_cuda_getDevice=lambda: 0, _cuda_getCurrentRawStream=lambda _: 5)

    # The driver's part.

    def current_context(self):
        return self.contexts.get(threading.get_ident(), 0)

    def make_current(self, context):
        self.contexts.setdefault(threading.get_ident(), context)

    def load(self, binary, name):
        return name

    def function(self, module, name, shared, cluster=1):
        return KERNELS[name][0]

    def multiprocessors(self, device):
        return 2, 1 << 16, 1 << 15

    def occupancy(self, module, name, threads, shared):
        return 0, 8

    def address(self, name):
        return ctypes.cast(self._launch, ctypes.c_void_p).value

    def describe(self, code):
        return f"error {code}"


@pytest.fixture
def cuda(monkeypatch):
    cuda = Cuda()
    monkeypatch.setattr(executable, "torch", cuda)
    monkeypatch.setattr(executable, "driver", cuda)
    monkeypatch.setattr(steps, "driver", cuda)
    monkeypatch.setattr(threads, "driver", cuda)
    monkeypatch.setattr(spread_blocks, "driver", cuda)
    return cuda


def make(plan: Plan = PLAN, dtypes=(torch.float32, torch.float32), **options) -> executable.GpuExecutable:
    return executable.GpuExecutable(plan, {"add": b"", "twice": b""}, types.SimpleNamespace(index=0), dtypes, True, **options)


@pytest.fixture(params=[False, True], ids=["native", "interpreter"])
def interpret(request):
    return request.param


def inputs() -> list[torch.Tensor]:
    return [torch.randn(N), torch.randn(N)]


def reference(a, b) -> list[torch.Tensor]:
    first = (a + b) * 2
    return [first, (first + a) * 2]


def same(results, expected) -> bool:
    return len(results) == len(expected) and all(torch.equal(x, y) for x, y in zip(results, expected))


def test_a_plan_is_run(cuda, interpret):
    run = make(interpret=interpret)
    for _ in range(3):
        given = inputs()
        assert same(run.run(given), reference(*given))
    assert cuda.launched == ["add", "twice"] * 6 and run.all_results_are_new and not run.takes


def test_a_new_thread_has_the_context(cuda, interpret):
    """Torch makes none current for a thread whose current device is the first one."""
    run, given = make(interpret=interpret), inputs()
    found = []
    for _ in range(2):
        thread = threading.Thread(target=lambda: found.append(run.run(given)))
        thread.start()
        thread.join()
    assert len(found) == 2 and all(same(x, reference(*given)) for x in found)
    assert set(cuda.contexts.values()) == {7}


@pytest.mark.parametrize("size", [64, 300, 1 << 30])
def test_chunks_give_the_same_and_let_go(cuda, interpret, monkeypatch, size):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", size)
    run = make(interpret=interpret, given=(0, 1))
    assert run.takes == (size < 1 << 30)
    for _ in range(2):
        given = inputs()
        expected = reference(*given)
        assert same(run.run(given), expected) and all(t is not None for t in given)
        if run.takes:
            gone = [weakref.ref(t) for t in given]
            assert same(run.run_taking(given), expected) and given == [None, None] and all(r() is None for r in gone)


def test_outputs_that_are_arguments_or_other_results(cuda, interpret, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 64)
    outputs = (*OUTPUTS, Output((8, 8), "f32", argument=1), Output((8, 8), "i32", result=0))
    run = make(Plan(STEPS, (A, B), outputs, 512), (torch.float32,) * 3 + (torch.int32,), interpret=interpret, given=(0, 1))
    given = inputs()
    wanted = reference(*given)
    wanted += [given[1].view(8, 8), wanted[0].view(8, 8).view(torch.int32)]
    assert not run.all_results_are_new and same(run.run(given), wanted)
    b = given[1]
    results = run.run_taking(given)
    assert same(results, wanted) and given[0] is None and results[2].data_ptr() == b.data_ptr()


@pytest.mark.parametrize("takes", [False, True])
@pytest.mark.parametrize("at", range(4))
def test_an_error_names_the_kernel_and_nothing_runs_behind_it(cuda, interpret, monkeypatch, takes, at):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 64)
    run = make(interpret=interpret, given=(0, 1) if takes else ())
    cuda.fails_at = at
    for call in (run.run, run.run_taking) if takes else (run.run,):
        cuda.launched.clear()
        with pytest.raises(LaunchError, match=f"launching {STEPS[at].kernel}: error 719"):
            call(inputs())
        assert len(cuda.launched) == at


def test_library_calls_are_between_kernels(cuda, interpret, monkeypatch):
    library = FakeCublasLt(computes=True)
    monkeypatch.setattr(steps, "cublaslt", lambda device: library.library)
    product = LibraryMatmul((1, 8, 8, 8), (0, 8, 1), (0, 1, 8), (0, 8, 1), alpha=0.5)  # all are 8 x 8; the second is transposed
    scratch = Buffer("workspace", 0, (16,), "i8")
    call = LibraryCall("cublaslt", product.options(), (SCRATCH, B, scratch, R0), (), "mm")
    run = make(Plan((STEPS[0], call, *STEPS[2:]), (A, B), OUTPUTS, 512), interpret=interpret)
    for _ in range(2):
        a, b = inputs()
        first = (0.5 * (a + b).view(8, 8).double() @ b.view(8, 8).double().t()).float().flatten()
        assert same(run.run([a, b]), [first, (first + a) * 2])
    assert cuda.launched == ["add", "add", "twice"] * 2 and all(c["stream"] == 5 for c in library.calls)
    library.fails = {"cublasLtMatmul": 13}
    with pytest.raises(LaunchError, match="calling cuBLASLt for kernel mm: CUBLAS_STATUS_EXECUTION_FAILED"):
        run.run([a, b])


def test_a_library_that_a_gpu_does_not_have_is_refused(cuda):
    with pytest.raises(CompileError, match="calls the library function matmul"):
        make(Plan((LibraryCall("matmul", {}, (A,)),), (A,), (), 0), ())


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (0, 3), (2, 0), (0, 10, 3, 2), (5, 2), (3, 1, 2), (1, 5, 1, 2), (4, 1), (1, 7)])
def test_results_have_the_strides_of_contiguous_tensors(shape):
    """Also those of one element or none, which ``view_as_complex`` looks at, and whoever is given them."""
    made = torch.empty_like(executable.template(shape, torch.float32, torch.device("cpu")))
    assert made.shape == shape and made.stride() == torch.empty(shape).stride()
