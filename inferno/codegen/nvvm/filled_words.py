"""Words of global memory that a kernel in front fills, by which the blocks of one launch exchange values."""

from inferno.codegen.builders.launcher import launch, pointer, scalar, size, temporary
from inferno.mlir import ir
from inferno.symbolic import Int, ceildiv

_FILLED = 256  # words that a block of that kernel fills


def add_filling(module: ir.Operation, name: str, count: Int, width: int, value: int, most: int = 0) -> None:
    """A kernel ``@name`` in a ``gpu.module`` that gives ``count`` words of ``width`` bits a value; it is given a number that varies, ``most`` at most."""
    type_, varies = f"memref<{count if isinstance(count, int) else most}xi{width}, 1>", not isinstance(count, int)
    text = f"""gpu.module @shell {{ gpu.func @"{name}"(%w: {type_} {{llvm.noalias}}{', %count: index' if varies else ''}) kernel
        attributes {{known_block_size = array<i32: {_FILLED}, 1, 1>}} {{
      %value = arith.constant {value} : i{width}
      %each = arith.constant {_FILLED} : index
      {'' if varies else f'%count = arith.constant {count} : index'}
      %thread = gpu.thread_id x
      %block = gpu.block_id x
      %first = arith.muli %block, %each : index
      %at = arith.addi %first, %thread : index
      %inside = arith.cmpi ult, %at, %count : index
      scf.if %inside {{ memref.store %value, %w[%at] : {type_} }}
      gpu.return
    }} }}"""
    parsed = ir.Module.parse(text, module.context)
    function = parsed.body.operations[0].regions[0].blocks[0].operations[0].operation
    module.regions[0].blocks[0].append(function.detach_from_parent())


def launch_filled(module: str, name: str, count: Int, width: int) -> ir.Value:
    """In a launcher: the words as a parameter, once that kernel has filled them."""
    memory = pointer(temporary((count,), ir.IntegerType.get_signless(width)))
    given = [] if isinstance(count, int) else [scalar(size(count))]
    launch(module, name, [memory, *given], (ceildiv(count, _FILLED), 1, 1), (_FILLED, 1, 1))
    return memory
