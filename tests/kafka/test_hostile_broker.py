"""Whatever a broker says, a call ends in time with a result or with one of sparkmirror's own errors.

`CASES` lies are told for each role of a client; SPARKMIRROR_HOSTILE_CASES sets another number. The seed of a case is
its number.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
import random
import resource
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from kafka.net.transport import KafkaTCPTransport

from kafka import errors as kafka_errors
from sparkmirror.batches import Codec
from sparkmirror.config import Isolation, SaslMechanism, Secret, Security, SecurityProtocol
from sparkmirror.config.security_settings import FixedToken, OAuth
from sparkmirror.errors import LinkError, SparkmirrorError
from sparkmirror.kafka import (
    acls,
    admin,
    changes,
    configs,
    epochs,
    fencing,
    groups,
    leaders,
    metadata,
    producer_ids,
    spots,
    stored_offsets,
    survey,
    tails,
    tls_session,
    topic_ids,
    transactional_ids,
)
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.idempotent_journal import IdempotentJournal
from sparkmirror.kafka.journal import Journal, encode
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.login_errors import NOT_SHOWN, login_failure
from sparkmirror.kafka.memory import DAY_MS, memories_ms
from sparkmirror.kafka.ownership import Ownership
from sparkmirror.kafka.reading import Span, read_records
from sparkmirror.kafka.settings import broker_settings
from sparkmirror.kafka.stored_records import OPENED_BYTES
from sparkmirror.lab.certificates import write_certificates
from sparkmirror.model import TopicPartition, Writer
from tests.batches.building import Rec, Written
from tests.kafka import endless_tls
from tests.kafka.crashes import Crashes, crashes  # noqa: F401  # a fixture
from tests.kafka.endless_tls import Keys
from tests.kafka.hostile_broker import (
    LOGIN_KEYS,
    METADATA,
    RECORDS,
    SASL_AUTHENTICATE,
    HostileBroker,
    Lies,
    cluster_of,
    damaged,
    name_of,
)

CASES = int(os.environ.get("SPARKMIRROR_HOSTILE_CASES", "30"))
CALL_MS = 400
LATEST_S = 6.0
"""More than a call may take: one answer is waited for `ATTEMPT_MIN_MS` at least, on a machine that is busy."""
LONGEST = 5_000
MOST_BYTES = 200 << 20
MOST_OF_A_TURN_S = 0.5
"""Of the network loop, on a processor."""
PLACES = [TopicPartition("t", 0), TopicPartition("t", 1)]
WRITER = Writer(producer_id=7, epoch=1)
RULES = [
    acls.AclBinding(
        acls.ResourceType.TOPIC,
        name,
        acls.PatternType.LITERAL,
        "User:a",
        "*",
        acls.Operation.READ,
        acls.Permission.ALLOW,
    )
    for name in ("t", "u")
]


def write_idempotently(cluster: Cluster) -> None:
    journal = IdempotentJournal(cluster, "t")

    async def write() -> None:
        await journal.own(Ownership("id"), CALL_MS)
        await journal.append([("k", "v")] * 3, CALL_MS)

    cluster.run(write)


def take(*of_record: Any) -> Any:
    return of_record


ROLES: dict[str, Callable[[Cluster], Any]] = {
    "topics": lambda c: admin.list_topics(c, ["t", "u"], CALL_MS),
    "all topics": lambda c: admin.visible_topics(c, list(admin.list_topics(c, None, CALL_MS)), CALL_MS),
    "absent topics": lambda c: admin.absent(c, PLACES, CALL_MS),
    "leaders": lambda c: admin.wait_for_leaders(c, {"t": 2}, CALL_MS).complete(),
    "creation": lambda c: admin.create_topics(c, [admin.NewTopic(name="t")], CALL_MS).complete(),
    "identity": lambda c: admin.cluster_id(c, CALL_MS),
    "offsets": lambda c: admin.list_offsets(c, PLACES, OffsetSpec.LATEST, Isolation.READ_COMMITTED, CALL_MS),
    "producers": lambda c: admin.find_producers(c, PLACES, CALL_MS).complete(),
    "epochs": lambda c: epochs.epoch_ends(c, dict.fromkeys(PLACES, 0), CALL_MS).complete(),
    "properties": lambda c: configs.describe_configs(c, ["t"], CALL_MS).complete(),
    "acls": lambda c: acls.describe_acls(c, list(acls.ResourceType)[:2], CALL_MS),
    "acl creation": lambda c: acls.create_acls(c, RULES, CALL_MS).complete(),
    "acl deletion": lambda c: acls.delete_acls(c, RULES, CALL_MS).complete(),
    "logins": lambda c: acls.scram_users(c, ["a", "b"], CALL_MS),
    "memories": lambda c: memories_ms(c, CALL_MS),
    "settings": lambda c: broker_settings(c, ["retention.ms"], CALL_MS),
    "greeting": lambda c: survey.survey(c, CALL_MS),
    "topic rights": lambda c: survey.topic_rights(c, ["t"], CALL_MS),
    "group rights": lambda c: groups.group_rights(c, ["g"], CALL_MS).complete(),
    "alteration": lambda c: configs.alter_configs(c, {"t": [configs.Alteration("a", "b")]}, CALL_MS).complete(),
    "growth": lambda c: admin.create_partitions(c, {"t": 3}, CALL_MS).complete(),
    "deletion": lambda c: admin.delete_topics(c, ["t"], CALL_MS).complete(),
    "views": lambda c: c.run(metadata.describe_topics, c, ["t"], CALL_MS),
    "ids": lambda c: topic_ids.ids_of_topics(c, ["t"], CALL_MS),
    "newest epochs": lambda c: epochs.newest_epochs(c, set(PLACES), CALL_MS),
    "believed ends": lambda c: epochs.believed_ends(c, dict.fromkeys(PLACES, 0), CALL_MS).complete(),
    "stored offsets": lambda c: stored_offsets.read_stored(c, "t", CALL_MS),
    "writer": lambda c: producer_ids.acquire_writer(c, "id", CALL_MS),
    "writer again": lambda c: producer_ids.renew_writer(c, "id", WRITER, CALL_MS),
    "holder": lambda c: c.run(transactional_ids.holder, c, "id", CALL_MS),
    "whole group list": lambda c: groups.list_groups(c, CALL_MS, complete=True),
    "group list": lambda c: groups.list_groups(c, CALL_MS),
    "group offsets": lambda c: groups.fetch_offsets(c, ["g", "h"], CALL_MS).complete(),
    "group members": lambda c: groups.describe_groups(c, ["g"], CALL_MS).complete(),
    "group commits": lambda c: groups.commit_offsets(
        c, {"g": {PLACES[0]: groups.Committed(5, "")}}, CALL_MS
    ).complete(),
    "fence": lambda c: fencing.fence(c, "id", Writer(producer_id=7, epoch=3), PLACES, CALL_MS).complete(),
    "last batches": lambda c: tails.last_batches(c, PLACES, CALL_MS).complete(),
    "spots": lambda c: spots.read_spots(c, [spots.Spot(PLACES[0], 2)], take, CALL_MS).complete(),
    "records": lambda c: read_records(c, {PLACES[0]: Span(0, 6)}, take, CALL_MS).complete(),
    "journal": lambda c: c.run(Journal(c, "t").read_all, CALL_MS),
    "journal in bytes": lambda c: c.run(Journal(c, "t").read_bytes, 0, lambda _: None, CALL_MS),
    "append": lambda c: c.run(Journal(c, "t").append, [("k", "v"), ("l", None)], CALL_MS),
    "idempotent append": write_idempotently,
}


@pytest.fixture
def broker() -> Iterator[HostileBroker]:
    made = HostileBroker()
    made.model.fill("t")
    yield made
    made.close()


@pytest.fixture(autouse=True)
def short_throttles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkmirror.kafka.transport.THROTTLE_MS", 20)


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def outcome(call: Callable[[], Any]) -> str:
    """What came of a call; any error that is not of sparkmirror goes on."""
    try:
        call()
    except SparkmirrorError as failure:
        return f"{type(failure).__name__}: {failure}"
    return "done"


@pytest.mark.parametrize("role", ROLES)
def test_no_lie_does_more_than_fail_the_call(role: str, broker: HostileBroker, crashes: Crashes):  # noqa: F811  # the fixture
    call, before = ROLES[role], peak_bytes()
    cluster = cluster_of(broker)
    try:
        call(cluster)
        for seed in range(CASES):
            broker.lies = Lies(seed, first=seed % 3 if seed % 4 else 0, most=1 + 9 * (seed % 7 == 0))
            began = time.monotonic()
            try:
                came = outcome(partial(call, cluster))
            except Exception as failure:
                raise AssertionError(f"seed {seed}, {broker.lies.told}") from failure
            took = time.monotonic() - began
            assert len(came) < LONGEST, (seed, broker.lies.told)
            assert took < LATEST_S, (seed, broker.lies.told, took)
            assert not crashes.seen, (seed, broker.lies.told, crashes.seen)
        broker.lies = None
        assert outcome(partial(call, cluster)) == "done", "and it works again when the broker does"
    finally:
        cluster.close()
    assert peak_bytes() - before < MOST_BYTES


PASSWORD = "canary-5ee7"
SALT = base64.b64encode(b"salt").decode()


def security_of(mechanism: SaslMechanism) -> Security:
    if mechanism is SaslMechanism.OAUTHBEARER:
        token = OAuth(source=FixedToken(token=Secret(PASSWORD), key="token"))
        return Security(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanism=mechanism, oauth=token)
    return Security(
        protocol=SecurityProtocol.SASL_PLAINTEXT, mechanism=mechanism, username="u", password=Secret(PASSWORD)
    )


class Scram:
    """The broker's side of SCRAM, which knows the password."""

    def __init__(self, digest: str) -> None:
        self._first, self._parameters, self._digest = "", "", digest

    def __call__(self, said: bytes) -> bytes:
        text = said.decode()
        if text.startswith("n,,"):
            self._first = text.removeprefix("n,,")
            self._parameters = f"r={self._first.partition('r=')[2]}broker,s={SALT},i=4096"
            return self._parameters.encode()
        exchange = f"{self._first},{self._parameters},{text.partition(',p=')[0]}"
        salted = hashlib.pbkdf2_hmac(self._digest, PASSWORD.encode(), b"salt", 4096)
        key = hmac.digest(salted, b"Server Key", self._digest)
        return b"v=" + base64.b64encode(hmac.digest(key, exchange.encode(), self._digest))


