"""A GPU that is made up, for a child process of the tuner: what a candidate takes follows from its launch, and what goes wrong from a file.

``trouble``, JSON, has by block size ``hang``, ``die``, ``wrong`` or ``break``, and how many ``seconds`` a measurement takes; in ``log`` beside it
every measurement is a line.
"""

import hashlib
import json
import os
import signal
import time
from pathlib import Path

from inferno.tune.child import Unusable


def made_up_time(plan) -> float:
    """Microseconds: least for 40 KB of dynamic or 256 threads."""
    step = plan.steps[0]
    return 5 + abs(step.shared / 1024 - 40) / 50 + abs(step.block[0] - 256) / 1000


class FakeGpu:
    def __init__(self, index):
        self._folder = Path(os.environ["FAKE_GPU"])
        self._note(f"start {index}")

    def _note(self, text):
        with open(self._folder / "log", "a") as file:
            file.write(text + "\n")

    def prepare(self, inputs, outputs, source, function, roundings, tf32):
        compile(source, "source", "exec")
        assert function in source and inputs and outputs
        self._note(f"prepare {function}")

    def measure(self, plan, binaries, early, best, rounds):
        step = plan.steps[0]
        assert all(b[:4] == b"\x7fELF" or b".target sm_90a" in b for b in binaries.values()) and binaries
        trouble = json.loads((self._folder / "trouble").read_text()) if (self._folder / "trouble").exists() else {}
        kind = trouble.get(str(step.block[0]))
        code = hashlib.sha1(repr((plan, binaries)).encode()).hexdigest()
        self._note(f"{'measure' if rounds < 9 else 'again'} {code} {kind or ''}".rstrip())
        time.sleep(float(trouble.get("seconds", 0)))
        if kind == "hang":
            time.sleep(1000)
        if kind == "die":
            os.kill(os.getpid(), signal.SIGSEGV)
        if kind == "wrong":
            raise Unusable("its result is wrong: error 1")
        if kind == "break":
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return {"time": made_up_time(plan), "error": 1e-7}
