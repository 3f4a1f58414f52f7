"""A kernel function on tensors -> the same on buffers, in place where it can be: what upstream's bufferization makes of it.

Inputs are never written to; a result is computed into its destination, which is the function's trailing argument, so that
nothing is returned.  Temporaries are ``memref.alloc`` at the top of the function.
"""

from inferno.codegen.universal.stand_ins import stand_in
from inferno.mlir import dim_of, func, ir, linalg, run_upstream, tensor, terminator, walk
from inferno.passes.affine import projection
from inferno.passes.generics import PARALLEL, inverse, kinds
from inferno.passes.movements import insert
from inferno.passes.name_symbols import resolve_scalars
from inferno.passes.negate_terms import negate_terms
from inferno.passes.shapes import argument_attributes, shape, symbol_arguments
from inferno.passes.split_contractions import split_contractions
from inferno.symbolic import Int

# No canonicalization before bufferization: it removes copies of inputs to destinations, and the temporaries come back.
_BUFFERIZE = (
    "func.func(refback-generalize-tensor-pad,cse),eliminate-empty-tensors,"
    "one-shot-bufferize{bufferize-function-boundaries allow-return-allocs-from-loops function-boundary-type-conversion=identity-layout-map}"
)
_SIMPLIFY = "func.func(refback-munge-memref-copy,linalg-generalize-named-ops),canonicalize,cse"


def to_buffers(kernel: func.FuncOp) -> ir.Module:
    """A new module, in the same context, that holds the kernel as a public function on memrefs without results.

    Named structured operations become generics; those of tm_tensor stay.  Contractions are split from what follows them, so that they are plain sums.
    """
    module = ir.Module.parse(f"module {{\n{kernel}\n}}", kernel.context)
    if any(walk(op, "linalg.index") for op in walk(module, "linalg.generic")):  # what follows happens at the last step
        with module.context, ir.Location.unknown():
            split_contractions(module)
    function = module.body.operations[0]
    if "sym_visibility" in function.attributes:
        del function.attributes["sym_visibility"]
    results = len(function.type.results)
    writable = [i >= len(function.type.inputs) - results for i in range(len(function.type.inputs))]
    with module.context, ir.Location.unknown():
        sizes, varies = argument_attributes(function.operation), bool(symbol_arguments(function.operation))
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(
            [ir.DictAttr.get({**{e.name: e.attr for e in a}, "bufferization.writable": ir.BoolAttr.get(w)}) for a, w in zip(sizes, writable)]
        )
        _write_in_place(function)
        stand_ins = stand_in(function)
        run_upstream(module, _BUFFERIZE)
        stand_ins.restore(module)
        run_upstream(module, _SIMPLIFY)
        negate_terms(module)
        parallel_first(module)
        function = next(o for o in module.body.operations if isinstance(o, func.FuncOp))
        _copy_leftover_results(function, results)
        if "arg_attrs" in function.attributes:
            del function.attributes["arg_attrs"]
        if varies:
            function.attributes["arg_attrs"] = ir.ArrayAttr.get(sizes)
            resolve_scalars(function)
    return module


def _write_in_place(function: func.FuncOp) -> None:
    """Spell concatenation and padding that end in a copy to a destination as insertions into the destination."""
    for pad in walk(function, "tensor.pad"):
        _crop(pad)
    for copy in walk(function, "linalg.copy"):
        producer = copy.operands[0].owner
        if isinstance(producer, ir.Block) or producer.operation.name not in ("tensor.concat", "tensor.pad"):
            continue
        made, destination = producer.operation, copy.operands[1]
        with ir.InsertionPoint(copy), copy.location:
            value = _concat(made, destination) if made.name == "tensor.concat" else _pad(made, destination)
        if value is not None:
            copy.results[0].replace_all_uses_with(value)
            copy.erase()


def _concat(op: ir.Operation, destination: ir.Value) -> ir.Value:
    dim, offset, value = dim_of(op), 0, destination
    for part in op.operands:
        sizes = list(shape(part))
        offsets: list[Int] = [0] * len(sizes)
        offsets[dim] = offset
        if 0 not in sizes:
            value = insert(part, value, offsets, sizes, op)
        offset += sizes[dim]
    return value


