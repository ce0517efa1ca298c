"""Kernels are loaded once."""

from __future__ import annotations

import pytest

from sparkmirror import batches
from tests.copy.staging import stage, threads

__all__ = ["stage", "threads"]


@pytest.fixture(scope="session", autouse=True)
def _kernels() -> None:
    batches.warm()
