"""14 random programs, 6 around matrix products, 4 that move data, and 4 as for a GPU, the same ones in every run; with FUZZ=10 in the environment ten times
as many, and ``python -m fuzz`` runs as many others as wanted."""

import os

from hypothesis import HealthCheck, Phase, given, settings

from fuzz.__main__ import compiler
from fuzz.contractions import contractions
from fuzz.movement import movements
from fuzz.programs import Program
from fuzz.simulated import compiler as simulated
from fuzz.strategy import programs
from fuzz.verdict import judge

_TIMES = int(os.environ.get("FUZZ", 1))
# (Programs have few lines as they are: to cut one down takes minutes.)
_SAME = {"derandomize": True, "deadline": None, "database": None, "suppress_health_check": list(HealthCheck), "phases": (Phase.explicit, Phase.generate)}


@settings(max_examples=14 * _TIMES, **_SAME)
@given(programs(most_lines=6))
def test_random_programs(program: Program):
    verdict = judge(program, compiler("cpu"))
    assert verdict.kind == "right", f"{verdict.kind}: {verdict.text}\n{program}"


@settings(max_examples=6 * _TIMES, **_SAME)
@given(contractions())
def test_random_contractions(program: Program):
    verdict = judge(program, compiler("cpu"))
    assert verdict.kind == "right", f"{verdict.kind}: {verdict.text}\n{program}"


@settings(max_examples=4 * _TIMES, **_SAME)
@given(movements(most_lines=5))
def test_random_movements(program: Program):
    verdict = judge(program, compiler("cpu", fallback=True))
    assert verdict.kind == "right", f"{verdict.kind}: {verdict.text}\n{program}"


@settings(max_examples=4 * _TIMES, **_SAME)
@given(programs(most_lines=6))
def test_random_schedules(program: Program):
    verdict = judge(program, simulated(0))
    assert verdict.kind == "right", f"{verdict.kind}: {verdict.text}\n{program}"