def _crop(pad: ir.Operation) -> None:
    """Take what a negative padding takes away from the source first: what comes after knows sizes that grow only."""
    low, high = (list(ir.DenseI64ArrayAttr(pad.attributes[name])) for name in ("static_low", "static_high"))
    if len(pad.operands) != 1 or all(v >= 0 for v in (*low, *high)):
        return
    source, unknown = pad.operands[0], ir.ShapedType.get_dynamic_size()
    if unknown in (*low, *high) or not ir.RankedTensorType(source.type).has_static_shape:
        return
    sizes = [size + min(a, 0) + min(b, 0) for size, a, b in zip(source.type.shape, low, high)]
    if any(s < 0 for s in sizes):
        return
    with ir.InsertionPoint(pad), pad.location:
        part = ir.RankedTensorType.get(sizes, source.type.element_type)
        pad.operands[0] = tensor.ExtractSliceOp(part, source, [], [], [], [max(-a, 0) for a in low], sizes, [1] * len(sizes)).result
    pad.attributes["static_low"] = ir.DenseI64ArrayAttr.get([max(a, 0) for a in low])
    pad.attributes["static_high"] = ir.DenseI64ArrayAttr.get([max(b, 0) for b in high])


def _pad(op: ir.Operation, destination: ir.Value) -> ir.Value | None:
    """A fill and an insertion; None where the padding is not one known value or takes away from the source."""
    low = list(ir.DenseI64ArrayAttr(op.attributes["static_low"]))
    high = list(ir.DenseI64ArrayAttr(op.attributes["static_high"]))
    body = op.regions[0].blocks[0]
    padding = terminator(body).operands[0]
    if len(op.operands) != 1 or any(v < 0 for v in (*low, *high)) or (not isinstance(padding, ir.BlockArgument) and padding.owner.operation.parent == op):
        return None
    if isinstance(padding, ir.BlockArgument) and padding.owner == body:
        return None
    filled = linalg.fill(padding, outs=[destination])
    return insert(op.operands[0], filled, low, list(shape(op.operands[0])), op)


def parallel_first(module: ir.Module) -> None:
    """Permute the loops of every generic so that the parallel ones come first: it becomes one parallel nest around its reduction."""
    for op in walk(module, "linalg.generic"):
        parallel = [kind == PARALLEL for kind in kinds(op)]
        order = sorted(range(len(parallel)), key=lambda i, parallel=parallel: (not parallel[i], i))  # new position -> old loop
        if order == list(range(len(order))):
            continue
        place = inverse(order)
        renamed = projection(place, len(order))
        maps = [m if isinstance(m, ir.AffineMap) else m.value for m in op.opview.indexing_maps]
        op.attributes["indexing_maps"] = ir.ArrayAttr.get(
            [ir.AffineMapAttr.get(ir.AffineMap.get(len(order), 0, [e.compose(renamed) for e in m.results])) for m in maps]
        )
        types = list(op.attributes["iterator_types"])
        op.attributes["iterator_types"] = ir.ArrayAttr.get([types[i] for i in order])
        for index in walk(op, "linalg.index"):
            dim = dim_of(index)
            index.attributes["dim"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), place[dim])


def _copy_leftover_results(function: func.FuncOp, results: int) -> None:
    """Return nothing; where a result did not end up in its destination, copy it there."""
    block = function.regions[0].blocks[0]
    end = terminator(block)
    values = list(end.operands)
    destinations = list(block.arguments)[len(block.arguments) - results :]
    if values and len(values) != results:
        raise ValueError(f"{len(values)} of {results} results are left; which ones cannot be told")
    with ir.InsertionPoint(end), end.location:
        for value, destination in zip(values, destinations):
            if value != destination:
                _copy(value, destination)
        func.ReturnOp([])
    end.operation.erase()
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(list(function.type.inputs), []))


def _copy(source: ir.Value, destination: ir.Value) -> None:
    """``destination = source`` as a structured operation on buffers (``memref.copy`` would need a runtime function)."""
    type_ = ir.MemRefType(source.type)
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(type_.rank))
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    generic = linalg.GenericOp([], [source], [destination], ir.ArrayAttr.get([identity] * 2), ir.ArrayAttr.get([parallel] * type_.rank))
    body = generic.regions[0].blocks.append(type_.element_type, type_.element_type, arg_locs=[ir.Location.unknown()] * 2)
    with ir.InsertionPoint(body):
        linalg.YieldOp([body.arguments[0]])
