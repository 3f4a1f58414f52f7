"""In which order candidates are measured, and when it ends."""

import itertools

import pytest

from inferno.runtime.workers.tuning import Candidate
from inferno.tune.search import GAIN, SLACK, Search
from inferno.tune.suspects import Suspects


def candidates(count, estimate=lambda i: 10 + i, generator="a", **knobs):
    """By default each in a class of its own, slower and slower to the model."""
    def others(i):
        return [(name, f(i)) for name, f in knobs.items()]

    return [Candidate(f"{generator}{i}", estimate(i), (("generator", generator), ("tile", i), *others(i))) for i in range(count)]


def run(search, time):
    """Measure until it ends; the schedules in their order."""
    order = []
    while (candidate := search.next()) is not None:
        order.append(candidate.schedule)
        search.record(candidate.schedule, time(candidate))
    return order


def test_the_models_choice_comes_first_and_then_the_ranking():
    far = {name: (lambda i, n=n: 10 * i + n) for n, name in enumerate("xyz")}  # nobody is anybody's neighbour
    found = candidates(5, **far)
    assert run(Search(found, patience=100), lambda c: c.estimate) == ["a0", "a1", "a2", "a3"], "a4 is expected to take 14, and 13 is the bound"


def test_neighbours_of_the_best_take_turns_with_the_ranking():
    """The knob that the model does not see is found, though a single one of its class is in the ranking."""
    found = [
        Candidate(f"{tile}.{slots}.{order}", 10 + tile, (("generator", "a"), ("tile", tile), ("slots", slots), ("order", order), ("more", slots)))
        for tile in range(4) for slots in range(6) for order in range(6)
    ]
    best = min(found, key=lambda c: (time_of(c), c.schedule))
    search = Search(found, patience=40)
    order = run(search, time_of)
    assert order[0] == "0.0.0" and search.best == (best.schedule, time_of(best)) and len(order) < len(found)
    assert {name.partition(".")[0] for name in order[:8]} == {"0", "1", "2", "3"}, "all classes are looked at early"


def time_of(candidate):
    knobs = dict(candidate.knobs)
    return 20 + knobs["tile"] + abs(knobs["slots"] - 4) + 0.5 * abs(knobs["order"] - 3)


def test_it_ends_when_there_is_no_gain():
    search = Search(candidates(100, estimate=lambda i: 10), patience=7)
    assert len(run(search, lambda c: 10)) == 8 and search.reason == "the last 7 candidates were no gain"


@pytest.mark.parametrize("step, ends", [(1 - (1 - GAIN) / 20, True), (GAIN**2, False)])
def test_a_gain_has_to_be_one(step, ends):
    """Times that sink by less than that are noise, for a while."""
    search = Search(candidates(12, estimate=lambda i: 10), patience=5)
    count = itertools.count()
    assert (len(run(search, lambda c: 10 * step ** next(count))) == 6) == ends


def test_it_ends_when_the_model_expects_much_more():
    search = Search(candidates(10, estimate=lambda i: 10 * 2**i), patience=100)
    assert run(search, lambda c: 3 * c.estimate) == ["a0"], "what counts is measured / estimated"
    assert search.reason == "the model expects 60.0 us at least of the 9 that are left"


def test_the_model_may_be_off_by_another_factor_for_each_generator():
    slow, fast = candidates(4, lambda i: 10 + i / 10), candidates(4, lambda i: 12 + i / 10, "b")
    search = Search([*slow, *fast], patience=100)
    order = run(search, lambda c: c.estimate * (1 if c.schedule[0] == "b" else 5))
    assert "b0" in order and search.best[0] == "b0"
    # Those of a generator that turned out to be slow are left out.
    late = Search([*fast, *slow], patience=100)
    order = run(late, lambda c: c.estimate * (1 if c.schedule[0] == "b" else 5))
    assert [o for o in order if o[0] == "a"] == ["a0"] and SLACK < 5


def test_a_bound_on_all():
    search = Search(candidates(100, estimate=lambda i: 10), patience=1000, most=12)
    assert len(run(search, lambda c: 10)) == 12 and search.reason == "12 candidates are enough"


def test_all_are_measured_where_there_are_few():
    search = Search(candidates(3, estimate=lambda i: 10))
    assert sorted(run(search, lambda c: 10)) == ["a0", "a1", "a2"] and search.reason == "all candidates were measured"


def test_failures_have_no_time():
    search = Search(candidates(6, estimate=lambda i: 10), patience=100)
    order = run(search, lambda c: None if c.schedule in ("a0", "a2") else 7.0 + int(c.schedule[1]))
    assert len(order) == 6 and search.best == ("a1", 8.0) and len(search.failures) == 2 and search.measured == 6
    assert [schedule for schedule, _ in search.ranked()] == ["a1", "a3", "a4", "a5"]


def test_what_was_measured_before_is_not_measured_again():
    search = Search(candidates(6, estimate=lambda i: 10), patience=100)
    for schedule, time in (("a0", 10.0), ("a3", 9.0), ("a1", None), ("of another version", 1.0)):
        search.record(schedule, time)
    assert search.measured == 3 and search.best == ("a3", 9.0)
    assert sorted(run(search, lambda c: 10)) == ["a2", "a4", "a5"]


def test_several_can_be_asked_for_at_once():
    search = Search(candidates(6, estimate=lambda i: 10), patience=100)
    asked = [search.next().schedule for _ in range(6)]
    assert sorted(asked) == [f"a{i}" for i in range(6)] and search.next() is None
    search.record("a5", 5.0)
    assert search.best == ("a5", 5.0)


@pytest.mark.parametrize("count, patience", [(10, 6), (160, 10), (1000, 24)])
def test_patience_goes_with_how_many_there_are(count, patience):
    search = Search(candidates(count, estimate=lambda i: 10))
    assert len(run(search, lambda c: 10)) == min(count, patience + 1)


def test_what_ended_the_process_twice_is_left_alone():
    suspects = Suspects()
    found = candidates(12, estimate=lambda i: 10, form=lambda i: i % 3 == 1)
    search = Search(found, patience=100, suspects=suspects)
    order = []
    while (candidate := search.next()) is not None:
        order.append(candidate.schedule)
        ends = dict(candidate.knobs)["form"]
        (suspects.ended if ends else suspects.fine)(candidate.knobs)
        search.record(candidate.schedule, None if ends else 10.0)
    assert len([name for name in order if int(name[1:]) % 3 == 1]) == 2 and len(order) == 8 + 2
    assert search.reason == "all that is left is like what ended the process"


def test_what_works_elsewhere_is_no_suspect():
    suspects = Suspects()
    a, b, c = (c.knobs for c in candidates(3, order=lambda i: 1))
    for knobs in (a, a, b):
        suspects.ended(knobs)
    assert suspects.suspect(a) and suspects.suspect(c)  # of the generator nothing works so far
    suspects.fine(c)
    assert suspects.suspect(a) and not suspects.suspect(b) and not suspects.suspect(c)
    assert not suspects.suspect((("generator", "another"), ("tile", 0), ("order", 1)))
