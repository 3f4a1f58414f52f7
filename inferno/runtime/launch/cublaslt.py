"""cuBLASLt's matmul for a launch plan: descriptors and the algorithm are made once, a call gives it addresses.

The library is the one that torch has loaded, or that is installed beside it.  What a call needs is a *record* of 64-bit words in
memory of ours, which the native code reads (``host.py``) and ``MatmulCall.run`` too, so both make the same call.

The address of a bias is part of cuBLASLt's description of a product.  So a call that has one makes a description of its own each time,
and any number of threads can be in it.
"""

import ctypes
import importlib.util
import math
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from inferno.errors import LaunchError
from inferno.library_matmul import LibraryMatmul, Matrix, from_options
from inferno.runtime.plan.plan import LibraryCall

# Values of enumerations of cublasLt.h, cublas_api.h and library_types.h.
_DATA = {"f32": 0, "f64": 1, "f16": 2, "i8": 3, "i32": 10, "bf16": 14}
_COMPUTE = {"f32": 68, "f64": 70, "i32": 72, "tf32": 77}
_SCALE = {"f32": ("f32", ctypes.c_float), "tf32": ("f32", ctypes.c_float), "f64": ("f64", ctypes.c_double), "i32": ("i32", ctypes.c_int32)}
_EPILOGUES = {"none": 1, "gelu_tanh": 32}
_BIAS = 4  # is added to one of these; alone it is this
TRANSPOSE_A, TRANSPOSE_B, EPILOGUE, BIAS_POINTER = 3, 4, 7, 8  # of a product's description
_BATCH, _BATCH_STRIDE = 5, 6  # of a matrix'
_WORKSPACE, _REDUCTIONS, _ALIGNMENTS = 1, 3, 5  # of a preference; four alignments, of A to D
_IN_COMPUTE_TYPE = 2  # partial sums are neither rounded to the result's type nor added up in the order that they come in
_RESULT_WORDS = 12  # cublasLtMatmulHeuristicResult_t: the algorithm, its workspace's bytes, a status, ...

# The words of a record.  Places: which of the operands A, B, C, D, the workspace and the bias are; behind them the bytes from an operand's
# start to where each begins.
(MATMUL, CREATE, SET, DESTROY, HANDLE, DESCRIPTOR, A, B, C, D, ALPHA, BETA, ALGORITHM, WORKSPACE_BYTES, COMPUTE, SCALE, ATTRIBUTES, PLACES) = (*range(17), 19)
WORDS = PLACES + 12

_P, _I, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
_SIGNATURES = {
    "cublasLtCreate": (_P,),
    "cublasLtMatmulDescCreate": (_P, _I, _I), "cublasLtMatmulDescSetAttribute": (_P, _I, _P, _SIZE), "cublasLtMatmulDescDestroy": (_P,),
    "cublasLtMatrixLayoutCreate": (_P, _I, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64), "cublasLtMatrixLayoutSetAttribute": (_P, _I, _P, _SIZE),
    "cublasLtMatrixLayoutDestroy": (_P,),
    "cublasLtMatmulPreferenceCreate": (_P,), "cublasLtMatmulPreferenceSetAttribute": (_P, _I, _P, _SIZE), "cublasLtMatmulPreferenceDestroy": (_P,),
    "cublasLtMatmulAlgoGetHeuristic": (*[_P] * 7, _I, _P, _P),
    "cublasLtMatmul": (*[_P] * 14, _SIZE, _P),
}


def library_path() -> str | None:
    """Where cuBLASLt is: as this process has loaded it, else in a package of NVIDIA's beside torch, else as the system finds it; None if nowhere."""
    try:
        loaded = re.search(r"/\S*libcublasLt\.so\S*", Path("/proc/self/maps").read_text())
    except OSError:
        loaded = None
    if loaded:
        return loaded[0]
    package = importlib.util.find_spec("nvidia")
    for folder in package.submodule_search_locations or () if package else ():
        for path in sorted(Path(folder).glob("*/lib/libcublasLt.so.*"), reverse=True):
            return str(path)
    for name in ("libcublasLt.so.13", "libcublasLt.so.12"):
        try:
            ctypes.CDLL(name)
            return name
        except OSError:
            continue
    return None


class CublasLt:
    """The library's functions on the current device, and a handle.  ``address`` gives the address of a function."""

    def __init__(self, address: Callable[[str], int]) -> None:
        self.address = address
        self._functions = {name: ctypes.CFUNCTYPE(_I, *types)(address(name)) for name, types in _SIGNATURES.items()}
        self.handle = self.make("cublasLtCreate")

    def call(self, name: str, *arguments: int | None) -> None:
        """LaunchError names the function and the status where that is not success."""
        status = self._functions[name](*arguments)
        if status:
            raise LaunchError(f"cuBLASLt: {name} failed: {describe(status)}")

    def make(self, name: str, *arguments: int) -> int:
        """The handle that a function stores where its first argument says."""
        place = ctypes.c_void_p()
        self.call(name, ctypes.addressof(place), *arguments)
        return place.value or 0

    def set(self, kind: str, handle: int, attribute: int, value: "ctypes._SimpleCData") -> None:
        """Set an attribute of a description of a product (``MatmulDesc``), a matrix (``MatrixLayout``) or a preference."""
        self.call(f"cublasLt{kind}SetAttribute", handle, attribute, ctypes.addressof(value), ctypes.sizeof(value))


