"""Many processes on one cache, and processes killed at random moments: nothing fails, and no entry is wrong.

    python test/runtime/stress_cache.py --processes 8 --kills 50

Prints what happened; exits with 1 if a process failed, a result was wrong, or an entry on disk is damaged.
"""

import argparse
import importlib
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch


def model(number: int):
    """A small model; another ``number`` is another program, of other kernels."""

    def forward(x, w):
        return torch.softmax(torch.relu(x @ w) * (number + 0.5), -1).sum(0) + number

    return forward


def compile_and_check(number: int, target: str | None) -> None:
    """Compile the model, and on the CPU run it and compare with float64.  Raises if anything is not as it should be."""
    import logging

    import inferno

    class Refuse(logging.Handler):
        """Nothing is to be damaged, so nothing is to be said."""

        def emit(self, record):
            raise AssertionError(record.getMessage())

    logging.getLogger("inferno").addHandler(Refuse(logging.WARNING))
    logging.raiseExceptions = False
    torch.manual_seed(number)
    x, w = torch.randn(16, 32), torch.randn(32, 24)
    compiled = inferno.compile(model(number), (x, w), target=target, fallback=False)
    if target in (None, "cpu"):
        expected = model(number)(x.double(), w.double())
        torch.testing.assert_close(compiled(x, w).double(), expected, rtol=1e-5, atol=1e-5)


def warm_up() -> None:
    """Import what every process needs and export once, before the forks, so that it is paid for once.  No MLIR context: it has
    threads, which a forked process would not have."""
    torch.set_num_threads(1)
    for name in ("inferno.capture.importer", "inferno.runtime.compile"):
        importlib.import_module(name)
    from inferno.capture import export_model

    export_model(model(0), (torch.randn(2, 2), torch.randn(2, 2))).capture()


def start(number: int, target: str | None) -> int:
    """A forked process that compiles; its id.  It leads a group, so that it can be killed with what it starts."""
    child = os.fork()
    if child:
        return child
    os.setpgid(0, 0)
    status = 1
    try:
        compile_and_check(number, target)
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        from inferno.runtime.workers import pool as workers

        if workers._pool is not None:
            workers._pool.close()
        os._exit(status)


def wait(child: int) -> int:
    """The exit status of a process, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check_entries(folder: Path) -> tuple[int, int]:
    """(entries, damaged ones)."""
    from inferno.runtime.cache.store import Damaged, Store, unpack

    found, damaged = Store(folder, 1 << 40).entries(), 0
    for entry in found:
        try:
            unpack(entry.path.read_bytes())
        except Damaged as error:
            damaged += 1
            print(f"{entry.path}: {error}")
    return len(found), damaged


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--processes", type=int, default=8, help="how many compile the same model at once, into an empty cache")
    parser.add_argument("--kills", type=int, default=50, help="how many are killed, each at a random moment")
    parser.add_argument("--target", help="compile for this machine (default: the CPU)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)

    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(INFERNO_CACHE="1", INFERNO_CACHE_DIR=folder, OMP_NUM_THREADS="1")
        os.environ.setdefault("INFERNO_WORKERS", "2")
        warm_up()
        begin = time.perf_counter()
        statuses = [wait(child) for child in [start(0, options.target) for _ in range(options.processes)]]
        entries, damaged = check_entries(Path(folder))
        print(f"{options.processes} processes: exit statuses {sorted(set(statuses))}, {time.perf_counter() - begin:.1f} s; "
              f"{entries} entries, {damaged} damaged")
        failed = any(statuses) or damaged or (options.processes and not entries)

        begin = time.perf_counter()
        alone = wait(start(1, options.target))
        whole, killed = time.perf_counter() - begin, 0
        failed = failed or alone
        for i in range(options.kills):
            child = start(2 + i // 2, options.target)  # each model twice: the second time some of it is there
            time.sleep(chance.uniform(0, 1.1 * whole))
            try:
                os.killpg(child, signal.SIGKILL)
            except ProcessLookupError:
                os.kill(child, signal.SIGKILL)
            killed += wait(child) == -signal.SIGKILL
        entries, damaged = check_entries(Path(folder))
        numbers = range(2, 2 + (options.kills + 1) // 2)
        after = [wait(start(number, options.target)) for number in list(numbers)[-3:]]
        print(f"{options.kills} kills: {killed} hit a process at work; then {entries} entries, {damaged} damaged; "
              f"compiling the last models again: exit statuses {sorted(set(after))}")
        failed = failed or damaged or any(after)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
