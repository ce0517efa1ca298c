"""Each key is acted upon, refused or named: one line for each kind."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkmirror.config.entries import Entry
from sparkmirror.config.keys import FILE, FLOW, ROLES, SECURITY, WORKER, Status
from sparkmirror.config.notices import notices
from sparkmirror.config.properties import PropertiesFile
from sparkmirror.model import Alias

ALIASES = (Alias("A"), Alias("B"))


def lines(*keys):
    entries = {key: Entry(file="f", key=key, raw="canary") for key in keys}
    return notices(PropertiesFile(file="f", entries=entries, duplicates=()), ALIASES)


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (["A->B.topcis", "color"], "f: unknown keys, without effect: A->B.topcis (topics?), color"),
        (
            ["A.consumer.fetch.min.byte"],
            "f: unknown keys, without effect: A.consumer.fetch.min.byte (fetch.min.bytes?)",
        ),
        (["A.consumer.linger.ms"], "f: unknown keys, without effect: A.consumer.linger.ms (a key of the producer)"),
        (["replication.factr"], "f: unknown keys, without effect: replication.factr (replication.factor?)"),
        (
            ["metric.names.formats", "A->B.add.source.alias.to.metrics", "sync.topic.acls.enabled"],
            ("f: not active in this version: metrics (metric.names.formats, A->B.add.source.alias.to.metrics)"),
        ),
        (
            ["listeners", "metric.names.formats"],
            "f: not active in this version: REST (listeners); metrics (metric.names.formats)",
        ),
        (
            ["offset.storage.replication.factor"],
            "f: without meaning here: the Connect worker; there is none here (offset.storage.replication.factor)",
        ),
        (
            ["A->B.producer.linger.ms", "B.producer.buffer.memory", "A.consumer.metric.reporters"],
            (
                "f: without meaning here: the Java producer's buffer; see lane.memory.bytes (A->B.producer.linger.ms, "
                "B.producer.buffer.memory); Java metrics (A.consumer.metric.reporters)"
            ),
        ),
        (
            ["use.incremental.alter.configs", "sync.topic.configs.enabled"],
            ("f: without meaning here: properties are always changed one by one (use.incremental.alter.configs)"),
        ),
        (
            ["A.consumer.interceptor.classes"],
            (
                "f: without meaning here: Java code that does not run here; records are copied unchanged "
                "(A.consumer.interceptor.classes)"
            ),
        ),
        (
            [
                "consumer.isolation.level",
                "fetch.min.bytes",
                "A->B.batch.size",
                "B.tasks.max",
                "enabled",
                "A.config.providers.x.class",
            ],
            (
                "f: without effect where they stand: "
                "consumer.isolation.level (write A.consumer.isolation.level), "
                "fetch.min.bytes (write A.fetch.min.bytes), "
                "A->B.batch.size (write A->B.target.producer.batch.size), "
                "B.tasks.max (write tasks.max, or A->B.tasks.max for one flow), "
                "enabled (write A->B.enabled for each flow), "
                "A.config.providers.x.class (write config.providers.x.class)"
            ),
        ),
        (["A->X.topics"], "f: without effect, since they name no flow between two of the clusters: A->X.topics"),
        (
            ["topics.blacklist", "A->B.groups.blacklist"],
            (
                "f: old names: topics.blacklist (is now topics.exclude), "
                "A->B.groups.blacklist (is now A->B.groups.exclude)"
            ),
        ),
    ],
)
def test_names_keys_in_one_line(keys, line):
    assert lines(*keys) == (line,)


def test_says_what_becomes_of_exactly_once():
    (line,) = lines("exactly.once.source.support")
    assert "exactly once whatever it says" in line


def test_names_keys_that_stand_twice(load_lines):
    (warning,) = load_lines("tasks.max = 1", "tasks.max = 2").warnings
    assert warning.endswith("given more than once, the last one counts: tasks.max")


def test_names_a_key_of_a_flow_that_loses_to_one_of_a_cluster(load_lines):
    found = load_lines("A->B.consumer.fetch.min.bytes = 5", "A.consumer.fetch.min.bytes = 6")
    assert found.flows[0].source.consumer.fetch_min_bytes == 6
    (warning,) = found.warnings
    assert "A->B.consumer.fetch.min.bytes loses to A.consumer.fetch.min.bytes" in warning
    assert "write A->B.source.consumer.fetch.min.bytes" in warning


def test_says_nothing_where_the_flow_wins(load_lines):
    found = load_lines("A->B.source.consumer.fetch.min.bytes = 5", "A.consumer.fetch.min.bytes = 6")
    assert found.flows[0].source.consumer.fetch_min_bytes == 5
    assert found.warnings == ()


ACTIVE = [
    *(f"{prefix}{key}" for key, row in FLOW.items() if row.status is Status.ACTIVE for prefix in ("", "A->B.")),
    *(key for key, row in FILE.items() if row.status is Status.ACTIVE),
    *(f"{prefix}{key}" for key, row in SECURITY.items() if row.status is Status.ACTIVE for prefix in ("", "A.", "B.")),
    *(
        f"{prefix}{role}.{key}"
        for role, table in ROLES.items()
        for key, row in table.items()
        if row.status is Status.ACTIVE
        for prefix in ("A.", "A->B.", "A->B.source.", "A->B.target.")
    ),
    "config.providers.x.class",
    "A->B.producer.override.batch.size",
    "A->B.source.cluster.bootstrap.servers",
]
NAMED = {"enabled", *(key for key in ACTIVE if "exactly.once" in key)}


@pytest.mark.parametrize("key", [key for key in ACTIVE if key not in NAMED])
def test_says_nothing_about_keys_that_are_acted_upon(key):
    assert lines(key) == ()


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(["", "A.", "A->B.", "A.consumer.", "A->B.target.producer.", "A->C.", "source.admin."]),
    st.one_of(st.text("abc.>-é", min_size=1), st.sampled_from([*FLOW, *WORKER, *ROLES["consumer"]])),
)
def test_a_key_is_named_at_most_once_and_never_with_its_value(prefix, name):
    found = lines(prefix + name)
    assert len(found) <= 1
    assert all(prefix + name in line and "canary" not in line for line in found)


@given(st.sampled_from(["", "A.", "A->B.", "A.consumer.", "A->B.target.producer."]), st.text("xyz", min_size=3))
def test_a_key_that_nobody_knows_is_always_named(prefix, name):
    (line,) = lines(prefix + name)
    assert line.startswith("f: unknown keys, without effect:")
