"""Benchmark suites and their runner: ``inferno bench SUITE`` from the root of a checkout."""
