"""What is shown of a broker's words about a login: those of Kafka's own brokers."""

from __future__ import annotations

import pytest

from sparkmirror.kafka.login_errors import NOT_SHOWN, refusal, scram_error

CREDENTIALS = "due to invalid credentials with SASL mechanism"


@pytest.mark.parametrize(
    ("words", "mechanism"),
    [
        ("Authentication failed: Invalid username or password", "PLAIN"),
        ("Authentication failed: credentials for user could not be verified", "PLAIN"),
        ("Authentication failed: Client requested an authorization id that is different from username", "PLAIN"),
        (f"Authentication failed during authentication {CREDENTIALS} SCRAM-SHA-256", "SCRAM-SHA-256"),
        (f"Authentication failed during re-authentication {CREDENTIALS} SCRAM-SHA-512", "SCRAM-SHA-512"),
        (f"Authentication failed during authentication {CREDENTIALS} GSSAPI", "GSSAPI"),
        (f"Authentication failed {CREDENTIALS} PLAIN", "PLAIN"),
        ('{"status":"invalid_token"}', "OAUTHBEARER"),
    ],
)
def test_sentences_of_kafkas_brokers_are_shown(words: str, mechanism: str):
    assert refusal(f"SaslAuthenticationFailedError: {words}", mechanism) == words
    assert refusal(f"IllegalSaslStateError: {words}", mechanism) == f"IllegalSaslStateError: {words}"
    for other in (f"{words} hunter2", f"hunter2 {words}", words.upper(), f"{words}\n"):
        assert refusal(f"SaslAuthenticationFailedError: {other}", mechanism) == NOT_SHOWN


def test_the_mechanism_of_a_sentence_is_the_one_that_was_used():
    words = f"Authentication failed during authentication {CREDENTIALS} hunter2"
    assert refusal(f"SaslAuthenticationFailedError: {words}", "PLAIN") == NOT_SHOWN


@pytest.mark.parametrize("password", ["Invalid", "username", "SaslAuthenticationFailed", "IllegalSaslStateError"])
def test_a_password_that_is_a_word_of_a_sentence_is_not_shown_and_leaves_no_gap(password: str):
    words = "Authentication failed: Invalid username or password"
    for name in ("SaslAuthenticationFailedError", "IllegalSaslStateError"):
        said = refusal(f"{name}: {words}", "PLAIN", password)
        assert password not in said
        assert "[hidden]" not in said
    assert refusal(f"SaslAuthenticationFailedError: {words}", "PLAIN", "Invalid1") == words


def test_other_words_are_not_shown_and_other_errors_are_named():
    assert refusal("IllegalSaslStateError: hunter2", "PLAIN") == f"IllegalSaslStateError: {NOT_SHOWN}"
    assert refusal("hunter2: hunter2", "PLAIN") == NOT_SHOWN
    assert refusal("", "PLAIN") == NOT_SHOWN
    assert refusal("Failed to authenticate via SASL PLAIN", "PLAIN") == "Failed to authenticate via SASL PLAIN"


def test_errors_of_scram_are_those_of_its_standard():
    assert scram_error("invalid-proof") == "invalid-proof"
    assert scram_error("hunter2") == NOT_SHOWN
