"""GSSAPI against a real key distribution centre and a real broker; without the package, what is told."""

from __future__ import annotations

import base64
import importlib.util
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
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
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.lab.ports import HOST, free_ports

REALM, PRINCIPAL = "LAB.EXAMPLE", "mirror"
PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/lib/mit/sbin"))
TOOLS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
SESSION_S = 3

MISSING = [tool for tool in TOOLS if shutil.which(tool, path=PATH) is None]
if importlib.util.find_spec("gssapi") is None:
    MISSING.append("the Python package gssapi")
REMEDY = "apt-get install krb5-kdc krb5-admin-server krb5-user libkrb5-dev gcc, then make clean setup"


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


@dataclass(frozen=True, slots=True)
class Realm:
    """A key distribution centre of this machine.

    Attributes:
        place: holds its configuration, its keytabs and a ticket cache.
        process: the centre.
    """

    place: Path
    process: subprocess.Popen[bytes]

    def run(self, *command: str, given: bytes = b"") -> None:
        tool = shutil.which(command[0], path=PATH)
        assert tool is not None
        subprocess.run([tool, *command[1:]], env=environment(self.place), input=given, check=True, capture_output=True)


def environment(place: Path) -> dict[str, str]:
    files = {"KRB5_CONFIG": "krb5.conf", "KRB5_KDC_PROFILE": "kdc.conf", "KRB5CCNAME": "cache"}
    return os.environ | {name: str(place / file) for name, file in files.items()}


@pytest.fixture(scope="module")
def realm() -> Iterator[Realm]:
    assert not MISSING, f"no key distribution centre here: {', '.join(MISSING)} missing ({REMEDY})"
    place = Path(tempfile.mkdtemp(prefix="sparkmirror-kdc-"))
    (port,) = free_ports(1)
    (place / "krb5.conf").write_text(
        f"[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_kdc = false\ndns_lookup_realm = false\nrdns = false\n"
        "dns_canonicalize_hostname = false\n"
        f"[realms]\n{REALM} = {{\nkdc = {HOST}:{port}\n}}\n[domain_realm]\n{HOST} = {REALM}\n"
    )
    (place / "kdc.conf").write_text(
        f"[kdcdefaults]\nkdc_listen = {HOST}:{port}\nkdc_tcp_listen = {HOST}:{port}\n"
        f"[realms]\n{REALM} = {{\ndatabase_name = {place}/principal\nkey_stash_file = {place}/stash\n"
        f"acl_file = {place}/acl\nmax_life = 1h\n}}\n[logging]\nkdc = FILE:{place}/kdc.log\n"
    )
    env, tool = environment(place), shutil.which("krb5kdc", path=PATH)
    assert tool is not None
    for command in (
        ["kdb5_util", "create", "-s", "-r", REALM, "-P", "master"],
        ["kadmin.local", "-q", f"addprinc -randkey {PRINCIPAL}"],
        ["kadmin.local", "-q", f"addprinc -randkey kafka/{HOST}"],
        ["kadmin.local", "-q", "addprinc -pw cached cached"],
        ["kadmin.local", "-q", f"ktadd -k {place}/mirror.keytab {PRINCIPAL}"],
        ["kadmin.local", "-q", f"ktadd -k {place}/broker.keytab kafka/{HOST}"],
    ):
        found = shutil.which(command[0], path=PATH)
        assert found is not None
        subprocess.run([found, *command[1:]], env=env, check=True, capture_output=True)
    with subprocess.Popen([tool, "-n"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        before = os.environ.get("KRB5_CONFIG")
        os.environ["KRB5_CONFIG"] = env["KRB5_CONFIG"]
        yield Realm(place, process)
        if before is None:
            del os.environ["KRB5_CONFIG"]
        else:
            os.environ["KRB5_CONFIG"] = before
        process.terminate()
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def kerberized(realm: Realm) -> Iterator[LabCluster]:
    """A broker whose SASL_PLAIN listener asks for tickets instead, and ends sessions after seconds."""
    prefix = "listener.name.sasl_plain."
    login = (
        f'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true principal="kafka/{HOST}" '
        f'keyTab="{realm.place}/broker.keytab";'
    )
    settings = {
        f"{prefix}sasl.enabled.mechanisms": "GSSAPI",
        f"{prefix}gssapi.sasl.jaas.config": login,
        f"{prefix}gssapi.sasl.kerberos.service.name": "kafka",
        f"{prefix}connections.max.reauth.ms": str(SESSION_S * 1000),
        "sasl.kerberos.service.name": "kafka",
    }
    java = f"JDK_JAVA_OPTIONS=-Djava.security.krb5.conf={realm.place}/krb5.conf"
    with start("kerberized", security=["SASL_PLAIN"], config=settings, prefix=("env", java)) as cluster:
        yield cluster


def connected(kerberized: LabCluster, place: Path, options: str, *, service: str = "kafka") -> Cluster:
    """A connection as a user's file asks for it, by way of a pickle as to an executor."""
    keys = {
        "bootstrap.servers": kerberized.listener("SASL_PLAIN"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": service,
        "sasl.jaas.config": f"com.sun.security.auth.module.Krb5LoginModule required {options};",
    }
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