LOGINS: dict[SaslMechanism, Callable[[], Callable[[bytes], bytes]]] = {
    SaslMechanism.PLAIN: lambda: lambda _: b"",
    SaslMechanism.SCRAM_SHA_256: lambda: Scram("sha256"),
    SaslMechanism.SCRAM_SHA_512: lambda: Scram("sha512"),
    SaslMechanism.OAUTHBEARER: lambda: lambda _: b"",
}
SHOWN = frozenset({SaslMechanism.PLAIN, SaslMechanism.OAUTHBEARER})
"""The mechanisms that show their secret to the broker."""


@pytest.mark.parametrize("mechanism", LOGINS)
def test_no_lie_in_a_login_does_more_than_fail_it(
    mechanism: SaslMechanism,
    broker: HostileBroker,
    crashes: Crashes,  # noqa: F811  # the fixture
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.DEBUG)
    broker.model.mechanism = mechanism.value
    for seed in range(CASES):
        broker.model.log_in = LOGINS[mechanism]()
        broker.lies = Lies(seed, LOGIN_KEYS, first=seed % 4, most=1 if seed % 3 else 50)
        cluster = cluster_of(broker, security_of(mechanism))
        try:
            began = time.monotonic()
            came = outcome(partial(admin.cluster_id, cluster, CALL_MS))
        except Exception as failure:
            raise AssertionError(f"seed {seed}, {broker.lies.told}") from failure
        finally:
            cluster.close()
        assert time.monotonic() - began < LATEST_S, (seed, broker.lies.told)
        assert not crashes.seen, (seed, broker.lies.told, crashes.seen)
        assert PASSWORD not in came, (seed, broker.lies.told)
    assert PASSWORD not in caplog.text
    if mechanism not in SHOWN:
        assert not any(PASSWORD.encode() in said for said in broker.heard)


