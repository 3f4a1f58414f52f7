"""The last steps on the CPU: loops on buffers -> LLVM dialect text -> native code by MLIR's execution engine."""

import ctypes

from inferno.mlir import ExecutionEngine, func, ir, new_context, run_upstream, walk

_LOWER = (
    "fold-memref-alias-ops,expand-strided-metadata,memref-expand,lower-affine,arith-expand,math-expand-ops{ops=fpowi},canonicalize,cse,"
    "convert-scf-to-cf,func.func(convert-math-to-llvm),convert-math-to-libm,convert-vector-to-llvm,"
    "finalize-memref-to-llvm,convert-func-to-llvm{use-bare-ptr-memref-call-conv=1},"
    "convert-cf-to-llvm,convert-arith-to-llvm,convert-index-to-llvm,convert-complex-to-llvm,convert-ub-to-llvm,"
    "reconcile-unrealized-casts,canonicalize,cse"
)
OPTIMIZATION = 3


def lower(module: ir.Module) -> str:
    """LLVM dialect text of the CPU code in a generated module (its nested modules); empty where there is none."""
    with module.context, ir.Location.unknown():
        code = ir.Module.create()
        for holder in module.body.operations:
            if holder.operation.name == "builtin.module":
                for op in holder.regions[0].blocks[0].operations:
                    code.body.append(op.operation.clone(ip=False))
        functions = [o for o in code.body.operations if isinstance(o, func.FuncOp)]
        if not functions:
            return ""
        for function in functions:
            _no_alias(function)
        run_upstream(code, _LOWER)
        left = {o.name for o in walk(code) if not o.name.startswith(("llvm.", "builtin.module"))}
        if left:
            raise ValueError(f"not lowered to LLVM: {', '.join(sorted(left))}")
        return str(code)


def _no_alias(function: func.FuncOp) -> None:
    """A kernel's buffers do not overlap, which lets LLVM vectorize."""
    if function.is_external:
        return
    marks = [
        ir.DictAttr.get({"llvm.noalias": ir.UnitAttr.get()} if isinstance(a.type, ir.MemRefType) else {})
        for a in function.regions[0].blocks[0].arguments
    ]
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(marks)


class NativeCode:
    """Compiled functions by name.  Each takes one pointer, to an array of pointers to its arguments."""

    def __init__(self, texts: dict[str, str]) -> None:
        """``texts``: LLVM dialect text by name of the function in it that is wanted."""
        context = new_context()
        with context, ir.Location.unknown():
            module = ir.Module.create()
            seen: set[str] = set()
            for text in texts.values():
                for op in ir.Module.parse(text).body.operations:
                    name = ir.StringAttr(op.operation.attributes["sym_name"]).value
                    if name not in seen:  # declarations of libm's functions are shared
                        seen.add(name)
                        module.body.append(op.operation.clone(ip=False))
            self._engine = ExecutionEngine(module, opt_level=OPTIMIZATION)
            self._engine.initialize()
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        self.functions = {name: prototype(self._engine.raw_lookup(name)) for name in texts}
