"""Make ``checks`` importable from every test folder, and runs repeatable: each test starts from the same random state, and
without the cache on disk, which would hand a test what an earlier one compiled.  A test of the cache asks for ``cache_folder``."""

import os
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
os.environ["INFERNO_CACHE"] = "0"


@pytest.fixture(autouse=True)
def seed():
    # torch.manual_seed keeps the stack for each kind of device that there is not: 4 ms under pytest.
    (torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed)(0)


@pytest.fixture(autouse=True, scope="session")
def no_cache(tmp_path_factory):
    """Whatever a test or a process of its does, the user's own cache is not touched."""
    os.environ["INFERNO_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def cache_folder(tmp_path, monkeypatch):
    """An empty cache of the test's own, switched on; its folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("INFERNO_CACHE", "1")
    monkeypatch.setenv("INFERNO_CACHE_DIR", str(folder))
    return folder
