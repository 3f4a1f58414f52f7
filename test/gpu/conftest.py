"""Everything here needs a GPU; without one only what is asked for by name is collected, since
that of all takes half a minute, and skipped."""

import pytest
import torch

from inferno.runtime.region import backend


collect_ignore_glob = [] if torch.cuda.is_available() else ["test_*.py"]


def pytest_report_header():
    return None if torch.cuda.is_available() else "no GPU: test/gpu is left out"


def pytest_collection_modifyitems(items):
    """Of files that are asked for by name."""
    for item in items if not torch.cuda.is_available() else ():
        if "/gpu/" in str(item.path):
            item.add_marker(pytest.mark.skip(reason="needs a GPU"))


@pytest.fixture
def generators(monkeypatch) -> list[str]:
    """The schedules of the kernels of the regions that are compiled."""
    found: list[str] = []
    compile_graph = backend.compile_graph

    def noted(*args, **more):
        region = compile_graph(*args, **more)
        found.extend(k.schedule for p in region.programs for k in p.kernels.values())
        return region

    monkeypatch.setattr(backend, "compile_graph", noted)
    return found


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
