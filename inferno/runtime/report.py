"""``explain()``: what became of a program, kernel by kernel."""

import io
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from inferno.runtime.plan.kernel import Kernel
from inferno.runtime.plan.plan import Launch, LibraryCall
from inferno.runtime.program import Program
from inferno.runtime.prepared import prepared_bytes
from inferno.symbolic import hint

if TYPE_CHECKING:
    from inferno.runtime.region.timing import Timing

_MOST_NAMES = 6  # of frozen weights


@dataclass(frozen=True)
class Row:
    """One kernel function: how often it runs, what it computes in PyTorch's terms, and what it costs.  ``no_library``: why a library that was
    asked for does not compute it; ``undecided``: generators that could not be asked, and what of sizes that vary they would have to know."""

    kernel: str
    calls: int
    fuses: tuple[str, ...]
    generator: str
    schedule: str
    grid: tuple[int, ...]
    registers: int
    shared: int
    spills: int
    flops: int
    bytes: int
    note: str = ""
    no_library: str = ""
    undecided: str = ""


@dataclass(frozen=True)
class Boundary:
    """A tensor between two kernels, of so many ``bytes``, in all ``calls`` of the reader: why they are not one kernel."""

    made_by: str
    read_by: str
    calls: int
    bytes: int
    reason: str


@dataclass(frozen=True)
class Piece:
    """Equal pieces of a call that is run in pieces: compiled segments, or an operation in eager at ``line`` for a ``reason``.
    ``seconds``: of all its ``calls`` in one call of the model; None where that was not measured."""

    name: str
    calls: int
    line: str
    reason: str
    seconds: float | None = None


@dataclass(frozen=True)
class Report:
    """Rows in the order of the first launch, ``pieces`` in the order that they run in, ``boundaries`` by their bytes; ``str()`` has a table of
    each.

    ``call``: seconds of a call of the model, of which each piece's share is a part; None where none was measured.
    """

    target: str
    rows: tuple[Row, ...]
    launches: int
    workspace: int
    seconds: float
    segments: int = 1
    fallbacks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    pieces: tuple[Piece, ...] = ()
    boundaries: tuple[Boundary, ...] = ()
    call: float | None = None

    def __str__(self) -> str:
        return self.render(width=180)

    def _table_of_pieces(self) -> Table:
        table = Table(title=None, show_lines=False)
        for name in ("piece", "calls", "line", "why it runs in eager", *(("time", "share") if self.call is not None else ())):
            table.add_column(name, justify="right" if name in ("calls", "time", "share") else "left", overflow="fold")
        for piece in self.pieces:
            times = [] if self.call is None else [_time(piece.seconds), f"{piece.seconds / self.call:.1%}"]
            table.add_row(piece.name, str(piece.calls or ""), piece.line, piece.reason, *times)
        return table

    def _table_of_boundaries(self) -> Table:
        table = Table(title=None, show_lines=False)
        for name in ("made by", "read by", "calls", "bytes", "why they are not one kernel"):
            table.add_column(name, justify="right" if name in ("calls", "bytes") else "left", overflow="fold")
        for b in self.boundaries:
            table.add_row(b.made_by, b.read_by, str(b.calls), human(b.bytes, 1000, "B"), b.reason)
        return table

    def render(self, width: int) -> str:
        table = Table(title=None, show_lines=False)
        for name, justify in (
            ("kernel", "left"), ("calls", "right"), ("fuses", "left"), ("generator", "left"), ("schedule", "left"),
            ("grid", "left"), ("regs", "right"), ("shared", "right"), ("flops", "right"), ("bytes", "right"),
        ):
            table.add_column(name, justify=justify, overflow="fold")
        for row in self.rows:
            registers = f"{row.registers}" + (f" +{row.spills} B spilled" if row.spills else "")
            table.add_row(
                row.kernel, str(row.calls), ", ".join(row.fuses), row.generator, row.schedule,
                "x".join(map(str, row.grid)), registers if row.registers else "", human(row.shared, 1024, "B") if row.shared else "",
                human(row.flops, 1000, ""), human(row.bytes, 1000, "B"),
            )
        out = io.StringIO()
        console = Console(file=out, width=width, color_system=None)
        console.print(table)
        for row in self.rows:
            if row.note:
                console.print(f"{row.kernel}: {row.note}; {row.generator} made it instead")
            if row.no_library:
                console.print(f"{row.kernel}: not computed by the library: {row.no_library}")
            if row.undecided:
                console.print(f"{row.kernel}: not decided for all sizes: {row.undecided}")
        if self.boundaries:
            console.print(self._table_of_boundaries())
        for line in self.notes:
            console.print(line)
        if self.pieces and (self.call is not None or any(p.reason for p in self.pieces)):
            console.print(self._table_of_pieces())
        if self.call is not None:
            eager = sum(p.seconds for p in self.pieces if p.reason)
            console.print(f"a call takes {_time(self.call)}" + (f", {eager / self.call:.1%} of it in eager operations" if eager else ""))
        between = f" in {self.segments} segments" if self.segments != 1 else ""
        console.print(
            f"{counted(len(self.rows), 'kernel')}{between}, {counted(self.launches, 'launch', 'launches')}, workspace {human(self.workspace, 1024, 'B')}, "
            f"target {self.target}, compiled in {self.seconds:.1f} s"
        )
        return out.getvalue()


