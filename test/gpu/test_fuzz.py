"""Random programs around matrix products on the GPU; ``python -m fuzz --contractions`` runs as many others as wanted."""

import pytest
import torch
from fuzz.__main__ import compiler
from fuzz.contractions import contractions
from fuzz.programs import Program
from fuzz.verdict import judge
from hypothesis import HealthCheck, Phase, given, seed, settings

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("number", range(8))
def test_random_contractions(number, exact_float32):
    @seed(number)
    @settings(max_examples=12, phases=[Phase.generate], deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(contractions())
    def examine(program: Program) -> None:
        verdict = judge(program, compiler("cuda"), "cuda")
        assert verdict.kind == "right", f"{verdict.kind}: {verdict.text}\n{program}"

    examine()
