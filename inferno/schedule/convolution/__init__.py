"""Convolutions and their gradients: what such a kernel computes, and the schedules of it.

* Dense ones, as contractions on Hopper's tensor cores: ``convolution`` and ``unfolded`` read them; ``im2col``, ``halo``,
  ``channel_sums`` (with ``summed_columns``) and ``pixel_sums`` (gradients of weights) are the schedules.
* Few channels a group: ``window_kernel`` reads them; ``windows``, ``staged_windows``, ``band_windows`` and ``group_windows``
  (with ``group_tile``).
* Gradients of depthwise weights: ``tap_kernel``, ``tap_sums``, ``tap_region``."""
