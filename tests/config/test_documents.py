"""YAML and JSON without measure: too deep, too many, too long, or of characters that are none."""

from __future__ import annotations

import pytest

from sparkmirror.config import json_files, yaml_files
from sparkmirror.errors import ConfigError

NINE = ",".join(["x"] * 9)
BOMB = f"- &a0 [{NINE}]\n" + "".join(f"- &a{level} [{','.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 9))
YAML = [
    ("[" * 5000 + "]" * 5000, "line 1: .*nested deeper than 100 levels"),
    ("".join(f"{' ' * level}a:\n" for level in range(200)), "line 10[01]: .*nested deeper"),
    (BOMB, "line 5: .*more than 20000 values, aliases followed"),
    (
        f"a: &a {{{','.join(f'k{n}: 1' for n in range(200))}}}\nb: {{<<: [{','.join(['*a'] * 200)}]}}",
        "line 2: .*more than",
    ),
    ("a: &a\n  b: *a\n", "line 2: .*holds itself"),
    (f"a: {'9' * 5000}", "line 1: .*is no int"),
    ("a: !!timestamp 2024-13-45", "line 1: .*is no timestamp"),
    ("a: !!bool canary", "line 1: .*is no bool"),
    ("a: !!int ''", "line 1: .*is no int"),
    ("b: 1\na: !!int 22:22", "line 2: .*is no int"),
    ("a: !!float 1:30.5", "line 1: .*is no float"),
    ("b: 1\na: !canary x", r"line 2: is no YAML: a tag is not known"),
    ("a: !canary!b x", "line 1: is no YAML: a tag is not known"),
    ("a: *canary", "line 1: is no YAML: it names an anchor"),
    ("b: 1\na: &canary [&canary x]\nc: &canary 1", "line 2: is no YAML: an anchor stands twice"),
    ('a: 1\nb: "\x01canary"', r"line 2: is no YAML: it holds the character U\+0001"),
    ('a: 1\nb: "\\ud800canary"', "line 2: is no YAML: it holds half of a character"),
    ("a: canary: b", "line 1: is no YAML: mapping values are not allowed here"),
]


@pytest.mark.parametrize(("text", "reason"), YAML)
def test_yaml_that_is_not_read_is_refused_with_its_line_and_without_its_text(text, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        list(yaml_files.documents(text, "m.yaml"))
    assert str(caught.value).startswith("m.yaml: line ")
    assert "canary" not in str(caught.value)


def test_what_looks_like_a_date_is_a_text_as_in_kubernetes():
    assert list(yaml_files.documents("password: 2024-13-45\ntopics: 2024-12-13", "m.yaml")) == [
        {"password": "2024-13-45", "topics": "2024-12-13"}
    ]


@pytest.mark.parametrize("text", ["22:22", "-1:30", "190:20:30", "1_0:00", "190:20:30.15", "12:34:56"])
def test_what_looks_like_a_time_is_a_text_as_in_kubernetes(text):
    """In YAML 1.1 it is a number to the base of 60."""
    assert list(yaml_files.documents(f"password: {text}\nkeys: {{{text}: x}}", "m.yaml")) == [
        {"password": text, "keys": {text: "x"}}
    ]


def test_numbers_are_numbers():
    text = "a: 22\nb: -7\nc: 1.5\nd: 0x1F\ne: 010\nf: 1_000\ng: 6.8523015e+5\nh: .inf"
    (found,) = yaml_files.documents(text, "m.yaml")
    assert list(found.values()) == [22, -7, 1.5, 31, 8, 1000, 685230.15, float("inf")]


def test_an_anchor_may_stand_for_a_map_and_be_merged():
    (found,) = yaml_files.documents("a: &a {b: 1}\nc: {<<: *a, d: *a}", "m.yaml")
    assert found == {"a": {"b": 1}, "c": {"b": 1, "d": {"b": 1}}}


JSON = [
    ("\n" + "[" * 200 + "]" * 200, "line 2: is nested deeper than 100 levels"),
    ('{"a":' * 50_000 + "1" + "}" * 50_000, "line 1: is nested deeper"),
    ('{\n"a": "\\ud800"}', "line 2: holds half of a character"),
    ('{"a": "\\udc00\\ud800"}', "line 1: holds half"),
    ("{" + "".join(f'"k{number}": 1,' for number in range(30_000)) + '"k0": 2}', "k0: stands twice"),
    ('{"canary canary": 1, "canary canary": 2}', r"\[hidden\]: stands twice"),
]


@pytest.mark.parametrize(("text", "reason"), JSON)
def test_json_that_is_not_read_is_refused_with_its_line_or_key(text, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        json_files.parse(text, "c.json")
    assert "canary" not in str(caught.value)


def test_brackets_and_escapes_in_texts_of_json_mean_nothing():
    text = '{"a": "' + "[" * 200 + '", "b": "\\\\ud800", "c": "\\ud83d\\ude00"}'
    assert json_files.parse(text, "c.json") == {"a": "[" * 200, "b": "\\ud800", "c": "\U0001f600"}


def test_a_number_that_is_too_long_for_any_setting_stays_as_it_is_written():
    assert json_files.parse(f'{{"a": {"9" * 5000}, "b": 7}}', "c.json") == {"a": "9" * 5000, "b": 7}