def _time(seconds: float) -> str:
    """Seconds with the unit that leaves three digits."""
    unit, factor = next(((u, f) for u, f in (("us", 1e6), ("ms", 1e3)) if seconds * f < 999.5), ("s", 1.0))
    return f"{seconds * factor:.3g} {unit}"


def human(value: float, base: int, unit: str) -> str:
    """A number with a K, M, G or T."""
    for prefix in ("", "K", "M", "G"):
        if abs(value) < base:
            return f"{value:.{3 if abs(value) < 999.5 else 4}g} {prefix}{unit}".rstrip()
        value /= base
    return f"{value:.3g} T{unit}"


def report_of(
    target: str, programs: Sequence[Program], fallbacks: Sequence[object], seconds: float, notes: tuple[str, ...] = (),
    steps: Sequence[Sequence[Any]] = (), timing: "Timing | None" = None,
) -> Report:
    """The report of programs that run one after the other, with ``fallbacks`` between them.

    ``steps`` are those of each region; ``timing``, if there is one, has as many regions.
    """
    rows = [row for program in programs for row in _rows(program)]
    plans = [program.launch_plan() for program in programs]
    workspace = max((hint(p.workspace_bytes) for p in plans), default=0)
    notes = (*notes, *_frozen(programs), *_tuned(programs))
    return Report(
        target, tuple(rows), sum(len(p.steps) for p in plans), workspace, seconds, len(plans), tuple(map(str, fallbacks)), notes,
        _pieces(steps, timing), _boundaries(programs), None if timing is None else timing.call,
    )


def _frozen(programs: Sequence[Program]) -> tuple[str, ...]:
    """What the programs keep of frozen weights, in a line."""
    found = list({id(p.preparation): p for p in programs if p.preparation is not None}.values())
    if not found:
        return ()
    names, kernels, kept = {}, 0, 0
    for program in found:
        given = program.signature.arguments if program.signature is not None else ()
        names.update((n, given[n].name if n < len(given) else "") for n in program.preparation.arguments)
        kernels += len(program.preparation.plan.steps)
        kept += prepared_bytes(program)
    named = [n for n in names.values() if n]
    listed = f" ({', '.join(named[:_MOST_NAMES])}{', ...' if len(named) > _MOST_NAMES else ''})" if named else ""
    reads = sum(len(p.preparation.arguments) for p in found)
    outputs = sum(len(p.preparation.plan.outputs) for p in found)
    return (
        f"frozen: {outputs} tensor{'s' if outputs != 1 else ''}, {human(kept, 1024, 'B')}, made of {reads} weight{'s' if reads != 1 else ''}{listed} "
        f"by {kernels} launch{'es' if kernels != 1 else ''} when they change",
    )


def _tuned(programs: Sequence[Program]) -> tuple[str, ...]:
    """How many kernels have been tuned, in a line."""
    known = {key: text for program in programs for key, text in program.known.items()}
    count = sum(text != "" for text in known.values())
    return (f"tuned: {count} of {len(known)} kernels",) if count else ()


