"""Properties files as Java reads them."""

from __future__ import annotations

import pytest

from sparkmirror.config.properties import read_properties
from sparkmirror.errors import ConfigError


@pytest.fixture
def read(tmp_path):
    def read(data):
        path = tmp_path / "mm2.properties"
        path.write_bytes(data)
        return read_properties(path)

    return read


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        (b"A->B.enabled = true", "A->B.enabled", "true"),
        (b"A.bootstrap.servers: h:9092", "A.bootstrap.servers", "h:9092"),
        (b"topics a.*", "topics", "a.*"),
        (b"topics = a,\\\n   b", "topics", "a,b"),
        (b"topics = a\\\\.b", "topics", "a\\.b"),
        (b"client.id = caf\xe9", "client.id", "café"),
        (b"client.id = caf\\u00e9", "client.id", "café"),
        (b"client.id = x ", "client.id", "x "),
        (b"empty =", "empty", ""),
        (b"\xef\xbb\xbfclusters = A", "clusters", "A"),
    ],
)
def test_reads_a_line_as_java_does(read, line, key, value):
    assert {entry.key: entry.raw for entry in read(line).entries.values()} == {key: value}


def test_skips_comments_and_blank_lines(read):
    assert read(b"# a = b\n! c = d\n\n").entries == {}


def test_the_last_of_equal_keys_counts_and_is_reported(read):
    found = read(b"a = 1\nb = 2\na = 3\na = 4\n")
    assert found.entries["a"].raw == "4"
    assert found.duplicates == ("a",)


def test_a_broken_escape_names_the_place_and_not_the_value(read):
    with pytest.raises(ConfigError, match="line 2: has a broken") as caught:
        read(b"clusters = A\npassword = canary\\u12\n")
    assert "canary" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.properties: no such file"):
        read_properties(tmp_path / "nowhere.properties")


def test_a_directory_is_no_file(tmp_path):
    with pytest.raises(ConfigError, match="is a directory"):
        read_properties(tmp_path)
