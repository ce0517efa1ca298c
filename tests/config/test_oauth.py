"""OAUTHBEARER: where tokens come from, in each of the ways to say it, and what is refused."""

from __future__ import annotations

import atexit
import json
import os
import pickle
import tempfile
import traceback

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from sparkmirror.config import (
    FixedToken,
    OAuth,
    Refresh,
    SaslMechanism,
    Secret,
    TokenEndpoint,
    TokenFile,
    UnsecuredToken,
    effective,
)
from sparkmirror.config.oauth_strimzi import TOKEN
from sparkmirror.config.security_settings import AssertionFile, FixedAssertion
from sparkmirror.errors import ConfigError

CANARY = "canary-0a75"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
BASE = ("A.security.protocol = SASL_PLAINTEXT", "A.sasl.mechanism = OAUTHBEARER")
MODULE = f"{PACKAGE}.OAuthBearerLoginModule"
HANDLER = f"A.sasl.login.callback.handler.class = {PACKAGE}.OAuthBearerLoginCallbackHandler"
STRIMZI = "A.sasl.login.callback.handler.class = io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
URL = "A.sasl.oauthbearer.token.endpoint.url = https://idp.example.com/token"
ID = "A.sasl.oauthbearer.client.credentials.client.id = mirror"
SECRET = f"A.sasl.oauthbearer.client.credentials.client.secret = {CANARY}"
ASSERTION = "A.sasl.oauthbearer.assertion."
BEARER = f"A.sasl.oauthbearer.jwt.retriever.class = {PACKAGE}.JwtBearerJwtRetriever"


def key_file(passphrase=""):
    """A key of RSA in a file that every test of this module may name."""
    sealed = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed))
    atexit.register(os.unlink, file.name)
    return file.name


KEY, SEALED = key_file(), key_file(CANARY)
SIGNED = (URL, f"{ASSERTION}claim.iss = a", f"{ASSERTION}private.key.file = {KEY}")


def jaas(options=""):
    return f"A.sasl.jaas.config = {MODULE} required {options};"


def endpoint_options(**more):
    options = {"oauth.token.endpoint.uri": "https://idp/t", "oauth.client.id": "c", "oauth.client.secret": CANARY}
    return " ".join(f'{name}="{value}"' for name, value in (options | more).items())


def assertion_options(**more):
    options = {"oauth.token.endpoint.uri": "https://idp/t", "oauth.client.id": "c", "oauth.client.assertion": CANARY}
    return " ".join(f'{name}="{value}"' for name, value in (options | more).items())


@pytest.fixture
def read(load_flow):
    """The login of cluster A for these lines."""

    def read(*lines):
        security = load_flow(*BASE, *lines).source.consumer.security
        assert security.mechanism is SaslMechanism.OAUTHBEARER
        assert security.oauth is not None
        return security.oauth

    return read


def source_of(login: OAuth) -> TokenEndpoint:
    assert isinstance(login.source, TokenEndpoint)
    return login.source


# ------------------------------------------------------------------------------------------------------ Kafka's keys


@pytest.mark.parametrize("handler", ["", ".secured"])
def test_an_endpoint_in_the_keys_of_kafka_4(read, handler):
    name = HANDLER.replace(".OAuthBearerLoginC", f"{handler}.OAuthBearerLoginC")
    source = source_of(read(jaas(), name, URL, ID, SECRET, "A.sasl.oauthbearer.scope = kafka"))
    assert source.url == Secret("https://idp.example.com/token")
    assert (source.client_id, source.client_secret, source.scope) == ("mirror", Secret(CANARY), "kafka")
    assert source.shown == "'https://idp.example.com/token'"
    assert source.key == "A.sasl.oauthbearer.token.endpoint.url"
    assert source.credentials_key == "A.sasl.oauthbearer.client.credentials.client.id"
    assert not source.encode_credentials


