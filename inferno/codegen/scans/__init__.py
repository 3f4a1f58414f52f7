"""Running sums, products and extrema: ``scans``, by ``scan_along`` or ``scan_across`` memory, on ``tiles``,
``stages`` and ``values``; ``lane_scans`` and ``look_back`` get what lies in front, from lanes and from other blocks."""
