"""Kernels are loaded once; no test is timed, since the first one may meet the compiler."""

from __future__ import annotations

import pytest
from hypothesis import settings

from sparkmirror import batches
from tests.copy.staging import stage, threads

__all__ = ["stage", "threads"]

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def _kernels() -> None:
    batches.warm()
