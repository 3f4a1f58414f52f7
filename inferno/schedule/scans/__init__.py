"""Running sums, products and extrema: ``scan_kernel`` reads a kernel, ``scans`` is the schedule, ``sized_scans`` that of sizes
that vary; ``scan_gathers`` says which maps in front may gather."""
