"""The command line: ``python -m benchmarks.opinfo results.jsonl --shard 0/4``, then ``--table``."""

import argparse
import sys
from pathlib import Path

import torch

from benchmarks.opinfo import sweep, table
from benchmarks.opinfo.samples import DTYPES, cases, family, operators


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.opinfo", description=__doc__)
    parser.add_argument("results", nargs="?", type=Path, help="a file of JSON lines; what it has already is not run again")
    parser.add_argument("--ops", help="names, separated by commas; 'family:nn.functional' is a whole family; by default all")
    parser.add_argument("--dtypes", default=",".join(str(d).removeprefix("torch.") for d in DTYPES))
    parser.add_argument("--samples", type=int, default=0, help="how many of an operator's samples in each dtype; 0: all of them")
    parser.add_argument("--shard", default="0/1", help="i/n: every n-th operator, from i on")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--through", default="torch.compile", choices=["torch.compile", "inferno.compile"])
    parser.add_argument("--gradients", action="store_true", help="forward and backward, of the operators and dtypes that have gradients")
    parser.add_argument("--strided", action="store_true", help="of parts of larger tensors")
    parser.add_argument("--table", action="store_true", help="print what the file has, run nothing")
    parser.add_argument("--list", choices=["part", "crash", "wrong", "none"], help="print the operators with this verdict and why, run nothing")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        sweep.child(options.samples, options.device, options.through, options.gradients, options.strided)
        return
    if options.results is None:
        parser.error("name a file for the results")
    if options.list:
        print(table.by_reason(sweep.read(options.results), options.list))
    elif options.table:
        print(table.by_family(sweep.read(options.results)))
    else:
        only = [getattr(torch, name) for name in options.dtypes.split(",")]
        todo = list(cases(_names(options), only, options.device, options.gradients))
        sweep.sweep(
            todo, options.results, options.samples, options.device, options.through, jobs=options.jobs, gradients=options.gradients, strided=options.strided)
        print(table.by_family(sweep.read(options.results)), file=sys.stderr)


def _names(options: argparse.Namespace) -> list[str]:
    known = list(operators())
    wanted = options.ops.split(",") if options.ops else known
    names = []
    for name in wanted:
        found = [n for n in known if family(n) == name.removeprefix("family:")] if name.startswith("family:") else [n for n in known if n == name]
        if not found:
            raise SystemExit(f"no operator {name!r} in torch's database")
        names += found
    shard, count = map(int, options.shard.split("/"))
    return names[shard::count]


if __name__ == "__main__":
    main()