def test_an_endpoint_in_the_options_of_older_files(read):
    login = read(HANDLER, URL, jaas(f'clientId="m" clientSecret="{CANARY}" scope="s" extension_traceId="1 2"'))
    source = source_of(login)
    assert (source.client_id, source.client_secret, source.scope) == ("m", Secret(CANARY), "s")
    assert source.credentials_key == "A.sasl.jaas.config"
    assert login.extensions == (("traceId", "1 2"),)


def test_keys_win_over_options_as_in_kafka_4(read):
    options = jaas('clientId="old" clientSecret="old" scope="old"')
    source = source_of(read(HANDLER, URL, options, ID, SECRET, "A.sasl.oauthbearer.scope = new"))
    assert (source.client_id, source.client_secret, source.scope) == ("mirror", Secret(CANARY), "new")


def test_without_a_handler_the_url_says_what_is_meant(read):
    assert source_of(read(URL, ID, SECRET)).client_id == "mirror"


def test_how_an_endpoint_is_asked(read):
    lines = (
        "A.sasl.login.connect.timeout.ms = 1",
        "A.sasl.login.read.timeout.ms = 2",
        "A.sasl.login.retry.backoff.ms = 3",
        "A.sasl.login.retry.backoff.max.ms = 4",
        "A.sasl.oauthbearer.header.urlencode = true",
        "A.sasl.login.refresh.window.factor = 0.5",
        "A.sasl.login.refresh.window.jitter = 0.25",
        "A.sasl.login.refresh.min.period.seconds = 5",
        "A.sasl.login.refresh.buffer.seconds = 6",
        "A.sasl.oauthbearer.jwt.retriever.class = " + f"{PACKAGE}.ClientCredentialsJwtRetriever",
        "A.sasl.oauthbearer.jwt.validator.class = " + f"{PACKAGE}.DefaultJwtValidator",
    )
    login = read(URL, ID, SECRET, *lines)
    source = source_of(login)
    assert (source.connect_timeout_ms, source.read_timeout_ms) == (1, 2)
    assert (source.retry_backoff_ms, source.retry_backoff_max_ms, source.encode_credentials) == (3, 4, True)
    assert login.refresh == Refresh(window_factor=0.5, window_jitter=0.25, min_period_s=5, buffer_s=6)


def test_a_file_with_a_token(read, tmp_path):
    place = tmp_path / "to ken"
    place.write_text("x.y.z")
    login = read(f"A.sasl.oauthbearer.token.endpoint.url = {place.as_uri()}")
    assert login.source == TokenFile(
        path=str(place), shown=repr(str(place)), key="A.sasl.oauthbearer.token.endpoint.url"
    )


# --------------------------------------------------------------------------------------------- whom https is spoken to


def test_an_endpoint_without_encryption_needs_no_certificates(read):
    assert source_of(read(URL.replace("https", "http"), ID, SECRET)).tls is None


def test_the_system_is_trusted_and_what_the_file_trusts_beside_it(read, pem):
    tls = source_of(read(URL, ID, SECRET)).tls
    assert tls is not None
    assert (tls.ca, tls.system_too) == (None, False)
    store = ("A.ssl.truststore.type = PEM", f"A.ssl.truststore.location = {pem}/ca.pem")
    tls = source_of(read(URL, ID, SECRET, *store)).tls
    assert tls is not None
    assert (tls.ca, tls.system_too) == ((pem / "ca.pem").read_text(), True)


def test_options_of_the_login_module_win_as_in_java(read, pem):
    options = f'ssl.truststore.type="PEM" ssl.truststore.location="{pem}/ca.pem" ssl.keystore.type=PEM '
    options += f'ssl.keystore.location="{pem}/client.pem" ssl.endpoint.identification.algorithm=""'
    lines = (URL, ID, SECRET, jaas(options), "A.ssl.truststore.location = /not/looked/at")
    tls = source_of(read(*lines)).tls
    assert tls is not None
    assert (tls.ca, tls.system_too, tls.verify_hostname) == ((pem / "ca.pem").read_text(), False, False)
    assert tls.private_key is not None


