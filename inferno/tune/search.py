"""Which candidate is measured next, and when no more are.

Two ways take turns: down the cost model's ranking, and to the neighbours of the best so far, which differ from it in one or two knobs; it
is tiles and forms that the model tells apart, and orders, buffers and depths that it does not.  Of candidates with equal estimates the ranking
has only the first: the others come as neighbours, if they come.

A candidate is left out when the model, at its most optimistic, expects it to be clearly slower than the best.  The model may be off by a factor
that is another one for each generator, so an estimate counts times the lowest measured / estimated of its generator's.
"""

import math
from collections.abc import Sequence

from inferno.runtime.workers.tuning import Candidate
from inferno.tune.suspects import Suspects

SLACK = 1.3
"""How much slower than the best one a candidate may be expected to be: the model's estimates of one generator are within 20% of each other's
ratios for the shapes that it was fitted to."""
PATIENCE = (6, 24)
"""Candidates in a row without a gain after which it ends: at least and at most, a sixteenth of all in between.  The most is about as many
as a schedule has neighbours that are worth a look; elementwise kernels and norms, of which nearly all schedules are alike, get the least."""
GAIN = 0.99
"""What is not below the best time so far by this factor is no gain: repeated measurements differ by half a percent."""
MOST = 160
"""Candidates at most: three minutes for a kernel, where compiling each takes as long as measuring it, a second."""
_NEAR = 2  # knobs


class Search:
    """One kernel's candidates, the first of which is the model's choice and comes first.  Times are in microseconds."""

    def __init__(
        self, candidates: Sequence[Candidate], patience: int | None = None, most: int | None = None, suspects: Suspects | None = None,
    ) -> None:
        """``suspects``: what is not worth a look, as it changes."""
        self._suspects = suspects or Suspects()
        self._candidates, self._most = candidates, most or MOST
        self._patience = patience or min(max(PATIENCE[0], len(candidates) // 16), PATIENCE[1])
        self._taken: set[int] = set()
        self._numbers = {c.schedule: i for i, c in enumerate(candidates)}
        seen: set[tuple] = set()
        self._ranking = [i for i, c in enumerate(candidates) if i == 0 or not ((k := (c.knobs[0], c.estimate)) in seen or seen.add(k))]
        self.times: dict[int, float] = {}
        self.failures: dict[int, str] = {}
        self._best: int | None = None
        self._without_gain = 0
        self._turn = 0
        self.reason = ""

    @property
    def best(self) -> tuple[str, float] | None:
        """The best schedule and its time."""
        return None if self._best is None else (self._candidates[self._best].schedule, self.times[self._best])

    @property
    def measured(self) -> int:
        """Candidates that are done with, whether they worked or not."""
        return len(self.times) + len(self.failures)

    def time_of(self, schedule: str) -> float:
        """What a schedule took that has a time."""
        return self.times[self._numbers[schedule]]

    def ranked(self) -> list[tuple[str, float]]:
        """Schedules and times, the best first."""
        return [(self._candidates[i].schedule, time) for i, time in sorted(self.times.items(), key=lambda item: item[1])]

    def next(self) -> Candidate | None:
        """The next one to measure; None where more is not worth it (``reason`` says why).  Several may be asked for before the first is
        recorded."""
        if len(self._taken) >= self._most:
            return self._stop(f"{self._most} candidates are enough")
        if self._without_gain >= self._patience:
            return self._stop(f"the last {self._without_gain} candidates were no gain")
        left = [i for i in range(len(self._candidates)) if i not in self._taken]
        if not left:
            return self._stop("all candidates were measured")
        left = [i for i in left if not self._suspects.suspect(self._candidates[i].knobs)]
        if not left:
            return self._stop("all that is left is like what ended the process")
        worth = [i for i in left if self._worth(i)]
        if not worth:
            least = min(self._expected(i) for i in left)
            return self._stop(f"the model expects {least:.1f} us at least of the {len(left)} that are left")
        self._turn += 1
        found = None
        if self._turn % 2 == 0 and self._best is not None:
            found = min((i for i in worth if self._near(i)), key=lambda i: (self._distance(i), self._candidates[i].estimate), default=None)
        if found is None:
            open_ = set(worth)
            found = next((i for i in self._ranking if i in open_), None)
        if found is None:
            found = min(worth, key=lambda i: (self._distance(i) if self._best is not None else 0, self._candidates[i].estimate))
        self._taken.add(found)
        return self._candidates[found]

    def record(self, schedule: str, time: float | None, failure: str = "") -> None:
        """What a candidate took, or why it has no time.  One that is no candidate is not heard of."""
        i = self._numbers.get(schedule)
        if i is None:
            return
        self._taken.add(i)
        if time is None:
            self.failures[i] = failure
            self._without_gain += 1
            return
        self.times[i] = time
        gained = self._best is None or time < GAIN * self.times[self._best]
        self._without_gain = 0 if gained else self._without_gain + 1
        if self._best is None or time < self.times[self._best]:
            self._best = i

    def _stop(self, reason: str) -> None:
        self.reason = self.reason or reason

    def _expected(self, i: int) -> float:
        """The model's estimate, put right by what was measured of that generator."""
        one, measured = self._candidates[i], [(self._candidates[j], time) for j, time in self.times.items()]
        ratios = [time / c.estimate for c, time in measured if c.knobs[0] == one.knobs[0] and c.estimate > 0]
        return one.estimate * min(ratios, default=1.0)

    def _worth(self, i: int) -> bool:
        return self._best is None or self._expected(i) <= SLACK * self.times[self._best]

    def _near(self, i: int) -> bool:
        return self._distance(i) <= _NEAR

    def _distance(self, i: int) -> float:
        """How many knobs differ from the best one's."""
        a, b = self._candidates[i].knobs, self._candidates[self._best].knobs
        return sum(x != y for x, y in zip(a, b)) if a[0] == b[0] else math.inf