def _pieces(regions: Sequence[Sequence[Any]], timing: "Timing | None") -> tuple[Piece, ...]:
    """Equal steps as one piece each; where they are timed, the rest of a call's time as the last one."""
    count = sum(map(len, regions))
    times = [None] * count if timing is None else [t for region in timing.steps.values() for t in region]
    runs = [1] * len(regions) if timing is None else list(timing.runs.values())
    steps = [(step, n) for region, n in zip(regions, runs, strict=True) for step in region]
    found: dict[Any, Piece] = {}
    segments = 0
    for (step, calls), seconds in zip(steps, times, strict=True):
        if isinstance(step, Program):
            key = id(step)
            new = Piece(f"segment {segments}: {len(step.kernels)} kernel{'s' if len(step.kernels) != 1 else ''}", 0, _lines(step), "", 0.0)
            segments += 1
        else:
            key = step.target, step.place, step.reason
            new = Piece(step.target, 0, step.place.rpartition(os.sep)[2], step.reason, 0.0)
        piece = found.setdefault(key, new)
        found[key] = replace(piece, calls=piece.calls + calls, seconds=None if seconds is None else piece.seconds + seconds)
    pieces = list(found.values())
    if pieces and timing is not None:
        pieces.append(Piece("Python around the pieces", 0, "", "", max(0.0, timing.call - sum(p.seconds for p in pieces))))
    return tuple(pieces)


def _lines(program: Program) -> str:
    """From which line to which the operations of a program are, in the first file that is named."""
    places = re.findall(r"\(([^()]+):(\d+)\)", " ".join(s for step in program.launch_plan().steps for s in step.source))
    lines = [int(line) for file, line in places if file == places[0][0]]
    if not lines:
        return ""
    return f"{places[0][0]}:{min(lines)}" + (f"-{max(lines)}" if max(lines) > min(lines) else "")


def _boundaries(programs: Sequence[Program]) -> tuple[Boundary, ...]:
    """Of all programs, equal ones once; most bytes first."""
    found: dict[tuple[str, str, int, str], int] = {}
    for program in programs:
        for reader, told in re.findall(r"\bcall @([\w.$-]+)\(.*inferno\.apart = \[([^\]]*)\]", program.stages.get("scheduled", "")):
            for maker, size, reason in re.findall(r'"@([\w.$-]+), (\d+) bytes: ([^"]*)"', told):
                key = maker, reader, int(size), reason
                found[key] = found.get(key, 0) + 1
    boundaries = (Boundary(maker, reader, calls, calls * size, reason) for (maker, reader, size, reason), calls in found.items())
    return tuple(sorted(boundaries, key=lambda b: -b.bytes))


def _rows(program: Program) -> list[Row]:
    plan = program.launch_plan()
    first: dict[str, Launch | LibraryCall] = {}
    sources: dict[str, dict[str, None]] = {}
    scheduled = program.stages.get("scheduled", "")
    counts, refused, undecided = _calls(scheduled), _said(scheduled, "no_library"), _said(scheduled, "undecided")
    by_code = {k.code: n for n, k in program.kernels.items() if k.code}
    for step in plan.steps:
        code = step.kernel.split("::")[0]
        name = by_code.get(code, code) if isinstance(step, Launch) else step.kernel or step.function
        before = first.setdefault(name, step)
        if isinstance(before, Launch) and isinstance(step, Launch) and (0 in map(hint, before.grid) or _prepares(before, step) or before.copies):
            first[name] = step  # what the example launches, and most of its blocks do, in the place of arguments
        sources.setdefault(name, {}).update(dict.fromkeys(step.source))
    rows = []
    for name, step in first.items():
        kernel = program.kernels.get(name)
        launch = step if isinstance(step, Launch) else None
        used = list(kernel.resources.values()) if kernel else []
        generator, knobs = read_schedule(kernel.schedule if kernel else "")
        rows.append(Row(
            kernel=name, calls=counts.get(name, 1), fuses=tuple(sources[name]), generator=generator or "library", schedule=knobs,
            grid=_grid(launch, kernel), registers=max((r.registers for r in used), default=0),
            shared=max([launch.shared if launch else 0, *(r.shared for r in used)]), spills=sum(r.spills for r in used),
            flops=kernel.flops if kernel else 0, bytes=kernel.bytes if kernel else 0,
            note=kernel.note if kernel else "", no_library=refused.get(name, ""), undecided=undecided.get(name, ""),
        ))
    return rows


