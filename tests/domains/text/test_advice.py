from __future__ import annotations

import pytest

from outofcore.domains.text.advice import ADVICE
from outofcore.domains.text.memory import training_memory
from outofcore.domains.text.params import TextSection


@pytest.mark.parametrize("advice", ADVICE, ids=lambda advice: advice.machine)
def test_advice_fits_half_of_its_machine(advice):
    section = advice.applied(TextSection.model_validate({"raw": "raw"}))
    TextSection.model_validate(section.model_dump())
    for residency in ("streamed", "raw"):
        found = training_memory(
            section, 50_257, residency=residency, tokens=10**10, micro_batch=advice.micro_batch, threads=4
        )
        assert found.total < advice.memory / 2