GAMES: dict[str, Callable[[bytes], bytes]] = {
    "no iterations": lambda said: f"r={nonce(said)}x,s={SALT},i=0".encode(),
    "2^31 iterations": lambda said: f"r={nonce(said)}x,s={SALT},i={1 << 31}".encode(),
    "iterations without end": lambda said: f"r={nonce(said)}x,s={SALT},i={'9' * 10_000}".encode(),
    "another nonce": lambda _: f"r=x,s={SALT},i=4096".encode(),
    "no salt": lambda said: f"r={nonce(said)}x,s=,i=4096".encode(),
    "a salt of a megabyte": lambda said: f"r={nonce(said)}x,s={'QUFB' * 250_000},i=4096".encode(),
    "challenges without end": lambda _: b"r=",
    "an error message with the password": lambda said: b"e=is it " + PASSWORD.encode() + b" or " + said,
    "noise": lambda _: b"\xff\x00" * 50,
    "success at once": lambda _: b"v=" + base64.b64encode(b"x" * 32),
    "the password": lambda _: b"e=" + PASSWORD.encode(),
    "an escape": lambda _: b"e=\x1b[31m\n" + b"x" * 100_000,
}


def nonce(said: bytes) -> str:
    return said.decode().partition("r=")[2].partition(",")[0]


@pytest.mark.parametrize("game", GAMES)
def test_a_broker_that_does_not_know_the_password_gets_neither_a_login_nor_much_of_our_time(
    game: str, broker: HostileBroker
):
    broker.model.mechanism, broker.model.log_in = SaslMechanism.SCRAM_SHA_256.value, GAMES[game]
    cluster = cluster_of(broker, security_of(SaslMechanism.SCRAM_SHA_256))
    try:
        began = time.monotonic()
        with pytest.raises(LinkError) as refused:
            admin.cluster_id(cluster, 10_000)
    finally:
        cluster.close()
    assert time.monotonic() - began < LATEST_S
    assert refused.value.lasting, str(refused.value)
    assert PASSWORD not in str(refused.value)
    assert len(str(refused.value)) < LONGEST
    assert METADATA not in broker.asked


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    write_certificates(directory)
    return directory


@pytest.fixture
def trusting(certificates: Path) -> Security:
    return Security(protocol=SecurityProtocol.SSL, ca=(certificates / "ca.pem").read_text())


def server_of(certificates: Path) -> ssl.SSLContext:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificates / "server.pem")
    return server


def test_bytes_of_tls_that_were_changed_on_their_way_do_no_more_than_fail_the_call(
    broker: HostileBroker,
    certificates: Path,
    trusting: Security,
    crashes: Crashes,  # noqa: F811  # the fixture
):
    broker.tls = server_of(certificates)
    before = peak_bytes()
    for seed in range(CASES):
        chance = random.Random(seed)
        passed = chance.randrange(5)

        def tamper(data: bytes, chance: random.Random = chance) -> bytes:
            nonlocal passed
            passed -= 1
            return damaged(chance, data) if passed == -1 else data

        broker.tamper = tamper
        cluster = cluster_of(broker, trusting)
        try:
            began = time.monotonic()
            came = outcome(partial(admin.list_topics, cluster, ["t"], CALL_MS))
        finally:
            cluster.close()
        assert len(came) < LONGEST, seed
        assert time.monotonic() - began < LATEST_S, seed
        assert not crashes.seen, (seed, crashes.seen)
    assert peak_bytes() - before < MOST_BYTES


def test_lies_under_tls_do_no_more_than_fail_the_call(
    broker: HostileBroker,
    certificates: Path,
    trusting: Security,
    crashes: Crashes,  # noqa: F811  # the fixture
):
    broker.tls = server_of(certificates)
    cluster = cluster_of(broker, trusting)
    try:
        for seed in range(CASES):
            broker.lies = Lies(seed, first=seed % 3)
            outcome(partial(ROLES["records"], cluster))
            assert not crashes.seen, (seed, broker.lies.told, crashes.seen)
        broker.lies = None
        assert outcome(partial(ROLES["records"], cluster)) == "done", "and it works again when the broker does"
    finally:
        cluster.close()


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_broker_that_takes_a_connection_and_says_nothing_is_not_waited_for_longer_than_for_an_answer(
    encrypted: bool, broker: HostileBroker, certificates: Path, trusting: Security
):
    broker.tls = server_of(certificates) if encrypted else None
    cluster = cluster_of(broker, trusting if encrypted else None)
    try:
        cluster.run(cluster.bootstrap, 10_000)
        broker.greeting = [LATEST_S]
        began = time.monotonic()
        with pytest.raises(LinkError, match="broker 1 is not ready for requests in time"):
            admin.list_offsets(cluster, PLACES, OffsetSpec.LATEST, timeout_ms=CALL_MS)
    finally:
        cluster.close()
    assert time.monotonic() - began < LATEST_S


