"""Login modules, as Kafka's JaasConfig reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.config.jaas import JaasSyntaxError, parse

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def quoted(text):
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}
    return '"' + "".join(escapes.get(character, character) for character in text) + '"'


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_reads_back_any_quoted_text(username, password):
    module = parse(f"{PLAIN} required username={quoted(username)} password={quoted(password)};")
    assert module.options == {"username": username, "password": password}


@pytest.mark.parametrize(
    "options",
    [
        'username="u" password="p"',
        "username='u' password='p'",
        "username=u password=p",
        'username = "u"\n  password\t=\t"p"',
        'username="u" /* a note */ password="p" // another',
        'username="\\165" password="p"',
    ],
)
def test_reads_every_way_to_write_options(options):
    assert parse(f"{PLAIN} required {options}\n;").options == {"username": "u", "password": "p"}


def test_a_module_needs_no_options():
    assert parse(f"{PLAIN} required;").name == PLAIN


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        PLAIN,
        f"{PLAIN} required",
        f"{PLAIN} sometimes;",
        f'{PLAIN} required password="canary"',
        f'{PLAIN} required password="canary;',
        f"{PLAIN} required password=cana!ry;",
        f"{PLAIN} required password;",
        f"{PLAIN} required password= =;",
        f'{PLAIN} required password "canary" x;',
        f'{PLAIN} required password="canary"; {PLAIN} required;',
    ],
)
def test_refuses_what_is_no_login_module_without_showing_it(text):
    with pytest.raises(JaasSyntaxError) as caught:
        parse(text)
    assert "canary" not in str(caught.value)


def test_does_not_show_its_options():
    assert "canary" not in repr(parse(f'{PLAIN} required password="canary";'))
