"""torch's OpInfo database, which has sample inputs for every operator, run through Inferno and held against eager and float64.

``python -m benchmarks.opinfo --help``.  A case is an operator, a dtype and the number of a sample.
"""
