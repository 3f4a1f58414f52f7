"""The ``inferno`` command: compile, run, explain, tune, bench, cache.

What a command prints of IR goes to stdout alone, everything else to stderr.
"""

import argparse
import dataclasses
import logging
import math
import os
import sys

import inferno
from inferno.errors import InfernoError, InputError, LaunchError, OptionError
from inferno.options import MATMULS, STAGES
from inferno.target import TARGETS
from inferno.tools.compile_command import print_ir
from inferno.tools.ending import ended
from inferno.tools.subject import INPUTS, names_ir, names_package, read_compiled, refuse


def main(argv: list[str] | None = None) -> int:
    """Entry point; returns the exit status: 0, 1 for a failure or a wrong result, 2 for a bad command line, 130 for Ctrl-C."""
    return ended("inferno", lambda: _main(argv))


def _main(argv: list[str] | None) -> int:
    options = _parser().parse_args(argv)
    logging.basicConfig(level=logging.INFO if getattr(options, "verbose", False) else logging.WARNING, format="%(name)s: %(message)s")
    logging.getLogger("torch._subclasses.fake_tensor").addFilter(lambda record: False)  # a traceback beside the error that torch raises
    try:
        return options.command(options) or 0
    except InfernoError:
        raise
    except Exception as error:
        from inferno.tools.expression import place_of

        place = place_of(error, getattr(options, "expr", None))
        if place is None:
            raise
        print(f"inferno: {place}: {type(error).__name__}: {error}", file=sys.stderr)  # what the user's text itself does wrong
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="inferno", description="An optimizing compiler for PyTorch.")
    parser.add_argument("--version", action="version", version=f"inferno {inferno.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, function, help_: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help_, description=help_)
        sub.set_defaults(command=function)
        return sub

    compile_ = command("compile", print_ir, "compile and print the IR at a stage")
    _add_subject(compile_, "file.py:Model, a Hugging Face model id or folder, file.mlir with the IR of a stage, or a package, file.inferno")
    compile_.add_argument("--ir", default="fused", metavar="STAGE", help=f"one of {', '.join(STAGES)} (default: fused)")
    compile_.add_argument("-v", "--verbose", action="store_true", help="print what each pass changed, as a unified diff, to stderr")

    run = command("run", _run, "run, check against float64, and with --bench time against eager and torch.compile")
    _add_subject(run, "file.py:Model, a Hugging Face model id or folder, a package, file.inferno, or file.mlir with the IR of a stage")
    run.add_argument("--bench", action="store_true", help="time against eager and torch.compile")

    check = command("check", _check, "hold the results and every kernel against eager and float64; exit status 1 if something is off")
    _add_subject(check, "file.py:Model, or a Hugging Face model id or folder")
    check.add_argument("--kernel", metavar="NAME", help="write this kernel's files: its IR, and the PyTorch program that it implements")
    check.add_argument("--out", metavar="DIR", help="where the files of the kernel go, of the first that is off without --kernel (default: here)")

    explain = command("explain", _explain, "print the table of kernels, and where the time of a call goes")
    _add_subject(explain)

    tune = command("tune", _tune, "measure the schedules of every kernel on the GPU here, and keep the best; `inferno tune show` lists what is kept")
    _add_subject(tune, "file.py:Model, a Hugging Face model id or folder, file.mlir with the IR of a stage, or show")
    tune.add_argument("-v", "--verbose", action="store_true", help="say of each schedule that has no time why, and why each search ended")

    _add_bench(command("bench", _bench, "run a benchmark suite; without a name, list them"))
    _add_cache(commands.add_parser("cache", help="the cache on disk: show it, clear it", description="Show or clear the cache on disk."))
    return parser


def _add_subject(sub: argparse.ArgumentParser, expr: str = "file.py:Model, a Hugging Face model id or folder, or a package, file.inferno") -> None:
    sub.add_argument("expr", nargs="?", metavar="EXPR", help=expr)
    sub.add_argument("-c", dest="code", metavar="TEXT", help="Python text; the last expression is compiled, torch, nn and F are in scope")
    sub.add_argument("--target", metavar="NAME", help=f"compile for this machine instead of the one at hand: {', '.join(TARGETS)}")
    sub.add_argument("--matmul", choices=MATMULS, default="auto", help="what multiplies matrices (default: auto, what is faster)")
    sub.add_argument(
        "--freeze", nargs="?", const=True, default=False, metavar="BYTES",
        help="keep what is made of weights alone from call to call: at most twice their bytes, or so many (such as 2G)",
    )
    sub.add_argument("--tune", action="store_true", help="measure schedules of kernels that were never tuned, on the GPU that they are for")
    sub.add_argument("--dtype", metavar="NAME", help="floating-point type of weights and inputs: float32, bf16, f16 (default: the model's own)")
    sub.add_argument("--batch", type=int, metavar="N", help="of a Hugging Face model's inputs (default: 1)")
    sub.add_argument("--sequence", type=int, metavar="N", help="tokens of a Hugging Face model's inputs (default: 128)")


def _add_bench(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("suite", nargs="?", metavar="SUITE")
    sub.add_argument("--out", metavar="FOLDER", help="where results/<gpu>/<suite>.json goes (default: benchmarks/results)")
    sub.add_argument("--only", metavar="TEXT", help="only the cases whose name holds TEXT")
    sub.add_argument("--shard", metavar="I/N", help="every N-th case from the I-th on, instead of the core and a sample of the others")
    sub.add_argument("--sample", type=int, default=10, metavar="N", help="cases besides the core, others from hour to hour (default: 10)")
    sub.add_argument("--seed", type=int, metavar="N", help="draw the sample by this number")
    sub.add_argument("--fast", action="store_true", help="without torch.compile")
    sub.add_argument("--seconds", type=float, default=math.inf, metavar="S", help="begin no case after so many")
    sub.add_argument("--budget", type=float, default=0.4, metavar="S", help="time the calls of each version for so many seconds (default: 0.4)")
    sub.add_argument("--resume", action="store_true", help="leave out the cases that have a result of the same versions")
    sub.add_argument("--tune", action="store_true", help="measure schedules of the cases' kernels before, where none is known")
    sub.add_argument("--autotune", action="store_true", help="with torch.compile's max-autotune, which takes minutes for a model")
    sub.add_argument("--kernels", type=int, default=0, metavar="N", help="list the N kernels of each case that take longest")


def _add_cache(sub: argparse.ArgumentParser) -> None:
    what = sub.add_subparsers(required=True, metavar="COMMAND")
    show = what.add_parser("show", help="list what is kept, by kind and target", description="List what is kept, by kind and target.")
    show.add_argument("--all", action="store_true", help="a line for each entry, the last used first")
    show.set_defaults(command=_cache_show)
    what.add_parser("clear", help="remove everything", description="Remove everything, and say what it was.").set_defaults(command=_cache_clear)


def _run(options: argparse.Namespace) -> int:
    import torch

    from inferno.runtime.check.checking import check_call
    from inferno.runtime.report import counted

    if names_package(options):
        from inferno.tools.package import run_package

        return run_package(options)
    if names_ir(options):
        from inferno.tools.ir_program import run_file

        refuse(options, ("freeze", "tune", "bench", *INPUTS), "is IR, and the option is for a model")
        return run_file(options.expr, options.target, options.matmul)
    subject, compiled = read_compiled(options)
    memory = ""
    with torch.no_grad():
        call = check_call(compiled, subject.model, subject.args, subject.kwargs)
        call.restore()
        found, call = call.worst, dataclasses.replace(call, output=None)
        if compiled.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(compiled.device)
            compiled(*subject.args, **subject.kwargs)
            memory = f", {torch.cuda.max_memory_allocated(compiled.device) / 2**30:.2f} GiB at the most"
            call.restore()
    report = compiled.explain()
    print(f"{subject.name}: {counted(len(report.rows), 'kernel')} on {report.target}, compiled in {report.seconds:.1f} s{memory}, {found}")
    if options.bench:
        from inferno.tools.versus import render, versus

        print(render({subject.name: versus(subject.model, compiled, subject.args, subject.kwargs)}))
    return 0 if found.right else 1


def _check(options: argparse.Namespace) -> int:
    from inferno.tools.check_command import check

    if names_package(options):
        raise InputError(f"{options.expr} is compiled already, and there is no model to hold it against; check the model")
    subject, compiled = read_compiled(options)
    return check(subject, compiled, options.kernel, options.out)


def _explain(options: argparse.Namespace) -> int:
    import torch
    from rich.console import Console

    if names_package(options):
        from inferno.tools.package import explain_package

        return explain_package(options)
    subject, compiled = read_compiled(options)
    try:
        with torch.no_grad():
            report = compiled.explain(*subject.args, **subject.kwargs)
    except LaunchError:  # for another machine: there is no call to time
        report = compiled.explain()
    sys.stdout.write(report.render(max(120, Console().width)))
    return 0


def _tune(options: argparse.Namespace) -> int:
    from inferno.tools.tune import show, tune

    return show(options.target) if options.code is None and options.expr == "show" else tune(options)


def _cache_show(options: argparse.Namespace) -> int:
    from inferno.tools.cache import show

    show(options.all)
    return 0


def _cache_clear(options: argparse.Namespace) -> int:
    from inferno.tools.cache import clear

    print(clear(), file=sys.stderr)
    return 0


def _bench(options: argparse.Namespace) -> int:
    sys.path.insert(0, os.getcwd())  # a console script does not look in the current folder
    try:
        from benchmarks import runner
    except ImportError as error:
        raise OptionError("the benchmark suites are in the repository: run `inferno bench` from a checkout's root") from error
    if options.suite is None:
        runner.list_suites()
        return 0
    given = {f.name: getattr(options, f.name) for f in dataclasses.fields(runner.Run)}
    return runner.run(runner.Run(**given))


if __name__ == "__main__":
    sys.exit(main())
