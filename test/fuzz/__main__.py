"""Random programs by hand: ``python -m fuzz --examples 1000 --seed 7`` (from ``test``, or with ``PYTHONPATH=.:test``).

Prints each program that is wrong, crashes or is refused, cut down to a few lines; the exit status is 1 if one is wrong or crashes.
"""

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings

from fuzz.contractions import contractions
from fuzz.movement import movements
from fuzz.programs import Program, minimise
from fuzz.strategy import programs
from fuzz.verdict import Verdict, judge


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("fuzz", description="Compile random programs and hold their results against eager and float64.")
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lines", type=int, default=10, help="most lines of a program")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--backend", action="store_true", help='through torch.compile(backend="inferno"), with gradients')
    parser.add_argument("--dynamic", action="store_true", help="with --backend: sizes vary")
    parser.add_argument("--kernels", action="store_true", help="hold every kernel against its PyTorch program too (see inferno check)")
    parser.add_argument("--contractions", action="store_true", help="programs around matrix products")
    parser.add_argument("--movement", action="store_true", help="programs that move data, of all types; with --fallback some sizes depend on values")
    parser.add_argument("--fallback", action="store_true", help="what cannot be compiled is left to eager")
    parser.add_argument("--long", action="store_true", help="one size of each program is large")
    parser.add_argument("--simulated", action="store_true", help="as for a GPU, by the simulator, with schedules drawn at random")
    parser.add_argument("--keep", action="store_true", help="do not cut down what fails")
    parser.add_argument("--known", default="", help="skip failures whose text holds this")
    options = parser.parse_args(argv)
    generators: Counter[str] = Counter()
    if options.simulated:
        sys.path.append(str(Path(__file__).parents[1] / "codegen"))  # where the simulator is
        from fuzz.simulated import compiler as simulated

        compile_ = simulated(options.seed, generators)
    else:
        compile_ = backend(options.device, options.dynamic) if options.backend else compiler(options.device, options.fallback)
    counts: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    shown: set[Program] = set()
    begin = time.time()

    @seed(options.seed)
    @settings(
        max_examples=options.examples, phases=[Phase.generate], deadline=None, database=None, suppress_health_check=list(HealthCheck),
    )
    @given(
        contractions() if options.contractions else movements(options.lines, options.fallback) if options.movement else programs(options.lines, options.long),
    )
    def examine(program: Program) -> None:
        verdict = judge(program, compile_, options.device, options.backend)
        if options.kernels and verdict.kind == "right":
            verdict = judge_kernels(program, compile_, options.device)
        counts[verdict.kind] += 1
        total = sum(counts.values())
        if total % 100 == 0:
            print(f"# {total} programs, {dict(counts)}, {time.time() - begin:.0f} s", flush=True)
        if verdict.kind == "right" or (options.known and options.known in verdict.text):
            return
        kind = f"{verdict.kind} {verdict.text.split(': ')[0]} {verdict.text.split(': ')[-1][:60]}"
        seen[kind] += 1
        if seen[kind] > 2 or program in shown:
            return
        shown.add(program)
        report(program, verdict, compile_, options)

    examine()
    print(f"# {sum(counts.values())} programs, {dict(counts)}, {time.time() - begin:.0f} s", f"kernels {dict(generators)}" * bool(generators))
    return int(counts["wrong"] + counts["crash"] > 0)


def compiler(device: str, fallback: bool = False) -> Callable:
    import inferno

    target = "cpu" if device == "cpu" else None
    faults: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: faults.append(record.getMessage())
    logging.getLogger("inferno").addHandler(handler)

    def compile_(function: Callable, inputs: tuple) -> Callable:
        faults.clear()
        compiled = inferno.compile(function, inputs, target=target, fallback=fallback)

        def call(*args):  # may compile, too
            results = compiled(*args)
            if found := [text for text in faults if "failed in" in text]:  # what the compiler should have refused, or done
                raise RuntimeError(found[0])
            return results

        return call

    return compile_


def backend(device: str, dynamic: bool = False) -> Callable:
    """The same through torch.compile; what cannot be compiled falls back."""

    def compile_(function: Callable, inputs: tuple) -> Callable:
        torch._dynamo.reset()
        return torch.compile(function, backend="inferno", dynamic=dynamic, options={"target": "cpu"} if device == "cpu" else {})

    return compile_


def judge_kernels(program: Program, compile_: Callable, device: str) -> Verdict:
    """Every kernel of the program against the PyTorch program that it implements."""
    from fuzz.verdict import copies
    from inferno.runtime.check.checking import check_kernels

    inputs = program.make_inputs()
    compiled = compile_(program.function(), copies(inputs, device))
    for one in check_kernels(compiled, copies(inputs, device), {}):
        if one.comparison is None:
            return Verdict("refused", f"@{one.kernel}: {one.note}")
        if not one.right:
            return Verdict("wrong", f"@{one.kernel}: {one.comparison}")
    return Verdict("right")


def report(program: Program, verdict: Verdict, compile_: Callable, options: argparse.Namespace) -> None:
    def ask(p: Program) -> Verdict:
        whole = judge(p, compile_, options.device, options.backend)
        return judge_kernels(p, compile_, options.device) if options.kernels and whole.kind == "right" else whole

    small = program if options.keep else minimise(program, lambda p: ask(p).kind == verdict.kind)
    found = ask(small)
    print(f"\n### {verdict.kind}: {verdict.text[:600]}\n{small}# cut down: {found.kind}: {found.text[:600]}\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