def test_certificates_of_the_endpoint_alone(read, pem):
    text = (pem / "ca.pem").read_text().strip().replace("\n", "\\n\\\n")
    tls = source_of(read(URL, ID, SECRET, f"A.sasl.oauthbearer.token.endpoint.certificates = {text}")).tls
    assert tls is not None
    assert (tls.ca, tls.system_too) == ((pem / "ca.pem").read_text(), False)


# ------------------------------------------------------------------------------------------------- Strimzi's options


def test_options_of_strimzi(read, pem):
    more = {
        "oauth.scope": "s",
        "oauth.audience": "a",
        "oauth.connect.timeout.seconds": "1",
        "oauth.max.token.expiry.seconds": "90",
        "oauth.ssl.truststore.location": f"{pem}/ca.pem",
        "oauth.ssl.truststore.type": "PEM",
        "oauth.sasl.extension.pool": "p",
        "oauth.username.claim": "preferred_username",
    }
    login = read(STRIMZI, jaas(endpoint_options(**more)))
    source = source_of(login)
    assert (source.client_id, source.client_secret) == ("c", Secret(CANARY))
    assert (source.scope, source.audience) == ("s", "a")
    assert (source.connect_timeout_ms, source.read_timeout_ms) == (1_000, 60_000)
    assert source.tls is not None
    assert source.tls.ca == (pem / "ca.pem").read_text()
    assert (login.longest_s, login.extensions) == (90, (("pool", "p"),))


def test_keys_of_kafka_hold_with_options_of_strimzi_too(read):
    source = source_of(read(jaas(endpoint_options()), "A.sasl.login.read.timeout.ms = 77"))
    assert (source.connect_timeout_ms, source.read_timeout_ms) == (60_000, 77)


def test_a_token_in_the_configuration_itself(read):
    login = read(STRIMZI, jaas(f'oauth.access.token="{CANARY}"'))
    assert login.source == FixedToken(token=Secret(CANARY), key="A.sasl.jaas.config")


def test_assertions_of_strimzi(read, tmp_path):
    place = tmp_path / "assertion"
    place.write_text("a.b.c")
    fixed = source_of(read(jaas(assertion_options())))
    assert (fixed.client_id, fixed.client_secret, fixed.assertion) == (
        "c",
        None,
        FixedAssertion(assertion=Secret(CANARY), key="A.sasl.jaas.config"),
    )
    in_file = assertion_options(**{"oauth.client.assertion": "", "oauth.client.assertion.location": place})
    found = source_of(read(jaas(in_file))).assertion
    assert found == AssertionFile(path=str(place), shown="[hidden]", key="A.sasl.jaas.config")
    both = source_of(read(jaas(assertion_options(**{"oauth.client.secret": "s"}))))
    assert (both.client_secret, both.assertion) == (Secret("s"), None)


def test_a_token_file_of_strimzi(read, tmp_path):
    (tmp_path / "token").write_text("x.y.z")
    login = read(STRIMZI, jaas(f'oauth.access.token.location="{tmp_path}/token"'))
    assert isinstance(login.source, TokenFile)
    assert login.source.path == f"{tmp_path}/token"


# ------------------------------------------------------------------------------------------------------ unsigned tokens


def test_claims_of_a_token_that_nobody_signs(read):
    options = 'unsecuredLoginStringClaim_sub="m" unsecuredLoginListClaim_scope="|a|b" unsecuredLoginNumberClaim_n="1.5"'
    login = read(jaas(f'{options} unsecuredLoginLifetimeSeconds="60" unsecuredLoginExtension_traceId="1"'))
    assert isinstance(login.source, UnsecuredToken)
    assert json.loads(login.source.claims) == {"sub": "m", "scope": ["a", "b"], "n": 1.5}
    assert login.source.lifetime_s == 60
    assert login.extensions == (("traceId", "1"),)


# -------------------------------------------------------------------------------------------------------------- refused

