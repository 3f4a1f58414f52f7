"""Processes that compile, and what they are asked to do."""
