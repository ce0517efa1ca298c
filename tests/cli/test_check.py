"""The command ``check``."""

from __future__ import annotations

import json

import pytest

from sparkmirror.cli.app import main

CANARY = "canary-c0de"
FILE = f"""\
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
B.security.protocol = SASL_PLAINTEXT
B.sasl.mechanism = SCRAM-SHA-512
B.sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="{CANARY}";
A->B.enabled = true
A->B.topics = orders.*
A->B.topcis = x
"""


@pytest.fixture
def check(tmp_path, capsys, monkeypatch):
    """Runs the command on a file; gives exit code, standard output and standard error."""
    monkeypatch.setenv("COLUMNS", "160")
    path = tmp_path / "mm2.properties"

    def check(text, *options):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(SystemExit) as ended:
            main(["check", str(path), *options])
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return check


def test_prints_a_table_for_each_flow_and_warnings_beside_it(check):
    code, out, err = check(FILE)
    assert code == 0
    assert "A->B" in out
    (line,) = [line for line in out.splitlines() if line.split()[:1] == ["topics"]]
    assert line.split() == ["topics", "orders.*", "A->B.topics"]
    assert "unknown keys, without effect: A->B.topcis (topics?)" in err


def test_prints_json_that_holds_everything(check):
    code, out, err = check(FILE, "--json")
    found = json.loads(out)
    assert code == 0
    assert err == ""
    assert [flow["name"] for flow in found["flows"]] == ["A->B"]
    settings = {row["setting"]: row for row in found["flows"][0]["settings"]}
    assert settings["target.sasl.mechanism"]["value"] == "SCRAM-SHA-512"
    assert settings["target.producer.delivery.timeout.ms"] == {
        "setting": "target.producer.delivery.timeout.ms",
        "value": "120000",
        "from": None,
    }
    assert len(found["warnings"]) == 1


@pytest.mark.parametrize("options", [[], ["--json"], ["--all"]])
def test_never_prints_a_secret(check, options):
    code, out, err = check(FILE, *options)
    assert code == 0
    assert "[hidden]" in out
    assert CANARY not in out + err


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_secret_of_a_config_provider_is_not_printed(check, monkeypatch, options):
    monkeypatch.setenv("SPARKMIRROR_TEST_PASSWORD", CANARY)
    text = FILE.replace(CANARY, "${env:SPARKMIRROR_TEST_PASSWORD}")
    text += "config.providers = env\nconfig.providers.env.class = EnvVarConfigProvider\n"
    code, out, err = check(text, *options)
    assert code == 0
    assert CANARY not in out + err


def test_a_wrong_file_ends_with_2_and_one_line_that_names_the_place(check):
    code, out, err = check(FILE + "tasks.max = many\n")
    assert code == 2
    assert out == ""
    assert "mm2.properties: tasks.max: 'many' is not a whole number" in err
    assert len(err.splitlines()) == 1
    assert CANARY not in err


def test_a_wrong_file_does_not_show_secrets_with_debug_either(check, monkeypatch):
    monkeypatch.setenv("SPARKMIRROR_DEBUG", "1")
    code, _, err = check(FILE.replace("SCRAM-SHA-512", "PLAIN"), "--flow", "A->B")
    assert code == 2
    assert "Traceback" in err
    assert CANARY not in err


def test_all_shows_the_settings_that_the_file_leaves_alone(check):
    assert "source.consumer.fetch.min.bytes" not in check(FILE)[1]
    assert "source.consumer.fetch.min.bytes" in check(FILE, "--all")[1]


def test_clusters_choose_the_flows(check):
    code, _, err = check(FILE, "--clusters", "A")
    assert code == 2
    assert "no flow into A is enabled" in err


@pytest.mark.parametrize("options", [(), ("--json",), ("--all",)])
def test_shows_a_token_endpoint_and_its_client_and_no_secret(check, options):
    lines = (
        "A.security.protocol = SASL_SSL",
        "A.sasl.mechanism = OAUTHBEARER",
        f"A.sasl.oauthbearer.token.endpoint.url = https://idp.example.com/token?key={CANARY}",
        "A.sasl.oauthbearer.client.credentials.client.id = mirror",
        f"A.sasl.oauthbearer.client.credentials.client.secret = {CANARY}",
    )
    code, out, err = check(FILE + "\n".join(lines), *options)
    assert code == 0
    assert "https://idp.example.com/token" in out
    assert CANARY not in out + err
