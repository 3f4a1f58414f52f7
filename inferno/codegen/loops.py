"""The generator of the cpu target: a kernel function as loops, whose outermost range the caller cuts into chunks.

The code is ``builtin.module @<kernel>`` with ``func @<kernel>__loops(buffers..., begin, end)``.  Where all of the kernel's loops
run over the same outermost range and no chunk reads what another writes, ``inferno.launch``'s grid is that range; else it
is 1 and the function does everything.
"""

from inferno.codegen import launcher as host
from inferno.codegen.register_accumulators import register_accumulators
from inferno.codegen.to_buffers import to_buffers
from inferno.mlir import func, ir, owner, run_upstream, walk
from inferno.schedule.loops import Loops
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: Loops, target: Target) -> None:
    """Put the kernel's loops next to it and make the kernel its launcher."""
    name = kernel.name.value
    if all(0 in t.shape for t in kernel.type.results):
        with host.launcher(kernel):
            return  # nothing to compute
    _reassociate(kernel)
    buffers = to_buffers(kernel)
    function = next(o for o in buffers.body.operations if isinstance(o, func.FuncOp))
    temporaries = _temporaries(function)
    extent = _outermost(function) if not temporaries else 1
    run_upstream(buffers, "func.func(convert-linalg-to-loops)")
    _bound(function, extent)
    # A name of its own: a kernel called @powf must not take the place of libm's function.
    entry = f"{name}__loops"
    function.attributes["sym_name"] = ir.StringAttr.get(entry)
    run_upstream(buffers, "canonicalize,cse")
    function = next(o for o in buffers.body.operations if isinstance(o, func.FuncOp))
    register_accumulators(function)
    with ir.InsertionPoint(kernel.operation), ir.Location.unknown():
        holder = ir.Operation.create("builtin.module", regions=1, attributes={"sym_name": ir.StringAttr.get(f"{name}_code")})
        holder.regions[0].blocks.append()
        for op in buffers.body.operations:
            holder.regions[0].blocks[0].append(op.operation.clone(ip=False))
    with host.launcher(kernel) as arguments:
        extra = [host.temporary(t.shape, t.element_type) for t in temporaries]
        host.launch(f"{name}_code", entry, [host.pointer(a) for a in [*arguments, *extra]], (max(1, extent), 1, 1), (1, 1, 1))


def _reassociate(kernel: func.FuncOp) -> None:
    """Let float sums be added in any order: LLVM then keeps a vector of partial sums, faster and more accurate than one."""
    for op in walk(kernel, "linalg.generic"):
        if "reduction" not in str(op.attributes["iterator_types"]):
            continue
        body = op.regions[0].blocks[0]
        for inner in body.operations:
            if inner.operation.name in ("arith.addf", "arith.mulf"):
                inner.operation.attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<reassoc,contract>")


def _temporaries(function: func.FuncOp) -> list[ir.MemRefType]:
    """Turn the allocations at the function's top into trailing arguments."""
    block, types = function.regions[0].blocks[0], []
    for op in [o.operation for o in block.operations]:
        if op.name == "memref.alloc":
            type_ = ir.MemRefType(op.results[0].type)
            op.results[0].replace_all_uses_with(block.add_argument(type_, op.location))
            types.append(type_)
            op.erase()
    inputs = [a.type for a in block.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, []))
    return types


def _outermost(function: func.FuncOp) -> int:
    """The extent of the loop that chunks can share; 1 where there is none.

    Every structured operation must be parallel in its first loop, write row i of its result in iteration i of it, and read
    a buffer that the kernel writes at its own row alone.
    """
    operations = [o.operation for o in function.regions[0].blocks[0].operations if o.operation.name != "func.return"]
    structured = [o for o in operations if o.name.startswith("linalg.")]
    if not structured or any(o not in structured and not o.name.startswith(("arith.", "memref.get_global")) for o in operations):
        return 1
    written = [v for o in structured for v in _outs(o)]
    extents = set()
    for op in structured:
        if op.name == "linalg.fill":
            type_ = ir.MemRefType(op.operands[1].type)
            extents.add(type_.shape[0] if type_.rank else 1)
            continue
        if op.name != "linalg.generic" or "parallel" not in str(next(iter(op.attributes["iterator_types"]), "")):
            return 1
        maps = [m if isinstance(m, ir.AffineMap) else m.value for m in op.opview.indexing_maps]
        for value, map_ in zip(op.operands, maps):
            first = map_.results[0] if len(map_.results) else None
            by_row = isinstance(first, ir.AffineDimExpr) and ir.AffineDimExpr(first).position == 0
            if value in written and not by_row:
                return 1
            if by_row:
                extents.add(ir.MemRefType(value.type).shape[0])
        if any(o.name == "memref.load" and o.operands[0] in written for o in walk(op)):
            return 1
    return extents.pop() if len(extents) == 1 else 1


def _outs(op: ir.Operation) -> list[ir.Value]:
    if op.name == "linalg.fill":
        return [op.operands[1]]
    return list(op.operands)[-(len(op.opview.outputs) if hasattr(op.opview, "outputs") else 1):]


def _bound(function: func.FuncOp, extent: int) -> None:
    """Add the arguments ``begin`` and ``end`` behind, and run the outermost loops between them."""
    block = function.regions[0].blocks[0]
    index = ir.IndexType.get()
    begin, end = block.add_argument(index, function.location), block.add_argument(index, function.location)
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([a.type for a in block.arguments], []))
    if extent == 1:
        return
    for op in [o.operation for o in block.operations]:
        if op.name == "scf.for":
            upper = owner(op.operands[1])
            if upper is None or ir.IntegerAttr(upper.attributes["value"]).value != extent:
                raise ValueError(f"the outermost loop does not run to {extent}")
            op.operands[0], op.operands[1] = begin, end


