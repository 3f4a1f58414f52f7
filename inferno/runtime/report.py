"""``explain()``: what became of a program, kernel by kernel."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from inferno.runtime.plan.plan import Launch, LibraryCall
from inferno.runtime.program import Program
from inferno.symbolic import hint


@dataclass(frozen=True)
class Row:
    """One kernel function: how often it runs, what it computes in PyTorch's terms, and what it costs."""

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


@dataclass(frozen=True)
class Report:
    """Rows in the order of the first launch; ``str()`` is a table."""

    target: str
    rows: tuple[Row, ...]
    launches: int
    workspace: int
    seconds: float
    segments: int = 1
    fallbacks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.render(width=180)

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
        for line in (*self.notes, *_counted(self.fallbacks)):
            console.print(line)
        between = f" in {self.segments} segments" if self.segments != 1 else ""
        console.print(
            f"{len(self.rows)} kernels{between}, {self.launches} launches, workspace {human(self.workspace, 1024, 'B')}, "
            f"target {self.target}, compiled in {self.seconds:.1f} s"
        )
        return out.getvalue()


def _counted(lines: Sequence[str]) -> list[str]:
    """Equal lines once, with their number."""
    counts: dict[str, int] = {}
    for line in lines:
        counts[line] = counts.get(line, 0) + 1
    return [line if n == 1 else f"{n} times: {line}" for line, n in counts.items()]


def human(value: float, base: int, unit: str) -> str:
    """A number with a K, M, G or T."""
    for prefix in ("", "K", "M", "G"):
        if abs(value) < base:
            return f"{value:.{3 if abs(value) < 999.5 else 4}g} {prefix}{unit}".rstrip()
        value /= base
    return f"{value:.3g} T{unit}"


def explain(compiled: Any) -> Report:
    """The report of a CompiledModule."""
    return report_of(compiled.program.target.name, compiled.programs, compiled.fallbacks, compiled.compile_seconds)


def report_of(
    target: str, programs: Sequence[Program], fallbacks: Sequence[object], seconds: float, notes: tuple[str, ...] = (),
) -> Report:
    """The report of programs that run one after the other, with ``fallbacks`` between them."""
    rows = [row for program in programs for row in _rows(program)]
    plans = [program.launch_plan() for program in programs]
    workspace = max((hint(p.workspace_bytes) for p in plans), default=0)
    return Report(target, tuple(rows), sum(len(p.steps) for p in plans), workspace, seconds, len(plans), tuple(map(str, fallbacks)), notes)


def _rows(program: Program) -> list[Row]:
    plan = program.launch_plan()
    first: dict[str, Launch | LibraryCall] = {}
    sources: dict[str, dict[str, None]] = {}
    counts = _calls(program.stages.get("scheduled", ""))
    by_code = {k.code: n for n, k in program.kernels.items() if k.code}
    for step in plan.steps:
        code = step.kernel.split("::")[0]
        name = by_code.get(code, code) if isinstance(step, Launch) else step.kernel or step.function
        first.setdefault(name, step)
        sources.setdefault(name, {}).update(dict.fromkeys(step.source))
    rows = []
    for name, step in first.items():
        kernel = program.kernels.get(name)
        launch = step if isinstance(step, Launch) else None
        used = list(kernel.resources.values()) if kernel else []
        generator, knobs = _schedule(kernel.schedule if kernel else "")
        rows.append(Row(
            kernel=name, calls=counts.get(name, 1), fuses=tuple(sources[name]), generator=generator or "library", schedule=knobs,
            grid=tuple(launch.grid) if launch else (), registers=max((r.registers for r in used), default=0),
            shared=max([launch.shared if launch else 0, *(r.shared for r in used)]), spills=sum(r.spills for r in used),
            flops=kernel.flops if kernel else 0, bytes=kernel.bytes if kernel else 0,
            note=kernel.note if kernel else "",
        ))
    return rows


def _calls(scheduled: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in re.findall(r"\bcall @([\w.$-]+)\(", scheduled):
        counts[name] = counts.get(name, 0) + 1
    return counts


def _schedule(text: str) -> tuple[str, str]:
    """(generator, the other knobs) of a schedule attribute's text."""
    generator = re.search(r'generator = "(\w+)"', text)
    knobs = re.sub(r'generator = "\w+",?\s*', "", text.strip("{}")).replace(" : i64", "").replace(" = ", "=")
    return (generator.group(1) if generator else ""), knobs.strip().rstrip(",")
