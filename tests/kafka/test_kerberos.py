"""GSSAPI against a real key distribution centre and a real broker; without the package, what is told."""

from __future__ import annotations

import base64
import pickle
import re
import sys
import tempfile
import time
from pathlib import Path

import pytest

from sparkmirror import config
from sparkmirror.config import ClientSettings, Kerberos, SaslMechanism, Secret, Security, SecurityProtocol
from sparkmirror.errors import LinkError
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster, new_loop
from sparkmirror.kafka.kerberos import Tickets
from sparkmirror.kafka.login_errors import LoginDelayedError
from sparkmirror.kafka.security import connection_options
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.ports import HOST
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
