"""What each thread that launches kernels needs."""

import threading

from inferno.runtime.launch import driver


class Threads(threading.local):
    """Of a device, whose ``context`` is a handle of the driver: where a thread comes here for the first time, that is made current if no context is.
    For the current device of a new thread torch's allocator needs none, but the driver launches nothing without."""

    def __init__(self, context: int) -> None:
        """Called by Python in each thread, with the same arguments."""
        driver.make_current(context)

    def enter(self) -> None:
        """Be a thread that has come here."""
