"""Secrets do not show."""

from __future__ import annotations

import pickle
import re
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.config.secret import HIDDEN, Secret, holds_secret

CANARY = "canary-5b1f"


@pytest.mark.parametrize("show", [str, repr, "{}".format, "{:>40}".format, "%s".__mod__, "%r".__mod__, ascii])
def test_no_conversion_to_text_shows_the_value(show):
    assert CANARY not in show(Secret(CANARY))
    assert HIDDEN in show(Secret(CANARY))


def test_a_container_does_not_show_it():
    assert CANARY not in f"{[Secret(CANARY)]} { {'password': Secret(CANARY)} }"


def test_survives_pickling_with_its_value():
    assert pickle.loads(pickle.dumps(Secret(CANARY))).reveal() == CANARY


def test_a_traceback_with_local_variables_does_not_show_it():
    def fail(_secret):
        raise ValueError("told")

    try:
        fail(Secret(CANARY))
    except ValueError as error:
        shown = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert HIDDEN in shown
    assert CANARY not in shown


def test_equal_values_are_equal_secrets():
    assert Secret("x") == Secret("x") != Secret("y")


_SLOWLY = re.compile(
    r"PRIVATE KEY|(?i:password|passphrase|secret|token|assertion)[\"']?\s*=(?!\s*[\"']?\$\{)|//[^\s/?#@]*@"
    r"|[^\s:/?#@,{}]+:[^\s:/?#@,{}]+@[^\s/?#@,]"
)


@given(st.text(alphabet="ab:/@#, {}$=\n", max_size=24))
def test_a_login_is_found_wherever_it_stands(text: str):
    assert holds_secret(text) == (_SLOWLY.search(text) is not None)
