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
from inferno.passes.generic_attributes import attributes_read_once
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


def _check_anchors(context: ir.Context, step: Step) -> None:
    """MLIR takes any name in front of a bracket for an operation's, and runs nothing where there is none of that name."""
    for name in re.findall(r"([\w.\-]+)\(", re.sub(r"\{[^{}]*\}", "", step.text)):
        if name != "any" and not context.allow_unregistered_dialects and not context.is_registered_operation(name):
            raise PassError(f"pipeline element {step.text!r}: there is no operation {name}, so that nothing would run; expected one such as func.func")


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


def run_pipeline(module: ir.Module, pipeline: str, observer: Observer | None = None, verify_each: bool = False) -> None:
    """Run ``pipeline`` on ``module`` in place.  It is verified at the end, and where one of upstream's passes follows ours, which may end the process
    on what is not valid; with ``verify_each`` after each step, and operations that the pipeline names are looked up.  Verifying a model takes as
    long as a pass does: of BERT-base's 130 steps a quarter of the time.

    Raises PassError for a pipeline that does not parse or a pass that fails, with MLIR's diagnostics in it.
    """
    with attributes_read_once():
        _run(module, pipeline, observer, verify_each)


def _run(module: ir.Module, pipeline: str, observer: Observer | None, verify_each: bool) -> None:
    unverified: list[str] = []  # what ran since the module was known to be valid
    ours = False
    for step in parse(pipeline):
        upstream = step.name not in pass_names()
        with module.context, ir.Location.unknown(module.context):
            if upstream and ours:
                _verify(module, unverified)
            if verify_each and upstream:
                _check_anchors(module.context, step)
            _run_step(module, step)
            ours = not upstream and not getattr(find_pass(step.name), "leaves_invalid", False)
            unverified = [*unverified, step.text if upstream else step.name] if upstream or ours else []
            if verify_each:
                _verify(module, unverified)
        if observer is not None:
            observer(step.text, module)
    _verify(module, unverified)


def _verify(module: ir.Module, steps: list[str]) -> None:
    """Raise PassError that names ``steps``, which changed the module since it was valid, if it is not; they are done with if it is."""
    if not steps:
        return
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        named = f"{'one of ' if len(steps) > 1 else ''}{', '.join(steps)}"
        raise PassError(f"{named} failed: {error}") from error
    steps.clear()


def _run_step(module: ir.Module, step: Step) -> None:
    if step.name in pass_names():
        function = find_pass(step.name)
        accepted = list(inspect.signature(function).parameters)[1:] if step.options else []
        if unknown := set(step.options) - set(accepted):
            raise PassError(f"{step.name} has no option {', '.join(sorted(unknown))}; it has {', '.join(accepted) or 'none'}")
        try:
            function(module, **step.options)
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
