from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.errors import LabError
from sparkmirror.lab.listeners import Listener, broker_settings, client_settings, needs_certificates, needs_scram, parse

CERTIFICATES = Path("/c")


def test_plaintext_is_always_there() -> None:
    assert parse([]) == (Listener.PLAINTEXT,)
    assert parse({"SASL_SSL", "SSL"}) == (Listener.PLAINTEXT, Listener.SSL, Listener.SASL_SSL)


def test_an_unknown_listener_is_refused_with_the_known_ones() -> None:
    with pytest.raises(LabError, match=r"no listener KERBEROS: the lab has PLAINTEXT, SSL"):
        parse(["SSL", "KERBEROS"])


def test_certificates_and_users_are_made_only_where_needed() -> None:
    assert not needs_certificates([Listener.PLAINTEXT, Listener.SASL_SCRAM])
    assert needs_certificates([Listener.MTLS])
    assert not needs_scram([Listener.PLAINTEXT, Listener.SASL_PLAIN])
    assert needs_scram([Listener.SASL_SSL])


def test_only_mutual_tls_asks_clients_for_a_certificate() -> None:
    settings = broker_settings([Listener.SSL, Listener.MTLS], CERTIFICATES)
    assert settings["listener.name.ssl.ssl.client.auth"] == "none"
    assert settings["listener.name.mtls.ssl.client.auth"] == "required"


def test_a_client_of_a_plaintext_listener_needs_nothing() -> None:
    assert client_settings(Listener.PLAINTEXT, None, None) == {}


def test_the_strongest_mechanism_is_taken_unless_one_is_named() -> None:
    assert client_settings(Listener.SASL_SSL, None, CERTIFICATES)["sasl.mechanism"] == "SCRAM-SHA-512"
    plain = client_settings(Listener.SASL_SSL, "PLAIN", CERTIFICATES)
    assert plain["sasl.mechanism"] == "PLAIN"
    assert "plain.PlainLoginModule" in plain["sasl.jaas.config"]


def test_a_mechanism_that_the_listener_lacks_is_refused() -> None:
    with pytest.raises(LabError, match="listener SASL_PLAIN has no mechanism SCRAM-SHA-256: it has PLAIN"):
        client_settings(Listener.SASL_PLAIN, "SCRAM-SHA-256", None)
    with pytest.raises(LabError, match="it has none"):
        client_settings(Listener.SSL, "PLAIN", CERTIFICATES)