@cache
def cublaslt(device: int) -> CublasLt:
    """The library on a device, which must be the current one; LaunchError where there is none."""
    path = library_path()
    if path is None:
        raise LaunchError(
            "the program calls cuBLASLt, and there is no libcublasLt: it comes with torch for CUDA; with matmul='generated' it is not needed"
        )
    try:
        library = ctypes.CDLL(path)
        return CublasLt(lambda name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
    except (OSError, AttributeError) as error:
        raise LaunchError(f"{path} cannot be used as cuBLASLt: {error}; with matmul='generated' it is not needed") from error


def describe(status: int) -> str:
    """A cublasStatus_t in words."""
    names = {1: "NOT_INITIALIZED", 3: "ALLOC_FAILED", 7: "INVALID_VALUE", 8: "ARCH_MISMATCH", 11: "MAPPING_ERROR", 13: "EXECUTION_FAILED",
             14: "INTERNAL_ERROR", 15: "NOT_SUPPORTED", 16: "LICENSE_ERROR"}
    return f"CUBLAS_STATUS_{names[status]}" if status in names else f"status {status}"


class MatmulCall:
    """One library call of a plan, ready to be made any number of times, by any thread.  ``record`` is the address of its words."""

    def __init__(self, step: LibraryCall, library: CublasLt) -> None:
        """LaunchError if cuBLASLt has no algorithm for the call."""
        self._library, self._kept, self._made = library, [], []
        call = from_options(step.options, step.kernel)
        places = {role: i for i, role in enumerate(call.roles)}
        elements = {role: p.element for role, p in zip(call.roles, step.parameters)}
        offsets = dict(zip(("lhs", "rhs", "start", "bias", "out"), call.offsets))
        begins = {role: at * ctypes.sizeof(_C_TYPES[elements[role]]) for role, at in offsets.items() if role in places}
        workspace = math.prod(step.parameters[places["workspace"]].shape)  # of bytes
        parts = ["rhs", "lhs", "start" if call.beta else "out", "out"]  # A, B, C and D
        a, b, c, d = call.matrices
        steps = {"lhs": call.lhs[0], "rhs": call.rhs[0], "start": call.start[0], "out": call.out[0]}
        try:
            layouts = [self._layout(m, elements[role], call.sizes[0], steps[role]) for m, role in zip((a, b, c, d), parts)]
            scale, c_type = _SCALE[call.compute]
            attributes = [self._keep(ctypes.c_int32(v)) for v in (
                a.transposed, b.transposed, _EPILOGUES[call.activation] + _BIAS - (call.activation == "none") if call.bias else _EPILOGUES[call.activation],
            )]
            alignments = [_alignment(begins[role]) for role in parts]
            descriptor = self._descriptor(call, scale, attributes, begins.get("bias"))
            algorithm = self._choose(call, descriptor, layouts, alignments, workspace, step.kernel)
        except BaseException:
            self.close()
            raise
        words = (ctypes.c_uint64 * WORDS)()
        words[MATMUL:DESTROY + 1] = [library.address(f"cublasLtMatmul{n}") for n in ("", "DescCreate", "DescSetAttribute", "DescDestroy")]
        words[HANDLE:D + 1] = [library.handle, 0 if call.bias else descriptor, *layouts]
        words[ALPHA:WORKSPACE_BYTES + 1] = [
            *(ctypes.addressof(self._keep(c_type(int(v) if c_type is ctypes.c_int32 else v))) for v in (call.alpha, call.beta)), algorithm, workspace,
        ]
        words[COMPUTE:ATTRIBUTES + 3] = [_COMPUTE[call.compute], _DATA[scale], *map(ctypes.addressof, attributes)]
        order = [*parts, "workspace", "bias" if call.bias else "out"]
        words[PLACES:] = [*(places[role] for role in order), *(begins.get(role, 0) for role in order)]
        self._words = words
        self.record = ctypes.addressof(words)

    def run(self, addresses: Sequence[int], stream: int) -> int:
        """Make the call on operands at these addresses; a cublasStatus_t."""
        w, call = self._words, self._library._functions
        a, b, c, d, workspace, bias = (addresses[w[PLACES + i]] + w[PLACES + 6 + i] for i in range(6))
        descriptor = w[DESCRIPTOR]
        if not descriptor:
            made, where = ctypes.c_void_p(), ctypes.c_void_p(bias)
            status = call["cublasLtMatmulDescCreate"](ctypes.addressof(made), w[COMPUTE], w[SCALE])
            if status:
                return status
            descriptor = made.value
            for i, attribute in enumerate((TRANSPOSE_A, TRANSPOSE_B, EPILOGUE)):
                status = status or call["cublasLtMatmulDescSetAttribute"](descriptor, attribute, w[ATTRIBUTES + i], 4)
            status = status or call["cublasLtMatmulDescSetAttribute"](descriptor, BIAS_POINTER, ctypes.addressof(where), 8)
            status = status or self._multiply(descriptor, a, b, c, d, workspace, stream)
            call["cublasLtMatmulDescDestroy"](descriptor)
            return status
        return self._multiply(descriptor, a, b, c, d, workspace, stream)

    def _multiply(self, descriptor: int, a: int, b: int, c: int, d: int, workspace: int, stream: int) -> int:
        w = self._words
        return self._library._functions["cublasLtMatmul"](
            w[HANDLE], descriptor, w[ALPHA], a, w[A], b, w[B], w[BETA], c, w[C], d, w[D], w[ALGORITHM], workspace, w[WORKSPACE_BYTES], stream,
        )

    def close(self) -> None:
        """Give back what the library made for it."""
        while self._made:
            kind, handle = self._made.pop()
            self._library.call(f"cublasLt{kind}Destroy", handle)

    def __del__(self) -> None:
        self.close()

    def _keep(self, value):
        self._kept.append(value)
        return value

    def _create(self, kind: str, *arguments: int) -> int:
        handle = self._library.make(f"cublasLt{kind}Create", *arguments)
        self._made.append((kind, handle))
        return handle

    def _layout(self, matrix: Matrix, element: str, batch: int, step: int) -> int:
        handle = self._create("MatrixLayout", _DATA[element], matrix.rows, matrix.columns, matrix.ld)
        if batch > 1:
            self._library.set("MatrixLayout", handle, _BATCH, ctypes.c_int32(batch))
            self._library.set("MatrixLayout", handle, _BATCH_STRIDE, ctypes.c_int64(step))
        return handle

    def _descriptor(self, call: LibraryMatmul, scale: str, attributes: Sequence[ctypes.c_int32], bias: int | None) -> int:
        handle = self._create("MatmulDesc", _COMPUTE[call.compute], _DATA[scale])
        for attribute, value in zip((TRANSPOSE_A, TRANSPOSE_B, EPILOGUE), attributes):
            self._library.set("MatmulDesc", handle, attribute, value)
        if bias is not None:  # the heuristic looks at how the address is aligned
            self._library.set("MatmulDesc", handle, BIAS_POINTER, ctypes.c_void_p(4096 + _alignment(bias)))
        return handle

    def _choose(self, call: LibraryMatmul, descriptor: int, layouts: Sequence[int], alignments: Sequence[int], workspace: int, kernel: str) -> int:
        """The address of the algorithm: of those that the library's heuristic offers, the best first, number ``call.algorithm``, or the first
        where it offers fewer."""
        library = self._library
        preference = self._create("MatmulPreference")
        library.set("MatmulPreference", preference, _WORKSPACE, ctypes.c_uint64(workspace))
        library.set("MatmulPreference", preference, _REDUCTIONS, ctypes.c_uint32(_IN_COMPUTE_TYPE))
        for i, alignment in enumerate(alignments):
            library.set("MatmulPreference", preference, _ALIGNMENTS + i, ctypes.c_uint32(alignment))
        found, count = self._keep((ctypes.c_uint64 * (_RESULT_WORDS * (call.algorithm + 1)))()), ctypes.c_int(0)
        try:
            library.call(
                "cublasLtMatmulAlgoGetHeuristic", library.handle, descriptor, *layouts, preference, call.algorithm + 1, ctypes.addressof(found),
                ctypes.addressof(count),
            )
        except LaunchError as error:
            raise LaunchError(f"kernel {kernel}: {error}; compile with matmul='generated'") from error
        if not count.value:
            raise LaunchError(f"kernel {kernel}: cuBLASLt has no algorithm for it on this GPU; compile with matmul='generated'")
        return ctypes.addressof(found) + 8 * _RESULT_WORDS * (call.algorithm if call.algorithm < count.value else 0)


_C_TYPES = {"f32": ctypes.c_float, "f64": ctypes.c_double, "f16": ctypes.c_uint16, "bf16": ctypes.c_uint16, "i8": ctypes.c_int8, "i32": ctypes.c_int32}


def _alignment(offset: int) -> int:
    """Bytes that an address is a multiple of, ``offset`` bytes behind one of at least 16."""
    return offset & -offset if offset % 16 else 16


__all__ = ["CublasLt", "MatmulCall", "cublaslt", "describe", "library_path"]
