"""Kernels are loaded once."""

from __future__ import annotations

import pytest

from sparkmirror import batches


@pytest.fixture(scope="session", autouse=True)
def _kernels() -> None:
    batches.warm()
