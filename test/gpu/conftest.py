"""Everything here needs a GPU and is skipped without one."""

import pytest
import torch


def pytest_collection_modifyitems(items):
    if not torch.cuda.is_available():
        for item in items:
            if "/gpu/" in str(item.path):
                item.add_marker(pytest.mark.skip(reason="needs a GPU"))


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
