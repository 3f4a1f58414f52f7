"""``inferno-opt``: run passes on MLIR text, ours and upstream's in one pipeline.

IR goes to stdout and everything else to stderr.  Each chunk of the input runs in a process of its own, because MLIR can
end the process that it runs in; such an end is reported as what it is.  torch is never imported, so that a run takes 0.4 s.
"""

import argparse
import os
import re
import signal
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from inferno.errors import InfernoError
from inferno.tools.ending import ended

_SEPARATOR = re.compile(r"^\s*// -----.*$", re.M)


@dataclass(frozen=True)
class Chunk:
    """One piece of the input; ``text`` starts with as many empty lines as come before it, so line numbers are the file's."""

    file: str
    line: int
    text: str


def main() -> None:
    """Run the command line and end the process.  Without the interpreter's own end, which frees the bindings for 0.2 s."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it at once: numpy, while it is imported, makes an ImportError of an interrupt
    status = ended("inferno-opt", lambda: run(sys.argv[1:]))
    sys.stderr.flush()
    os._exit(status)


def run(argv: list[str]) -> int:
    """The exit status: 0 if every chunk went through (with ``--verify-diagnostics``: if it said what was expected), else 1."""
    arguments = _parser().parse_args(argv)
    if arguments.list_passes:
        _list_passes()
        return 0
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy comes with the bindings; threads would not survive a fork
    try:
        from inferno.mlir import ir  # noqa: F401  (once, before the processes fork, as are the passes)
        from inferno.passes import find_pass, pass_names
        from inferno.passes.manager import parse

        for step in parse(arguments.pass_pipeline):
            if step.name in pass_names():
                find_pass(step.name)
        text = sys.stdin.read() if arguments.file == "-" else Path(arguments.file).read_text()
    except InfernoError as error:
        print(f"inferno-opt: error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"inferno-opt: error: {arguments.file}: {error.strerror}", file=sys.stderr)
        return 1
    except UnicodeDecodeError as error:
        print(f"inferno-opt: error: {arguments.file}: expected MLIR, and this is no text: {error}", file=sys.stderr)
        return 1
    if arguments.output != "-":
        sys.stdout = open(arguments.output, "w")  # open until the process ends
    name = "<stdin>" if arguments.file == "-" else arguments.file
    chunks = _split(name, text) if arguments.split_input_file else [Chunk(name, 1, text)]
    failed = False
    for i, chunk in enumerate(chunks):
        if i:
            print("// -----")
        failed |= _isolated(chunk, arguments, len(chunks)) != 0
    return int(failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("inferno-opt", description="Run passes on MLIR text; pipelines mix Inferno's and upstream's.")
    parser.add_argument("file", nargs="?", default="-", help="the input; - is stdin (default)")
    parser.add_argument("-p", "--pass-pipeline", default="", metavar="TEXT", help="such as 'func.func(canonicalize),outline-kernels,cse'")
    parser.add_argument("-o", dest="output", default="-", metavar="FILE", help="where the IR goes (default: stdout)")
    parser.add_argument("--split-input-file", action="store_true", help="treat the pieces between lines of // ----- as files")
    parser.add_argument("--verify-diagnostics", action="store_true", help="compare diagnostics with // expected-error {{...}}")
    parser.add_argument("--allow-unregistered-dialect", action="store_true", help="accept operations of unknown dialects")
    parser.add_argument("--mlir-print-ir-after-all", action="store_true", help="print the IR after every pass, to stderr")
    parser.add_argument("--mlir-print-ir-after-change", action="store_true", help="the same, only where a pass changed it")
    parser.add_argument("--mlir-print-debuginfo", action="store_true", help="print locations")
    parser.add_argument("--mlir-elide-elementsattrs-if-larger", type=int, metavar="N", help="leave out constants of more than N elements")
    parser.add_argument("--list-passes", action="store_true", help="list Inferno's passes and pipelines")
    return parser


def _list_passes() -> None:
    from inferno.passes import pass_names, summary
    from inferno.passes.pipelines import PIPELINES

    names = pass_names()
    print("Passes:")
    for name in names:
        print(f"  {name:24}{summary(name)}")
    print("Pipelines:")
    for name, text in PIPELINES.items():
        print(f"  {name:24}{text or '(empty)'}")
    print("Upstream's passes go by upstream's names, e.g. func.func(canonicalize,cse).")


def _split(name: str, text: str) -> list[Chunk]:
    chunks, start, line = [], 0, 1
    for match in [*_SEPARATOR.finditer(text), None]:
        end = match.start() if match else len(text)
        chunks.append(Chunk(name, line, "\n" * (line - 1) + text[start:end]))
        if match:
            line += text.count("\n", start, match.end())
            start = match.end()
    return chunks


def _isolated(chunk: Chunk, arguments: argparse.Namespace, count: int) -> int:
    """Run one chunk in a forked process; its exit status, 1 if a signal ended it."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = ended("inferno-opt", lambda: _run(chunk, arguments))
        except BaseException:  # the child must not return into its caller's code
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status < 0:
        which = f"the piece at line {chunk.line}" if count > 1 else "this input"
        print(f"{chunk.file}:{chunk.line}: error: MLIR ended the process ({signal.Signals(-status).name}) on {which}", file=sys.stderr)
        return 1
    return status


