"""Running sums, products and extrema: ``kernel`` parses a kernel function, ``scans`` is the schedule, ``sized_scans`` that of sizes
that vary; ``gathers`` says which maps in front may gather."""
