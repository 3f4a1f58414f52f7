"""Knobs that end the process: a form of kernel that hangs does so with every tile, and each time costs as long as one waits."""

from collections import Counter

from inferno.runtime.workers.tuning import Knobs

_ENOUGH = 2  # candidates that ended the process


class Suspects:
    """What the candidates that ended the process have in common, and no other one has.  For all kernels that are tuned together."""

    def __init__(self) -> None:
        self._ended: Counter[tuple] = Counter()
        self._fine: set[tuple] = set()

    def ended(self, knobs: Knobs) -> None:
        """A candidate ended the process."""
        self._ended.update(_values(knobs))

    def fine(self, knobs: Knobs) -> None:
        """A candidate was measured."""
        self._fine.update(_values(knobs))

    def suspect(self, knobs: Knobs) -> bool:
        """Whether a candidate has a value in common with those."""
        return any(self._ended[value] >= _ENOUGH and value not in self._fine for value in _values(knobs))


def _values(knobs: Knobs) -> list[tuple]:
    """(generator, knob, value) of each knob; of the generator alone too."""
    generator = dict(knobs)["generator"]
    return [(generator, name, value) for name, value in knobs]
