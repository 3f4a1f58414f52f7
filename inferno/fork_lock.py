"""A lock of the whole process, where that may be forked."""

import os
import threading
from typing import Any


class ForkLock:
    """A reentrant lock for ``with``.  In a forked child it is free, whoever held it: of the parent's threads the child has one."""

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: Any) -> None:
        self._lock.release()
