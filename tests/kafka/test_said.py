"""What brokers say in their own words is shown, but for words that have a secret of the client in them."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote

import pytest

from sparkmirror.config import ClientSettings, Secret, Security, SecurityProtocol
from sparkmirror.config.security_settings import FixedToken, OAuth
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.said import LOOKED_AT, NOT_SHOWN, repeats, secrets_in, shown
from tests.kafka.hostile_broker import HostileBroker, cluster_of

PASSWORD = "Corr3ct/horse+7"
POLICY_VIOLATION = 44


def in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "form",
    [
        PASSWORD,
        PASSWORD.upper(),
        f"x{PASSWORD}y",
        quote(PASSWORD, safe=""),
        "".join(f"%{byte:02X}" for byte in PASSWORD.encode()),
        PASSWORD.encode().hex(),
        in_base64(PASSWORD),
        in_base64(f"\0mirror\0{PASSWORD}"),
        in_base64(f"\0mirrors\0{PASSWORD}"),
        in_base64(f"\0mirrored\0{PASSWORD}"),
        base64.urlsafe_b64encode(f"mirror:{PASSWORD}".encode()).decode(),
    ],
)
def test_a_secret_is_found_in_whatever_form_it_is_repeated(form: str):
    for words in (form, f"the login ({form}) is none", f"password={form}"):
        assert shown(words, [PASSWORD]) == NOT_SHOWN


@pytest.mark.parametrize(
    ("words", "found"), [("an order", True), ("Order!", True), ("orders", False), ("border", False)]
)
def test_a_secret_that_may_be_any_word_is_looked_for_as_a_word(words: str, *, found: bool):
    assert repeats(words, ["order"]) is found


def test_words_without_a_secret_are_shown_as_they_are():
    words = "The topic has 3 partitions, and a policy asks for 4."
    assert shown(words, [PASSWORD, "four", "asked"]) == words


def test_a_text_without_end_is_not_read_to_its_end():
    assert shown("x" * 10_000_000 + PASSWORD, [PASSWORD]) == "x" * LOOKED_AT


def test_all_secrets_of_a_client_count():
    token = FixedToken(token=Secret("token-of-mine"), key="k")
    security = Security(
        protocol=SecurityProtocol.SASL_SSL,
        password=Secret("pw"),
        key_password=Secret("of the key"),
        private_key=Secret("-----BEGIN PRIVATE KEY-----\nMIIEvgIBADANBgkq\nQg==\n-----END PRIVATE KEY-----\n"),
        oauth=OAuth(source=token),
    )
    settings = ClientSettings(bootstrap_servers=("localhost:1",), security=security)
    assert secrets_in(settings) == {"pw", "of the key", "MIIEvgIBADANBgkq", "token-of-mine"}


def test_a_refusal_does_not_repeat_the_login(request: pytest.FixtureRequest):
    broker = HostileBroker()
    request.addfinalizer(broker.close)
    security = Security(protocol=SecurityProtocol.PLAINTEXT, password=Secret(PASSWORD))
    cluster = cluster_of(broker, security)
    request.addfinalizer(cluster.close)
    answer, words = broker.model.answer, [""]

    def refuse(key: int, asked: Any) -> Any:
        made = answer(key, asked)
        for topic in getattr(made, "topics", None) or () if key == CREATE_TOPICS else ():
            topic.error_code, topic.error_message = POLICY_VIOLATION, words[0]
        return made

    setattr(broker.model, "answer", refuse)  # noqa: B010 - a lie of its own
    for said, told in (("ask for less", "ask for less"), (f"{PASSWORD} is none", NOT_SHOWN)):
        words[0] = said
        failed = admin.create_topics(cluster, [NewTopic(name="new", partitions=1)], 20_000).failed
        assert f"the broker says: {told}" in str(failed["new"])


CREATE_TOPICS = 19
