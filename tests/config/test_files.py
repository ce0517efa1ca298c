"""Files of every kind end soon, with a reason; no hang, no traceback, no memory without end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparkmirror.config import load
from sparkmirror.config.files import CONFIGURATION_BYTES, STORE_BYTES, UnreadableError, read_bytes, read_text
from sparkmirror.errors import ConfigError
from tests.config.conftest import BASE, Load


def test_a_pipe_without_a_writer_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "mm2.properties")
    with pytest.raises(ConfigError, match=r"mm2\.properties: is a pipe"):
        load([tmp_path / "mm2.properties"])


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/dev/tty"])
def test_a_device_is_refused(path):
    with pytest.raises(ConfigError, match=f"{path}: (is a device|no such device)"):
        load([path])


def test_a_directory_is_no_file(tmp_path):
    with pytest.raises(UnreadableError, match="is a directory"):
        read_bytes(tmp_path)


@pytest.mark.parametrize("suffix", ["properties", "json", "yaml", "conf"])
def test_a_file_above_the_limit_is_refused_and_not_read(tmp_path, suffix):
    path = tmp_path / f"mm2.{suffix}"
    with path.open("wb") as file:
        file.truncate(2**40)  # a terabyte, sparse
    with pytest.raises(ConfigError, match=f"is larger than {CONFIGURATION_BYTES} bytes"):
        load([path])


def test_a_file_at_the_limit_is_read(tmp_path):
    path = tmp_path / "mm2.properties"
    path.write_text(BASE.ljust(CONFIGURATION_BYTES, "\n"))
    assert len(load([path]).flows) == 1


@pytest.mark.parametrize(
    "line",
    [
        "A.security.protocol=SSL\nA.ssl.truststore.location = {}",
        "A.security.protocol=SSL\nA.ssl.keystore.type=PEM\nA.ssl.keystore.location = {}",
        "config.providers=file\nconfig.providers.file.class=FileConfigProvider\ntopics = ${{file:{}:k}}",
        "config.providers=dir\nconfig.providers.dir.class=DirectoryConfigProvider\ntopics = ${{dir:/dev:zero}}",
    ],
)
def test_what_a_configuration_names_is_read_within_limits_too(load_lines: Load, line):
    with pytest.raises(ConfigError, match="is a device"):
        load_lines(line.format("/dev/zero"))


def test_a_store_above_the_limit_is_refused(load_lines: Load, tmp_path):
    with (tmp_path / "store").open("wb") as file:
        file.truncate(STORE_BYTES + 1)
    with pytest.raises(ConfigError, match=r"A\.ssl\.truststore\.location: .* is larger than"):
        load_lines("A.security.protocol=SSL", f"A.ssl.truststore.location={tmp_path}/store")


@pytest.mark.parametrize(
    "line",
    [
        "A.security.protocol=SSL\nA.ssl.truststore.location=/tmp/\\u0000",
        "config.providers=file\nconfig.providers.file.class=FileConfigProvider\ntopics = ${file:/tmp/\\u0000:k}",
    ],
)
def test_a_path_that_cannot_be_is_refused_with_its_key(load_lines: Load, line):
    with pytest.raises(ConfigError, match=r"(location|topics): .*is no path") as caught:
        load_lines(line)
    assert caught.value.key


def test_text_in_another_encoding_is_refused_with_its_line(tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(b"one\ntwo \xff\n")
    with pytest.raises(UnreadableError, match=r"is not UTF-8 text \(line 2\)"):
        read_text(path)
    path.write_bytes("clusters".encode("utf-16"))
    with pytest.raises(UnreadableError, match="but UTF-16"):
        read_text(path)


def test_a_variable_that_is_no_text_is_refused(load_lines: Load, monkeypatch):
    monkeypatch.setenv("MIRRORED_TOPICS", os.fsdecode(b"\xff"))
    lines = (
        "config.providers=env",
        "config.providers.env.class=EnvVarConfigProvider",
        "topics=${env::MIRRORED_TOPICS}",
    )
    with pytest.raises(ConfigError, match="the variable MIRRORED_TOPICS is not UTF-8 text"):
        load_lines(*lines)


@pytest.mark.parametrize(
    ("data", "reason"), [(b"\xff\xfea\0", "is UTF-16 text"), (b"a=b\n\0", "line 2: holds a NUL byte")]
)
def test_properties_that_are_no_text_are_refused_as_such(tmp_path: Path, data, reason):
    path = tmp_path / "mm2.properties"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=reason):
        load([path])


def test_half_of_a_character_is_refused_with_its_line(load_lines: Load):
    with pytest.raises(ConfigError, match="line 6: holds half of a character"):
        load_lines("# of the surrogates", "topics = \\ud800")


def test_more_keys_than_a_file_has_are_refused(load_lines: Load):
    with pytest.raises(ConfigError, match="is one key too many"):
        load_lines(*(f"key.{number} =" for number in range(10_000)))


def test_more_clusters_than_a_file_has_are_refused(load_lines: Load):
    with pytest.raises(ConfigError, match="clusters: lists 101 clusters"):
        load_lines(base=f"clusters = {','.join(f'c{number}' for number in range(101))}\n")


def test_an_alias_in_utf_8_is_shown_as_its_author_sees_it(tmp_path):
    path = tmp_path / "mm2.properties"
    path.write_text("clusters = Ä, B\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="clusters: 'Ä' cannot be part"):
        load([path])
