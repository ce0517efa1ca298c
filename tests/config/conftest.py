"""Configuration files written for one test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sparkmirror.config import FlowConfig, MirrorConfig, load
from sparkmirror.lab.certificates import write_certificates

Write = Callable[..., Path]
Load = Callable[..., MirrorConfig]
LoadFlow = Callable[..., FlowConfig]

BASE = """\
clusters = A, B
A.bootstrap.servers = a1.example.com:9092, a2.example.com:9092
B.bootstrap.servers = b.example.com:9092
A->B.enabled = true
"""
"""The least that works; tests add lines to it."""


@pytest.fixture(scope="session")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of certificates and keys."""
    directory = tmp_path_factory.mktemp("certificates")
    write_certificates(directory)
    return directory


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes lines into a file, behind ``BASE`` unless told otherwise."""

    def write(*lines: str, base: str = BASE, name: str = "mm2.properties") -> Path:
        path = tmp_path / name
        path.write_text(base + "\n".join(lines) + "\n", encoding="latin-1")
        return path

    return write


@pytest.fixture
def load_lines(write: Write) -> Load:
    """Loads ``BASE`` with these lines added."""
    return lambda *lines, base=BASE, **wanted: load([write(*lines, base=base)], **wanted)


@pytest.fixture
def load_flow(load_lines: Load) -> LoadFlow:
    """The one flow of ``BASE`` with these lines added."""

    def load_flow(*lines: str, base: str = BASE) -> FlowConfig:
        (flow,) = load_lines(*lines, base=base).flows
        return flow

    return load_flow
