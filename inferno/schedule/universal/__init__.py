"""The schedule of the generator that takes every kernel: ``universal``."""
