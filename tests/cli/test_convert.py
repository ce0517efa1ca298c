"""The command ``convert``, and ``check`` on files of every format."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.cli.app import main

FILES = Path(__file__).parents[1] / "config" / "files"
CANARY = "canary-77"


@pytest.fixture
def ended(capsys, monkeypatch):
    """Runs a command; gives exit code, standard output and standard error."""
    monkeypatch.setenv("COLUMNS", "200")

    def ended(*arguments):
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return end.value.code, captured.out, captured.err

    return ended


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["kafka-active-active.properties"], ["primary->secondary", "foobar-topic, quux-.*"]),
        (["connect-source.json", "connect-checkpoint.json", "connect-heartbeat.json"], ["east->west", "payments"]),
        (["connect-expanded.json"], ["east->west", "orders-to-west.config.topics"]),
    ],
)
def test_check_prints_what_holds_in_a_file_of_any_format(ended, names, expected):
    code, out, err = ended("check", *(FILES / name for name in names))
    assert code == 0
    assert all(part in out for part in expected)
    assert CANARY not in out + err


def test_check_prints_what_holds_in_a_strimzi_resource(ended, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARKMIRROR_SECRETS_DIR", str(tmp_path))
    for name in ("central-mirror", "north-mirror"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pw").write_text(CANARY, encoding="utf-8")
    code, out, err = ended("check", FILES / "strimzi-v1.yaml", "--flow", "north->central")
    assert code == 0
    assert "spec.mirrors[0].topicsPattern" in out
    assert "user mirror, password [hidden]" in out
    assert CANARY not in out + err


def test_the_result_goes_to_standard_output_or_to_a_new_file(ended, tmp_path):
    source = FILES / "connect-source.json"
    code, out, _ = ended("convert", source)
    assert code == 0
    assert "east->west.tasks.max = 4" in out
    output = tmp_path / "mm2.properties"
    code, nothing, err = ended("convert", source, "--output", output)
    assert (code, nothing) == (0, "")
    assert output.read_text() == out
    assert f"written: {output}" in err


def test_a_file_that_is_there_is_not_written_over(ended, tmp_path):
    output = tmp_path / "mm2.properties"
    output.write_text("mine", encoding="utf-8")
    code, _, err = ended("convert", FILES / "connect-source.json", "--output", output)
    assert code == 2
    assert "mm2.properties: file exists (name another file)" in err
    assert output.read_text() == "mine"


def test_secrets_become_references_with_a_comment_on_what_to_put_there(ended):
    code, out, err = ended("convert", FILES / "connect-source.json", "--secrets", "/run/mirror.properties")
    assert code == 0
    assert "east.sasl.jaas.config = ${file:/run/mirror.properties:east.sasl.jaas.config}" in out
    assert "#   /run/mirror.properties: east.sasl.jaas.config = the value of mm2-east-west-source.config.source" in out
    assert CANARY not in out + err


def test_what_would_not_run_as_it_stands_is_said_in_the_result(ended, monkeypatch):
    monkeypatch.delenv("SPARKMIRROR_SECRETS_DIR", raising=False)
    code, out, _ = ended("convert", FILES / "strimzi-v1.yaml")
    assert code == 0
    assert "it would not run as it stands" in out
    assert "${dir:/etc/sparkmirror/secrets/north-mirror:pw}" in out


def test_warnings_about_a_flow_stand_in_the_result_too(ended, tmp_path):
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\nA->B.topics =\n",
        encoding="utf-8",
    )
    assert "the topics of A->B are an empty list" in ended("convert", path)[1]


def test_a_file_that_cannot_be_read_ends_with_2(ended, tmp_path):
    code, out, err = ended("convert", tmp_path / "no.json")
    assert (code, out) == (2, "")
    assert "no.json: no such file" in err
