"""Make ``checks`` importable from every test folder, and runs repeatable: each test starts from the same random state."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
