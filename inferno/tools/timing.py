"""Times of several versions of one computation, measured alternately in one process.

``call``: wall time of one call in a stream of calls.  ``device``: time on the GPU alone, by replaying a CUDA graph of
calls; ``cold``: the same with the L2 cache flushed before each call.  Medians over rounds, microseconds.
"""

import statistics
import time
from collections.abc import Callable

import torch

ROUNDS = 9  # of which the median is taken, so an odd number


def call_times(versions: dict[str, Callable[[], object]], device: torch.device, budget: float = 0.4) -> dict[str, float]:
    """Microseconds a call of each version; each gets about ``budget`` seconds, in ROUNDS rounds that alternate."""
    counts = {}
    for name, version in versions.items():
        for _ in range(5):
            version()
        once = _stream(version, 3, device)
        counts[name] = max(3, min(2000, int(budget / ROUNDS / max(once, 1e-7))))
    samples: dict[str, list[float]] = {name: [] for name in versions}
    for _ in range(ROUNDS):
        for name, version in versions.items():
            samples[name].append(_stream(version, counts[name], device))
    return {name: 1e6 * statistics.median(s) for name, s in samples.items()}


def _stream(version: Callable[[], object], count: int, device: torch.device) -> float:
    """Seconds a call, of ``count`` calls that are not waited for one by one."""
    _wait(device)
    begin = time.perf_counter()
    for _ in range(count):
        version()
    _wait(device)
    return (time.perf_counter() - begin) / count


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def device_times(versions: dict[str, Callable[[], object]], cold: bool = False) -> dict[str, float]:
    """Microseconds on the GPU of each version; a version that cannot be captured in a CUDA graph is left out.

    A graph has 20 calls, fewer if they take longer than 40 ms.  With ``cold`` twice the L2 is read before each call, and the
    time of that is taken off.  (After a write the L2 would hold what goes to memory during the call:
    a read of 136 MB took 53 us on an H200, and takes 42.)
    """
    once = max((_stream(v, 1, torch.device("cuda")) for v in versions.values()), default=0.0)
    calls = max(2, min(20, int(0.04 / max(once, 1e-9))))
    flush = torch.zeros(torch.cuda.get_device_properties(0).L2_cache_size // 4, dtype=torch.int64, device="cuda").sum
    graphs = {}
    for name, version in versions.items():
        body = (lambda v=version: (flush(), v())) if cold else version
        graph = _capture(body, calls)
        if graph is not None:
            graphs[name] = graph
    empty = _capture(flush, calls) if cold else None
    samples: dict[str, list[float]] = {name: [] for name in graphs}
    base: list[float] = []
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            samples[name].append(_replay(graph) / calls)
        if empty is not None:
            base.append(_replay(empty) / calls)
    offset = statistics.median(base) if base else 0.0
    return {name: 1e3 * (statistics.median(s) - offset) for name, s in samples.items()}


def _capture(body: Callable[[], object], calls: int) -> torch.cuda.CUDAGraph | None:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    try:
        with torch.cuda.stream(stream):
            for _ in range(3):
                body()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(calls):
                body()
    except RuntimeError:
        torch.cuda.synchronize()
        return None
    _replay(graph)
    return graph


def _replay(graph: torch.cuda.CUDAGraph) -> float:
    """Milliseconds of one replay."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)
