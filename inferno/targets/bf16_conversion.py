"""The one function that LLVM calls for bf16 where the processor has no instruction for it, and that MLIR's execution engine does not know.

Which values LLVM keeps as float32 between operations, and rounds again, is its own matter: even a select or a branch may call it.
"""

from inferno.mlir import ir

# To nearest, ties to even; NaN stays NaN, and is quiet.
_TO_BF16 = """
llvm.func @__truncsfbf2(%x: f32) -> bf16 {
  %bits = llvm.bitcast %x : f32 to i32
  %sixteen = llvm.mlir.constant(16 : i32) : i32
  %one = llvm.mlir.constant(1 : i32) : i32
  %below = llvm.mlir.constant(32767 : i32) : i32
  %quiet = llvm.mlir.constant(64 : i32) : i32
  %high = llvm.lshr %bits, %sixteen : i32
  %odd = llvm.and %high, %one : i32
  %half = llvm.add %odd, %below : i32
  %sum = llvm.add %bits, %half : i32
  %even = llvm.lshr %sum, %sixteen : i32
  %nan = llvm.or %high, %quiet : i32
  %none = llvm.fcmp "uno" %x, %x : f32
  %word = llvm.select %none, %nan, %even : i1, i32
  %short = llvm.trunc %word : i32 to i16
  %made = llvm.bitcast %short : i16 to bf16
  llvm.return %made : bf16
}
"""


def add_bf16_conversion(module: ir.Module) -> None:
    """Give a module of the LLVM dialect the function, if it knows bf16 at all."""
    if "bf16" in str(module):
        with module.context:
            for op in ir.Module.parse(_TO_BF16).body.operations:
                module.body.append(op.operation.clone(ip=False))
