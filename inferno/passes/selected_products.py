"""How a mixture's experts are recognised, which are imported as a product of every matrix with all rows and an operation that selects each row's result, and
what may be fused with that operation so that ``fuse-grouped`` still recognises it.

What follows a selection element by element is its end.  Anything else, such as rows that are selected of its rows, would be computed of the product of all with
all, which is as many times as much as there are matrices.
"""

from inferno.mlir import backward_slice, ir, owner, users, walk
from inferno.passes.contraction import is_sum_of_products
from inferno.passes.generics import PARALLEL, inputs, is_elementwise, kinds, loop_of, maps


def product_of(selection: ir.Operation | None) -> ir.Operation | None:
    """The product of matrices with rows of which an elementwise operation selects each row's own; None if it is none that does."""
    if not is_elementwise(selection) or kinds(selection) != [PARALLEL] * 2:
        return None
    for extract in walk(selection, "tensor.extract"):
        places = list(extract.operands)[1:]
        made = owner(extract.operands[0])
        if made is not None and len(places) == 3 and loop_of(places[1]) == 0:
            product = made if is_sum_of_products(made) else _rounded(made)
            if product is not None and not _depends(places[0], 1):
                return product
    return None


def is_selected(product: ir.Operation) -> bool:
    """Whether selections are all that read a contraction's result."""
    readers = [r for value in product.results for r in users(value)]
    if len(readers) == 1 and is_elementwise(readers[0]):
        readers = [r for value in readers[0].results for r in users(value)]
    selections = [product_of(r.parent) for r in readers if r.name == "tensor.extract"]
    return len(selections) == len(readers) > 0 and all(found is not None and found == product for found in selections)


def stays_selected(producer: ir.Operation, consumer: ir.Operation, number: int) -> bool:
    """Whether a reader, whose input ``number`` a producer makes, is a selection with it if either is one."""
    before, after = product_of(producer), product_of(consumer)
    if before is None and after is None:
        return True
    if before is not None and after is not None and before != after:
        return False
    if kinds(consumer) != [PARALLEL] * 2 or not is_elementwise(consumer) or (before is not None and maps(consumer)[number] != ir.AffineMap.get_identity(2)):
        return False
    if any(m != ir.AffineMap.get_identity(2) for m in maps(consumer)[len(inputs(consumer)):]):
        return False
    return all(_is_of_row(e) for op in (producer, consumer) if product_of(op) is None for e in walk(op, "tensor.extract"))


def are_chunks(selection: ir.Operation) -> bool:
    """Whether slices alone read a selection, one of its columns, or two as long that meet in one operation: it can select these alone."""
    cuts = list(users(selection.results[0]))
    if not 0 < len(cuts) <= 2 or any(c.name != "tensor.extract_slice" or len(c.operands) != 1 for c in cuts):
        return False
    rows = selection.results[0].type.shape[0]
    for cut in cuts:
        offsets, sizes, steps = (list(ir.DenseI64ArrayAttr(cut.attributes[f"static_{name}"])) for name in ("offsets", "sizes", "strides"))
        if cut.results[0].type.rank != 2 or (offsets[0], sizes[0], steps) != (0, rows, [1, 1]):
            return False
    readers = [r for c in cuts for r in users(c.results[0])]
    if len(cuts) == 1:
        return True
    meet = all(r == readers[0] for r in readers) and is_elementwise(readers[0]) and kinds(readers[0]) == [PARALLEL] * 2
    return meet and cuts[0].results[0].type == cuts[1].results[0].type and all(m == ir.AffineMap.get_identity(2) for v, m in zip(
        inputs(readers[0]), maps(readers[0])) if any(v == c.results[0] for c in cuts))


def _is_of_row(extract: ir.Operation) -> bool:
    """Whether what is looked up is a row's, which a kernel in front can do."""
    return all(not _depends(place, 1) for place in list(extract.operands)[1:])


def _rounded(made: ir.Operation) -> ir.Operation | None:
    if not is_elementwise(made) or len(inputs(made)) != 1 or not is_sum_of_products(owner(inputs(made)[0])):
        return None
    return owner(inputs(made)[0])


def _depends(value: ir.Value, loop: int) -> bool:
    """Whether a place is computed of the number of a loop."""
    return any(loop_of(v) == loop for v in backward_slice([value]))
