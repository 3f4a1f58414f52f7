"""Estimates of a product's time, by the generators that passes ask before schedules are chosen."""

from inferno.mlir import func
from inferno.schedule import assign
from inferno.schedule.analysis.cost import fastest
from inferno.schedule.analysis.unchanged import read_by_text, unchanged
from inferno.schedule.convolution import im2col, windows
from inferno.schedule.matmul import bf16x6, direct, direct_bf16x6, mma, presplit, short_vectors, simt, small_products, vectors, wgmma
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.wgmma_schedule import Wgmma
from inferno.target import Target


@read_by_text
def contraction_time(kernel: func.FuncOp, target: Target) -> float | None:
    """As ``product_time``, and of a convolution where Hopper's tensor cores compute it; None where another generator of convolutions does.
    Windows of a signal are rows of a matrix, too, but ``windows`` comes before products: estimated as one, it was given a transposed copy to write, and wrote
    that uncoalesced (an H200, 512 features of 10 by 5: float32, 160000 elements, 342 us, bf16, 4x80000, 495 us; the copy moves 131 MB, 32 us)."""
    with unchanged(kernel):
        if windows.read(kernel, target) is not None:
            return None
        c = im2col.parse_unfolded(kernel, target)
        chosen = assign.choose(kernel, target) if c is not None else None
        if isinstance(chosen, im2col.Im2col):
            return im2col.best(kernel, target)[0]
        return product_time(kernel, target) if c is None or isinstance(chosen, Wgmma) else None


@read_by_text
def product_time(kernel: func.FuncOp, target: Target) -> float | None:
    """Microseconds at the example's sizes; None where it is no contraction, or none of these takes it."""
    with unchanged(kernel):
        return _product_time(kernel, target)


def _product_time(kernel: func.FuncOp, target: Target) -> float | None:
    c = parse_contraction(kernel)
    if c is None:
        return None
    found = [*wgmma.candidates(kernel, c, target), *vectors.candidates(c, target), *short_vectors.candidates(c, target), *small_products.candidates(c, target)]
    best = fastest(found)[1]
    if isinstance(best, Wgmma) and wgmma.copies(best, c):
        found += mma.candidates(kernel, c, target)
    if str(c.lhs.element) == "f32" and not c.varies:
        found += [*bf16x6.candidates(kernel, c, target), *presplit.candidates(kernel, c, target), *simt.candidates(c, target)]
        found += direct_bf16x6.candidates(kernel, c, target) if target.hopper else []
    found += direct.candidates(kernel, c, target) if target.hopper else []
    return min((time for time, _ in found), default=None)