RECORD = bytes.fromhex("160303")
GREETINGS: dict[str, list[bytes | float | None]] = {
    "an answer in clear": [b"\x00\x00\x00\x08\x00\x00\x00\x01\x00\x00\x00\x00", 0.5],
    "a web page": [b"HTTP/1.1 400 Bad Request\r\n\r\n" * 100],
    "an alert": [bytes.fromhex("15030300020228")],
    "alerts without end": [bytes.fromhex("150303000201 5a".replace(" ", "")) * 100_000],
    "handshakes without end": [(RECORD + b"\x40\x00" + b"\x0b\xff\xff\xff" + b"x" * 16_380) * 500],
    "empty records": [(RECORD + b"\x00\x00") * 100_000],
    "an absurd record": [RECORD + b"\xff\xff" + b"x" * 65_535],
    "noise": [bytes(range(256)) * 4_000],
    "byte by byte": [0.01, *(RECORD[at : at + 1] for at in range(3)), 2.0],
    "silence": [2.0],
    "the end": [None],
}


@pytest.mark.parametrize("greeting", GREETINGS)
def test_what_is_no_tls_ends_the_connection_in_time_and_is_told(
    greeting: str,
    broker: HostileBroker,
    trusting: Security,
    crashes: Crashes,  # noqa: F811  # the fixture
):
    broker.greeting = GREETINGS[greeting]
    before, began = peak_bytes(), time.monotonic()
    cluster = cluster_of(broker, trusting)
    try:
        with pytest.raises(LinkError) as refused:
            admin.cluster_id(cluster, 1_000)
    finally:
        cluster.close()
    assert time.monotonic() - began < LATEST_S
    assert len(str(refused.value)) < LONGEST
    assert not crashes.seen
    assert peak_bytes() - before < MOST_BYTES


@pytest.mark.parametrize("what", [endless_tls.tickets, endless_tls.key_updates, None])
def test_a_broker_that_goes_on_about_tls_itself_does_not_hold_the_loop_and_is_told(
    what: Callable[[Keys], Iterator[bytes]] | None,
    broker: HostileBroker,
    certificates: Path,
    trusting: Security,
    monkeypatch: pytest.MonkeyPatch,
):
    """After the handshake, or in the place of it with requests for one. Less of it than 512 KiB is enough here."""
    monkeypatch.setattr(tls_session, "UNUSED_BYTES", 32 << 10)
    pem = (certificates / "server.pem").read_bytes()
    broker.instead = endless_tls.asking_again if what is None else endless_tls.serving(pem, what)
    cluster = cluster_of(broker, trusting)
    try:
        with turning(cluster) as turns:
            assert_told(cluster, "more than 32 KiB of TLS came without a byte of an answer")
    finally:
        cluster.close()
    assert max(after - before for before, after in pairwise(turns)) < MOST_OF_A_TURN_S


def assert_told(cluster: Cluster, reason: str) -> None:
    """A call fails with that reason. On a machine that is busy the first one may have too little time to meet it."""
    told = ""
    for call_ms in (1_000, 4_000, 16_000):
        began = time.monotonic()
        told = outcome(partial(admin.cluster_id, cluster, call_ms))
        assert time.monotonic() - began < call_ms / 1000 + LATEST_S
        if reason in told:
            break
    assert told.startswith("LinkError: ")
    assert reason in told


@contextmanager
def turning(cluster: Cluster) -> Iterator[list[float]]:
    """When the network loop had a turn for something else, in seconds of its thread on a processor."""
    clock = time.pthread_getcpuclockid(cluster.loop._io_thread.ident)
    turns = [time.clock_gettime(clock)]

    async def tick() -> None:
        while True:
            await cluster.loop.sleep(0.01)
            turns.append(time.clock_gettime(clock))

    ticking = cluster.loop.call_soon_threadsafe(tick)
    yield turns
    turns.append(time.clock_gettime(clock))
    cluster.loop.call_soon_threadsafe(lambda: cluster.loop.cancel(ticking))


def test_batches_that_open_to_more_than_any_of_ours_do_not_hold_the_loop_and_those_behind_them_are_read(
    broker: HostileBroker,
):
    bomb = Written(records=(Rec(0, 1, b"k", bytes(OPENED_BYTES)),), base_offset=0, codec=Codec.GZIP).encode()
    cluster = cluster_of(broker)
    try:
        journal = Journal(cluster, "t")
        broker.model.append("t", 0, bomb)
        cluster.run(journal.read_all, 10_000)  # what is compiled and loaded on the way takes its time, once
        for _ in range(60):
            broker.model.append("t", 0, bomb)
        broker.model.append("t", 0, encode([("behind", "{}")]))
        with turning(cluster) as turns:
            newest, end = cluster.run(journal.read_all, CALL_MS)
    finally:
        cluster.close()
    assert newest.keys() == {f"k{number}" for number in range(RECORDS)} | {"behind"}
    assert (end, len(journal.unopened)) == (RECORDS + 62, 61)
    assert len(turns) > 30, "others have a turn between one batch and the next"


