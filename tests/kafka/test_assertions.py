"""Assertions at a real token endpoint, which checks them; Kafka's own client is the referee of what is sent."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from sparkmirror import config
from sparkmirror.config import ClientSettings, OAuth
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.login_errors import LoginDelayedError, LoginRefusedError
from sparkmirror.kafka.token_sources import Token, obtain
from sparkmirror.lab import token_endpoint
from sparkmirror.lab.cluster import start
from sparkmirror.lab.jars import jars
from sparkmirror.spark.gateway import Gateway

USER, PASSPHRASE = "mirror", "canary-15f2"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
BEGIN = "sasl.oauthbearer.assertion."
BEARER = {"sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.JwtBearerJwtRetriever"}
HANDLER = {"sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler"}

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
RSA: Key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
P_256: Key = ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("assertions")
    token_endpoint.write_keys(directory)
    return directory


@pytest.fixture
def endpoint(keys: Path) -> Iterator[token_endpoint.TokenEndpoint]:
    server = token_endpoint.TokenEndpoint(keys, {})
    yield server
    server.stop()


def pem(key: Key, passphrase: str = "") -> bytes:
    sealed: KeySerializationEncryption = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed)


def settings(url: str, place: Path, key: Key = RSA) -> dict[str, str]:
    """Of a client that signs with a key; the endpoint is to know it already."""
    (place / "key").write_bytes(pem(key))
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{PACKAGE}.OAuthBearerLoginModule required;",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.login.retry.backoff.ms": "10",
        "sasl.login.retry.backoff.max.ms": "100",
        f"{BEGIN}private.key.file": str(place / "key"),
        f"{BEGIN}claim.iss": USER,
        f"{BEGIN}claim.sub": USER,
        f"{BEGIN}claim.aud": url,
        **HANDLER,
    }


def client(place: Path, wanted: dict[str, str]) -> ClientSettings:
    """What a flow's executor has of these settings."""
    file = place / "mm2.properties"
    lines = [f"A.{key}={value}" for key, value in ({"bootstrap.servers": "a:1"} | wanted).items()]
    file.write_text("\n".join(["clusters=A,B", "A->B.enabled=true", "B.bootstrap.servers=b:1", *lines]))
    (flow,) = config.load([file]).flows
    found = pickle.loads(pickle.dumps(flow)).source.admin
    assert isinstance(found, ClientSettings)
    return found


def login(place: Path, wanted: dict[str, str]) -> OAuth:
    found = client(place, wanted).security.oauth
    assert found is not None
    return found


def get(found: OAuth) -> Token:
    return obtain(found, lambda _: None)


@pytest.mark.parametrize("key", [RSA, P_256], ids=["rsa", "p-256"])
@pytest.mark.parametrize("more", [{}, BEARER], ids=["client-credentials", "bearer"])
def test_a_token_for_a_signed_assertion(
    endpoint: token_endpoint.TokenEndpoint, tmp_path: Path, key: Key, more: dict[str, str]
):
    endpoint.signers[USER] = key.public_key()
    algorithm = "RS256" if key is RSA else "ES256"
    wanted = settings(endpoint.url, tmp_path, key) | more | {f"{BEGIN}algorithm": algorithm}
    found = login(tmp_path, wanted)
    assert [get(found).value, get(found).value] == endpoint.issued
    (header, claims), _ = endpoint.assertions
    assert header == {"alg": algorithm, "typ": "JWT"}
    assert (claims["exp"] - claims["iat"], claims["iat"] - claims["nbf"]) == (300, 60)
    assert set(claims) == {"iss", "sub", "aud", "iat", "exp", "nbf"}


def test_what_the_template_and_the_claims_say_is_in_it(endpoint: token_endpoint.TokenEndpoint, tmp_path: Path):
    endpoint.signers["other"] = RSA.public_key()
    template = {"header": {"kid": "k1", "alg": "none"}, "payload": {"sub": "other", "deep": {"a": [1]}, "exp": 0}}
    (tmp_path / "template").write_text(json.dumps(template))
    wanted = settings(endpoint.url, tmp_path) | {
        f"{BEGIN}template.file": str(tmp_path / "template"),
        f"{BEGIN}claim.jti.include": "true",
        f"{BEGIN}claim.exp.seconds": "100",
        f"{BEGIN}claim.nbf.seconds": "7",
    }
    found = login(tmp_path, wanted)
    assert all(get(found).value for _ in range(2))
    (header, claims), (_, second) = endpoint.assertions
    assert header == {"kid": "k1", "alg": "RS256", "typ": "JWT"}
    assert (claims["deep"], claims["exp"] - claims["iat"], claims["iat"] - claims["nbf"]) == ({"a": [1]}, 100, 7)
    assert claims["jti"] != second["jti"]


def test_keys_as_kafka_takes_them(endpoint: token_endpoint.TokenEndpoint, tmp_path: Path):
    endpoint.signers[USER] = RSA.public_key()
    wanted = settings(endpoint.url, tmp_path)
    bare = "".join(pem(RSA).decode().splitlines()[1:-1])
    for text, more in (
        (pem(RSA, PASSPHRASE), {f"{BEGIN}private.key.passphrase": PASSPHRASE}),
        (bare.encode(), {}),  # before Kafka 4.3 it was this, and nothing else
    ):
        (tmp_path / "key").write_bytes(text)
        found = login(tmp_path, wanted | more)
        assert get(found).value
        assert PASSPHRASE not in repr(found)
        assert bare[40:80] not in repr(found)


