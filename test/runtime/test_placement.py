"""Buffers in a workspace: never on top of each other, and hardly more than what is alive at once."""

import random

import pytest

from inferno.runtime.plan.placement import Lifetime, most_alive, place


def check(buffers):
    offsets, total = place(buffers)
    assert total >= most_alive(buffers)
    assert total == max((o + b.size for o, b in zip(offsets, buffers)), default=0)
    for i, a in enumerate(buffers):
        for j, b in enumerate(buffers[:i]):
            together = a.first <= b.last and b.first <= a.last
            if together and a.size and b.size:
                assert offsets[i] + a.size <= offsets[j] or offsets[j] + b.size <= offsets[i], (a, b)
    return total


@pytest.mark.parametrize("seed", range(40))
def test_no_two_that_are_alive_together_overlap(seed):
    generator = random.Random(seed)
    steps = generator.randrange(1, 60)
    buffers = []
    for _ in range(generator.randrange(60)):
        first = generator.randrange(steps)
        size = 256 * generator.choice((0, 1, 2, 3, 8, generator.randrange(200)))
        buffers.append(Lifetime(size, first, min(steps, first + generator.choice((0, 1, 2, generator.randrange(20))))))
    check(buffers)


def test_nothing_takes_nothing():
    assert place([]) == ([], 0) and place([Lifetime(0, 0, 3)]) == ([0], 0)


def test_most_alive():
    assert most_alive([Lifetime(256, 0, 2), Lifetime(512, 2, 3), Lifetime(1024, 3, 4)]) == 1536


def test_a_chain_takes_two_buffers():
    assert check([Lifetime(1024, i, i + 1) for i in range(50)]) == 2048


def test_a_net_of_shrinking_stages_takes_what_is_alive():
    """Stages of residual blocks, as ResNet-50 has them: a wide buffer stays alive over two narrow ones, and shrinks by stages.

    Largest first alone takes a ninth more than what is alive.
    """
    buffers, step, wide = [], 0, 25690112
    for blocks in (3, 4, 6, 3):
        for _ in range(blocks):
            buffers += [
                Lifetime(wide, step, step + 4), Lifetime(wide // 4, step + 1, step + 2), Lifetime(wide // 4, step + 2, step + 3),
                Lifetime(wide, step + 3, step + 4),
            ]
            step += 4
        wide //= 2
    assert check(buffers) == most_alive(buffers)


def test_orders_that_are_bad_alone_are_mended():
    """Random lifetimes, for which no fixed order is best."""
    found = []
    for seed in range(20):
        generator = random.Random(seed)
        buffers = [Lifetime(256 * generator.randrange(1, 200), i, i + generator.randrange(1, 12)) for i in range(100)]
        found.append(check(buffers) / most_alive(buffers))
    assert sum(found) / len(found) < 1.04 and max(found) < 1.15
