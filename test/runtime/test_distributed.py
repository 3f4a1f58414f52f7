"""Models on several processes: collectives run between the compiled segments."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from stream_trace import assert_one_stream, read_trace

_PROGRAM = Path(__file__).parent / "distributed_program.py"


def run(world: int, device: str) -> str:
    """What the program prints that runs in ``world`` processes; fails with what those say that are wrong."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    paths = [str(_PROGRAM.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, str(_PROGRAM), str(world), port, device], capture_output=True, text=True, timeout=400, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


@pytest.mark.thorough
@pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")
def test_tensor_parallel_data_parallel_and_functional_collectives():
    run(2, "cpu")


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_on_two_gpus():
    """Its kernels and NCCL's are on the caller's stream, in order; ``pytest -s`` shows the table."""
    print(run(2, "cuda"))


def test_the_trace_of_one_stream_is_told_from_others(tmp_path):
    def event(name, begin, end, stream=7, cat="kernel"):
        return {"cat": cat, "name": name, "ts": float(begin), "dur": float(end - begin), "args": {"stream": stream}}

    def found(*events):
        (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": [{"cat": "cpu_op", "name": "aten::add", "ts": 0.0, "dur": 1.0}, *events]}))
        work = read_trace(tmp_path / "trace.json")
        assert len(work) == len(events)
        try:
            assert_one_stream(work, {"addf", "mulf"}, 1)
        except AssertionError as error:
            return str(error).splitlines()[0]
        return "right"

    add, reduce, mul = event("addf", 0, 2), event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 3, 9), event("mulf", 10, 12)
    assert found(mul, reduce, add) == "right"
    assert found(add, reduce, event("mulf", 8, 12)) == "right"  # begins early and waits
    assert found(add, {**reduce, "args": {"stream": 20}}, mul) == "several streams"
    assert found(add, reduce, mul, event("Memcpy DtoD", 13, 14, 20, "gpu_memcpy")) == "several streams"
    assert found(add, mul) == "0 collectives"
    assert found(event("at::native::copy", 0, 2), reduce, mul) == "no kernel of ours in front of a collective"
    assert found(event("addf", 0, 5), reduce, mul) == "a collective began too early"
    assert found(add, reduce, event("mulf", 4, 5)) == "something behind a collective ended before it"
