"""Listeners that ask for something: TLS with PEM files, client certificates, SASL in each way, on both sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.lab.cluster import start_all
from sparkmirror.lab.listeners import PASSWORDS, USER
from sparkmirror.lab.processes import command_line, descendants
from sparkmirror.lab.referee import compare
from tests.flow.running import Running, count, create_topic, until, write_file
from tests.flow.traffic import Traffic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

LISTENERS = ("SSL", "MTLS", "SASL_PLAIN", "SASL_SCRAM", "SASL_SSL", "SASL_OAUTH")
WRONG = "not-the-password"


@pytest.fixture(scope="module")
def guarded():
    source, target = start_all(["guarded-source", "guarded-target"], security=LISTENERS)
    yield source, target
    source.stop()
    target.stop()


def private_key(properties):
    """A line from the middle of a client's key, which nothing may show."""
    lines = Path(properties["ssl.keystore.location"]).read_text().partition("PRIVATE KEY-----")[2].splitlines()
    return lines[2]


def shown_by(mirror):
    """What other users of the machine, and readers of logs, can see of a running mirror."""
    seen = {"log of the run": mirror.output}
    for pid in [mirror.pid, *descendants(mirror.pid)]:
        seen[f"command line of {pid}"] = command_line(pid)
        try:
            seen[f"environment of {pid}"] = Path(f"/proc/{pid}/environ").read_text(errors="replace")
        except OSError:
            continue
    return seen


def spark_events(directory):
    """Spark's own event log: job descriptions, plans with their rows' schema, settings of the session."""
    return {str(path): path.read_text(errors="replace") for path in directory.rglob("*") if path.is_file()}


def test_every_listener_works_on_both_sides_and_no_secret_is_seen_anywhere(guarded, topic, tmp_path, monkeypatch):
    source, target = guarded
    clusters: dict[str, dict[str, str]] = {}
    flows, copies, written = {}, {}, 0
    for number, listener in enumerate(LISTENERS):
        name = topic(listener.lower().replace("_", "-"))
        clusters |= {
            f"s{number}": source.client_properties(listener),
            f"t{number}": target.client_properties(LISTENERS[-1 - number]),
        }
        flows[f"s{number}->t{number}"] = name
        copies[name] = f"s{number}.{name}"
        create_topic(source, name, 1)
        written += Traffic(source, name, 1).some("small", 50)
    events = tmp_path / "events"
    events.mkdir()
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.compress false\nspark.eventLog.dir file://{events}\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    file = write_file(
        tmp_path / "mm2.properties", clusters, flows, {"tasks.max": "1", "several.aliases.per.cluster": "true"}
    )
    file.chmod(0o600)
    with Running(file, log=tmp_path / "run.log", spark=True) as mirror:
        until(lambda: count(target, *copies.values()) >= written, "all is copied")
        seen = shown_by(mirror)
        mirror.stop(seconds=60)  # on a slow machine six flows may not be drained in time, which is no secret
    seen |= {"log at the end": mirror.output} | spark_events(events)
    assert any("mapInArrow" in text or "MapInArrow" in text for text in seen.values()), "Spark's events are looked at"
    tokens = [*source.token_endpoint.issued, *target.token_endpoint.issued]
    assert len(tokens) >= 4, "driver and lanes ask for tokens themselves, at both clusters"
    secrets = [PASSWORDS[USER], private_key(source.client_properties("MTLS")), *tokens]
    for place, text in seen.items():
        for secret in secrets:
            assert secret not in text, place
    results = compare(source.bootstrap_servers, target.bootstrap_servers, copies)
    assert [result.difference for result in results] == [""] * len(LISTENERS)


@pytest.mark.parametrize("listener", ["SASL_PLAIN", "SASL_SCRAM"])
def test_a_wrong_password_names_cluster_and_remedy_and_no_secret(guarded, listener, tmp_path):
    source, target = guarded
    wrong = source.client_properties(listener)
    wrong["sasl.jaas.config"] = wrong["sasl.jaas.config"].replace(PASSWORDS[USER], WRONG)
    file = write_file(tmp_path / "mm2.properties", {"s": wrong, "t": target}, {"s->t": ".*"})
    with Running(file, log=tmp_path / "run.log", options=("--once",)) as mirror:
        assert mirror.wait() == 2, mirror.tail()
    output = " ".join(mirror.output.split())
    assert f"cluster s at {wrong['bootstrap.servers']}" in output
    assert "check user name, password and sasl.mechanism" in output
    assert WRONG not in output
    assert "Traceback" not in output


def test_a_token_endpoint_that_refuses_the_client_is_told_with_cluster_key_and_remedy(guarded, tmp_path):
    source, target = guarded
    key = "sasl.oauthbearer.client.credentials.client.secret"
    wrong = source.client_properties("SASL_OAUTH") | {key: WRONG}
    file = write_file(tmp_path / "mm2.properties", {"s": wrong, "t": target}, {"s->t": ".*"})
    with Running(file, log=tmp_path / "run.log", options=("--once",)) as mirror:
        assert mirror.wait() == 2, mirror.tail()
    output = " ".join(mirror.output.split())
    assert f"cluster s at {wrong['bootstrap.servers']}" in output
    assert "(s.sasl.oauthbearer.token.endpoint.url) refuses the client: 401 invalid_client" in output
    assert "check the client's id and secret" in output
    assert WRONG not in output
    assert "Traceback" not in output


def test_plain_text_to_a_tls_listener_asks_whether_tls_is_missing(guarded, tmp_path):
    source, target = guarded
    bare = {"bootstrap.servers": source.listener("SSL")}
    file = write_file(
        tmp_path / "mm2.properties", {"s": bare, "t": target}, {"s->t": ".*"}, {"admin.timeout.ms": "5000"}
    )
    with Running(file, log=tmp_path / "run.log", options=("--once",)) as mirror:
        assert mirror.wait() == 2, mirror.tail()
    output = " ".join(mirror.output.split())
    assert f"cluster s at {bare['bootstrap.servers']}" in output
    assert "security.protocol" in output
