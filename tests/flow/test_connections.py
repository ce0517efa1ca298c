"""What clusters say of themselves before a flow is started, and what keeps somebody from hearing it."""

from __future__ import annotations

import json
import subprocess

import pytest

from sparkmirror import config
from sparkmirror.flow.connections import connect
from sparkmirror.kafka.survey import _rights
from tests.flow.running import write_file
from tests.invoking import sparkmirror

pytestmark = pytest.mark.kafka


def test_rights_are_read_from_the_bits_that_a_broker_tells():
    assert _rights({5, 8}) == ("CREATE", "DESCRIBE")
    assert _rights(set()) == ()
    assert _rights(None) is None


def test_every_cluster_is_asked_in_every_role_and_a_failure_names_its_own(cluster_a, cluster_b, tmp_path):
    file = write_file(
        tmp_path / "mm2.properties",
        {"a": cluster_a, "b": cluster_b},
        {"a->b": ".*", "b->a": ".*"},
        {"b.producer.bootstrap.servers": "127.0.0.1:1"},
    )
    found = {(str(one.alias), one.roles): one for one in connect(config.load([file]))}
    assert set(found) == {("a", ("admin", "consumer", "producer")), ("b", ("admin", "consumer")), ("b", ("producer",))}
    well = found["a", ("admin", "consumer", "producer")]
    assert well.failure is None
    assert well.flows == ("a->b", "b->a")
    assert well.found is not None
    assert well.found.brokers == 1
    assert well.found.version >= (4, 0)
    assert well.found.rights is not None
    assert {"CREATE", "ALTER", "DESCRIBE"} <= set(well.found.rights), "there is no authorizer"
    refused = str(found["b", ("producer",)].failure)
    assert "mm2.properties: b.producer.bootstrap.servers: cluster b at 127.0.0.1:1" in refused


def test_check_prints_what_they_say_and_ends_with_2_where_two_aliases_are_one_cluster(cluster_a, cluster_b, tmp_path):
    clusters = {"a": cluster_a, "b": cluster_b, "c": cluster_a}
    file = write_file(tmp_path / "mm2.properties", clusters, {"a->b": ".*", "c->b": ".*"})

    def check(*words: str) -> subprocess.CompletedProcess[str]:
        return sparkmirror("check", file, *words)

    assert check().returncode == 0
    asked = check("--connect")
    assert asked.returncode == 2
    assert "a and c are one cluster" in " ".join(asked.stderr.split())
    file.write_text(file.read_text() + "several.aliases.per.cluster = true\n")
    answer = check("--connect", "--json")
    assert answer.returncode == 0, answer.stderr
    connections = json.loads(answer.stdout)["connections"]
    assert {one["alias"] for one in connections} == {"a", "b", "c"}
    ids = {one["alias"]: one["found"]["cluster_id"] for one in connections}
    assert ids["a"] == ids["c"] != ids["b"]
