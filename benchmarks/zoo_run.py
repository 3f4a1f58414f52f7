"""Run the zoo: every model in a process of its own, compiled, and compared with float64 by the project's rule.

    python -m benchmarks.zoo_run --out zoo.jsonl                      # all models, by inferno.compile
    python -m benchmarks.zoo_run --out zoo.jsonl --way torch.compile --shard 0/4
    python -m benchmarks.zoo_run --out zoo.jsonl --way training       # the gradients of all parameters, by torch.compile
    python -m benchmarks.zoo_run --out zoo.jsonl --table              # print what is in the file

Results are lines of JSON; a model that has a line is not run again unless it failed and ``--again`` is given, so a run that was
stopped goes on where it was.  Models whose library is not installed are "missing".
"""

import argparse
import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.zoo import ZOO, shard

WAYS = ("inferno.compile", "torch.compile", "training")
_RESULT = "zoo result: "


def main(argv: list[str] | None = None) -> int:
    """Entry point; returns 1 if a model was wrong or failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zoo_run", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", default="zoo.jsonl", help="where the lines go")
    parser.add_argument("--way", choices=WAYS, default=WAYS[0])
    parser.add_argument("--device", help="cuda or cpu; by default the GPU if there is one")
    parser.add_argument("--shard", default="0/1", metavar="I/N", help="every N-th model from the I-th on")
    parser.add_argument("--only", metavar="TEXT", help="only the models whose name holds TEXT")
    parser.add_argument("--seconds", type=float, default=600, help="the most that one model may take")
    parser.add_argument("--again", action="store_true", help="run models again that failed")
    parser.add_argument("--table", action="store_true", help="print the table of the results and run nothing")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    device = options.device or _device()
    if options.child:
        print(_RESULT + json.dumps(run_model(options.child, options.way, device)), flush=True)
        return 0
    path = Path(options.out)
    if not options.table:
        done = read(path)
        index, count = map(int, options.shard.split("/"))
        for name in shard(index, count, options.only):
            before = done.get((name, options.way, device))
            if before and not (options.again and before["status"] not in ("right", "missing")):
                continue
            result = run_child(name, options.way, device, options.seconds)
            with path.open("a") as file:
                file.write(json.dumps(result) + "\n")
            print(_row(result), file=sys.stderr, flush=True)
    results = read(path).values()
    print(table(list(results)))
    return int(any(r["status"] not in ("right", "missing") for r in results))


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def read(path: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The last line of every (model, way, device)."""
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {(r["name"], r["way"], r["device"]): r for r in lines}


def run_child(name: str, way: str, device: str, seconds: float) -> dict[str, Any]:
    """The result of a model in a process of its own, which may crash or hang."""
    command = [sys.executable, "-m", "benchmarks.zoo_run", "--child", name, "--way", way, "--device", device]
    begin = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, errors = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)  # with its workers
        child.communicate()
        out, errors = "", f"took longer than {seconds:.0f} s"
    base = {"name": name, "way": way, "device": device, "wall": round(time.perf_counter() - begin, 1)}
    line = next((line for line in out.splitlines() if line.startswith(_RESULT)), None)
    if line is None:
        return {**base, "status": "crashed", "error": errors[-2000:]}
    return {**base, **json.loads(line.removeprefix(_RESULT))}


