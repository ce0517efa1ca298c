"""No damage makes a kernel leave its arrays, or answer otherwise than its twin."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.batches.fuzz import known_cases, replay
from tests.batches.fuzzing import corpus
from tests.batches.fuzzing.case import Case
from tests.batches.fuzzing.counting import kernels
from tests.batches.fuzzing.loop import Fuzz

ROOT = Path(__file__).parents[2]


def test_stored_cases_take_the_way_that_is_on_record() -> None:
    """Where this is meant to change: ``python -m tests.batches.fuzz collect 0`` writes the new ways down."""
    assert replay() == []


def test_the_stored_cases_are_few_and_different() -> None:
    stored = corpus.load()
    assert sum(file.stat().st_size for file in corpus.ROOM.iterdir()) < 300 * 1024
    assert len({case for case, _ in stored}) == len(stored) > 100


def test_damaged_answers_are_copied_or_refused() -> None:
    fuzz = Fuzz(seed=20, pool=known_cases())
    figures = fuzz.run(40_000)
    assert set(figures.executions) == set(kernels()), "a kernel that nothing here runs"
    assert figures.records > 1000
    refusals = {fact for fact in figures.facts if "Error: " in fact}
    assert {fact.split(":")[0] for fact in refusals} == {
        "index",
        "keep",
        "merge",
        "decode",
        "encode",
        "obstacle",
    }


def test_a_case_survives_being_stored() -> None:
    for case, _ in known_cases():
        assert Case.from_json(case.to_json()) == case


@pytest.mark.slow
@pytest.mark.long
def test_no_kernel_leaves_its_arrays_under_bounds_checking(pytestconfig: pytest.Config) -> None:
    """In a process of its own, whose kernels are kept from one run to the next."""
    assert pytestconfig.cache is not None
    kept = str(pytestconfig.cache.mkdir("kernels-with-bounds-checks"))
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": kept}
    for arguments in (["replay"], ["run", "40000", "--seed", "7"]):
        command = [sys.executable, "-m", "tests.batches.fuzz", *arguments]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "bounds are checked" in done.stdout
