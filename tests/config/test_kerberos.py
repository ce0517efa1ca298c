"""GSSAPI: the options of Java's Krb5LoginModule, and what is refused. Nothing here needs Kerberos."""

from __future__ import annotations

import base64
import pickle
import traceback

import pytest

from sparkmirror.config import Kerberos, SaslMechanism, Secret, effective
from sparkmirror.errors import ConfigError

CANARY = "canary-6e5a"
BASE = ("A.security.protocol = SASL_PLAINTEXT", "A.sasl.mechanism = GSSAPI")
SERVICE = "A.sasl.kerberos.service.name = kafka"
KEYTAB = b"\x05\x02" + CANARY.encode()


@pytest.fixture
def keytab(tmp_path):
    path = tmp_path / "mirror.keytab"
    path.write_bytes(KEYTAB)
    return path


def jaas(options):
    return f"A.sasl.jaas.config = com.sun.security.auth.module.Krb5LoginModule required {options};"


@pytest.fixture
def read(load_flow):
    """The login of cluster A for these lines."""

    def read(*lines):
        security = load_flow(*BASE, *lines).source.consumer.security
        assert security.mechanism is SaslMechanism.GSSAPI
        assert security.kerberos is not None
        return security.kerberos

    return read


def test_a_keytab_travels_with_the_settings(read, keytab):
    found = read(SERVICE, jaas(f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="mirror@LAB"'))
    keys = Secret(base64.b64encode(KEYTAB).decode())
    assert found == Kerberos(service_name="kafka", principal="mirror@LAB", keytab=keys, any_keytab=True)


def test_the_keytab_may_be_the_one_of_the_system(read):
    assert read(SERVICE, jaas("useKeyTab=true")) == Kerberos(service_name="kafka", any_keytab=True)


@pytest.mark.parametrize(("option", "cache"), [("", ""), ('ticketCache="/run/krb5cc"', "/run/krb5cc")])
def test_a_ticket_cache_is_one_of_the_machine_that_connects(read, option, cache):
    found = read(jaas(f'useTicketCache=true {option} serviceName="kafka"'))
    assert found == Kerberos(service_name="kafka", cache=cache)


def test_a_cache_may_stand_before_a_keytab(read, keytab):
    found = read(SERVICE, jaas(f'useTicketCache=true useKeyTab=true keyTab="FILE:{keytab}"'))
    assert (found.cache, found.keytab is not None) == ("", True)


def test_gssapi_is_what_holds_where_no_mechanism_is_set(load_flow):
    flow = load_flow(BASE[0], SERVICE, jaas("useTicketCache=true"))
    assert flow.source.admin.security.mechanism is SaslMechanism.GSSAPI


REFUSED = [
    ("a question", [SERVICE, jaas("principal=mirror")], "ask for a password.*useKeyTab=true"),
    ("no service", [jaas("useTicketCache=true")], "set sasl.kerberos.service.name"),
    ("two services", [SERVICE, jaas("useTicketCache=true serviceName=k")], "another one than serviceName"),
    ("a principal", ["A.sasl.kerberos.service.name = kafka/host", jaas("useTicketCache=true")], "no plain name"),
    ("a broker", [SERVICE, jaas("useTicketCache=true isInitiator=false")], "is for brokers"),
    ("no flag", [SERVICE, jaas("useTicketCache=yes")], "neither true nor false"),
    ("an option of another Java", [SERVICE, jaas(f"useDefaultCcache={CANARY}")], "option that does not work here"),
    ("no keytab", [SERVICE, jaas('useKeyTab=true keyTab="/no/such"')], "no such file"),
    ("another module", ["A.sasl.jaas.config = com.ibm.security.auth.module.Krb5LoginModule required;"], "possible: "),
]


@pytest.mark.parametrize(("lines", "reason"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refuses(load_flow, lines, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        load_flow(*BASE, *lines)
    assert caught.value.key.startswith("A.")
    assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_refuses_a_file_that_is_no_keytab(load_flow, tmp_path):
    (tmp_path / "x").write_text(CANARY)
    with pytest.raises(ConfigError, match="is no keytab"):
        load_flow(*BASE, SERVICE, jaas(f'useKeyTab=true keyTab="{tmp_path}/x"'))


def test_a_flow_pickles_with_its_keytab_and_does_not_show_it(load_flow, keytab):
    flow = load_flow(*BASE, SERVICE, jaas(f'useKeyTab=true keyTab="{keytab}" principal="mirror@LAB"'))
    again = pickle.loads(pickle.dumps(flow))
    assert again == flow
    shown = f"{again!r} {effective(flow)}"
    assert CANARY not in shown
    assert base64.b64encode(KEYTAB).decode()[:12] not in shown
    rows = {row.setting: row.value for row in effective(flow)}
    assert rows["source.sasl.jaas.config"] == "principal mirror@LAB, keytab [hidden]"
    assert rows["source.sasl.kerberos.service.name"] == "kafka"
