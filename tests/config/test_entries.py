"""Typed reading of values, as Kafka's ConfigDef does it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.config.entries import INT_MAX, Entry, Reader, is_secret
from sparkmirror.config.security_settings import SaslMechanism
from sparkmirror.errors import ConfigError

MECHANISMS = {mechanism.value: mechanism for mechanism in SaslMechanism}


def reader(value, key="some.key"):
    return Reader(entries={"some.key": Entry(file="f", key=key, raw=value)}, resolve=lambda entry: entry.raw)


@given(st.integers(0, INT_MAX), st.sampled_from(["", " ", "\t"]))
def test_reads_every_whole_number_within_bounds(number, space):
    assert reader(f"{space}{number}{space}").integer("some.key", 1, low=0) == number


@pytest.mark.parametrize("value", ["x", "1_000", "1.0", "1e3", "0x10", "٣", "--1", "1 000", ""])
def test_refuses_what_is_no_number_in_java(value):
    with pytest.raises(ConfigError, match=r"f: some\.key: "):
        reader(value).integer("some.key", 1, low=0)


@pytest.mark.parametrize("value", ["-1", str(INT_MAX + 1), "9" * 19])
def test_refuses_a_number_out_of_bounds_and_names_them(value):
    with pytest.raises(ConfigError, match="it must be"):
        reader(value).integer("some.key", 1, low=0)


@pytest.mark.parametrize(("value", "meant"), [("true", True), ("FALSE", False), (" True ", True)])
def test_reads_booleans_in_any_case(value, meant):
    assert reader(value).boolean("some.key", default=not meant) is meant


@pytest.mark.parametrize("value", ["yes", "1", "on", "", "truth"])
def test_refuses_what_is_no_boolean_in_java(value):
    with pytest.raises(ConfigError):
        reader(value).boolean("some.key", default=True)


def test_a_list_is_split_at_commas_and_trimmed():
    assert reader(" a , b,,c ").listing("some.key", ()) == ("a", "b", "c")


def test_an_empty_list_is_not_the_default():
    assert reader("").listing("some.key", ("x",)) == ()
    assert reader("").listing("other.key", ("x",)) == ("x",)


def test_a_password_is_not_trimmed():
    found = reader(" x ").password("some.key")
    assert found is not None
    assert found.reveal() == " x "


def test_a_choice_lists_what_is_possible():
    with pytest.raises(ConfigError, match="possible: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"):
        reader("MD5").choice("some.key", MECHANISMS, SaslMechanism.PLAIN)


@pytest.mark.parametrize(
    "key",
    [
        "A.sasl.jaas.config",
        "ssl.key.password",
        "A->B.consumer.ssl.keystore.key",
        "ssl.truststore.password",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "my.vault.token",
    ],
)
def test_keys_of_secrets_are_recognised(key):
    assert is_secret(key)
    assert "canary" not in Entry(file="f", key=key, raw="canary").shown
    assert "canary" not in repr(Entry(file="f", key=key, raw="canary"))


@pytest.mark.parametrize("key", ["topics", "A.bootstrap.servers", "ssl.keystore.location", "replication.factor"])
def test_other_keys_are_not(key):
    assert not is_secret(key)
