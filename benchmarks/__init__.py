"""Benchmark suites and their runner: ``inferno bench SUITE`` from the root of a checkout."""


def require_gpu() -> None:
    """SystemExit that says so where a benchmark of GPUs alone finds none."""
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs an NVIDIA GPU, and torch sees none here")
