"""Rights as text: names with any characters survive each format."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.cli.acl_formats import ClusterRights, Grant, kafka_acls, strimzi, terraform, user_name
from sparkmirror.kafka.acls import Operation, PatternType, ResourceType

PRINCIPAL = "User:mirror"


def cluster(*names: str) -> ClusterRights:
    some = tuple(
        Grant(
            kind=ResourceType.GROUP,
            name=name,
            pattern=PatternType.LITERAL,
            operations=(Operation.READ, Operation.DESCRIBE_CONFIGS),
            reasons=("groups",),
        )
        for name in names
    )
    return ClusterRights(alias="B", bootstrap_servers=("b:1",), flows=("A->B",), grants=some)


_names = st.text(st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters="\u2028\u2029\x85"), min_size=1)


@given(_names)
def test_a_shell_takes_the_name_as_it_is(name: str):
    words = shlex.split(kafka_acls([cluster(name)], PRINCIPAL).split("\n")[4])
    assert words.pop(words.index("--group") + 1) == name
    assert words.count("--operation") == 2


@given(_names)
def test_yaml_and_terraform_take_the_name_as_it_is(name: str):
    (written,) = re.findall(r"^          name: (.*)$", strimzi([cluster(name)], PRINCIPAL), flags=re.MULTILINE)
    assert json.loads(written) == name
    first, second = re.findall(r"^  resource_name +=(.*)$", terraform([cluster(name)], PRINCIPAL), flags=re.MULTILINE)
    assert first == second
    assert json.loads(first.replace("$${", "${").replace("%%{", "%{")) == name.replace("$${", "${").replace("%%{", "%{")
    assert not re.search(r"(?<![$])[$]\{|(?<!%)%\{", first), "nothing is a template"


def test_resources_of_terraform_have_names_of_their_own():
    printed = terraform([cluster("a.b", "a_b", "*", "größe", "..")], PRINCIPAL)
    labels = re.findall(r'^resource "kafka_acl" "([A-Za-z][A-Za-z0-9_-]*)" \{$', printed, flags=re.MULTILINE)
    assert len(labels) == len(set(labels)) == 10
    assert labels[:3] == ["B_group_a_b_read", "B_group_a_b_describe_configs", "B_group_a_b_read_2"]


def test_an_alias_that_begins_with_a_digit_names_no_provider_that_terraform_refuses():
    one = cluster("x")
    digits = ClusterRights(alias="1.b", bootstrap_servers=("b:1",), flows=("A->1.b",), grants=one.grants)
    printed = terraform([one, digits], PRINCIPAL)
    assert set(re.findall(r"^  provider +=(.*)$", printed, flags=re.MULTILINE)) == {" kafka.B", " kafka.x_1_b"}


@pytest.mark.parametrize(
    ("principal", "name"),
    [
        ("User:mirror", "mirror"),
        ("User:CN=mirror-1.eu", "mirror-1.eu"),
        ("User:Mirror", None),
        ("User:CN=mirror,O=x", None),
        ("Group:mirror", None),
        ("User:-", None),
    ],
)
def test_a_kafka_user_has_the_name_of_its_principal(principal: str, name: str | None):
    assert user_name(principal) == name
