"""What a module means: any program on tensors, run on the CPU by upstream's plainest pipeline, without optimization.

Nothing of ours takes part but the removal of run-time checks, so that a stage can be held against the stage before it.
"""

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from inferno.mlir import ExecutionEngine, func, ir, idle_context, run_upstream, walk
from inferno.passes.remove_asserts import remove_asserts
from inferno.runtime.elements import DTYPES
from inferno.targets.bf16_bits import COMPUTE_IN_F32, store_as_bits

_BUFFERS = (
    "one-shot-bufferize{bufferize-function-boundaries allow-return-allocs-from-loops function-boundary-type-conversion=identity-layout-map},"
    "buffer-results-to-out-params{modify-public-functions},func.func(tm-tensor-to-loops,refback-munge-memref-copy,convert-linalg-to-loops)"
)
_LLVM = (
    f"fold-memref-alias-ops,expand-strided-metadata,memref-expand,lower-affine,{COMPUTE_IN_F32},"
    "arith-expand{include-bf16=true},math-expand-ops{ops=fpowi},"
    "func.func(llvm-request-c-wrappers),convert-scf-to-cf,func.func(convert-math-to-llvm),convert-math-to-libm,convert-to-llvm,reconcile-unrealized-casts"
)


def run_module(text: str, tensors: Sequence[Tensor], signed: Sequence[torch.dtype] = ()) -> list[Tensor]:
    """The results of ``@main`` for contiguous arguments, which are not written to.

    ``signed`` gives the results' dtypes where the types in the IR do not tell them (uint8 is ``i8``).
    """
    context = idle_context()
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        remove_asserts(module)
        for op in module.body.operations:
            if isinstance(op, func.FuncOp) and op.name.value != "main" and not op.is_external:
                op.attributes["sym_visibility"] = ir.StringAttr.get("private")
        run_upstream(module, "inline,symbol-dce,func.func(canonicalize,cse)")
        main = next(o for o in module.body.operations if isinstance(o, func.FuncOp) and o.name.value == "main")
        types = list(main.type.results)
        closed = ir.DictAttr.get({"bufferization.writable": ir.BoolAttr.get(False)})
        main.attributes["arg_attrs"] = ir.ArrayAttr.get([closed] * len(main.type.inputs))
        run_upstream(module, "func.func(refback-generalize-tensor-pad,linalg-generalize-named-ops,tm-tensor-bufferize)")
        for op in walk(module, "bufferization.to_tensor"):
            op.attributes["restrict"] = ir.UnitAttr.get()
        run_upstream(module, _BUFFERS)
        run_upstream(module, _LLVM)
        store_as_bits(module)
        dtypes = list(signed) or [DTYPES[str(t.element_type)] for t in types]
        results = [_poisoned(t.shape, d) for t, d in zip(types, dtypes)]
        engine = ExecutionEngine(module, opt_level=0)
        descriptors = [_descriptor(t) for t in (*tensors, *results)]
        pointers = [ctypes.pointer(d) for d in descriptors]
        engine.invoke("main", *[ctypes.pointer(p) for p in pointers])
    return results


def _poisoned(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    return torch.full(tuple(shape), float("nan") if dtype.is_floating_point else 77).to(dtype)


def _descriptor(tensor: Tensor) -> ctypes.Structure:
    """MLIR's descriptor of a memref."""
    assert tensor.is_contiguous()
    rank = tensor.dim()
    shape = [("sizes", ctypes.c_int64 * rank), ("strides", ctypes.c_int64 * rank)] if rank else []

    class Descriptor(ctypes.Structure):
        _fields_ = [("allocated", ctypes.c_void_p), ("aligned", ctypes.c_void_p), ("offset", ctypes.c_int64), *shape]

    made = Descriptor(tensor.data_ptr(), tensor.data_ptr(), 0)
    if rank:
        made.sizes[:], made.strides[:] = list(tensor.shape), list(tensor.stride())
    return made