REFUSED = [
    ("nothing", [], r"nothing says where they come from.*use sasl\.oauthbearer\.client\.credentials"),
    ("no url", [HANDLER, ID, SECRET], "which is not set"),
    ("no id", [URL, SECRET], "client.id is not set"),
    ("no secret", [URL, ID], "client.secret is not set"),
    ("another scheme", [URL.replace("https", "ldap"), ID, SECRET], "no URL of a token endpoint"),
    ("no host", [URL.replace("idp.example.com", ""), ID, SECRET], "no URL of a token endpoint"),
    ("no port", [URL.replace("example.com", "example.com:x"), ID, SECRET], "no URL of a token endpoint"),
    ("a password in the url", [URL.replace("idp.", f"u:{CANARY}@idp."), ID, SECRET], "holds a user name"),
    ("no file", ["A.sasl.oauthbearer.token.endpoint.url = file:///no/such/token"], "no such file"),
    (
        "another handler",
        [URL, ID, SECRET, "A.sasl.login.callback.handler.class = com.example.Handler"],
        r"is a Java class that is not known here.*token that another program keeps up to date",
    ),
    (
        "another retriever",
        [URL, ID, SECRET, "A.sasl.oauthbearer.jwt.retriever.class = com.example.Retriever"],
        "possible: .*ClientCredentialsJwtRetriever.*JwtBearerJwtRetriever",
    ),
    (
        "a retriever that does not fit",
        [URL, ID, SECRET, f"A.sasl.oauthbearer.jwt.retriever.class = {PACKAGE}.FileJwtRetriever"],
        "must begin with file",
    ),
    (
        "another validator",
        [URL, ID, SECRET, "A.sasl.oauthbearer.jwt.validator.class = com.example.V"],
        "possible: .*DefaultJwtValidator",
    ),
    ("no assertion", [URL, f"{ASSERTION}file = /no"], "'/no': no such file"),
    ("no key", [URL, f"{ASSERTION}claim.iss = a"], "needs an assertion, but neither .*file nor .*private.key.file"),
    ("no key for a grant", [URL, BEARER], "endpoint.url: needs an assertion"),
    ("another algorithm", [*SIGNED, f"{ASSERTION}algorithm = HS256"], "possible: RS256, ES256"),
    ("another key", [*SIGNED, f"{ASSERTION}algorithm = ES256"], "none of the curve P-256"),
    (
        "no passphrase",
        [URL, f"{ASSERTION}claim.iss = a", f"{ASSERTION}private.key.file = {SEALED}"],
        "set its passphrase",
    ),
    ("a passphrase", [*SIGNED, f"{ASSERTION}private.key.passphrase = {CANARY}"], "remove its passphrase"),
    ("no template", [*SIGNED, f"{ASSERTION}template.file = {KEY}"], "no template of an assertion"),
    ("half of an assertion", [URL, ID, SECRET, f"{ASSERTION}claim.sub = a"], "neither .*file nor .*iss is set"),
    ("strimzi's type", [jaas(assertion_options(**{"oauth.client.assertion.type": "x"}))], "type is not possible"),
    ("strimzi's assertion", [jaas(assertion_options(**{"oauth.client.assertion": "a b"}))], "assertion is none"),
    ("another module", [URL, jaas().replace("oauthbearer.OAuthBearer", "plain.Plain")], "does not fit sasl.mechanism"),
    ("a window", [URL, ID, SECRET, "A.sasl.login.refresh.window.factor = 2"], "not between 0.5 and 1"),
    ("no number", [URL, ID, SECRET, "A.sasl.login.refresh.window.jitter = x"], "is no number"),
    ("backoff", [URL, ID, SECRET, "A.sasl.login.retry.backoff.ms = 10001"], "is above"),
    ("extension", [URL, ID, SECRET, jaas('extension_auth="x"')], "extension_... does not fit"),
    ("extension's value", [URL, ID, SECRET, jaas('extension_a="\\\\1"')], "extension_... does not fit"),
    ("certificates", [URL, ID, SECRET, "A.sasl.oauthbearer.token.endpoint.certificates = x"], "no certificate"),
    ("store in options", [URL, ID, SECRET, jaas('ssl.truststore.location="/no"')], "no such file"),
    ("a refresh token", [jaas(f'oauth.refresh.token="{CANARY}"')], "option oauth.refresh.token does not work here"),
    ("a password", [jaas(f'oauth.password.grant.password="{CANARY}"')], "password.grant.password does not work"),
    ("strange option", [STRIMZI, jaas(f'Canary="{CANARY}"')], "option of another library"),
    ("a grant", [jaas(endpoint_options(**{"oauth.client.credentials.grant.type": "x"}))], "can only be client_cred"),
    ("half of strimzi", [jaas('oauth.client.id="c"')], "no oauth.token.endpoint.uri and no oauth.client.secret"),
    ("strimzi's url", [jaas(endpoint_options(**{"oauth.token.endpoint.uri": f"https://u:{CANARY}@h"}))], "is no URL"),
    ("strimzi's time", [jaas(endpoint_options(**{"oauth.read.timeout.seconds": "x"}))], "no number of seconds"),
    ("no token", [jaas(f'oauth.access.token="{CANARY} x"')], "is no token"),
    ("nobody", [jaas('unsecuredLoginStringClaim_x="y"')], "add unsecuredLoginStringClaim_sub"),
    ("own times", [jaas('unsecuredLoginStringClaim_sub="y" unsecuredLoginNumberClaim_exp=1')], "leave iat and exp out"),
    ("claim", [jaas('unsecuredLoginStringClaim_sub="y" unsecuredLoginMapClaim_x=1')], "does not fit"),
    ("number", [jaas('unsecuredLoginStringClaim_sub="y" unsecuredLoginNumberClaim_x=nan')], "does not fit"),
    ("life", [jaas('unsecuredLoginStringClaim_sub="y" unsecuredLoginLifetimeSeconds=0')], "no number of seconds"),
]


