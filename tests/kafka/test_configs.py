"""Properties of topics on real clusters: where values come from, and changes of single ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sparkmirror.config import ClientSettings
from sparkmirror.errors import BrokerError
from sparkmirror.kafka import admin, changes
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.configs import Alteration, ConfigSource, alter_configs, describe_configs, topic_configs
from sparkmirror.lab.cluster import LabCluster
from tests.flow.running import until

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def cluster(cluster_a: LabCluster) -> Iterator[Cluster]:
    settings = ClientSettings(bootstrap_servers=tuple(cluster_a.bootstrap_servers.split(",")))
    cluster = Cluster("A", settings, role="admin")
    yield cluster
    cluster.close()


def _create(cluster: Cluster, *names: str, **configs: str) -> None:
    own = tuple((key.replace("_", "."), value) for key, value in configs.items())
    wanted = [NewTopic(name=name, partitions=1, replication_factor=1, configs=own) for name in names]
    admin.create_topics(cluster, wanted).complete()
    admin.wait_for_leaders(cluster, dict.fromkeys(names, 1)).complete()


def _own(cluster: Cluster, name: str) -> dict[str, str | None]:
    """The properties that are set for the topic itself."""
    entries = topic_configs(cluster, [name])[name]
    return {key: entry.value for key, entry in entries.items() if entry.source is ConfigSource.TOPIC}


def test_configs_tell_where_a_value_comes_from(cluster: Cluster, topic: Callable[..., str]) -> None:
    name, none = topic(), topic("none")
    _create(cluster, name, retention_ms="60000", cleanup_policy="compact,delete")
    results = describe_configs(cluster, [name, none])
    configs = results.found[name]
    assert configs["retention.ms"].value == "60000"
    assert configs["retention.ms"].source is ConfigSource.TOPIC
    assert configs["cleanup.policy"].value == "compact,delete"
    assert configs["segment.ms"].is_default
    assert set(results.failed) == {none}
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC"):
        results.complete()


def _comes_to_have(cluster: Cluster, name: str, wanted: dict[str, str | None]) -> None:
    """A broker shows a moment later what its controller has taken."""
    until(lambda: _own(cluster, name) == wanted, f"{name} has {wanted}", 30)


def test_only_the_properties_that_are_named_are_changed(cluster: Cluster, topic_name: str) -> None:
    _create(cluster, topic_name, retention_ms="60000", segment_ms="70000", flush_ms="5")
    wanted = [
        Alteration("retention.ms", "80000"),
        Alteration("segment.ms", None),
        Alteration("index.interval.bytes", "9"),
    ]
    alter_configs(cluster, {topic_name: wanted}).complete()
    _comes_to_have(cluster, topic_name, {"retention.ms": "80000", "flush.ms": "5", "index.interval.bytes": "9"})


def test_a_topic_whose_change_is_refused_keeps_its_properties_and_does_not_stop_the_others(
    cluster: Cluster, topic: Callable[..., str]
) -> None:
    good, bad, none = topic("good"), topic("bad"), topic("none")
    _create(cluster, good, bad, retention_ms="60000")
    change = [Alteration("retention.ms", "70000")]
    results = alter_configs(
        cluster, {bad: [*change, Alteration("segment.bytes", "-7")], good: change, none: change}, timeout_ms=20_000
    )
    assert set(results.found) == {good}
    failure = results.failed[bad]
    assert isinstance(failure, BrokerError)
    assert (failure.name, failure.topic) == ("INVALID_CONFIG", bad)
    assert "segment.bytes" in str(failure)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(results.failed[none])
    _comes_to_have(cluster, good, {"retention.ms": "70000"})
    assert _own(cluster, bad) == {"retention.ms": "60000"}


def test_what_is_too_much_for_one_request_goes_in_several(
    cluster: Cluster, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [topic("many") for _ in range(5)]
    _create(cluster, *names)
    monkeypatch.setattr(changes, "CHANGED_PARTS", 4)
    sent: list[int] = []
    call = Cluster.call

    def counting(self: Cluster, request, *args, **more):
        sent.append(len(request.resources))
        return call(self, request, *args, **more)

    wanted = [Alteration("retention.ms", "60000"), Alteration("segment.ms", "70000")]
    with monkeypatch.context() as patched:
        patched.setattr(Cluster, "call", counting)
        assert set(alter_configs(cluster, dict.fromkeys(names, wanted)).complete()) == set(names)
    assert sent == [2, 2, 1]
    for name in names:
        _comes_to_have(cluster, name, dict(wanted))
