"""Offsets of many groups, where one answer would be too large: less is asked for at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.errors import LinkError
from sparkmirror.kafka import groups
from sparkmirror.kafka.backoff import Backoff
from sparkmirror.kafka.rounds import Answer

NAMES = [f"g{number}" for number in range(60)]
TOO_LARGE = LinkError(cluster="A", address="a:1", reason="more than 600000 structures")


@pytest.mark.parametrize("most", [60, 12, 2, 1])
def test_groups_whose_offsets_were_too_many_for_an_answer_are_asked_about_by_fewer(
    most: int, monkeypatch: pytest.MonkeyPatch
):
    asked: list[int] = []

    def in_turn(_: Any, pieces: dict[int, list[Sequence[str]]], *__: Any) -> Iterator[tuple[Sequence[str], Any]]:
        lost = False
        for piece in pieces[1]:  # a coordinator that does not answer is asked nothing more
            asked.append(len(piece))
            lost = lost or len(piece) > most
            yield piece, TOO_LARGE if lost else piece

    monkeypatch.setattr(groups, "_knows", lambda *_: True)
    monkeypatch.setattr(groups, "_coordinators", lambda _, names, __: ({1: list(names)}, []))
    monkeypatch.setattr(groups, "_in_turn", in_turn)
    monkeypatch.setattr(groups, "_read_fetched", lambda piece, *_, **__: [Answer(key=name, value={}) for name in piece])
    cluster: Any = SimpleNamespace(alias="A", backoff=Backoff(first=0.01, most=0.01))
    assert sorted(groups.fetch_offsets(cluster, NAMES, 60_000).complete()) == sorted(NAMES)
    assert asked[0] == groups.GROUPS_AT_ONCE
