"""The pause before something is tried again."""

from __future__ import annotations

import pytest

from sparkmirror.config import ClientSettings
from sparkmirror.kafka.backoff import Backoff


@pytest.mark.parametrize(
    ("backoff", "pauses"),
    [
        (Backoff(), [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]),
        (Backoff(first=0.0, most=1.0), [0.0, 0.0]),
        (Backoff(first=5.0, most=2.0), [2.0, 2.0]),
    ],
)
def test_the_pause_doubles_up_to_its_limit(backoff: Backoff, pauses: list[float]):
    assert [backoff.after(n + 1) for n in range(len(pauses))] == pytest.approx(pauses)


def test_any_number_of_failures_has_a_pause():
    assert Backoff().after(10_000) == 1.0


@pytest.mark.parametrize(
    ("first_ms", "most_ms", "backoff"),
    [
        (100, 1_000, Backoff(first=0.1, most=1.0)),
        (250, 30_000, Backoff(first=0.25, most=30.0)),
        (0, 1_000, Backoff(first=0.01, most=1.0)),
        (0, 0, Backoff(first=0.01, most=0.01)),
    ],
)
def test_a_client_s_settings_say_how_long_but_never_not_at_all(first_ms: int, most_ms: int, backoff: Backoff):
    settings = ClientSettings(
        bootstrap_servers=("127.0.0.1:1",), retry_backoff_ms=first_ms, retry_backoff_max_ms=most_ms
    )
    assert Backoff.of(settings) == backoff
