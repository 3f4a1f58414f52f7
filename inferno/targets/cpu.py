"""The last steps on the CPU: loops on buffers -> LLVM dialect text -> native code by MLIR's execution engine."""

import ctypes
from collections.abc import Callable, Sequence

from inferno.codegen.cpu.native_checks import REPORTS
from inferno.errors import CompileError
from inferno.mlir import ExecutionEngine, arith, func, idle_context, ir, run_upstream, walk
from inferno.targets.bf16_bits import COMPUTE_IN_F32, store_as_bits

_LOWER = (
    f"fold-memref-alias-ops,expand-strided-metadata,memref-expand,lower-affine,{COMPUTE_IN_F32},"
    "arith-expand{include-bf16=true},math-expand-ops{ops=fpowi},canonicalize,cse,"
    "convert-scf-to-cf,func.func(convert-math-to-llvm),convert-math-to-libm,convert-vector-to-llvm,"
    "finalize-memref-to-llvm,convert-func-to-llvm{use-bare-ptr-memref-call-conv=1},"
    "convert-cf-to-llvm,convert-arith-to-llvm,convert-index-to-llvm,convert-complex-to-llvm,convert-ub-to-llvm,"
    "reconcile-unrealized-casts,canonicalize,cse"
)
OPTIMIZATION = 3  # LLVM's level
# LLVM would take half of AVX-512's registers on Intel's server cores, whose 512-bit units torch's own kernels use.
_WIDTH = "512"
_ANNOTATION = "llvm.loop_annotation"
_DIVISIONS = ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui")
_FEW_DIVISIONS = 8
_SCALAR = "#llvm.loop_annotation<vectorize = <disable = true>>"
ENTRY = "__entry"
REPORT = "%report"  # found in the text of a kernel that may report


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
            _leave_scalar(function)
            _step_conversions(function)
            _call_libm(function, code)
        entries = _entries(functions)
        run_upstream(code, _LOWER)
        store_as_bits(code)
        code.operation.verify()
        left = {o.name for o in walk(code) if not o.name.startswith(("llvm.", "builtin.module"))}
        if left:
            raise ValueError(f"not lowered to LLVM: {', '.join(sorted(left))}")
        for op in walk(code, "llvm.func"):
            op.attributes["prefer_vector_width"] = ir.StringAttr.get(_WIDTH)
            if len(op.regions[0].blocks):
                # The engine adds to each function that others may call one that takes its arguments from memory, with a copy of the body: of 24
                # kernels of a transformer's layer, four each, which took twice as long.
                op.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")
                op.attributes["no_inline"] = ir.UnitAttr.get()
        for op in walk(code, "llvm.br", "llvm.cond_br"):
            if _ANNOTATION in op.attributes:  # where conversions leave it
                op.attributes["loop_annotation"] = op.attributes[_ANNOTATION]
                del op.attributes[_ANNOTATION]
        text = str(code).rstrip()
        return f"{text.removesuffix('}')}{entries}}}\n"


def _no_alias(function: func.FuncOp) -> None:
    """A kernel's buffers do not overlap, which lets LLVM vectorize."""
    if function.is_external:
        return
    marks = [
        ir.DictAttr.get({"llvm.noalias": ir.UnitAttr.get()} if isinstance(a.type, ir.MemRefType) else {})
        for a in function.regions[0].blocks[0].arguments
    ]
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(marks)


def _leave_scalar(function: func.FuncOp) -> None:
    """Loops with many divisions of integers, for which there are no vectors, are not given to LLVM's vectorizer: where each follows from the one
    before, as in Euclid's algorithm, LLVM 24 walks its plan by every path and does not come to an end."""
    for loop in walk(function, "scf.for"):
        if len(walk(loop, *_DIVISIONS)) > _FEW_DIVISIONS and len(walk(loop, "scf.for")) == 1:
            loop.attributes[_ANNOTATION] = ir.Attribute.parse(_SCALAR)


