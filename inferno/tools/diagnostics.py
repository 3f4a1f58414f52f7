"""Diagnostics of ``inferno-opt``: how they are shown, and how they are compared with what an input expects.

An input says what it expects in comments, as for mlir-opt: ``// expected-error {{text}}`` on the line of the diagnostic,
``expected-error@+1`` or ``@-2`` so many lines away, ``@above`` and ``@below`` for the nearest line without such a comment,
``@unknown`` for one without a place; ``-re`` after the kind makes ``{{...}}`` inside of the text regular expressions.
Kinds are error, warning, remark and note.
"""

import re
import sys
from dataclasses import dataclass, replace

from inferno.mlir import ir

_EXPECTED = re.compile(r"expected-(error|warning|remark|note)(-re)? *(?:@([+-]\d+|above|below|unknown))? *\{\{(.*)\}\}\s*$")


@dataclass(frozen=True)
class Diagnostic:
    """``place`` is (line, column), both from 1; None if the location is not one in the input."""

    kind: str
    place: tuple[int, int] | None
    message: str


@dataclass(frozen=True)
class Expected:
    kind: str
    line: int | None
    pattern: re.Pattern
    written_at: int


def collect(diagnostic) -> list[Diagnostic]:
    """MLIR's diagnostic (``ir.Diagnostic`` or ``ir.DiagnosticInfo``) and its notes."""
    kind = diagnostic.severity.name.lower()
    notes = [d for note in diagnostic.notes for d in collect(note)]
    return [Diagnostic(kind, _place(diagnostic.location), diagnostic.message), *notes]


def _place(location: ir.Location) -> tuple[int, int] | None:
    """The first place in the input that a location holds."""
    location = ir.Location.from_attr(location.attr, location.context)  # a diagnostic's is of the base class
    if isinstance(location, ir.FileLineColLoc):
        return (location.start_line, location.start_col) if location.filename == "-" else None
    if isinstance(location, ir.NameLoc):
        return _place(location.child_loc)
    if isinstance(location, ir.CallSiteLoc):
        return _place(location.callee) or _place(location.caller)
    if isinstance(location, ir.FusedLoc):
        return next((place for part in location.locations if (place := _place(part))), None)
    return None


def show(diagnostic: Diagnostic, file: str, text: str) -> None:
    """Print ``file:line:column: kind: message`` to stderr, with the line and a caret below it."""
    message = diagnostic.message.rstrip("\n")
    if diagnostic.place is None:
        print(f"{file}: {diagnostic.kind}: {message}", file=sys.stderr)
        return
    line, column = diagnostic.place
    print(f"{file}:{line}:{column}: {diagnostic.kind}: {message}", file=sys.stderr)
    lines = text.split("\n")
    if 1 <= line <= len(lines) and lines[line - 1].strip():
        print(f"{lines[line - 1]}\n{' ' * (column - 1)}^", file=sys.stderr)


def mismatches(text: str, found: list[Diagnostic]) -> list[Diagnostic]:
    """What ``text`` expects and did not come, and what came unexpected; each as an error at its place."""
    expected = _expectations(text)
    wrong: list[Diagnostic] = []
    for diagnostic in found:
        line = diagnostic.place[0] if diagnostic.place else None
        hit = next((e for e in expected if e.kind == diagnostic.kind and e.line == line and e.pattern.search(diagnostic.message)), None)
        if hit is not None:
            expected.remove(hit)
        else:
            wrong.append(replace(diagnostic, kind="error", message=f"unexpected {diagnostic.kind}: {diagnostic.message}"))
    return wrong + [Diagnostic("error", (e.written_at, 1), f"expected {e.kind} was not produced") for e in expected]


def _expectations(text: str) -> list[Expected]:
    lines = text.split("\n")
    plain = [i for i, line in enumerate(lines, 1) if not _EXPECTED.search(line)]
    found = []
    for number, line in enumerate(lines, 1):
        if not (match := _EXPECTED.search(line)):
            continue
        kind, regex, where, message = match.groups()
        if where == "above":
            at = max((i for i in plain if i < number), default=number)
        elif where == "below":
            at = min((i for i in plain if i > number), default=number)
        else:
            at = None if where == "unknown" else number + int(where or 0)
        found.append(Expected(kind, at, _pattern(message, bool(regex)), number))
    return found


def _pattern(message: str, regex: bool) -> re.Pattern:
    if not regex:
        return re.compile(re.escape(message))
    parts = re.split(r"\{\{(.*?)\}\}", message)
    return re.compile("".join(part if i % 2 else re.escape(part) for i, part in enumerate(parts)))
