"""relu(x @ w) at MxKxN = 256x512x128 under Nsight Compute: launches, DRAM bytes and L2-to-DRAM throughput, ours and eager's.

    python -m benchmarks.counters            # needs ncu on PATH; prints a table and writes results/<gpu>/counters.json
"""

import csv
import io
import subprocess
import sys

import torch

import inferno
from benchmarks import require_gpu
from benchmarks.matmuls import MatmulRelu
from benchmarks.runner import RESULTS, environment, machine, write

METRICS = {
    "dram__bytes_read.sum": "DRAM bytes read", "dram__bytes_write.sum": "DRAM bytes written",
    "lts__t_sectors_srcunit_ltcfabric.sum": "L2 fabric sectors", "dram__throughput.avg.pct_of_peak_sustained_elapsed": "L2-DRAM throughput, % of peak",
    "gpu__time_duration.sum": "time, ns",
}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def child(version: str, dtype: str) -> None:
    """One profiled call: everything else runs before the profiler is switched on."""
    model = MatmulRelu(512, 128, DTYPES[dtype], torch.device("cuda"))
    x = torch.randn(256, 512, device="cuda", dtype=DTYPES[dtype])
    run = inferno.compile(model, (x,)) if version == "inferno" else model
    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    with torch.no_grad():
        for _ in range(3):
            run(x)
        flush.zero_()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        run(x)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()


def profile(version: str, dtype: str) -> dict[str, float]:
    """Sums over the kernels of one call."""
    command = [
        "ncu", "--csv", "--clock-control", "none", "--cache-control", "none", "--profile-from-start", "off", "--print-units", "base",
        "--target-processes", "application-only", "--metrics", ",".join(METRICS), sys.executable, "-m", "benchmarks.counters", version, dtype,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    if not rows:
        raise SystemExit(f"ncu gave nothing: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    totals: dict[str, float] = {"launches": float(len({r["ID"] for r in rows}))}
    for row in rows:
        name = METRICS.get(row["Metric Name"])
        if name:
            value = float(row["Metric Value"].replace(",", ""))
            totals[name] = max(totals.get(name, 0.0), value) if "%" in name else totals.get(name, 0.0) + value
    return totals


def main() -> None:
    if len(sys.argv) == 3:
        child(*sys.argv[1:])
        return
    require_gpu()
    results = {f"{version} {dtype}": profile(version, dtype) for dtype in DTYPES for version in ("eager", "inferno")}
    for name, values in results.items():
        print(name, {k: round(v, 2) for k, v in values.items()})
    write(RESULTS / machine() / "counters.json", {"environment": environment(), "case": "relu(x @ w) 256x512x128, L2 flushed", "cases": results})


if __name__ == "__main__":
    main()