def _said(scheduled: str, what: str) -> dict[str, str]:
    """By kernel, what an attribute of its function says."""
    return dict(re.findall(rf'func\.func private @([\w.$-]+)\(.*inferno\.{what} = "([^"]*)"', scheduled))


def _prepares(before: Launch, step: Launch) -> bool:
    """Whether one is a block that lowers the other's flags."""
    return before.grid == (1, 1, 1) and before.shared == 0 < step.shared


def _grid(launch: Launch | None, kernel: Kernel | None) -> tuple:
    """A launch's grid; of one for a range of sizes, which says the range too, what it is in the example."""
    if launch is None:
        return ()
    return tuple(map(hint, launch.grid)) if kernel is not None and "by_size" in kernel.schedule else tuple(launch.grid)


def _calls(scheduled: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in re.findall(r"\bcall @([\w.$-]+)\(", scheduled):
        counts[name] = counts.get(name, 0) + 1
    return counts


def read_schedule(text: str) -> tuple[str, str]:
    """(generator, the other knobs) of a schedule attribute's text; of one that has others for ranges of sizes, all their generators
    and what tells the others apart; of one for several kernels together why they are, or their generators."""
    knobs = _entries(text)
    generator = knobs.pop("generator", "").strip('"')
    if generator == "siblings":
        together, apart = (int(knobs[name]) / 1000 for name in ("together", "apart"))
        blocks = knobs["blocks"].strip('"').replace(" ", " + ")
        return generator, f"{_tile(*read_schedule(knobs['each']))} in {blocks} blocks: {together:.1f} us, not {apart:.1f}, are estimated"
    if generator == "bundle":
        parts = re.findall(r'generator = "(\w+)"', knobs["parts"])
        threads = re.search(r"threads = ([0-9]+)", knobs["parts"])  # sums have those along one and those side by side
        count = threads[1] if threads else prod(int(re.search(rf"{n} = ([0-9]+)", knobs["parts"])[1]) for n in ("across", "along"))
        return generator, f"{' + '.join(parts)}, {count} threads"
    if generator != "by_size":
        return generator, ", ".join(f"{name}={value}" for name, value in knobs.items())
    (few, small), (many, large) = read_schedule(knobs["small"]), read_schedule(knobs["large"])
    parts = [_tile(few, small) if "; " not in small else small, _tile(many, large) if "; " not in large else large]
    names = dict.fromkeys([*few.split(" or "), *many.split(" or ")])
    return " or ".join(names), f"{knobs['size'].strip(chr(34))} <= {knobs['limit']}: {parts[0]}; {parts[1]}"


def counted(number: int, one: str, several: str = "") -> str:
    """So many of a thing: "1 kernel", "2 kernels"."""
    return f"{number} {one if number == 1 else several or one + 's'}"


def _tile(generator: str, knobs: str) -> str:
    """A generator's schedule in short: tiles, and how many parts a sum is in."""
    found = dict(re.findall(r"(\w+)=(\w+)", knobs))
    split = f" split {found['split']}" if found.get("split", "1") != "1" else ""
    if generator == "attention":
        return f"{generator} {64 * int(found['consumers'])}x{found['keys']}"
    return f"{generator} {found['tile_m']}x{found['tile_n']}{split}" if "tile_m" in found else generator


def _entries(text: str) -> dict[str, str]:
    """The entries of a dictionary attribute's text, the dictionaries and lists in it left whole."""
    found, depth, quoted, begin, inner = {}, 0, False, 0, text.strip().removeprefix("{").removesuffix("}") + ","
    for i, letter in enumerate(inner):
        depth += (letter in "{[") - (letter in "}]")
        quoted ^= letter == '"'
        if letter == "," and depth == 0 and not quoted:
            name, _, value = inner[begin:i].partition(" = ")
            begin = i + 1
            if name.strip():
                found[name.strip()] = value.strip().removesuffix(" : i64")
    return found
