"""A real key distribution centre, and a broker that asks for its tickets."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

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


def client_properties(kerberized: LabCluster, options: str, *, service: str = "kafka") -> dict[str, str]:
    """Settings of a client, as a user's file has them.

    Args:
        kerberized: the broker.
        options: of Java's login module.
        service: the broker's name at the centre.
    """
    return {
        "bootstrap.servers": kerberized.listener("SASL_PLAIN"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": service,
        "sasl.jaas.config": f"com.sun.security.auth.module.Krb5LoginModule required {options};",
    }