@pytest.mark.parametrize(("lines", "reason"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refuses(load_flow, lines, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        load_flow(*BASE, *lines)
    assert caught.value.key.startswith("A.")
    assert CANARY not in "".join(traceback.format_exception(caught.value))


# -------------------------------------------------------------------------------------------------------------- secrets


@pytest.mark.parametrize(
    "lines",
    [
        (URL + f"?key={CANARY}", ID, SECRET),
        (jaas(endpoint_options()),),
        (jaas(f'oauth.access.token="{CANARY}"'),),
        (jaas(assertion_options()),),
        SIGNED,
        (*SIGNED[:2], f"{ASSERTION}private.key.file = {SEALED}", f"{ASSERTION}private.key.passphrase = {CANARY}"),
    ],
    ids=["keys", "options", "token", "assertion", "signed", "passphrase"],
)
def test_a_flow_pickles_with_its_login_and_shows_no_secret(load_flow, lines):
    flow = load_flow(*BASE, *lines)
    again = pickle.loads(pickle.dumps(flow))
    assert again == flow
    assert hash(again.source.admin.security) == hash(flow.source.admin.security)
    shown = f"{again} {again!r} {effective(flow)}"
    assert CANARY not in shown
    assert "[hidden]" in shown


def test_the_effective_settings_name_the_endpoint_and_the_client(load_flow):
    rows = {row.setting: row.value for row in effective(load_flow(*BASE, URL, ID, SECRET))}
    assert rows["source.sasl.mechanism"] == "OAUTHBEARER"
    assert rows["source.sasl.oauthbearer.token.endpoint.url"] == "'https://idp.example.com/token'"
    assert rows["source.sasl.oauthbearer.client.credentials.client.id"] == "mirror"
    assert rows["source.sasl.oauthbearer.client.credentials.client.secret"] == "[hidden]"


def test_a_token_has_only_what_brokers_take():
    assert TOKEN.fullmatch("eyJ.eyJ-_~+/.x==")
    assert not TOKEN.fullmatch("a b")
    assert not TOKEN.fullmatch("a=b")
