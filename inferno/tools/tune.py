"""``inferno tune EXPR`` and ``inferno tune show``."""

import argparse
import time
from collections.abc import Iterable, Sequence

import torch
from rich.console import Console
from rich.table import Table

from inferno.errors import InputError
from inferno.options import STAGES
from inferno.runtime.database import SHIPPED, Entry, gpu_name, own_folder, read, require_gpus
from inferno.runtime.device import choose_target
from inferno.runtime.program import Program
from inferno.target import Target, find_target
from inferno.tools.compile_command import compile_file
from inferno.tools.subject import names_ir, names_package, read_compiled

_Row = tuple[str, str, Entry]


def show(target: str | None) -> int:
    """Print what is known: a row for each kernel, by GPU and target."""
    if target is not None:
        find_target(target)
    rows: dict[tuple[str, str, str], _Row] = {}
    for folder in (SHIPPED, own_folder()):  # the user's own go before those that come with Inferno
        for path in sorted(folder.glob("*.json")):
            for name, entries in read(path).items():
                rows.update({(path.stem, name, key): (path.stem, name, e) for key, e in entries.items() if target in (None, name)})
    if rows:
        found = sorted(rows.values(), key=lambda row: (row[0], row[1], row[2].kernel, row[2].time))
        Console(width=max(150, Console().width)).print(_table(found))
    print(f"{own_folder()}: {len(rows)} tuned kernel{'' if len(rows) == 1 else 's'}{f' for {target}' if target else ''}")
    return 0


def tune(options: argparse.Namespace) -> int:
    """Compile a subject with tuning, and print what is known of its kernels then."""
    if names_package(options):
        raise InputError(f"{options.expr} is compiled already: tune the model, and save it again")
    target = choose_target(options.target, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    gpus = require_gpus(target)
    options.tune, begin = True, time.time()
    rows = _entries(_programs(options), gpu_name(gpus[0]), target)
    if rows:
        Console(width=max(150, Console().width)).print(_table(rows))
    new = sum(e.made >= begin for _, _, e in rows)
    print(f"{len(rows)} tuned kernels, {new} of them now, in {time.time() - begin:.0f} s; the results are in {own_folder()}")
    return 0


def _programs(options: argparse.Namespace) -> Sequence[Program]:
    if names_ir(options):
        return [compile_file(options, STAGES[-1])]
    _, compiled = read_compiled(options)
    compiled.explain()  # what Dynamo captures is compiled when it is asked for
    return compiled.programs


def _entries(programs: Iterable[Program], gpu: str, target: Target) -> list[_Row]:
    keys = dict.fromkeys(key for program in programs for key in program.known)
    known = {**read(SHIPPED / f"{gpu}.json").get(target.name, {}), **read(own_folder() / f"{gpu}.json").get(target.name, {})}
    return [(gpu, target.name, known[key]) for key in keys if key in known]


def _table(rows: Iterable[_Row]) -> Table:
    table = Table()
    for name in ("GPU", "target", "kernel", "us", "the model's, us", "gain", "measured", "schedule", "tuned"):
        table.add_column(name, justify="right" if name in ("us", "the model's, us", "gain", "measured") else "left", overflow="fold")
    for gpu, target, e in rows:
        own = ("wrong", "") if e.model_time is None else (f"{e.model_time:.2f}", f"{e.model_time / e.time:.2f}")
        day = time.strftime("%Y-%m-%d", time.gmtime(e.made))
        table.add_row(gpu, target, e.kernel, f"{e.time:.2f}", *own, str(e.measured), describe(e.schedule), day)
    return table


def describe(schedule: str) -> str:
    """A schedule's text, shorter: ``wgmma tile_m=128 tile_n=256 ...``."""
    parts = [part.partition(" = ") for part in schedule.strip("{}").split(", ")]
    values = {name: value.partition(" : ")[0].strip('"') for name, _, value in parts}
    return " ".join([values.pop("generator", "?"), *(f"{name}={value}" for name, value in values.items())])
