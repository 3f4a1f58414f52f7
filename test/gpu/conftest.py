"""Everything here needs a GPU; without one it is not collected, which takes half a minute."""

import pytest
import torch


collect_ignore_glob = [] if torch.cuda.is_available() else ["test_*.py"]


def pytest_report_header():
    return None if torch.cuda.is_available() else "no GPU: test/gpu is left out"


@pytest.fixture
def exact_float32():
    """Eager multiplies float32 as float32."""
    yield from _precision("highest")


@pytest.fixture
def tf32():
    """Float32 is multiplied as TF32."""
    yield from _precision("high")


def _precision(name):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    yield
    torch.set_float32_matmul_precision(before)
