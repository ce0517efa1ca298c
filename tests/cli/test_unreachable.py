"""What commands say of a cluster that cannot be reached: which one, where, why, what to do; soon, and first."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkmirror.cli.exits import ExitCode
from sparkmirror.flow import first_look, sides, status
from sparkmirror.lab.cluster import LabCluster
from tests.flow.running import write_file
from tests.invoking import sparkmirror

CLOSED = "127.0.0.1:9"
REMEDY = "are the bootstrap servers right and up"
SOON = "no connection within 1 s"
LATER = "no connection within"

COMMANDS = (
    (("check", "--connect"), {"source": SOON, "target": SOON}, ExitCode.CONFIG_WRONG),
    (("plan",), {"source": SOON, "target": SOON}, ExitCode.FAILED),
    (("explain", "--topic", "t"), {"source": SOON, "target": SOON}, ExitCode.FAILED),
    (("explain", "--group", "g"), {"source": SOON, "target": SOON}, ExitCode.FAILED),
    (("status",), {"target": SOON}, ExitCode.FAILED),
    (("offsets", "--group", "g"), {"target": SOON}, ExitCode.FAILED),
    (("wait", "--caught-up"), {"source": SOON}, ExitCode.FAILED),
    (("positions", "show"), {"source": SOON, "target": SOON}, ExitCode.FAILED),
    (("hand-over", "--dry-run"), {"source": SOON, "target": SOON}, ExitCode.FAILED),
    (("pause", "--topic", "t"), {"target": SOON}, ExitCode.FAILED),
    (("rehearse", "--timeout", "6"), {"source": LATER, "target": LATER}, ExitCode.FAILED),
)
"""A command, and what it says of each side without which it cannot do anything. A deadline is told, not measured."""

CASES = [
    pytest.param(words, side, said, code, address, id=f"{words[0]}-{side}-{address}-{number}")
    for number, (words, told, code) in enumerate(COMMANDS)
    for side, said in told.items()
    for address in ("closed", "silent")
]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """One second in the place of five and eight: what is told shows that the deadline for people was taken."""
    assert max(sides.REACH_MS, first_look.LOOK_MS) <= 8_000
    for place in (sides, status):
        monkeypatch.setattr(place, "REACH_MS", 1_000)
    monkeypatch.setattr(first_look, "LOOK_MS", 1_000)


@pytest.fixture
def silent() -> Iterator[str]:
    """A port that takes connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(512)
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.kafka
@pytest.mark.parametrize(("words", "side", "deadline", "code", "address"), CASES)
def test_a_cluster_that_cannot_be_reached_is_named_within_seconds(
    cluster_a: LabCluster, tmp_path: Path, silent: str, words, side, deadline, code, address
) -> None:
    place = CLOSED if address == "closed" else silent
    alias, away = "a" if side == "source" else "b", {"bootstrap.servers": place}
    clusters = {"a": cluster_a, "b": cluster_a} | {alias: away}
    file = write_file(tmp_path / "mm2.properties", clusters, {"a->b": "t"})
    name, *rest = words
    ran = sparkmirror(*((name, rest[0], file, *rest[1:]) if name == "positions" else (name, file, *rest)))
    said = re.sub(r"[\s│]+", " ", ran.stdout + ran.stderr)
    assert ran.returncode == code, said
    assert f"cluster {alias} at {place}: {deadline}" in said
    assert REMEDY in said


def test_a_plan_says_first_what_is_not_known(tmp_path: Path, silent: str) -> None:
    clusters = {"a": {"bootstrap.servers": CLOSED}, "b": {"bootstrap.servers": silent}}
    file = write_file(tmp_path / "mm2.properties", clusters, {"a->b": "t"})
    ran = sparkmirror("plan", file)
    assert ran.stdout.startswith(f"a->b: what a start would change is not known: cluster a at {CLOSED}: {SOON}")
    assert f"cluster b at {silent}: {SOON}" in ran.stdout
    assert "nothing to change" not in ran.stdout
    (flow,) = json.loads(sparkmirror("plan", file, "--json").stdout)["flows"]
    assert f"cluster b at {silent}" in flow["failure"]