REPEATS: dict[str, Callable[[str], dict[str, Any]]] = {
    "as a mechanism": lambda said: {"mechanisms": [said]},
    "as a mechanism beside others": lambda said: {"mechanisms": ["SCRAM-SHA-256", said, f"'{said}'"]},
    "as a mechanism of an error": lambda said: {"error_code": 33, "mechanisms": [said]},
}


@pytest.mark.parametrize("secret", [PASSWORD, "UPPER-PASSWORD"])
@pytest.mark.parametrize("game", REPEATS)
def test_a_broker_that_was_shown_a_password_cannot_have_it_told_by_its_next_handshake(
    game: str, secret: str, broker: HostileBroker, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    broker.model.lifetime_ms = 1
    security = replace(security_of(SaslMechanism.PLAIN), password=Secret(secret))
    first, second = cluster_of(broker, security), cluster_of(broker, security)
    try:
        assert admin.cluster_id(first, 5_000) == "hostile"
        broker.model.handshake = REPEATS[game](secret)
        with pytest.raises(LinkError) as refused:
            admin.cluster_id(second, 5_000)
    finally:
        first.close()
        second.close()
    assert secret not in str(refused.value)
    assert secret not in caplog.text
    assert refused.value.lasting
    assert ("SCRAM-SHA-256" in str(refused.value)) == ("beside" in game)


def test_a_login_whose_answer_cannot_be_read_is_told_as_such_and_not_with_words_of_python():
    failure = login_failure(AttributeError("'memoryview' object has no attribute 'decode'"), "OAUTHBEARER", (), None)
    assert str(failure) == "KafkaProtocolError: the broker's answer to a login by OAUTHBEARER is none (AttributeError)"


def test_no_error_of_a_login_repeats_what_the_broker_was_shown():
    shown = (b"n,,\x01auth=Bearer abc.def.ghi\x01\x01",)
    for kind in (kafka_errors.SaslAuthenticationFailedError, kafka_errors.KafkaProtocolError):
        text = str(login_failure(kind("no abc.def.ghi, no hunter2"), "OAUTHBEARER", shown, "hunter2"))
        assert "abc.def.ghi" not in text
        assert "hunter2" not in text


def test_no_part_of_a_token_is_repeated_either():
    token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtaXJyb3IifQ.c2lnbmF0dXJlLW9mLXRoZS1pc3N1ZXI"
    shown = (f"n,,\x01auth=Bearer {token}\x01\x01".encode(),)
    for part in (token[:60], token.split(".")[2], token[5:21]):
        said = login_failure(kafka_errors.KafkaProtocolError(f"bad token {part}, sorry"), "X", shown, None)
        assert str(said).endswith("bad token [hidden], sorry")
        refused = login_failure(kafka_errors.SaslAuthenticationFailedError(f"bad token {part}"), "X", shown, None)
        assert str(refused).endswith(NOT_SHOWN)
    whole = login_failure(kafka_errors.KafkaProtocolError(f"{token[8:24]}x{token[30:46]}"), "X", shown, None)
    assert str(whole).endswith("[hidden]x[hidden]")


FORMS: dict[str, Callable[[str], str]] = {
    "whole": str,
    "without the last character": lambda secret: secret[:-1],
    "without the first character": lambda secret: secret[1:],
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64 of the message": lambda secret: base64.b64encode(b"\0mirror\0" + secret.encode()).decode(),
    "upper case": str.upper,
    "hexadecimal": lambda secret: secret.encode().hex(),
    "reversed": lambda secret: secret[::-1],
    "spaced": " ".join,
    "halves": lambda secret: f"{secret[:8]} | {secret[8:]}",
    "URL-encoded": lambda secret: "".join(f"%{byte:02x}" for byte in secret.encode()),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sentence", ["bad login: {}", "Authentication failed: Invalid username or password{}"])
def test_a_broker_that_was_shown_a_password_cannot_have_it_told_by_a_refusal_in_any_form(
    form: str, sentence: str, broker: HostileBroker, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    secret = "Corr3ct-Horse-7x"
    told, honest = FORMS[form](secret), broker.model.answer

    def answer(key: int, request: Any) -> Any:
        response = honest(key, request)
        if key == SASL_AUTHENTICATE:
            response.error_code, response.error_message = 58, sentence.format(told)
        return response

    broker.model.answer = answer  # type: ignore[method-assign]  # a false broker's
    cluster = cluster_of(broker, replace(security_of(SaslMechanism.PLAIN), password=Secret(secret)))
    try:
        with pytest.raises(LinkError) as refused:
            admin.cluster_id(cluster, 2_000)
    finally:
        cluster.close()
    assert told not in str(refused.value)
    assert told not in caplog.text
    assert NOT_SHOWN in str(refused.value)
    assert refused.value.lasting


@pytest.mark.parametrize(("tries_ms", "told"), [(1_000, "refused"), (100, "the broker does not go on with it")])
def test_an_attempt_that_had_less_than_its_time_does_not_hide_why_those_before_it_failed(
    tries_ms: int, told: str, broker: HostileBroker, trusting: Security, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sparkmirror.kafka.transport.BOOTSTRAP_TRY_MS", tries_ms)
    broker.greeting = [LATEST_S]
    cluster = cluster_of(broker, trusting)

    async def attempt() -> None:
        await cluster.connections.get_connection("bootstrap-0", timeout_ms=200)

    try:
        cluster.connections.last_failure = kafka_errors.KafkaConnectionError("refused")
        with pytest.raises(kafka_errors.KafkaConnectionError):
            cluster.run(attempt)
        assert told in str(cluster.connections.last_failure)
    finally:
        cluster.close()


@pytest.fixture
def closing(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The threads that close connections."""
    threads: list[threading.Thread] = []
    close = KafkaTCPTransport._close

    def noted(transport: Any, error: Exception | None = None) -> None:
        threads.append(threading.current_thread())
        close(transport, error)

    monkeypatch.setattr(KafkaTCPTransport, "_close", noted)
    return threads


def test_connections_are_closed_by_the_thread_that_reads_from_them(
    broker: HostileBroker, closing: list[threading.Thread]
):
    cluster = cluster_of(broker)
    thread = cluster.loop._io_thread
    try:
        assert admin.cluster_id(cluster, 10_000) == "hostile"
        closing.clear()
    finally:
        cluster.close()
    assert set(closing) == {thread}
    assert not thread.is_alive()
    cluster.close()


def test_a_loop_that_is_held_while_its_cluster_is_closed_closes_the_connections_when_it_goes_on(
    broker: HostileBroker,
    closing: list[threading.Thread],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setattr("sparkmirror.kafka.cluster.CLOSE_MS", 50)
    holds, goes_on = threading.Event(), threading.Event()

    def hold() -> None:
        holds.set()
        goes_on.wait(LATEST_S)

    cluster = cluster_of(broker)
    thread = cluster.loop._io_thread
    try:
        assert admin.cluster_id(cluster, 10_000) == "hostile"
        closing.clear()
        cluster.loop.call_soon_threadsafe(hold)
        assert holds.wait(LATEST_S)
        cluster.close()
        assert closing == []
        assert "cluster A: the network loop did not end within 50 ms" in caplog.text
    finally:
        goes_on.set()
        thread.join(LATEST_S)
        cluster.close()
    assert set(closing) == {thread}


@pytest.mark.parametrize("lifetime_ms", [-(1 << 63), -1, 0, 1, 1_000, 1 << 40, (1 << 63) - 1])
def test_a_session_may_last_as_long_as_the_broker_likes(lifetime_ms: int, broker: HostileBroker, crashes: Crashes):  # noqa: F811  # the fixture
    broker.model.lifetime_ms = lifetime_ms
    cluster = cluster_of(broker, security_of(SaslMechanism.PLAIN))
    try:
        for _ in range(3):
            assert admin.cluster_id(cluster, 5_000) == "hostile"
            time.sleep(0.4 if lifetime_ms == 1 else 0.01)
    finally:
        cluster.close()
    assert len(broker.heard) < 10
    assert not crashes.seen


@pytest.mark.parametrize("host", ["h" * 300, "127.0.0.1", "nowhere.invalid"], ids=["no name", "deaf", "unknown"])
def test_addresses_that_lead_nowhere_are_given_up_for_the_bootstrap_servers(host: str, broker: HostileBroker):
    cluster = cluster_of(broker)
    right = broker.model.port, broker.model.host
    try:
        broker.model.port, broker.model.host = 1, host
        with pytest.raises(LinkError):
            admin.list_offsets(cluster, PLACES, OffsetSpec.LATEST, timeout_ms=CALL_MS)
        broker.model.port, broker.model.host = right
        found = admin.list_offsets(cluster, PLACES, OffsetSpec.LATEST, timeout_ms=10_000)
    finally:
        cluster.close()
    assert set(found.values()) == {RECORDS}


def test_a_commit_counts_only_where_the_answer_has_each_partition(broker: HostileBroker):
    cluster = cluster_of(broker)
    offsets = {place: groups.Committed(5, "") for place in PLACES}
    broker.model.mute = 1
    try:
        results = groups.commit_offsets(cluster, {"g": offsets}, CALL_MS)
        broker.model.mute = 0
        assert not groups.commit_offsets(cluster, {"g": offsets}, 10_000).failed
    finally:
        cluster.close()
    assert "UNKNOWN_SERVER_ERROR for group g" in str(results.failed["g"])


def altered(broker: HostileBroker, message: str, change: Callable[[Any], object]) -> None:
    """Has the broker's answers of one kind changed before they leave."""
    honest = broker.model.answer

    def answer(key: int, request: Any) -> Any:
        response = honest(key, request)
        if name_of(key) == message:
            change(response)
        return response

    broker.model.answer = answer  # type: ignore[method-assign]  # this one alone


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize(
    ("message", "of", "call"),
    [
        ("CreateAcls", "results", acls.create_acls),
        ("DeleteAcls", "filter_results", acls.delete_acls),
    ],
)
def test_acls_fail_where_the_answer_has_another_number_of_results(
    count: int, message: str, of: str, call: Callable[..., Any], broker: HostileBroker
):
    altered(broker, message, lambda response: setattr(response, of, (getattr(response, of) * 2)[:count]))
    cluster = cluster_of(broker)
    try:
        results = call(cluster, RULES, CALL_MS)
    finally:
        cluster.close()
    assert results.found == {}
    assert [type(failure) for failure in results.failed.values()] == [LinkError] * 2
    assert f"cluster A at {broker.address}: a broker answered with {count} results for 2 ACLs" in str(
        results.failed[RULES[0]]
    )


@pytest.mark.parametrize("count", [0, 2])
def test_a_broker_that_answers_without_its_settings_does_not_tell_them(count: int, broker: HostileBroker):
    altered(broker, "DescribeConfigs", lambda response: setattr(response, "results", response.results * count))
    cluster = cluster_of(broker)
    try:
        assert broker_settings(cluster, ["retention.ms"], 10_000) == {1: None}
    finally:
        cluster.close()


def test_brokers_that_say_nothing_are_asked_for_their_settings_together(broker: HostileBroker):
    with socket.create_server(("127.0.0.1", 0), backlog=64) as mute:
        address = {"host": "127.0.0.1", "port": mute.getsockname()[1], "rack": None}

        def add(response: Any) -> None:
            kind = type(response.brokers[0])
            response.brokers = [*response.brokers, *(kind(node_id=100 + at, **address) for at in range(20))]

        cluster = cluster_of(broker)
        try:
            cluster.run(cluster.bootstrap, 10_000)
            altered(broker, "Metadata", add)
            began = time.monotonic()
            told = broker_settings(cluster, ["retention.ms"], 1_000)
        finally:
            cluster.close()
    assert time.monotonic() - began < LATEST_S
    assert told == {1: broker.model.configs} | dict.fromkeys(range(100, 120))


def test_more_brokers_than_a_cluster_can_have_are_not_believed(broker: HostileBroker):
    altered(
        broker,
        "Metadata",
        lambda response: setattr(response, "brokers", response.brokers * 2_001),
    )
    cluster = cluster_of(broker)
    try:
        assert_told(cluster, "more than 2000 brokers are named")
    finally:
        cluster.close()


@pytest.mark.parametrize(
    "call",
    [
        lambda cluster: broker_settings(cluster, ["retention.ms"], 1_000),
        lambda cluster: groups.list_groups(cluster, 1_000),
    ],
    ids=["settings", "groups"],
)
def test_a_broker_that_names_many_others_has_no_more_than_some_of_them_asked_at_once(
    call: Callable[[Cluster], Any], broker: HostileBroker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(leaders, "NODES_AT_ONCE", 10)
    with socket.create_server(("127.0.0.1", 0), backlog=1_000) as mute:
        address = {"host": "127.0.0.1", "port": mute.getsockname()[1], "rack": None}

        def add(response: Any) -> None:
            kind = type(response.brokers[0])
            response.brokers = [*response.brokers, *(kind(node_id=100 + at, **address) for at in range(500))]

        cluster = cluster_of(broker)
        try:
            cluster.run(cluster.bootstrap, 10_000)
            altered(broker, "Metadata", add)
            began = time.monotonic()
            outcome(partial(call, cluster))
            took = time.monotonic() - began
        finally:
            cluster.close()
        assert took < LATEST_S
        assert waiting_at(mute) < 100


def waiting_at(server: socket.socket) -> int:
    """How many connections have come to a server that takes none."""
    server.setblocking(False)
    count = 0
    while True:
        try:
            server.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1


def test_what_a_broker_says_of_other_topics_costs_next_to_nothing(
    broker: HostileBroker, monkeypatch: pytest.MonkeyPatch
):
    def add(response: Any) -> None:
        (topic,) = response.topics
        others = [copy(topic) for _ in range(900)]
        for number, other in enumerate(others):
            other.name = f"other-{number}"
        response.topics = [*others, topic, *[topic] * 90]

    cluster, seen = cluster_of(broker), []
    try:
        cluster.run(cluster.bootstrap, 10_000)
        altered(broker, "Metadata", add)
        monkeypatch.setattr(metadata, "Leader", lambda *of: seen.append(of))
        monkeypatch.setattr(admin, "Leader", lambda *of: seen.append(of))
        assert cluster.run(metadata.describe_topics, cluster, ["t"], 10_000).keys() == {"t"}
        assert admin.list_topics(cluster, ["t"], 10_000).keys() == {"t"}
        assert admin.visible_topics(cluster, ["t"], 10_000).keys() == {"t"}
        assert survey.topic_rights(cluster, ["t"], 10_000).keys() == {"t"}
        assert cluster.connections.cluster._partitions == {}
    finally:
        cluster.close()
    assert len(seen) == 3 * len(PLACES)


def test_all_topics_of_a_cluster_with_100_000_partitions_are_told(broker: HostileBroker):
    def grow(response: Any) -> None:
        topic, topics = response.topics[0], []
        (part, _) = topic.partitions
        part.replica_nodes = part.isr_nodes = [1, 2, 3]
        topic.partitions = [copy(part) for _ in range(200)]
        for number, one in enumerate(topic.partitions):
            one.partition_index = number
        for number in range(500):
            topics.append(copy(topic))
            topics[-1].name = f"t{number}"
        response.topics = topics

    cluster = cluster_of(broker)
    try:
        cluster.run(cluster.bootstrap, 10_000)
        altered(broker, "Metadata", grow)
        named = [f"t{number}" for number in range(500)]
        for asked in (None, named):
            told = admin.list_topics(cluster, asked, 60_000)
            assert sum(len(each.partitions) for each in told.values()) == 100_000
    finally:
        cluster.close()


def test_an_answer_that_names_many_more_topics_than_were_asked_about_is_refused_before_they_are_read(
    broker: HostileBroker,
):
    cluster = cluster_of(broker)
    try:
        cluster.run(cluster.bootstrap, 10_000)
        altered(broker, "Metadata", lambda response: setattr(response, "topics", response.topics * 1_002))
        with pytest.raises(LinkError, match="more topics are named than were asked about"):
            cluster.run(metadata.describe_topics, cluster, ["t"], CALL_MS)
        assert admin.list_topics(cluster, None, 10_000).keys() == {"t"}
    finally:
        cluster.close()


@pytest.mark.parametrize("states", ["none", "of another"])
def test_a_coordinator_that_leaves_out_a_transactional_id_is_a_failure_that_names_the_cluster(
    states: str, broker: HostileBroker
):
    def change(response: Any) -> None:
        response.transaction_states[0].transactional_id = "other"
        response.transaction_states = response.transaction_states[: 0 if states == "none" else 1]

    altered(broker, "DescribeTransactions", change)
    cluster = cluster_of(broker)
    try:
        with pytest.raises(LinkError, match=r"cluster A at .*: the coordinator of id answered without it"):
            cluster.run(transactional_ids.holder, cluster, "id", CALL_MS)
    finally:
        cluster.close()


def test_rights_that_a_broker_does_not_tell_are_all(broker: HostileBroker):
    altered(broker, "DescribeCluster", lambda response: setattr(response, "authorized_operations", None))
    cluster = cluster_of(broker)
    try:
        assert survey.topic_rights(cluster, ["t"], 10_000) == {"t": frozenset(acls.Operation)}
        assert survey.survey(cluster, 10_000).rights is None
    finally:
        cluster.close()


@pytest.mark.parametrize("value", ["", "x", "1e3", "nan", "٣", "9" * 5_000, "1 2"])
def test_a_memory_that_is_no_number_is_one_that_a_broker_does_not_tell(value: str, broker: HostileBroker):
    broker.model.configs = {"producer.id.expiration.ms": value}
    cluster = cluster_of(broker)
    try:
        assert memories_ms(cluster, 10_000) == {1: None if value else DAY_MS}
    finally:
        cluster.close()


def heard_of(broker: HostileBroker, messages: frozenset[str]) -> list[str]:
    """The requests of some kinds that a broker gets from here on, the names of their messages."""
    heard: list[str] = []
    honest = broker.model.answer

    def answer(key: int, request: Any) -> Any:
        if name_of(key) in messages:
            heard.append(name_of(key))
        return honest(key, request)

    broker.model.answer = answer  # type: ignore[method-assign]  # this one alone
    return heard


def test_a_group_whose_coordinator_an_answer_names_many_times_is_asked_for_once(broker: HostileBroker):
    altered(
        broker, "FindCoordinator", lambda response: setattr(response, "coordinators", response.coordinators * 3_000)
    )
    heard = heard_of(broker, frozenset({"OffsetFetch"}))
    cluster = cluster_of(broker)
    try:
        assert groups.fetch_offsets(cluster, ["g", "h"], 10_000).found.keys() == {"g", "h"}
    finally:
        cluster.close()
    assert heard == ["OffsetFetch"]


def older(broker: HostileBroker) -> None:
    """Has a broker know FindCoordinator for one group at a time only, as before Kafka 3.0."""

    def change(response: Any) -> None:
        for known in response.api_keys:
            if name_of(known.api_key) == "FindCoordinator":
                known.max_version = 3

    altered(broker, "ApiVersions", change)


def test_a_broker_that_does_not_answer_holds_a_call_for_many_groups_no_longer_than_one_for_one(broker: HostileBroker):
    older(broker)
    silent = threading.Event()
    altered(broker, "FindCoordinator", lambda _: silent.wait(LATEST_S))
    cluster, names = cluster_of(broker), [f"g{number}" for number in range(40)]
    try:
        cluster.run(cluster.bootstrap, 10_000)
        began = time.monotonic()
        failed = groups.fetch_offsets(cluster, names, CALL_MS).failed
    finally:
        silent.set()
        cluster.close()
    assert time.monotonic() - began < LATEST_S
    assert failed.keys() == set(names)


def test_groups_that_are_asked_for_one_by_one_have_their_answers_also_beyond_the_deadline(broker: HostileBroker):
    older(broker)
    broker.slow_s = 0.02
    cluster, names = cluster_of(broker), [f"g{number}" for number in range(40)]
    try:
        cluster.run(cluster.bootstrap, 10_000)
        assert groups.fetch_offsets(cluster, names, CALL_MS).found.keys() == set(names)
    finally:
        cluster.close()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: acls.create_acls(c, RULES, CALL_MS), "CreateAcls"),
        (lambda c: admin.delete_topics(c, ["t", "u"], CALL_MS), "DeleteTopics"),
    ],
    ids=["acls", "topics"],
)
def test_a_change_in_many_pieces_is_not_sent_on_to_a_broker_that_does_not_answer(
    call: Callable[[Cluster], Any], message: str, broker: HostileBroker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(acls, "CHANGED_BINDINGS", 1)
    monkeypatch.setattr(changes, "CHANGED_TOPICS", 1)
    silent = threading.Event()
    altered(broker, message, lambda _: silent.wait(LATEST_S))
    cluster, sent = cluster_of(broker), []
    honest = cluster.call

    def call_once_more(request: Any, *more: Any) -> Any:
        sent.append(request.name)
        return honest(request, *more)

    monkeypatch.setattr(cluster, "call", call_once_more)
    try:
        cluster.run(cluster.bootstrap, 10_000)
        assert len(call(cluster).failed) == 2
    finally:
        silent.set()
        cluster.close()
    assert sent == [f"{message}Request"]


def test_a_log_whose_end_never_comes_is_not_waited_for(broker: HostileBroker):
    cluster = cluster_of(broker)
    broker.model.beyond = 1 << 40
    try:
        with pytest.raises(LinkError, match=f"t was not read on from offset {RECORDS} within 0.4 s"):
            cluster.run(Journal(cluster, "t").read_all, CALL_MS)
    finally:
        cluster.close()


def test_a_throttle_of_weeks_is_none(broker: HostileBroker):
    cluster = cluster_of(broker)
    try:
        broker.lies = None
        broker.model.throttle_ms = (1 << 31) - 1
        assert admin.cluster_id(cluster, 10_000) == "hostile"
        broker.model.throttle_ms = 0
        assert admin.cluster_id(cluster, 10_000) == "hostile"
    finally:
        cluster.close()