def _run(chunk: Chunk, arguments: argparse.Namespace) -> int:
    from inferno.mlir import ir, new_context
    from inferno.passes.manager import run_pipeline
    from inferno.tools.diagnostics import Diagnostic, collect, mismatches, show

    context = new_context()
    context.allow_unregistered_dialects = arguments.allow_unregistered_dialect
    found: list[Diagnostic] = []
    handler = context.attach_diagnostic_handler(lambda d: found.extend(collect(d)) or True)
    module = summary = None
    try:
        module = ir.Module.parse(chunk.text, context)
        module.operation.verify()
        run_pipeline(module, arguments.pass_pipeline, _observer(arguments, module), verify_each=True)
    except ir.MLIRError as error:
        module = None
        found += [d for e in error.error_diagnostics for d in collect(e)]
    except InfernoError as error:
        module = None
        cause = [d for e in getattr(error.__cause__, "error_diagnostics", ()) for d in collect(e)]
        found += cause or [Diagnostic("error", None, str(error))]
        summary = str(error).partition(" failed: ")[0] + " failed" if cause else None
    handler.detach()
    if module is not None:
        _print(module, arguments, sys.stdout, chunk.file)
    if arguments.verify_diagnostics:
        wrong = mismatches(chunk.text, found)
        for diagnostic in wrong:
            show(diagnostic, chunk.file, chunk.text)
        return int(bool(wrong))
    for diagnostic in found:
        show(diagnostic, chunk.file, chunk.text)
    if summary:
        print(f"inferno-opt: error: {summary}", file=sys.stderr)
    return int(module is None)


def _print(module, arguments: argparse.Namespace, stream, file: str) -> None:
    text = module.operation.get_asm(
        enable_debug_info=arguments.mlir_print_debuginfo, large_elements_limit=arguments.mlir_elide_elementsattrs_if_larger,
    )
    if arguments.mlir_print_debuginfo:
        text = re.sub(r'loc\("-":(?=\d+:\d+)', lambda _: f'loc("{file}":', text)
    print(text.rstrip("\n"), file=stream)


def _observer(arguments: argparse.Namespace, module):
    if not (arguments.mlir_print_ir_after_all or arguments.mlir_print_ir_after_change):
        return None
    before = [str(module)]

    def observe(text: str, module) -> None:
        after = str(module)
        if arguments.mlir_print_ir_after_all or after != before[0]:
            print(f"// -----// IR Dump After {text} //----- //", file=sys.stderr)
            _print(module, arguments, sys.stderr, arguments.file)
        before[0] = after

    return observe


if __name__ == "__main__":
    main()
