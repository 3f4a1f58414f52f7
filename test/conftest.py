"""Make ``checks`` importable from every test folder, and runs repeatable: each test starts from the same random state, and
without the cache on disk, which would hand a test what an earlier one compiled.  A test of the cache asks for ``cache_folder``."""

import gc
import logging
import os
import sys
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path

import pytest
import torch

from inferno.runtime.workers import pool

sys.path.insert(0, str(Path(__file__).parent))
os.environ["INFERNO_CACHE"] = "0"


def pytest_addoption(parser):
    parser.addoption("--all-combinations", action="store_true", help="run what tests that are marked `covering` leave out")


def pytest_configure(config):
    # pytest listens to every logger that does not propagate, and torch then makes what this one would print: a fifth of a capture.
    logging.root.manager.loggerDict.pop("torch.__trace", None)
    config.addinivalue_line("markers", "thorough: of what others cover, too, or what follows from a few files alone, and long: all that is left out by default")
    config.addinivalue_line("markers", "covering(most=None, also=None): of all combinations of the test's lists of parameters run so many that each "
                                       "value is in one, of these ``most``, spread over them, and those for whose parameters ``also`` is true")


def pytest_collection_modifyitems(config, items):
    """Leave out cases that repeat most of what others do, of tests that are marked so, and long tests of what others cover, too; all are run with
    ``--all-combinations``."""
    if config.getoption("--all-combinations"):
        return
    groups = defaultdict(list)
    for item in items:
        if item.get_closest_marker("covering") is not None:
            groups[item.nodeid.partition("[")[0]].append(item)
    kept = {item for group in groups.values() for item in _covering(group)}
    left = {item for group in groups.values() for item in group if item not in kept}
    left |= {item for item in items if item.get_closest_marker("thorough") is not None}
    config.hook.pytest_deselected(items=list(left))
    items[:] = [item for item in items if item not in left]


def pytest_collection_finish():
    """What has been imported stays: the garbage collector need not look at it again, which takes 0.3 s each time; nor so often as it does."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


# Combinations of a test, at most, but for those that it names: with three of each the suite takes two cores two minutes more, of the quarter of an hour that a
# machine has for an installation, too.
_MOST = 1


def _covering(items: list) -> list:
    """So many that each value of each list is in one, and none much more often than the others; new pairs of values come first."""
    mark = items[0].get_closest_marker("covering").kwargs
    also, most = mark.get("also", lambda **_: False), min(mark.get("most", _MOST), _MOST)
    lists = [[name.strip() for name in (m.args[0].split(",") if isinstance(m.args[0], str) else m.args[0])] for m in items[0].iter_markers("parametrize")]
    values = {item: [(i, repr([item.callspec.params[n] for n in names])) for i, names in enumerate(lists)] for item in items}
    chosen, counts, pairs = [], Counter(), set()

    def take(item) -> None:
        chosen.append(item)
        counts.update(values[item])
        pairs.update(combinations(values[item], 2))

    def gain(item) -> tuple:
        return sum(not counts[v] for v in values[item]), len(set(combinations(values[item], 2)) - pairs), -sum(counts[v] for v in values[item])

    for item in items:
        if also(**item.callspec.params):
            take(item)
    wanted = len(chosen)
    while gain(best := max(items, key=gain))[0]:
        take(best)
    rest = chosen[wanted:]
    return chosen[:wanted] + [item for i, item in enumerate(rest) if i * most // len(rest) != (i - 1) * most // len(rest)]


@pytest.fixture
def unmeasured(monkeypatch):
    """Kernels that nobody has timed are chosen too; the numbers are the same in every run."""
    monkeypatch.setenv("INFERNO_UNMEASURED", "1")
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def workers_stay():
    """Whether the next tests compile in a process of their own is not known, and one takes 1.6 s to start."""
    pool.IDLE = 86400.0


@pytest.fixture(autouse=True)
def guards_are_not_timed():
    """For a log, torch times each graph's guards with the processor's caches emptied: 30 ms, where a small graph takes 300 in all."""
    if guards := sys.modules.get("torch._dynamo.guards"):
        guards.profile_guard_manager = lambda *_: 0.0


@pytest.fixture(autouse=True)
def seed():
    # torch.manual_seed keeps the stack for each kind of device that there is not: 4 ms under pytest.
    (torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed)(0)


@pytest.fixture(autouse=True, scope="session")
def no_cache(tmp_path_factory):
    """Whatever a test or a process of its does, the user's own cache is not touched."""
    os.environ["INFERNO_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def cache_folder(tmp_path, monkeypatch):
    """An empty cache of the test's own, switched on; its folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("INFERNO_CACHE", "1")
    monkeypatch.setenv("INFERNO_CACHE_DIR", str(folder))
    return folder
