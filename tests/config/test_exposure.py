"""Warnings of settings that show a secret to the network, or let others pass for a broker."""

from __future__ import annotations

import pytest

OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
CANARY = "canary-31be"
USER = f'username="u" password="{CANARY}"'
ENDPOINT = (
    "A.sasl.mechanism = OAUTHBEARER",
    f"A.sasl.jaas.config = {OAUTH}LoginModule required;",
    f"A.sasl.login.callback.handler.class = {OAUTH}LoginCallbackHandler",
    "A.sasl.oauthbearer.client.credentials.client.id = mirror",
    f"A.sasl.oauthbearer.client.credentials.client.secret = {CANARY}",
)
HTTPS = "A.sasl.oauthbearer.token.endpoint.url = https://idp.example.com/token"
HTTP = HTTPS.replace("https:", "http:")
NO_CHECK = "A.ssl.endpoint.identification.algorithm ="


def login(protocol: str, mechanism: str, module: str) -> tuple[str, ...]:
    return (
        f"A.security.protocol = {protocol}",
        f"A.sasl.mechanism = {mechanism}",
        f"A.sasl.jaas.config = {module} required {USER};",
    )


@pytest.mark.parametrize(
    ("lines", "key", "said"),
    [
        (login("SASL_PLAINTEXT", "PLAIN", PLAIN), "A.security.protocol", "the password goes over the network"),
        (("A.security.protocol = SASL_PLAINTEXT", *ENDPOINT, HTTPS), "A.security.protocol", "the token goes over"),
        (
            ("A.security.protocol = SASL_SSL", *ENDPOINT, HTTP),
            "A.sasl.oauthbearer.token.endpoint.url",
            "the client's secret and the tokens go over the network",
        ),
        (("A.security.protocol = SSL", NO_CHECK), "A.ssl.endpoint.identification.algorithm", "can pass for a broker"),
    ],
)
def test_a_setting_that_others_can_make_use_of_is_warned_of_once(load_lines, lines, key, said):
    (warning,) = load_lines(*lines).warnings
    assert f"{key} (cluster A): " in warning
    assert said in warning
    assert CANARY not in warning


def test_an_endpoint_whose_name_is_not_checked_is_warned_of_too(load_lines):
    found = load_lines("A.security.protocol = SASL_SSL", *ENDPOINT, HTTPS, NO_CHECK).warnings
    assert any("can pass for a broker" in warning for warning in found)


def test_of_a_file_with_flows_both_ways_each_line_comes_once(load_lines):
    lines = login("SASL_PLAINTEXT", "PLAIN", PLAIN)
    assert len(load_lines(*lines, "B->A.enabled = true", "B->A.topics = x").warnings) == 1


@pytest.mark.parametrize(
    "lines",
    [
        (),
        login("SASL_SSL", "PLAIN", PLAIN),
        login("SASL_PLAINTEXT", "SCRAM-SHA-256", SCRAM),
        ("A.security.protocol = SASL_SSL", *ENDPOINT, HTTPS),
        (
            "A.security.protocol = SASL_PLAINTEXT",
            "A.sasl.mechanism = OAUTHBEARER",
            f'A.sasl.jaas.config = {OAUTH}LoginModule required unsecuredLoginStringClaim_sub="u";',
        ),
        ("A.security.protocol = PLAINTEXT", NO_CHECK),
    ],
)
def test_what_shows_no_secret_is_not_warned_of(load_lines, lines):
    assert load_lines(*lines).warnings == ()
