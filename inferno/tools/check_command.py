"""``inferno check``: results and kernels of a model against eager and float64, and a kernel as files to look into."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from inferno.errors import CheckError, InputError, OptionError
from inferno.runtime.check.checking import CallCheck, check_call, programs_of, trace
from inferno.runtime.check.comparison import Comparison
from inferno.runtime.check.trace import KernelCheck, Tracer
from inferno.tools.expression import Subject
from inferno.tools.reproducer import write_reproducer


def check(subject: Subject, compiled: object, kernel: str | None, folder: str | None) -> int:
    """Check one call of a compiled subject, print the tables, and write the files of ``kernel``, by default of the first that is
    off, to ``folder``.  0 if everything is right, 1 if not."""
    console = Console(width=max(130, Console().width))
    call = check_call(compiled, subject.model, subject.args, subject.kwargs)
    call.restore()
    console.print(_results(call))
    try:
        traced = trace(programs_of(compiled, subject.args, subject.kwargs), compiled.device)
        call.restore()
    except (CheckError, InputError) as error:
        if kernel is not None or folder is not None:
            raise
        console.print(f"the kernels were not checked: {error}", markup=False)
        traced = []
    if traced:
        console.print(_kernels([k for _, k in traced]))
    wrong = next(((t, k) for t, k in traced if not k.right), None)
    if call.random:
        console.print("the model draws random numbers, which need not be those that eager draws")
    if not call.right or wrong is not None:
        what = f"the first kernel that is off is @{wrong[1].kernel}" if wrong else "no kernel alone is off: the fault is before the kernels, or between them"
        console.print(f"WRONG: {what}", markup=False)
    chosen = _chosen(traced, kernel, wrong)
    if chosen is not None and (kernel is not None or folder is not None or wrong is not None):
        tracer, one = chosen
        for path in write_reproducer(tracer.calls.alone[one.kernel], one.kernel, one.source, Path(folder or ".")):
            console.print(f"wrote {path}", markup=False, soft_wrap=True)
    elif folder is not None:
        console.print("nothing is off; name a kernel with --kernel to have its files written")
    return 0 if call.right and wrong is None else 1


def _chosen(traced: list[tuple[Tracer, KernelCheck]], kernel: str | None, wrong: tuple[Tracer, KernelCheck] | None) -> tuple[Tracer, KernelCheck] | None:
    if kernel is None:
        return wrong
    name = kernel.removeprefix("@")
    found = next(((t, k) for t, k in traced if k.kernel == name and not k.right), None) or next((p for p in traced if p[1].kernel == name), None)
    if found is None:
        raise OptionError(f"no kernel {kernel!r}; the kernels are {', '.join(dict.fromkeys(k.kernel for _, k in traced)) or 'none'}")
    return found


def _results(call: CallCheck) -> Table:
    table = Table(title="results", title_justify="left")
    for name in ("result", "shape", "type", "error", "eager's", "bound", ""):
        table.add_column(name, justify="right" if name in ("error", "eager's", "bound") else "left", overflow="fold")
    for one in call.results:
        table.add_row(one.name, "x".join(map(str, one.shape)), one.dtype, *_cells(one.comparison), _verdict(one.comparison))
    return table


def _kernels(kernels: list[KernelCheck]) -> Table:
    """One row a kernel: the worst of its calls, an off one before a right one."""
    table = Table(title="kernels, in the order of their first calls", title_justify="left")
    for name in ("kernel", "calls", "fuses", "error", "eager's", "bound", ""):
        table.add_column(name, justify="right" if name in ("calls", "error", "eager's", "bound") else "left", overflow="fold")
    by_name: dict[str, list[KernelCheck]] = {}
    for one in kernels:
        by_name.setdefault(one.kernel, []).append(one)
    for name, calls in by_name.items():
        worst = max(calls, key=lambda k: (not k.right, k.comparison is not None and k.comparison.error))
        sources = ", ".join(dict.fromkeys(s for k in calls for s in k.source))
        if worst.comparison is None:
            table.add_row(name, str(len(calls)), sources, "", "", "", f"not checked: {worst.note}")
        else:
            table.add_row(name, str(len(calls)), sources, *_cells(worst.comparison), _verdict(worst.comparison))
    return table


def _cells(found: Comparison) -> tuple[str, str, str]:
    return f"{found.error:.2e}", f"{found.eager_error:.2e}", f"{found.bound:.2e}"


def _verdict(found: Comparison) -> str:
    return "right" if found.right else f"OFF: {found.problem.partition(': ')[2]}" if found.error == float("inf") else "OFF"
