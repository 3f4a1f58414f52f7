"""The tables of the README, from the results in ``benchmarks/results``:

    python -m benchmarks.report NVIDIA-H200
"""

import json
import sys

from benchmarks.runner import RESULTS
from benchmarks.suites import SUITES


def main() -> None:
    machine = sys.argv[1] if len(sys.argv) > 1 else "NVIDIA-H200"
    for suite, table in (("matmul-relu", _kernels), ("elementwise", _kernels), ("models", _models), ("counters", _counters)):
        path = RESULTS / machine / f"{suite}.json"
        if path.exists():
            data = json.loads(path.read_text())
            print(f"\n{suite} ({machine}, {data['environment']['date']}, torch {data['environment']['versions']['torch']})\n")
            order = [c.name for c in SUITES.get(suite, [])]
            cases = sorted(data["cases"].items(), key=lambda item: order.index(item[0]) if item[0] in order else 0)
            print(table(dict(cases)))


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(c) for c in cells) + " |"


def _head(*cells: str) -> list[str]:
    return [_row(*cells), _row(*("---" for _ in cells))]


def _kernels(cases: dict) -> str:
    """Microseconds: a call in a stream of calls, and the time on the GPU alone."""
    lines = _head("case", "call: eager", "torch.compile", "**Inferno**", "device: eager", "torch.compile", "**Inferno**", "launches")
    for name, case in cases.items():
        if "error" in case:
            lines.append(_row(name, case["error"][:80], *[""] * 6))
            continue
        call, device = case["times"]["call"], case["times"]["device"]
        cells = [f"{t[v]:.1f}" if v in t else "-" for t in (call, device) for v in ("eager", "torch.compile", "inferno")]
        lines.append(_row(name, *cells, case["launches"]))
    return "\n".join(lines)


def _models(cases: dict) -> str:
    lines = _head(
        "model", "kernels", "launches", "compile, s", "peak memory, MB", "error / eager's", "call, ms: eager", "torch.compile", "**Inferno**",
        "device, ms: eager", "torch.compile", "**Inferno**",
    )
    for name, case in cases.items():
        if "error" in case:
            lines.append(_row(name, case["error"][:80], *[""] * 10))
            continue
        call, device = case["times"]["call"], case["times"]["device"]
        cells = [f"{t[v] / 1e3:.2f}" if v in t else "-" for t in (call, device) for v in ("eager", "torch.compile", "inferno")]
        error = case["times"]["check"].split("error ")[1].split(",")[0] if "error " in case["times"]["check"] else "?"
        eager = case["times"]["check"].split("eager's ")[1].split(",")[0] if "eager's " in case["times"]["check"] else "?"
        lines.append(_row(
            name, case["kernels"], case["launches"], f"{case['compile_seconds']:.1f}", case["peak_bytes"] >> 20, f"{error} / {eager}", *cells,
        ))
    return "\n".join(lines)


def _counters(cases: dict) -> str:
    names = list(next(iter(cases.values())))
    lines = _head("version", *names)
    for version, values in cases.items():
        lines.append(_row(version, *(f"{values.get(n, 0):.4g}" for n in names)))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
