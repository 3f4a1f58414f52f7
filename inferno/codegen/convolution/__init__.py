"""Convolutions and their gradients.

* On Hopper's tensor cores, as ``matmul.wgmma`` with other copies: ``im2col``, ``halo`` (``halo_consumer``, ``halo_phases``),
  ``channel_sums`` (``summing_epilogue``), ``pixel_sums``.
* Few channels a group: ``windows`` and ``staged_windows`` (``window_sums``), ``band_windows`` and ``group_windows``
  (``vector_results``, ``group_sums``, ``finite_sums``).
* Gradients of depthwise weights: ``tap_sums``, ``tap_tiles``, ``tap_results``.
* What reaches tensors by pointers has them by ``window_tensors``."""
