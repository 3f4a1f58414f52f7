"""How long compiling takes, in a new process each time: cold, and from the cache, beside torch.compile's.

    python -m benchmarks.compile_time --models bert tinyllama --dtype bfloat16 --repeat 3 --out results.json

Each line is one process: it builds the model, then compiles it and makes the first call.  ``capture`` is the time in
torch.export (ours) or Dynamo (torch.compile's) and, where it had to be done, decomposing; ``rest`` is everything else up to the
first call's end.  The caches, ours and Inductor's and Triton's, are in a folder of the run's own.  ``--target`` compiles for a
machine that is not here: then there is no call, and nothing to compare with.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WAYS = ("inferno", "inferno from the cache", "torch.compile", "torch.compile from the cache")


def measure(way: str, model: str, dtype: str, target: str | None) -> dict[str, float]:
    """Compile in this process; seconds by part."""
    import torch

    from benchmarks.models import MODELS

    for name in ("normal_", "uniform_", "kaiming_uniform_", "trunc_normal_"):
        setattr(torch.nn.init, name, lambda x, *args, **kwargs: x)  # what weights hold does not matter, and filling them takes longest
    device = torch.device("cuda" if torch.cuda.is_available() and target is None else "cpu")
    module, args, kwargs = MODELS[model]("base", getattr(torch, dtype), device)
    spent = {"capture": 0.0}
    if not way.startswith("inferno"):
        _time_torch(spent)
    begin, processor = time.perf_counter(), time.process_time()
    with torch.no_grad():
        if way.startswith("inferno"):
            import inferno

            _time_ours(spent)
            compiled = inferno.compile(module, args, kwargs=kwargs, target=target)
        else:
            compiled = torch.compile(module)
        if target is None:
            compiled(*args, **kwargs)
    if device.type == "cuda":
        torch.cuda.synchronize()
    total = time.perf_counter() - begin
    capture = spent.pop("capture") - spent.pop("backend", 0.0)
    return {"total": total, "capture": capture, "rest": total - capture, "processor": time.process_time() - processor}


def _time_ours(spent: dict[str, float]) -> None:
    """Add up the time in torch.export and in decomposing."""
    import torch

    from inferno.capture import Exported

    for holder, name in ((torch.export, "export"), (Exported, "capture")):
        _add_up(holder, name, spent, "capture")


def _time_torch(spent: dict[str, float]) -> None:
    """Add up the time in Dynamo, and that in the backend that it calls, AOTAutograd included."""
    import torch._dynamo.convert_frame as frames
    import torch._dynamo.output_graph as graphs

    _add_up(frames, "_compile", spent, "capture")
    _add_up(graphs.OutputGraph, "call_user_compiler", spent, "backend")


def _add_up(holder: object, name: str, spent: dict[str, float], part: str) -> None:
    function, depth = getattr(holder, name), [0]

    def timed(*args, **kwargs):
        depth[0] += 1
        begin = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            depth[0] -= 1
            if not depth[0]:
                spent[part] = spent.get(part, 0.0) + time.perf_counter() - begin

    setattr(holder, name, timed)


def run(options: argparse.Namespace) -> dict:
    """All ways for all models: medians of ``repeat`` processes each."""
    ways = [w for w in WAYS if options.target is None or w.startswith("inferno")]
    results: dict = {}
    for model in options.models:
        found: dict[str, list[dict]] = {way: [] for way in ways}
        for _ in range(options.repeat):
            with tempfile.TemporaryDirectory() as folder:
                for way in ways:
                    found[way].append(_process(way, model, options, folder))
        results[model] = {way: {part: statistics.median(r[part] for r in runs) for part in runs[0]} for way, runs in found.items()}
        for way in ways:
            print(f"{model:12s} {way:30s} " + "  ".join(f"{part} {seconds:6.2f} s" for part, seconds in results[model][way].items()), flush=True)
    return results


def _process(way: str, model: str, options: argparse.Namespace, folder: str) -> dict[str, float]:
    environment = {
        **os.environ, "INFERNO_CACHE": "1", "INFERNO_CACHE_DIR": f"{folder}/inferno", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
        "TRITON_CACHE_DIR": f"{folder}/triton", "INFERNO_PROGRESS": "0",
    }
    command = [sys.executable, "-m", "benchmarks.compile_time", "--one", way, "--models", model, "--dtype", options.dtype]
    command += ["--target", options.target] if options.target else []
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(f"{way} of {model}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", default=["bert", "tinyllama"])
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--target", help="compile for this machine, without a call")
    parser.add_argument("--out", help="write the medians to this file, with the machine's name")
    parser.add_argument("--one", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.models[0], options.dtype, options.target)))
        return 0
    results = run(options)
    if options.out:
        import torch

        machine = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
        data = {"machine": machine, "cores": os.cpu_count(), "torch": torch.__version__, "dtype": options.dtype, "seconds": results}
        Path(options.out).write_text(json.dumps(data, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
