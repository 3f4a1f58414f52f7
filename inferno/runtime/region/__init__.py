"""Graphs of which parts run in eager, and torch.compile."""
