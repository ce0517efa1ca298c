"""GSSAPI against a real key distribution centre and a real broker; without the package, what is told."""

from __future__ import annotations

import base64
import os
import pickle
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sparkmirror import config
from sparkmirror.config import ClientSettings, Kerberos, SaslMechanism, Secret, Security, SecurityProtocol
from sparkmirror.errors import LinkError, SparkmirrorError
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster, new_loop
from sparkmirror.kafka.kerberos import Tickets
from sparkmirror.kafka.login_errors import LoginDelayedError
from sparkmirror.kafka.security import connection_options
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.ports import HOST
from tests.kafka.crashes import Crashes, crashes  # noqa: F401  # a fixture
from tests.kafka.hostile_broker import LOGIN_KEYS, METADATA, HostileBroker, Lies, cluster_of
from tests.kafka.realm import SESSION_S, Realm, client_properties, kerberized, realm

__all__ = ["kerberized", "realm"]  # fixtures


def settings_of(login: Kerberos) -> ClientSettings:
    security = Security(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanism=SaslMechanism.GSSAPI, kerberos=login)
    return ClientSettings(bootstrap_servers=("b:1",), security=security)


def test_without_the_package_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "gssapi", None)  # as if it were not there
    with pytest.raises(LinkError) as caught:
        connection_options(settings_of(Kerberos(service_name="kafka", any_keytab=True)), "B")
    text = str(caught.value)
    assert text.startswith("cluster B at b:1: GSSAPI needs the Python package gssapi")
    assert "apt-get install libkrb5-dev" in text
    assert "pip install 'sparkmirror[gssapi]'" in text
    assert (caught.value.setting, caught.value.lasting) == ("sasl.mechanism", True)


# ------------------------------------------------------------------------------------------------------- the real thing


def connected(kerberized: LabCluster, place: Path, options: str, *, service: str = "kafka") -> Cluster:
    """A connection as a user's file asks for it, by way of a pickle as to an executor."""
    keys = client_properties(kerberized, options, service=service)
    file = place / "mm2.properties"
    lines = [f"A.{key}={value}" for key, value in keys.items()]
    file.write_text("\n".join(["clusters=A,B", "A->B.enabled=true", "B.bootstrap.servers=b:1", *lines]))
    (flow,) = config.load([file]).flows
    return Cluster("A", pickle.loads(pickle.dumps(flow)).source.admin, role="test")