def _step_conversions(function: func.FuncOp) -> None:
    """Between float64 and 16 bits there is no instruction: go through float32, as eager does."""
    f32 = ir.F32Type.get()
    for op in walk(function, "arith.truncf", "arith.extf"):
        source, result = op.operands[0].type, op.results[0].type
        if {source.width, result.width} == {16, 64}:
            with ir.InsertionPoint(op):
                convert = arith.truncf if op.name == "arith.truncf" else arith.extf
                op.results[0].replace_all_uses_with(convert(result, convert(f32, op.operands[0])))
            op.erase()


def _call_libm(function: func.FuncOp, code: ir.Module) -> None:
    """exp(x) - 1 and log(1 + x) by libm, what is computed in float64 above all: ``convert-math-to-llvm`` would write them out so, which near 0
    leaves none of the digits."""
    for op in walk(function, "math.expm1", "math.log1p"):
        type_ = op.results[0].type
        if not isinstance(type_, (ir.F32Type, ir.F64Type)):
            continue
        name = op.name.removeprefix("math.") + ("f" if isinstance(type_, ir.F32Type) else "")
        if not any(f.name.value == name for f in code.body.operations):
            with ir.InsertionPoint(code.body):
                func.FuncOp(name, ([type_], [type_]), visibility="private")
        with ir.InsertionPoint(op):
            op.results[0].replace_all_uses_with(func.call([type_], name, [op.operands[0]]))
        op.erase()


def _entries(functions: list[func.FuncOp]) -> str:
    """For each function one that takes its buffers from an array: ``@<name>__entry(addresses, begin, end)``.  The array's first
    address is where a function reports what eager refuses."""
    text = ""
    for function in functions:
        if function.is_external:
            continue
        name, reports = function.name.value, REPORTS in function.attributes
        count = len(function.type.inputs) - 2 - reports
        lines = [
            f"    %g{i} = llvm.getelementptr %p[{i + 1}] : (!llvm.ptr) -> !llvm.ptr, i64\n    %a{i} = llvm.load %g{i} : !llvm.ptr -> !llvm.ptr\n"
            for i in range(count)
        ]
        operands, types = [*(f"%a{i}" for i in range(count)), "%b", "%e"], ["!llvm.ptr"] * count + ["i64"] * 2
        if reports:
            lines.append(f"    {REPORT} = llvm.load %p : !llvm.ptr -> !llvm.ptr\n")
            operands, types = [*operands, REPORT], [*types, "!llvm.ptr"]
        operands, types = ", ".join(operands), ", ".join(types)
        text += (
            f"  llvm.func internal @{name}{ENTRY}(%p: !llvm.ptr, %b: i64, %e: i64) {{\n{''.join(lines)}"
            f"    llvm.call @{name}({operands}) : ({types}) -> ()\n    llvm.return\n  }}\n"
        )
    return text


class NativeCode:
    """Machine code of LLVM dialect text, made in this process for this machine."""

    def __init__(self, texts: Sequence[str], libraries: Sequence[str] = ()) -> None:
        """``libraries``: paths of shared libraries that the code calls."""
        context = idle_context()
        with context, ir.Location.unknown():
            module = ir.Module.create()
            seen: set[str] = set()
            for text in texts:
                part = ir.Module.parse(text)
                for op in part.body.operations:
                    name = ir.StringAttr(op.operation.attributes["sym_name"]).value
                    if name not in seen:  # declarations of libm's functions are shared
                        seen.add(name)
                        module.body.append(op.operation.clone(ip=False))
            self._engine = ExecutionEngine(module, opt_level=OPTIMIZATION, shared_libs=list(libraries))
            self._engine.initialize()

    def function(self, name: str) -> Callable[[int], None]:
        """A function of the code as MLIR wraps it: its one argument points at pointers to the values of its arguments."""
        address = self._engine.raw_lookup(name)
        if not address:
            raise CompileError(f"{name}: its machine code does not link; what is missing is on standard error")
        return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)
