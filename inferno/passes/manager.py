"""Run pipelines that mix our passes, which are Python functions, with upstream's.

A pipeline is text: ``remove-asserts,func.func(canonicalize,cse),inferno-fuse,assign-schedules{target=sm_90a}``.  Ours are
called directly, between runs of MLIR's own pass manager, so that a Python exception arrives as it was raised.
"""

import difflib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass

from inferno.errors import PassError
from inferno.mlir import ir, run_upstream
from inferno.passes import find_pass, pass_names
from inferno.passes.pipelines import PIPELINES

Observer = Callable[[str, ir.Module], None]
"""Called after every pass with the pass's text and the module."""


@dataclass(frozen=True)
class Step:
    """One element of a pipeline: ``text`` as written, split into its name and the options in braces."""

    text: str
    name: str
    options: dict[str, str]


def split(text: str) -> list[str]:
    """Split at the commas outside of any bracket."""
    parts, depth, current = [], 0, ""
    for ch in text:
        depth += (ch in "({[<") - (ch in ")}]>")
        if depth < 0:
            raise PassError(f"unbalanced {ch!r} in pipeline {text!r}")
        if ch == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += ch
    if depth:
        raise PassError(f"pipeline {text!r} ends inside a bracket")
    parts.append(current.strip())
    if any(not p for p in parts) and text.strip():
        raise PassError(f"pipeline {text!r} has an empty element")
    return [p for p in parts if p]


def parse(pipeline: str) -> list[Step]:
    """The steps of ``pipeline``, with our named pipelines replaced by what they stand for."""
    steps: list[Step] = []
    ours = {*PIPELINES, *pass_names()}
    for text in split(pipeline):
        if module := re.fullmatch(r"builtin\.module\((.*)\)", text, re.S):
            steps += parse(module.group(1))
            continue
        match = re.fullmatch(r"([\w.\-]+)(?:\{(.*)\})?", text, re.S)
        name = match.group(1) if match else text
        options = _options(text, match.group(2) or "") if name in ours else {}
        if name in PIPELINES:
            steps += parse(_substitute(PIPELINES[name], options))
        else:
            if name not in ours:
                _reject_nested(text, ours)
            steps.append(Step(text, name, options))
    return steps


def _reject_nested(text: str, ours: set[str]) -> None:
    """Ours run on modules, so inside of ``func.func(...)`` they would be unknown names to MLIR."""
    if nested := ours & set(re.findall(r"[\w.\-]+", re.sub(r"\{[^{}]*\}", "", text))):
        raise PassError(f"{sorted(nested)[0]} runs on a module; it cannot be nested in another pass manager, as in {text!r}")


def _options(text: str, inside: str) -> dict[str, str]:
    options = {}
    for item in inside.split():
        key, equals, value = item.partition("=")
        if not equals:
            raise PassError(f"option {item!r} of {text!r} is not of the form name=value")
        options[key.replace("-", "_")] = value
    return options


def _substitute(pipeline: str, options: dict[str, str]) -> str:
    """Fill ``$name`` in a named pipeline's text."""
    wanted = set(re.findall(r"\$(\w+)", pipeline))
    if unknown := set(options) - wanted:
        raise PassError(f"unknown option {', '.join(sorted(unknown))}; the options are {', '.join(sorted(wanted)) or 'none'}")
    if missing := wanted - set(options):
        raise PassError(f"the pipeline needs a value for {', '.join(sorted(missing))}, as in {{{sorted(missing)[0]}=...}}")
    return re.sub(r"\$(\w+)", lambda m: options[m.group(1)], pipeline)


def run_pipeline(module: ir.Module, pipeline: str, observer: Observer | None = None) -> None:
    """Run ``pipeline`` on ``module`` in place, verifying after each step.

    Raises PassError for a pipeline that does not parse or a pass that fails, with MLIR's diagnostics in it.
    """
    for step in parse(pipeline):
        with module.context, ir.Location.unknown(module.context):
            _run_step(module, step)
        if observer is not None:
            observer(step.text, module)


def _run_step(module: ir.Module, step: Step) -> None:
    if step.name in pass_names():
        function = find_pass(step.name)
        accepted = list(inspect.signature(function).parameters)[1:] if step.options else []
        if unknown := set(step.options) - set(accepted):
            raise PassError(f"{step.name} has no option {', '.join(sorted(unknown))}; it has {', '.join(accepted) or 'none'}")
        try:
            function(module, **step.options)
            if not getattr(function, "leaves_invalid", False):
                module.operation.verify()
        except ir.MLIRError as error:
            raise PassError(f"{step.name} failed: {error}") from error
        return
    try:
        run_upstream(module, step.text)
    except ir.MLIRError as error:
        raise PassError(f"{step.text} failed: {error}") from error
    except ValueError as error:
        raise PassError(f"pipeline element {step.text!r}: {error}{_suggest(step.name)}") from error


def _suggest(name: str) -> str:
    near = difflib.get_close_matches(name, [*PIPELINES, *pass_names()], n=3)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return f"\n{hint}`inferno-opt --list-passes` lists Inferno's passes"
