"""Running sums, products and extrema: ``kernel`` parses a kernel function, ``scans`` chooses a ``scan_schedule``, ``sized_scans``
one for sizes that vary; ``gathers`` says which maps in front may gather, and ``flips`` which of them read or write from the end."""
