"""Inferno: an optimizing compiler for PyTorch, written in Python on MLIR."""