def run_model(name: str, way: str, device: str) -> dict[str, Any]:
    """Compile and check one model here: status (right, wrong, failed, missing), pieces in eager, kernels, errors and seconds."""
    import torch

    import inferno
    from benchmarks.gradients import gradients_of
    from inferno.tools.check import reference, to_float64
    from inferno.runtime.check.comparison import compare

    torch.manual_seed(0)
    try:
        model, args, kwargs = ZOO[name]()
    except ImportError as error:
        return {"status": "missing", "error": str(error)}
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():  # zeros would hide what they multiply
                parameter.normal_(std=0.1)
    model = model.to(device)
    args, kwargs = torch.utils._pytree.tree_map(lambda v: v.to(device) if isinstance(v, torch.Tensor) else v, (args, kwargs))
    result: dict[str, Any] = {}
    inferno.stats(reset=True)

    def gradients(module: Any, args: tuple, kwargs: dict[str, Any], parameters: Any) -> Any:
        return gradients_of(module(*args, **kwargs), [p for p in parameters if p.requires_grad])

    try:
        with torch.set_grad_enabled(way == "training"):
            if way == "training":
                double, (args64, kwargs64) = to_float64(model), to_float64((args, kwargs))
                eager, exact = gradients(model, args, kwargs, model.parameters()), gradients(double, args64, kwargs64, double.parameters())
            else:
                eager, exact = model(*args, **kwargs), reference(model, args, kwargs)
            begin = time.perf_counter()
            if way == "inferno.compile":
                compiled = inferno.compile(model, args, kwargs=kwargs)
            else:
                compiled = torch.compile(model, backend="inferno")
            call = functools.partial(gradients, compiled, parameters=list(model.parameters())) if way == "training" else lambda a, k: compiled(*a, **k)
            ours = call(args, kwargs)
            result["seconds"] = round(time.perf_counter() - begin, 2)
            again = call(args, kwargs)
    except Exception as error:  # whatever it is, it is this model's result
        return {"status": "failed", "error": f"{type(error).__name__}: {error}"[:2000]}
    found = compare(ours, eager, exact)
    leaves = torch.utils._pytree.tree_leaves
    same = all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(leaves(ours), leaves(again)) if isinstance(a, torch.Tensor))
    problem = found.problem or ("" if same else "two runs differ")
    result |= {"error_found": found.error, "error_of_eager": found.eager_error, "bound": found.bound}
    return {"status": "wrong" if problem else "right", **({"error": problem} if problem else {}), **_pieces(compiled, way), **result}


def _pieces(compiled: Any, way: str) -> dict[str, Any]:
    """What became of the one model that this process has compiled."""
    import inferno

    stats = inferno.stats()
    if way == "inferno.compile" and not stats.graphs:  # in one piece or several, not through Dynamo
        report = compiled.explain()
        return {"graphs": 1, "segments": report.segments, "kernels": len(report.rows), "eager": len(report.fallbacks), "fallbacks": list(report.fallbacks)}
    try:
        fallbacks = list(inferno.explain(compiled).fallbacks)
    except inferno.InputError:  # Dynamo captures no recurrent layers
        fallbacks = []
    return {"graphs": stats.graphs, "segments": stats.segments, "kernels": stats.kernels, "eager": stats.fallbacks, "fallbacks": fallbacks}


def _row(result: dict[str, Any]) -> str:
    numbers = f"{result['kernels']} kernels, {result['seconds']} s, error {result['error_found']:.1e}" if "error_found" in result else ""
    counts = ("graphs", "segments", "eager")
    whole = f", graphs, segments, in eager: {[result[k] for k in counts]}" if [result.get(k) for k in counts] not in ([1, 1, 0], [None] * 3) else ""
    return f"{result['name']} by {result['way']} on {result['device']}: {result['status']}{whole}; {numbers} {result.get('error', '').strip()[-300:]}"


def table(results: list[dict[str, Any]]) -> str:
    """The results as a table in Markdown, and their counts."""
    columns = ("model", "way", "device", "result", "kernels", "graphs", "segments", "in eager", "seconds", "error", "eager's")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for r in results:
        numbers = [f"{r[k]:.1e}" if k in r else "" for k in ("error_found", "error_of_eager")]
        counts = [r.get(k, "") for k in ("kernels", "graphs", "segments", "eager", "seconds")]
        cells = [r["name"], r["way"], r["device"], r["status"], *counts, *numbers]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    ran = [r for r in results if r["status"] != "missing"]
    right = [r for r in ran if r["status"] == "right"]
    whole = [r for r in right if r["graphs"] == 1 and not r["eager"]]
    return "\n".join([*lines, "", f"{len(right)} of {len(ran)} right, {len(whole)} of them whole"])


if __name__ == "__main__":
    sys.exit(main())
