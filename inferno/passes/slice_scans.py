"""Scan only the beginning of a row where nothing else of the scan's result is read: ``x.cumsum(-1)[:, :n]``."""

from collections.abc import Sequence

from inferno.mlir import clone_onto, ir, is_read, linalg, owner, tensor, users


def slice_scan(scan: ir.Operation) -> bool:
    """Let a scan go over what its only reader, a slice that begins where the scan does, takes of it; whether it is so."""
    found = list(users(scan.results[0]))
    if len(found) != 1 or is_read(scan.results[1]) or any(not v.type.has_static_shape for v in scan.operands):
        return False
    cut, shape = found[0], scan.results[0].type.shape
    if cut.name != "tensor.extract_slice" or len(cut.operands) != 1 or cut.results[0].type.rank != len(shape):
        return False
    begins, sizes, steps = (list(ir.DenseI64ArrayAttr(cut.attributes[f"static_{name}"])) for name in ("offsets", "sizes", "strides"))
    along, starts = ir.IntegerAttr(scan.attributes["dimension"]).value, list(scan.operands)[1:]
    if begins[along] != 0 or any(s != 1 for s in steps) or not all(map(_is_start, starts)):
        return False
    with ir.InsertionPoint(scan), scan.location:
        part = tensor.ExtractSliceOp(_sized(scan.operands[0], sizes), scan.operands[0], [], [], [], begins, sizes, steps).result
        running, last = _start(starts[0], sizes), _start(starts[1], [n for d, n in enumerate(sizes) if d != along])
        attributes = {name: scan.attributes[name] for name in scan.attributes}
        new = ir.Operation.create(scan.name, results=[running.type, last.type], operands=[part, running, last], regions=1, attributes=attributes)
        old = scan.regions[0].blocks[0]
        block = new.regions[0].blocks.append(*(a.type for a in old.arguments), arg_locs=[scan.location] * len(old.arguments))
        known = dict(zip(old.arguments, block.arguments))
        with ir.InsertionPoint(block):
            for op in old.operations:
                clone_onto(op.operation, known)
    cut.results[0].replace_all_uses_with(new.results[0])
    cut.erase()
    scan.erase()
    return True


def _is_start(value: ir.Value) -> bool:
    made = owner(value)
    return made is not None and made.name in ("linalg.fill", "tensor.empty")


def _start(value: ir.Value, sizes: Sequence[int]) -> ir.Value:
    """As many elements like those, at the insertion point."""
    made = owner(value)
    empty = tensor.EmptyOp(list(sizes), value.type.element_type).result
    return linalg.fill(made.operands[0], outs=[empty]) if made.name == "linalg.fill" else empty


def _sized(value: ir.Value, sizes: Sequence[int]) -> ir.Type:
    return ir.RankedTensorType.get(list(sizes), value.type.element_type)
