"""The effective configuration, for people."""

from __future__ import annotations

import traceback
from dataclasses import fields

import pytest

from sparkmirror.config import effective
from sparkmirror.config.settings import ClientSettings
from sparkmirror.errors import ConfigError


def rows(flow):
    return {row.setting: row for row in effective(flow)}


def test_names_the_key_that_set_a_value(load_flow):
    found = rows(load_flow("tasks.max = 3", "A->B.topics = x", "topics.blacklist = y"))
    assert (found["tasks.max"].value, found["tasks.max"].origin) == ("3", "tasks.max")
    assert (found["topics"].value, found["topics"].origin) == ("x", "A->B.topics")
    assert found["topics.exclude"].origin == "topics.blacklist"
    assert found["replication.factor"].origin == ""


PROVIDED = (
    "config.providers = env",
    "config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider",
)


def test_no_value_of_a_config_provider_is_shown_whatever_its_key_is(load_flow, monkeypatch):
    monkeypatch.setenv("CANARY", 'X required password="canary-41d0";')
    keys = ("topics.append", "groups.exclude", "A->B.config.properties.exclude", "A.consumer.client.rack")
    found = rows(load_flow(*PROVIDED, *(f"{key} = ${{env:CANARY}}" for key in keys), "A->B.topics = orders"))
    assert not any("canary" in row.value for row in found.values())
    hidden = {row.origin for row in found.values() if row.value == "[hidden]"}
    assert hidden == set(keys)
    assert found["topics"].value == "orders"


@pytest.mark.parametrize("path", ["canary41d0.names:Policy", "json:Canary41d0", "json.canary41d0"])
def test_no_part_of_a_policys_path_is_told_where_it_came_from_a_config_provider(load_flow, monkeypatch, path):
    monkeypatch.setenv("CANARY", path)
    with pytest.raises(ConfigError) as refused:
        load_flow(*PROVIDED, "replication.policy.class = ${env:CANARY}")
    assert "anary41d0" not in "".join(traceback.format_exception(refused.value))
    assert "${env:CANARY}" in str(refused.value)


def test_the_limit_of_decompression_and_what_becomes_of_large_records_are_shown(load_flow):
    found = rows(load_flow("errors.tolerance = all", "A->B.batch.decompression.max.bytes = 2000000"))
    shown = {name: (found[name].value, found[name].origin) for name in found if name.startswith(("errors", "batch"))}
    assert shown == {
        "batch.decompression.max.bytes": ("2000000", "A->B.batch.decompression.max.bytes"),
        "errors.tolerance": ("all", "errors.tolerance"),
        "errors.deadletterqueue.topic.name": ("", ""),
        "errors.deadletterqueue.topic.replication.factor": ("3", ""),
        "errors.deadletterqueue.context.headers.enable": ("true", ""),
    }


def test_the_limit_of_the_recovery_point_is_shown(load_flow):
    name = "rpo.limit.ms"
    assert (rows(load_flow())[name].value, rows(load_flow())[name].origin) == ("no limit", "")
    found = rows(load_flow("rpo.limit.ms = 60000", "A->B.rpo.limit.ms = 30000"))[name]
    assert (found.value, found.origin) == ("30000", "A->B.rpo.limit.ms")


def test_what_becomes_of_groups_is_shown(load_flow):
    found = rows(load_flow("A->B.groups = readers-.*", "sync.group.offsets.enabled = true"))
    shown = {name: found[name].value for name in found if "group" in name or "checkpoint" in name}
    assert shown == {
        "groups": "readers-.*",
        "groups.exclude": "console-consumer-.*, connect-.*, __.*",
        "refresh.groups.enabled": "true",
        "refresh.groups.interval.seconds": "600",
        "emit.checkpoints.enabled": "true",
        "emit.checkpoints.interval.seconds": "60",
        "checkpoints.topic.replication.factor": "3",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "5",
        "sync.group.acls.enabled": "false",
        "mm2.group": "A-mm2",
    }
    assert found["groups"].origin == "A->B.groups"


def test_what_is_the_same_in_all_roles_is_one_row(load_flow):
    found = rows(load_flow("A.consumer.request.timeout.ms = 5", "B.request.timeout.ms = 6"))
    assert found["source.consumer.request.timeout.ms"].value == "5"
    assert found["source.admin.request.timeout.ms"].value == "30000"
    assert found["target.request.timeout.ms"].value == "6"
    assert found["target.request.timeout.ms"].origin == "B.request.timeout.ms"
    assert found["source.bootstrap.servers"].value == "a1.example.com:9092, a2.example.com:9092"


def test_every_setting_of_a_client_is_a_row(load_flow):
    names = [row.setting for row in effective(load_flow())]
    for field in fields(ClientSettings):
        key = field.name.replace("_", ".").replace("security", "security.protocol")
        assert any(name.endswith(key) for name in names), key


def test_settings_are_named_once(load_flow):
    names = [row.setting for row in effective(load_flow("A.consumer.security.protocol = SSL"))]
    assert len(set(names)) == len(names)