@pytest.mark.kafka
def test_a_keytab_logs_in_again_and_again_and_leaves_nothing_on_disk(
    realm: Realm, kerberized: LabCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    cluster = connected(kerberized, tmp_path, f'useKeyTab=true keyTab="{realm.place}/mirror.keytab" principal=mirror')
    try:
        ends = time.monotonic() + 3 * SESSION_S
        while time.monotonic() < ends:
            assert admin.cluster_id(cluster, 10_000) == kerberized.cluster_id
            time.sleep(0.2)
    finally:
        cluster.close()
    assert list(temporary.iterdir()) == []


@pytest.mark.kafka
def test_a_ticket_cache_logs_in(realm: Realm, kerberized: LabCluster, tmp_path: Path):
    realm.run("kinit", "cached", given=b"cached\n")
    cluster = connected(kerberized, tmp_path, f'useTicketCache=true ticketCache="{realm.place}/cache"')
    try:
        assert admin.cluster_id(cluster, 20_000) == kerberized.cluster_id
    finally:
        cluster.close()


@pytest.mark.kafka
def test_what_the_centre_does_not_know_is_told_at_once(realm: Realm, kerberized: LabCluster, tmp_path: Path):
    keytab = f'useKeyTab=true keyTab="{realm.place}/mirror.keytab"'
    for options, service in (
        (f"{keytab} principal=nobody", "kafka"),
        (f"{keytab} principal=mirror", "other"),
        (f'useTicketCache=true ticketCache="{tmp_path}/none"', "kafka"),
    ):
        cluster = connected(kerberized, tmp_path, options, service=service)
        try:
            with pytest.raises(LinkError, match=r"no Kerberos ticket: .*check keytab or ticket cache, principal"):
                admin.cluster_id(cluster, 20_000)
        finally:
            cluster.close()


@pytest.mark.kafka
def test_a_centre_that_is_not_there_may_come_back(realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = (realm.place / "krb5.conf").read_text()
    (tmp_path / "krb5.conf").write_text(re.sub(r"kdc = .*", "kdc = 127.0.0.1:1", text))
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    keys = Secret(base64.b64encode((realm.place / "broker.keytab").read_bytes()).decode())
    login = Kerberos(service_name="kafka", principal=f"kafka/{HOST}", keytab=keys, any_keytab=True)
    loop = new_loop("test")
    try:
        with pytest.raises(LoginDelayedError, match="no Kerberos ticket") as caught:
            loop.run(Tickets(login).opening, loop, HOST, time.monotonic() + 30)
    finally:
        loop.close()
    assert caught.value.remedy == f"is the key distribution centre of {tmp_path}/krb5.conf up and reachable?"


def test_the_settings_carry_the_keytab_and_hide_it():
    login = Kerberos(service_name="kafka", keytab=Secret("canary-4e7a"), any_keytab=True)
    assert "canary" not in repr(settings_of(login))


# ---------------------------------------------------------------------------------------------- a broker that lies

CASES = int(os.environ.get("SPARKMIRROR_HOSTILE_CASES", "30"))
CALL_MS, LATEST_S = 400, 6.0


class Acceptor:
    """The broker's side of logins, one after another, which has the broker's key (RFC 4752)."""

    def __init__(self, realm: Realm) -> None:
        import gssapi

        self._credentials = gssapi.Credentials(usage="accept", store={"keytab": f"{realm.place}/broker.keytab"})
        self._begin()

    def _begin(self) -> None:
        import gssapi

        self._context = gssapi.SecurityContext(creds=self._credentials, usage="accept")
        self._offered = False

    def __call__(self, said: bytes) -> bytes:
        if said[:1] == b"\x60":  # the first token of another connection
            self._begin()
            return bytes(self._context.step(said) or b"")
        if self._offered:
            return b""
        self._offered = True
        return bytes(self._context.wrap(b"\x01\x00\x00\x00", False).message)


@pytest.fixture
def false_broker() -> Iterator[HostileBroker]:
    broker = HostileBroker()
    broker.model.mechanism = "GSSAPI"
    yield broker
    broker.close()


@pytest.fixture
def login(realm: Realm) -> Security:
    keys = Secret(base64.b64encode((realm.place / "mirror.keytab").read_bytes()).decode())
    kerberos = Kerberos(service_name="kafka", principal="mirror", keytab=keys, any_keytab=True)
    return Security(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanism=SaslMechanism.GSSAPI, kerberos=kerberos)


@pytest.mark.kafka
def test_no_lie_in_a_login_does_more_than_fail_it(
    realm: Realm,
    false_broker: HostileBroker,
    login: Security,
    crashes: Crashes,  # noqa: F811  # the fixture
):
    for seed in range(-1, CASES):
        false_broker.model.log_in = Acceptor(realm)
        lies = Lies(seed, LOGIN_KEYS, first=seed % 5, most=1 if seed % 3 else 50) if seed >= 0 else None
        false_broker.lies = lies
        cluster = cluster_of(false_broker, login)
        try:
            began = time.monotonic()
            if lies is None:
                assert admin.cluster_id(cluster, 20_000) == "hostile"
            else:
                with suppress(SparkmirrorError):
                    admin.cluster_id(cluster, CALL_MS)
                assert time.monotonic() - began < LATEST_S, (seed, lies.told)
                assert not crashes.seen, (seed, lies.told, crashes.seen)
        finally:
            cluster.close()


@pytest.mark.kafka
@pytest.mark.parametrize(
    "answer", [b"", b"\x00", b"\x60\x01\x02", b"\xff" * 70_000], ids=["nothing", "one byte", "a tag", "noise"]
)
def test_a_broker_without_the_key_gets_no_login(answer: bytes, false_broker: HostileBroker, login: Security):
    false_broker.model.log_in = lambda _: answer
    cluster = cluster_of(false_broker, login)
    try:
        with pytest.raises(LinkError):
            admin.cluster_id(cluster, 1_000)
    finally:
        cluster.close()
    assert METADATA not in false_broker.asked
