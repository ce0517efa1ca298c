"""What a file says of heartbeats and offset syncs, and which pairs of clusters get heartbeats."""

from __future__ import annotations

import pytest

from sparkmirror.config import HeartbeatSettings, OffsetSyncSettings, Side, effective, load
from sparkmirror.errors import ConfigError

THREE = """\
clusters = A, B, C
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
C.bootstrap.servers = c:1
A->B.enabled = true
"""
OTHERS = ["A->C", "B->A", "B->C", "C->A", "C->B"]


def pulses(config):
    return [str(flow.name) for flow in config.pulses]


def test_the_defaults_are_mm2_s(load_flow):
    flow = load_flow()
    assert flow.heartbeats == HeartbeatSettings(enabled=True, interval_s=1.0, replication_factor=3)
    assert flow.offset_syncs == OffsetSyncSettings(
        enabled=True, location=Side.SOURCE, replication_factor=3, lag_max=100
    )


def test_every_key_holds_and_is_shown(load_flow):
    keys = {
        "emit.heartbeats.enabled": "false",
        "emit.heartbeats.interval.seconds": "5",
        "heartbeats.topic.replication.factor": "1",
        "emit.offset-syncs.enabled": "false",
        "offset-syncs.topic.location": "target",
        "offset-syncs.topic.replication.factor": "-1",
        "offset.lag.max": "0",
    }
    flow = load_flow(*(f"A->B.{key} = {value}" for key, value in keys.items()))
    assert flow.heartbeats == HeartbeatSettings(enabled=False, interval_s=5.0, replication_factor=1)
    assert flow.offset_syncs == OffsetSyncSettings(
        enabled=False, location=Side.TARGET, replication_factor=-1, lag_max=0
    )
    shown = {row.setting: (row.value, row.origin) for row in effective(flow)}
    assert {key: shown[key] for key in keys} == {key: (value, f"A->B.{key}") for key, value in keys.items()}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("offset-syncs.topic.location = both", "offset-syncs.topic.location.*source.*target"),
        ("emit.heartbeats.interval.seconds = 0", "emit.heartbeats.interval.seconds"),
        ("heartbeats.topic.replication.factor = 0", "cannot be 0"),
        ("offset.lag.max = -1", "offset.lag.max"),
        ("emit.heartbeats.enabled = maybe", "emit.heartbeats.enabled.*neither true nor false"),
        ("B->A.emit.heartbeats.enabled = maybe", "neither true nor false"),
    ],
)
def test_what_cannot_work_is_refused(load_lines, line, reason):
    with pytest.raises(ConfigError, match=reason):
        load_lines(line)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], OTHERS),
        (["emit.heartbeats.enabled = false"], []),
        (["emit.heartbeats.enabled = false", "B->A.emit.heartbeats.enabled = true"], ["B->A"]),
        (["B->A.emit.heartbeats.enabled = false", "C->A.enabled = false"], ["A->C", "B->C", "C->A", "C->B"]),
        (["C->B.enabled = true"], OTHERS[:-1]),
    ],
)
def test_every_pair_gets_heartbeats_unless_the_file_says_otherwise(load_lines, lines, expected):
    assert pulses(load_lines(*lines, base=THREE)) == expected


def test_only_the_pairs_into_the_chosen_clusters_get_them(load_lines):
    assert pulses(load_lines(base=THREE, clusters=["B"])) == ["C->B"]


def test_one_chosen_flow_is_alone(load_lines):
    assert pulses(load_lines(base=THREE, flow="A->B")) == []


def test_a_pair_of_two_files_gets_them_once_and_not_where_its_flow_is_enabled(write):
    other = THREE.replace("A->B.enabled", "B->A.enabled")
    found = load([write(base=THREE, name="1.properties"), write(base=other, name="2.properties")])
    assert pulses(found) == ["A->C", "B->C", "C->A", "C->B"]


def test_a_pair_that_was_not_asked_for_stops_nothing(load_lines):
    found = load_lines("C.security.protocol = SASL_SSL", base=THREE)
    assert [str(flow.name) for flow in found.flows] == ["A->B"]
    assert pulses(found) == ["B->A"]
    (warning,) = found.warnings
    assert warning.startswith("no heartbeats for A->C, B->C, C->A, C->B (not enabled as flows): ")
    assert "C.s" in warning


def test_a_pair_reads_its_own_keys(load_lines):
    found = load_lines("B->A.emit.heartbeats.interval.seconds = 9")
    (pair,) = found.pulses
    assert pair.heartbeats.interval_s == 9.0
    assert pair.target.alias == "A"
    assert pair.target.producer.bootstrap_servers == ("a1.example.com:9092", "a2.example.com:9092")
