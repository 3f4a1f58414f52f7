"""What several threads do at once."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import torch

import inferno
from inferno.fork_lock import ForkLock
from inferno.mlir import ir, idle_context
from inferno.runtime.launch import cpu


def test_contexts():
    with ThreadPoolExecutor(8) as threads:
        contexts = list(threads.map(lambda _: idle_context(), range(64)))
    for context in contexts:
        assert context.is_dialect_loaded("inferno") and "arith.constant" in str(ir.Module.parse("%0 = arith.constant 1 : i32", context))


def test_compiling():
    """Even where nothing was compiled before."""
    cpu._runner.cache_clear()
    torch.manual_seed(0)
    models, x = [torch.nn.Sequential(torch.nn.Linear(8, n), torch.nn.ReLU()) for n in range(3, 7)], torch.randn(5, 8)
    with ThreadPoolExecutor(4) as threads:
        compiled = list(threads.map(lambda m: inferno.compile(m, (x,), fallback=False), models))
    for model, ours in zip(models, compiled):
        torch.testing.assert_close(ours(x), model(x))


def test_a_forked_child_waits_for_no_thread_of_its_parent():
    lock, held, done = ForkLock(), threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends it, where it waits
        with lock:
            os._exit(7)
    status = os.waitpid(child, 0)[1]
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 7
