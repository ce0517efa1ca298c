"""What a run does with what it found before its start: pure decisions."""

from __future__ import annotations

import pytest

from sparkmirror.config import ClientSettings, Endpoint, FlowConfig, MirrorConfig
from sparkmirror.errors import ConfigError
from sparkmirror.flow.connections import Connection
from sparkmirror.flow.first_look import Kind, Trouble, _by_flow, given_up, hopeless
from sparkmirror.kafka.survey import Survey
from sparkmirror.model import Alias, ClusterId, FlowName

ERROR = ConfigError(file="f", key="k", reason="why")
WRONG, REFUSED, AWAY = (Trouble(kind=kind, error=ERROR) for kind in (Kind.WRONG, Kind.REFUSED, Kind.AWAY))


def flow(name: str) -> FlowConfig:
    source, target = (
        Endpoint(alias=Alias(alias), consumer=client, producer=client, admin=client)
        for alias, client in ((each, ClientSettings(bootstrap_servers=(f"{each}:1",))) for each in name.split("->"))
    )
    return FlowConfig(name=FlowName(source=source.alias, target=target.alias), source=source, target=target)


TWO = MirrorConfig(file="f", flows=(flow("a->b"), flow("c->b")))


@pytest.mark.parametrize(
    ("troubles", "ends", "ends_once"),
    [
        ({}, False, False),
        ({"a->b": REFUSED}, False, False),
        ({"a->b": REFUSED, "c->b": WRONG}, True, True),
        ({"a->b": REFUSED, "c->b": AWAY}, False, True),
        ({"a->b": AWAY, "c->b": AWAY}, False, True),
    ],
)
def test_a_run_ends_when_no_flow_could_begin_and_waiting_does_not_help(
    troubles: dict[str, Trouble], ends: bool, ends_once: bool
):
    assert hopeless(TWO, troubles, once=False) is ends
    assert hopeless(TWO, troubles, once=True) is ends_once


def test_what_is_wrong_is_given_up_and_what_may_be_mended_is_not_unless_the_copy_is_for_once():
    troubles = {"a->b": WRONG, "c->b": REFUSED, "d->b": AWAY}
    assert set(given_up(troubles, once=False)) == {"a->b"}
    assert set(given_up(troubles, once=True)) == set(troubles)


def test_the_first_thing_that_lasts_is_what_a_flow_is_told_of():
    found = Survey(cluster_id=ClusterId("one"), brokers=1, version=(4, 3), rights=None)

    def tried(alias: str, *flows: str, lasting: bool = False, reached: bool = False) -> Connection:
        error = ConfigError(file="f", key=alias, reason="why")
        answer = found if reached else None
        return Connection(
            alias=Alias(alias), roles=("admin",), flows=flows, found=answer, failure=error, lasting=lasting
        )

    troubles = _by_flow(
        [
            Connection(alias=Alias("b"), roles=("admin",), flows=("a->b", "c->b", "d->b"), found=found),
            tried("away", "a->b", "c->b"),
            tried("refused", "a->b", lasting=True),
            tried("double", "d->b", lasting=True, reached=True),
        ]
    )
    told = {name: (trouble.kind, trouble.error.key) for name, trouble in troubles.items()}
    assert told == {
        "a->b": (Kind.REFUSED, "refused"),
        "c->b": (Kind.AWAY, "away"),
        "d->b": (Kind.WRONG, "double"),
    }