def test_an_assertion_in_a_file_is_read_for_each_request(endpoint: token_endpoint.TokenEndpoint, tmp_path: Path):
    endpoint.signers[USER] = RSA.public_key()
    get(login(tmp_path, settings(endpoint.url, tmp_path)))
    signed = endpoint.forms[0]["client_assertion"][0]
    file = tmp_path / "assertion"
    file.write_text("old")
    wanted = {key: value for key, value in settings(endpoint.url, tmp_path).items() if not key.startswith(BEGIN)}
    found = login(tmp_path, wanted | {f"{BEGIN}file": str(file)})
    with pytest.raises(LoginRefusedError, match="401 invalid_client") as refused:
        get(found)
    assert "assertion, its key, claims and clock (A.sasl.oauthbearer.assertion.file)" in refused.value.remedy
    file.write_text(f"{signed}\n")
    assert get(found).value
    file.write_text("two words")
    with pytest.raises(LoginDelayedError, match="holds no assertion"):
        get(found)
    file.unlink()
    with pytest.raises(LoginDelayedError, match="no such file"):
        get(found)


def test_a_key_that_the_endpoint_does_not_know_is_refused(endpoint: token_endpoint.TokenEndpoint, tmp_path: Path):
    endpoint.signers[USER] = rsa.generate_private_key(public_exponent=65_537, key_size=2048).public_key()
    with pytest.raises(LoginRefusedError, match="refuses the client: 401 invalid_client") as caught:
        get(login(tmp_path, settings(endpoint.url, tmp_path)))
    assert caught.value.remedy == (
        "check the client's assertion, its key, claims and clock (A.sasl.oauthbearer.assertion.private.key.file) "
        "and its scope"
    )


# ---------------------------------------------------------------------------------------------------- the real clients


def java_asks(gateway: Gateway, wanted: dict[str, str]) -> str:
    """Lets Kafka's own client get a token with these settings."""
    jvm = gateway.jvm
    given = jvm.java.util.HashMap()
    for key, value in ({"bootstrap.servers": "a:1"} | wanted).items():
        given.put(key, value)
    values = jvm.org.apache.kafka.clients.admin.AdminClientConfig(given).values()
    retriever = (
        jvm.org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever()
        if wanted.keys() & BEARER.keys()
        else jvm.org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever()
    )
    context = jvm.org.apache.kafka.common.security.JaasContext.loadClientContext(values)
    retriever.configure(values, "OAUTHBEARER", context.configurationEntries())
    try:
        return str(retriever.retrieve())
    finally:
        retriever.close()


@pytest.mark.kafka
def test_java_asks_for_tokens_in_the_same_words(endpoint: token_endpoint.TokenEndpoint, tmp_path: Path):
    (tmp_path / "template").write_text(json.dumps({"header": {"kid": "k1"}, "payload": {"x": 1, "iss": "other"}}))
    own = settings(endpoint.url, tmp_path) | {"sasl.oauthbearer.scope": "a b"}
    named = own | {"sasl.oauthbearer.client.credentials.client.id": USER}
    cases: list[tuple[Key, dict[str, str]]] = [
        (RSA, own),
        (RSA, named),
        (RSA, named | {f"{BEGIN}template.file": str(tmp_path / "template"), f"{BEGIN}claim.jti.include": "true"}),
        (RSA, own | BEARER),
        (P_256, own | BEARER | {f"{BEGIN}algorithm": "ES256"}),
        (P_256, own | {f"{BEGIN}algorithm": "ES256"}),
    ]
    allowed = (
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{one}" for one in (f"urls={endpoint.url}", _files(tmp_path))
    )
    with Gateway(jars(), options=("-Xmx128m", *allowed)) as gateway:
        for key, wanted in cases:
            endpoint.signers[USER] = key.public_key()
            (tmp_path / "key").write_bytes(pem(key))
            endpoint.forms.clear()
            endpoint.assertions.clear()
            get(login(tmp_path, wanted))
            java_asks(gateway, wanted)
            ours, java = (_comparable(one) for one in endpoint.forms)
            assert ours == java, wanted
            told, by_java = (_comparable_claims(one) for one in endpoint.assertions)
            assert told == by_java, wanted


def _files(place: Path) -> str:
    return f"files={place / 'key'},{place / 'template'}"


def _comparable(form: dict[str, list[str]]) -> dict[str, Any]:
    return form | {name: ["…"] for name in form.keys() & {"assertion", "client_assertion"}}


def _comparable_claims(shown: tuple[dict[str, Any], dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    header, claims = shown
    began = claims["iat"]
    times = {name: claims[name] - began for name in ("iat", "exp", "nbf")}
    return header, claims | times | dict.fromkeys(claims.keys() & {"jti"}, "…")


@pytest.mark.kafka
def test_a_broker_lets_in_who_has_shown_an_assertion(tmp_path: Path):
    with start("asserting", security=["SASL_OAUTH"]) as cluster:
        issuer = cluster.token_endpoint
        assert issuer is not None
        issuer.signers[USER] = RSA.public_key()
        servers = {"bootstrap.servers": cluster.listener("SASL_OAUTH")}
        found = client(tmp_path, settings(issuer.url, tmp_path) | servers)
        (tmp_path / "key").unlink()  # it was read with the file
        there = Cluster("A", found, role="test")
        try:
            assert admin.cluster_id(there, 20_000) == cluster.cluster_id
        finally:
            there.close()
