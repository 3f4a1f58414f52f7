"""Reductions over any dimensions: ``reductions``, whose running values ``joining`` and ``joined_exponentials`` combine, and whose threads
meet in ``meeting``; ``chunks`` is the second kernel of sums in chunks, ``extrema`` looks for places, ``joined_rows`` and
``transposed_sums`` are for layouts; ``choices`` has branches that sums take around their terms."""
