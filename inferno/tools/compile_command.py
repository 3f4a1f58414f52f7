"""``inferno compile``: the IR of a model, of a file of IR or of a package at a stage, and with ``-v`` what each pass changed."""

import argparse
import contextlib
import difflib
import re
import sys
from typing import Any

from inferno.errors import OptionError
from inferno.options import STAGES
from inferno.tools.subject import INPUTS, device_for, names_ir, names_package, read_compiled, refuse


def print_ir(options: argparse.Namespace) -> int:
    """Print the IR to stdout; the command's exit status."""
    if options.ir not in STAGES:
        near = difflib.get_close_matches(options.ir, STAGES, 1)
        raise OptionError(f"unknown stage {options.ir!r}{f'; did you mean {near[0]}?' if near else '.'} The stages are {', '.join(STAGES)}")
    if names_package(options):
        from inferno.tools.package import print_package

        return print_package(options)
    if names_ir(options):
        sys.stdout.write(compile_file(options, options.ir, options.verbose).ir(options.ir))
        return 0
    with contextlib.redirect_stdout(sys.stderr):  # what the subject prints is no IR
        _, compiled = read_compiled(options)
        text = compiled.ir(options.ir)
        for program in compiled.programs if options.verbose else ():
            _print_program(program, options.matmul)
    sys.stdout.write(text)
    return 0


def compile_file(options: argparse.Namespace, last: str, verbose: bool = False):
    """The program of IR in a file, from the stage that it is at to ``last``."""
    import torch

    from inferno.runtime.build import build_from
    from inferno.runtime.device import choose_target
    from inferno.tools.ir_program import read_stage

    refuse(options, ("freeze", *INPUTS), "is IR, and the option is for a model")
    target = choose_target(options.target, torch.device(device_for(None)))
    text, stage = read_stage(options.expr, target)
    if STAGES.index(last) < STAGES.index(stage):
        raise OptionError(f"{options.expr} is at stage {stage}, behind {last}; from there are {', '.join(STAGES[STAGES.index(stage):])}")
    program = build_from(stage, text, target, record=verbose, last=last, matmul=options.matmul, tune=options.tune)
    if verbose:
        _print_diffs(program.stages[stage], program.passes)
    return program


def _print_program(program: Any, matmul: str) -> None:
    """The diffs of the passes that made a program, which is built again from what was captured: the model itself is not run twice."""
    from inferno.runtime.build import build_from
    from inferno.tf32 import takes_tf32

    text = program.ir("torch")
    _print_diffs(text, build_from("torch", text, program.target, tf32=takes_tf32(), record=True, last="scheduled", matmul=matmul).passes)


def _print_diffs(text: str, passes: list) -> None:
    """A unified diff for each pass that changed something, to stderr; ``text`` is the program before the first."""
    from inferno.runtime.program import strip_locations

    before = _lines(strip_locations(text))
    for record in passes:
        after = _lines(record.after)
        changes = list(difflib.unified_diff(before, after, "before", record.name, lineterm="", n=2))
        print(f"// ----- {record.name}: {1e3 * record.seconds:.1f} ms{'' if changes else ', no change'}", file=sys.stderr)
        for line in changes:
            print(line, file=sys.stderr)
        before = after


def _lines(text: str) -> list[str]:
    """Without the module's own attributes.  Those are what passes are told, by who runs a pipeline and not by the pass in front, and they are gone behind the
    pass that they are for; measured schedules alone are hundreds of kilobytes."""
    return re.sub(r"(?m)^module attributes \{.*\} \{$", "module {", text).splitlines()
