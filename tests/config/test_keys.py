"""The table of known keys, held against the ConfigDefs of Kafka 4.3.1 (``kafka-keys.tsv`` was printed by them)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.config.keys import (
    ADMIN,
    CLASSES,
    CONSUMER,
    FILE,
    FLOW,
    OLD_NAMES,
    PRODUCER,
    SECURITY,
    WORKER,
    Status,
    find,
)

CONNECTOR = (FLOW, SECURITY, FILE)
TABLES = {
    "ConsumerConfig": (CONSUMER,),
    "ProducerConfig": (PRODUCER,),
    "AdminClientConfig": (ADMIN,),
    "MirrorSourceConfig": CONNECTOR,
    "MirrorCheckpointConfig": CONNECTOR,
    "MirrorHeartbeatConfig": CONNECTOR,
    "MirrorMakerConfig": (FILE, SECURITY),
    "MirrorClientConfig": (FLOW, ADMIN),
    "DistributedConfig": (WORKER, FILE, FLOW, ADMIN),
    "SourceConnectorConfig": CONNECTOR,
}
KNOWN_TO_KAFKA = [
    line.split("\t") for line in (Path(__file__).parent / "kafka-keys.tsv").read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize("definition", TABLES)
def test_every_key_that_kafka_defines_has_a_row(definition):
    names = [name for where, name in KNOWN_TO_KAFKA if where == definition]
    assert len(names) > 5
    assert [name for name in names if find(name, *TABLES[definition]) is None] == []


def test_every_row_that_is_not_acted_upon_says_what_it_belongs_to():
    tables = (*TABLES["MirrorSourceConfig"], CONSUMER, PRODUCER, ADMIN, WORKER)
    rows = [(name, key) for table in tables for name, key in table.items()]
    assert [name for name, key in rows if key.status is not Status.ACTIVE and not key.about] == []


def test_old_names_lead_to_keys_that_are_known():
    assert [new for new in OLD_NAMES.values() if find(new, FLOW, FILE) is None] == []


def test_keys_that_name_classes_belong_to_flows():
    assert set(CLASSES) <= set(FLOW)
