"""What a profiler's trace says of streams: that compute kernels and collectives of a call are on one, in order."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

_WORK = ("kernel", "gpu_memcpy", "gpu_memset")


@dataclass(frozen=True)
class Work:
    """Something that a GPU did; times in microseconds."""

    name: str
    stream: int
    begin: float
    end: float

    @property
    def is_collective(self) -> bool:
        return "nccl" in self.name.lower()


def read_trace(path: str | Path) -> list[Work]:
    """The GPU's work in a trace as torch.profiler exports it, in the order that it began."""
    events = [e for e in json.loads(Path(path).read_text())["traceEvents"] if e.get("cat") in _WORK]
    return sorted((Work(e["name"], e["args"]["stream"], e["ts"], e["ts"] + e["dur"]) for e in events), key=lambda w: w.begin)


def table(work: Sequence[Work], ours: Collection[str]) -> str:
    """A line for each piece of work: stream, begin and end, whose it is, its name."""
    first = work[0].begin if work else 0.0
    lines = [f"{'stream':>6} {'begin, us':>10} {'end, us':>10}  {'of':<8} name"]
    for w in work:
        of = "NCCL" if w.is_collective else "Inferno" if w.name in ours else "torch"
        lines.append(f"{w.stream:>6} {w.begin - first:>10.1f} {w.end - first:>10.1f}  {of:<8} {w.name[:100]}")
    return "\n".join(lines)


def assert_one_stream(work: Sequence[Work], ours: Collection[str], collectives: int) -> None:
    """All work is on one stream; there are so many collectives, kernels of ours (by name) in front of each and between them; a
    collective begins when what is in front of it is done, and what is behind it does not end before it."""
    shown = table(work, ours)
    assert len({w.stream for w in work}) == 1, f"several streams\n{shown}"
    places = [i for i, w in enumerate(work) if w.is_collective]
    assert len(places) == collectives, f"{len(places)} collectives\n{shown}"
    for before, place in zip([-1, *places], places):
        assert any(w.name in ours for w in work[before + 1 : place]), f"no kernel of ours in front of a collective\n{shown}"
        # A kernel of ours may begin before the one in front of it has ended, and then waits for it; NCCL's do not.
        assert all(w.end <= work[place].begin for w in work[:place]), f"a collective began too early\n{shown}"
        assert all(w.end >= work[place].end for w in work[place + 1 :]), f"something behind a collective ended before it\n{shown}"
