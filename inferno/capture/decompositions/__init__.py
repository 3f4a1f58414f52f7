"""How ATen operations are taken apart before the import: torch-mlir's table, with what it lacks or gets wrong added.

A decomposition is a function of the operation's own arguments that is traced in its place; it returns NotImplemented for
arguments that the operation itself should be kept for.
"""

from collections.abc import Callable
from functools import cache, lru_cache, wraps
from typing import Any

import torch

from inferno.capture.decompositions import (
    adaptive_pooling, affine_grids, arithmetic, attention, average_gradients, bessel, bit_views, bytes, complex_elementary, conversions,
    convolution_gradients, cumulative, distance_gradients, division, embedding, errors, exponents, extrema, fast_paths, folding, fourier,
    fractional_pooling, gamma, grouped, grouped_volumes, indexing, integers, large_windows, layered_pooling, lists, losses, masks, max_pooling,
    merged_groups, normalisation, ordering, padding, pooled_gradients, pooling, precision, promotion, quantisation, ranges, recurrent_cells, reductions,
    registered, resampling, resize_gradients, sampling, sampling_gradients, scalars, scattered_extremes, scattering, segments, selections, slices,
    small_matrices, spectra, transposed, triangular, views, weight_norm, window_functions,
)
from inferno.capture.decompositions.constants import keep_constants
from inferno.capture.eager_errors import error, may_raise


def own() -> dict[Any, Callable]:
    """Inferno's decompositions, by operator overload."""
    modules = (
        promotion, scalars, precision, complex_elementary, adaptive_pooling, affine_grids, arithmetic, attention, average_gradients, bessel, bit_views, bytes,
        conversions, convolution_gradients, cumulative, distance_gradients, division, embedding, errors, exponents, extrema, fast_paths, folding, fourier,
        fractional_pooling, gamma, grouped_volumes, indexing, integers, large_windows, layered_pooling, lists, losses, masks, merged_groups, normalisation,
        ordering, padding, pooled_gradients, pooling, max_pooling, quantisation, ranges, recurrent_cells, reductions, registered, resampling,
        resize_gradients, sampling, sampling_gradients, scattered_extremes, scattering, segments, selections, slices, small_matrices, spectra, transposed,
        triangular, views, weight_norm, window_functions,
    )
    parts = [*(m.TABLE for m in modules), _of_libraries()]
    found: dict[Any, Callable] = {}
    for part in parts:
        found.update({op: _either(found[op], function) if op in found else function for op, function in part.items()})
    return found


@cache
def _upstream() -> dict[Any, Callable]:
    from torch_mlir.extras.fx_decomp_util import get_decomposition_table

    # These would draw the numbers of another operation than torch does, round to other integers, and keep weights for the
    # backward operation where that takes the logarithms of the rows' sums.
    wrong = {torch.ops.aten.bernoulli.default, *ranges.SPACES, torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default}
    return {op: function for op, function in get_decomposition_table().items() if op not in wrong}


def table() -> dict[Any, Callable]:
    """Every decomposition, by operator overload; ours come first.  One for all who ask, until a library registers operators that are in it."""
    return _table(tuple(_of_libraries()))


def _of_libraries() -> dict[Any, Callable]:
    """Those of operators that only some libraries define, which are loaded at this time or not."""
    return {**grouped.table(), **arithmetic.of_inductor()}


@lru_cache(maxsize=1)
def _table(of_libraries: tuple) -> dict[Any, Callable]:
    """10 ms."""
    theirs = _upstream()
    found = {**theirs, **{op: _either(function, theirs[op]) if op in theirs else function for op, function in own().items()}}
    return keep_constants(keep_errors(conversions.keep_casts(found)))


def keep_errors(table: dict[Any, Callable]) -> dict[Any, Callable]:
    """The decompositions of ``table``, but operations that are an error in eager stay what they are, so that eager raises it."""

    def keeping(op: Any, function: Callable) -> Callable:
        @wraps(function)
        def decomposition(*args: Any, **kwargs: Any) -> Any:
            return NotImplemented if error(op, args, kwargs) else function(*args, **kwargs)

        return decomposition

    return {op: keeping(op, function) if may_raise(op) else function for op, function in table.items()}


def _either(first: Callable, second: Callable) -> Callable:
    """``first``, or ``second`` for arguments that ``first`` leaves alone."""

    def decompose(*args: Any, **kwargs: Any) -> Any:
        found = first(*args, **kwargs)
        return second(*args, **kwargs) if found is NotImplemented else found

    return decompose
