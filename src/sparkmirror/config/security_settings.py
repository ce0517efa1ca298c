"""How a client shows who it is and checks who it talks to: the part of the settings that security.py and oauth.py read.

Invariants: those of settings.py; whatever lets somebody log in lies in ``Secret`` only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sparkmirror.config.secret import Secret


class SecurityProtocol(Enum):
    """Kafka's ``security.protocol``."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def sasl(self) -> bool:
        """Whether the client logs in with SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class TlsVersion(Enum):
    """The versions of TLS that a client may agree on, by their names in ``ssl.enabled.protocols``."""

    V1_2 = "TLSv1.2"
    V1_3 = "TLSv1.3"


class SaslMechanism(Enum):
    """The values of ``sasl.mechanism`` that work here."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"
    GSSAPI = "GSSAPI"


class SigningAlgorithm(Enum):
    """The values of ``sasl.oauthbearer.assertion.algorithm``."""

    RS256 = "RS256"
    ES256 = "ES256"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedAssertion:
    """The client signs an assertion for each request (RFC 7523).

    Attributes:
        private_key: PEM text, PKCS 8.
        passphrase: opens ``private_key`` where it is encrypted.
        algorithm: how it is signed.
        header, claims: JSON objects, without what is made for each request.
        lasts_s: seconds from making to end.
        before_s: seconds before its making from which on it holds, for clocks that differ.
        unique: whether each one has an id of its own.
        key: the key of the file that names the private key.
    """

    private_key: Secret
    passphrase: Secret | None
    algorithm: SigningAlgorithm
    header: str
    claims: str
    lasts_s: int
    before_s: int
    unique: bool
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertionFile:
    """The assertion stands in a file, which is read again for each request: somebody else renews it.

    Attributes:
        path: the same on every machine that connects.
        shown: the path as it may appear in a message.
        key: the key of the file that names it.
    """

    path: str
    shown: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedAssertion:
    """The configuration holds the assertion itself.

    Attributes:
        assertion: as the endpoint gets it.
        key: the key of the file that holds it.
    """

    assertion: Secret
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEndpoint:
    """Tokens come from a server, for the client's own credentials (RFC 6749, section 4.4) or for an assertion.

    Attributes:
        url: ``http`` or ``https``.
        shown: the URL as it may appear in a message.
        key: the key of the file that names the URL.
        client_id: who the client is; "" where its assertion says so.
        client_secret: what it logs in with there; set exactly where there is no assertion.
        assertion: what it shows instead of a secret (RFC 7523, section 2.2).
        bearer: whether the token is asked for with the assertion alone (RFC 7523, section 2.1).
        credentials_key: the key of the file that names the client.
        scope, audience: what the token is asked for; "" where nothing is said.
        encode_credentials: whether id and secret are URL-encoded in the header, as RFC 6749 has it and Kafka has not.
        connect_timeout_ms, read_timeout_ms: of one request. Java waits for ever unless they are set; here nothing does.
        retry_backoff_ms: the pause behind a first failure; it doubles with each.
        retry_backoff_max_ms: for how long it is tried, whole.
        tls: how an ``https`` URL is spoken to.
    """

    url: Secret
    shown: str
    key: str
    client_id: str
    client_secret: Secret | None
    credentials_key: str
    assertion: SignedAssertion | AssertionFile | FixedAssertion | None = None
    bearer: bool = False
    scope: str = ""
    audience: str = ""
    encode_credentials: bool = False
    connect_timeout_ms: int = 10_000
    read_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000
    tls: Security | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFile:
    """The token stands in a file, which is read anew for each token: somebody else renews it.

    Attributes:
        path: the same on every machine that connects.
        shown: the path as it may appear in a message.
        key: the key of the file that names it.
    """

    path: str
    shown: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedToken:
    """The configuration holds the token itself.

    Attributes:
        token: as a broker gets it.
        key: the key of the file that holds it.
    """

    token: Secret
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsecuredToken:
    """The client makes a token that nobody has signed; for brokers that are only tried out.

    Attributes:
        claims: a JSON object, without the times.
        lifetime_s: seconds from making to end.
    """

    claims: str
    lifetime_s: int = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    """When a token is replaced: Kafka's ``sasl.login.refresh.*``.

    Attributes:
        window_factor: the part of its life that a token is used for.
        window_jitter: up to that part later, by chance, so that clients do not all come at once.
        min_period_s: seconds that it is used at least.
        buffer_s: seconds before its end at which it is replaced at the latest.
    """

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_s: int = 60
    buffer_s: int = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth:
    """What OAUTHBEARER shows to a broker.

    Attributes:
        source: where tokens come from.
        extensions: (name, value) pairs that go to the broker beside the token.
        refresh: when a token is replaced.
        longest_s: seconds that a token is used at most, whatever it says itself; None for no limit.
    """

    source: TokenEndpoint | TokenFile | FixedToken | UnsecuredToken
    extensions: tuple[tuple[str, str], ...] = ()
    refresh: Refresh = Refresh()
    longest_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kerberos:
    """What GSSAPI gets its tickets with.

    Attributes:
        service_name: the first part of the brokers' principals.
        principal: of the client; None for the one that keytab or cache has.
        keytab: the keytab itself in base 64; None where there is none, or the system's is meant.
        any_keytab: whether a keytab is used: ``keytab``, or the one that the system's configuration names.
        cache: the ticket cache on the machine that connects; "" for the system's own, None where none is used.
    """

    service_name: str
    principal: str | None = None
    keytab: Secret | None = None
    any_keytab: bool = False
    cache: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How a client shows who it is and checks who it talks to.

    Attributes:
        protocol: encryption, login, both or none.
        mechanism: the SASL mechanism; set exactly when the protocol logs in.
        username: the SASL user of PLAIN and SCRAM.
        password: the SASL password of PLAIN and SCRAM.
        oauth: where OAUTHBEARER gets its tokens; set exactly with that mechanism.
        kerberos: what GSSAPI gets its tickets with; set exactly with that mechanism.
        ca: PEM text of the certificates that are trusted; None means the system's.
        system_too: whether the system's are trusted beside ``ca``.
        certificate_chain: PEM text of the client's certificate and what signed it, or None.
        private_key: PEM text of the client's key, PKCS 8.
        key_password: opens ``private_key`` where it is encrypted.
        tls_versions: what may be agreed on, oldest first.
        verify_hostname: whether the broker's certificate must name the host that was connected to.
    """

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    mechanism: SaslMechanism | None = None
    username: str | None = None
    password: Secret | None = None
    oauth: OAuth | None = None
    kerberos: Kerberos | None = None
    ca: str | None = None
    system_too: bool = False
    certificate_chain: str | None = None
    private_key: Secret | None = None
    key_password: Secret | None = None
    tls_versions: tuple[TlsVersion, ...] = (TlsVersion.V1_2, TlsVersion.V1_3)
    verify_hostname: bool = True
