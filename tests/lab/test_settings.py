from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sparkmirror.lab.listeners import Listener
from sparkmirror.lab.settings import Layout, server_settings


def layout(brokers: int, **extra: str) -> Layout:
    return Layout(
        controllers={node: 20_000 + node for node in range(1, brokers + 1)},
        ports={
            node: {Listener.PLAINTEXT: 21_000 + node, Listener.SASL_PLAIN: 22_000 + node}
            for node in range(1, brokers + 1)
        },
        certificates=None,
        extra=extra,
    )


def test_every_broker_knows_all_controllers() -> None:
    settings = server_settings(layout(3), 2, Path("/d"))
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:20001,2@127.0.0.1:20002,3@127.0.0.1:20003"
    assert settings["listeners"] == (
        "PLAINTEXT://127.0.0.1:21002,SASL_PLAIN://127.0.0.1:22002,CONTROLLER://127.0.0.1:20002"
    )
    assert "CONTROLLER" not in settings["advertised.listeners"]


def test_a_broker_with_zookeeper_is_no_controller() -> None:
    settings = server_settings(replace(layout(2), zookeeper=23_000), 2, Path("/d"))
    assert (settings["broker.id"], settings["zookeeper.connect"]) == ("2", "127.0.0.1:23000")
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:21002,SASL_PLAIN://127.0.0.1:22002"
    assert not {key for key in settings if key.startswith(("controller.", "process.", "node."))}


def test_internal_topics_have_as_many_replicas_as_there_are_brokers_up_to_three() -> None:
    for brokers, replicas in ((1, "1"), (2, "2"), (5, "3")):
        settings = server_settings(layout(brokers), 1, Path("/d"))
        assert settings["offsets.topic.replication.factor"] == replicas
        assert settings["transaction.state.log.replication.factor"] == replicas


def test_settings_of_the_caller_win() -> None:
    settings = server_settings(layout(1, **{"num.partitions": "7", "node.id": "9"}), 1, Path("/d"))
    assert (settings["num.partitions"], settings["node.id"]) == ("7", "9")


def test_a_setting_of_the_caller_can_differ_from_broker_to_broker() -> None:
    racks = [server_settings(layout(2, **{"broker.rack": "rack-{node}"}), node, Path("/d")) for node in (1, 2)]
    assert [settings["broker.rack"] for settings in racks] == ["rack-1", "rack-2"]


def test_addresses_of_all_brokers_are_given_to_clients() -> None:
    assert layout(2).bootstrap_servers(Listener.SASL_PLAIN) == "127.0.0.1:22001,127.0.0.1:22002"


def test_clients_of_a_far_listener_are_sent_to_its_link() -> None:
    far = Layout(
        controllers={1: 20_001},
        ports={1: {Listener.PLAINTEXT: 21_001, Listener.LINK: 22_001}},
        certificates=None,
        extra={},
        links={1: 23_001},
    )
    settings = server_settings(far, 1, Path("/d"))
    assert "LINK://127.0.0.1:22001" in settings["listeners"]
    assert settings["advertised.listeners"] == "PLAINTEXT://127.0.0.1:21001,LINK://127.0.0.1:23001"
    assert far.bootstrap_servers(Listener.LINK) == "127.0.0.1:23001"
    assert far.bootstrap_servers(Listener.PLAINTEXT) == "127.0.0.1:21001"
