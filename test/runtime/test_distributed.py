"""Models on several processes: collectives run between the compiled segments."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

_PROGRAM = Path(__file__).parent / "distributed_program.py"


def run(world: int, device: str) -> None:
    """Run the program in ``world`` processes; fails with what the first that is wrong printed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    processes = [
        subprocess.Popen([sys.executable, str(_PROGRAM), str(rank), str(world), port, device], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for rank in range(world)
    ]
    texts = [p.communicate(timeout=400)[0] for p in processes]
    for process, text in zip(processes, texts):
        assert process.returncode == 0, text[-3000:]


@pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")
def test_tensor_parallel_data_parallel_and_functional_collectives():
    run(2, "cpu")


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_on_two_gpus():
    run(2, "cuda")
