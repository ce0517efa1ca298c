"""What Spark is told, decided without Spark."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sparkmirror.errors import ConfigError
from sparkmirror.spark.settings import (
    Executors,
    Exposure,
    SparkOptions,
    check_exposure,
    check_submissions,
    executors_python,
    exposure,
    masters_of,
    parse_options,
    session_settings,
)

MASTER = "spark://spark.example.com:7077"


FILES = Path("/tmp/sparkmirror-0/run-01234567")


def settings(
    master: str | None = MASTER, *conf: str, archive: Path | None = None, files: Path = FILES
) -> dict[str, str]:
    return session_settings(parse_options(master, conf, archive), 5, "-Dours=1", files)


def test_here_spark_gets_its_slots_and_shows_itself_to_nobody():
    here = settings(None)
    assert here["spark.master"] == "local[5]"
    assert here["spark.driver.bindAddress"] == "127.0.0.1"
    assert here["spark.ui.enabled"] == "false"


def test_a_cluster_is_told_where_the_driver_is_only_if_all_of_it_is_on_this_machine():
    assert settings("spark://127.0.0.1:7077")["spark.driver.host"] == "127.0.0.1"
    assert settings("spark://localhost:7077,127.0.0.1:7078")["spark.driver.bindAddress"] == "127.0.0.1"
    for master in (MASTER, "spark://localhost:7077,spark.example.com:7077", "k8s://https://localhost:6443", "yarn"):
        assert "spark.driver.host" not in settings(master)


@pytest.mark.parametrize("master", [None, "local[3]", MASTER])
def test_nobody_lets_spark_repeat_a_lane(master):
    assert settings(master)["spark.task.maxFailures"] == "1"
    assert settings(master)["spark.speculation"] == "false"
    with pytest.raises(ConfigError, match=r"spark\.task\.maxFailures must stay 1"):
        parse_options(master, ("spark.task.maxFailures=4",), None)
    assert parse_options(master, ("spark.task.maxFailures=1",), None).conf


@pytest.mark.parametrize(("master", "cores"), [(None, None), ("local", None), ("local[*]", None), ("local[3]", 3)])
def test_here_spark_has_the_slots_that_lanes_need_whatever_local_master_is_given(master: str | None, cores: int | None):
    assert settings(master)["spark.master"] == "local[5]"
    assert parse_options(master, (), None).cores == cores


def test_here_everybody_is_asked_for_a_secret_whatever_the_user_sets():
    assert settings(None)["spark.authenticate"] == "true"
    assert "spark.authenticate" not in settings(MASTER)
    with pytest.raises(ConfigError, match=r"spark\.authenticate must stay true"):
        parse_options(None, ("spark.authenticate=false",), None)
    assert settings(MASTER, "spark.authenticate=false")["spark.authenticate"] == "false"


def test_here_python_talks_to_its_jvm_through_files_of_the_run_where_their_path_is_not_too_long():
    assert settings(None)["spark.python.unix.domain.socket.dir"] == str(FILES)
    assert "spark.python.unix.domain.socket.enabled" in settings(None, files=Path("/" + 63 * "x"))
    assert "spark.python.unix.domain.socket.enabled" not in settings(None, files=Path("/" + 64 * "x"))
    assert "spark.python.unix.domain.socket.enabled" not in settings(MASTER)


@pytest.mark.parametrize("master", [None, MASTER])
def test_settings_of_clusters_are_not_written_to_disk_and_modules_of_the_working_directory_not_run(master):
    assert settings(master)["spark.broadcast.UDFCompressionThreshold"] == "1g"
    assert settings(master)["spark.executorEnv.PYTHONSAFEPATH"] == "1"


def test_what_the_user_sets_wins_over_our_defaults_and_joins_our_options():
    given = settings(MASTER, "spark.executor.memory=2g", "spark.driver.extraJavaOptions=-Dtheirs=a=b")
    assert given["spark.executor.memory"] == "2g"
    quick = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    assert given["spark.driver.extraJavaOptions"] == f"-Dours=1 {quick} -Dtheirs=a=b"
    assert given["spark.executor.extraJavaOptions"] == quick
    assert settings()["spark.executor.memory"] == "512m"


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_a_garbage_collector_that_the_user_names_is_the_only_one(role):
    key = f"spark.{role}.extraJavaOptions"
    given = settings(MASTER, f"{key}=-Xss2m -XX:+UseG1GC")
    assert given[key].endswith("-XX:TieredStopAtLevel=1 -Xss2m -XX:+UseG1GC")
    assert "Serial" not in given[key]


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[*]",
        "local[4]",
        "spark://h:7077",
        "spark://h-1.example:7077,[::1]:7078",
        "yarn",
        "k8s://https://h:6443",
    ],
)
def test_a_master_that_spark_knows_is_taken(master):
    assert parse_options(master, (), None).master == master


@pytest.mark.parametrize(
    "master",
    [
        *(
            "",
            "garbage",
            "spark://",
            "spark://h",
            "spark://h:",
            "spark://h:7077,,g:7077",
            "SPARK://h:7077",
            "spark://a b:7077",
        ),
        *(
            "spark://h_1:7077",
            "local[0]",
            "local[x]",
            "local[2,3]",
            "local-cluster[1,1,512]",
            "mesos://h:1",
            "http://h:1",
        ),
        *("spark://\x1b[31m:7077", "k8s://", "k8s://a b", "spark://h:7077/path", "x" * 3000),
    ],
)
def test_another_one_is_refused_before_anything_is_begun(master):
    with pytest.raises(ConfigError, match="is no master of Spark") as raised:
        parse_options(master, (), None)
    assert len(str(raised.value)) < 300
    assert "\x1b" not in str(raised.value)


def test_what_may_be_a_password_in_the_address_of_a_master_is_not_shown():
    with pytest.raises(ConfigError, match="'spark://…@h:7077' is no master") as raised:
        parse_options("spark://user:canary@h:7077", (), None)
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize("text", ["spark.executor.memory", "=1g", ""])
def test_a_setting_without_a_value_is_refused(text):
    with pytest.raises(ConfigError, match="is not KEY=VALUE"):
        parse_options(MASTER, (text,), None)


def test_an_archive_is_unpacked_where_its_python_is_looked_for(tmp_path):
    archive = tmp_path / "packed.tar.gz"
    with pytest.raises(ConfigError, match="is not there"):
        parse_options(MASTER, (), archive)
    archive.touch()
    with pytest.raises(ConfigError, match="--archive needs --master"):
        parse_options(None, (), archive)
    assert settings(archive=archive)["spark.archives"] == f"{archive.as_uri()}#environment"
    assert executors_python(parse_options(MASTER, (), archive), {}) == "./environment/bin/python"


def test_lanes_run_in_the_python_that_was_named_on_the_command_line_then_in_the_environment_then_in_ours():
    named = parse_options(MASTER, ("spark.pyspark.python=/opt/one/bin/python",), None)
    assert executors_python(named, {"PYSPARK_PYTHON": "/opt/two/bin/python"}) == "/opt/one/bin/python"
    assert executors_python(SparkOptions(), {"PYSPARK_PYTHON": "/opt/two/bin/python"}) == "/opt/two/bin/python"
    assert executors_python(SparkOptions(), {}) == sys.executable


HERE = {"spark.master": "spark://127.0.0.1:7077", "spark.driver.host": "127.0.0.1"}
AWAY = HERE | {"spark.driver.host": "10.0.0.7"}
SECURE = AWAY | {"spark.authenticate": "true"}


def test_settings_are_exposed_where_spark_does_not_both_authenticate_and_encrypt_or_stay_on_this_machine():
    assert exposure(AWAY) is exposure({}) is Exposure.FETCHED
    assert exposure(AWAY | {"spark.authenticate": "false", "spark.network.crypto.enabled": "true"}) is Exposure.FETCHED
    assert exposure(AWAY | {"spark.ssl.rpc.enabled": "true"}) is Exposure.FETCHED
    assert exposure(SECURE) is exposure(SECURE | {"spark.network.crypto.enabled": "false"}) is Exposure.READ
    assert exposure(SECURE | {"spark.ssl.enabled": "true", "spark.io.encryption.enabled": "true"}) is Exposure.READ
    for key in ("spark.network.crypto.enabled", "spark.authenticate.enableSaslEncryption", "spark.ssl.rpc.enabled"):
        assert exposure(SECURE | {key: "true"}) is Exposure.NOTHING
    assert exposure(HERE) is Exposure.TO_USERS
    assert exposure(HERE | {"spark.authenticate": "true"}) is Exposure.NOTHING


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "[::1]"])
def test_a_cluster_is_on_this_machine_where_its_driver_and_all_its_masters_listen_here_alone(host):
    here = {"spark.master": f"spark://{host}:7077,127.0.0.1:7078", "spark.driver.host": host}
    assert exposure(here) is exposure(here | {"spark.driver.bindAddress": host}) is Exposure.TO_USERS


@pytest.mark.parametrize(
    "changed",
    [
        {"spark.driver.bindAddress": "0.0.0.0"},
        {"spark.driver.bindAddress": "::"},
        {"spark.driver.host": "10.0.0.7"},
        {"spark.driver.host": "mirror.example.com"},
        {"spark.master": "spark://prod-master:7077"},
        {"spark.master": "spark://127.0.0.1:7077,prod-master:7077"},
        {"spark.master": "spark://127.0.0.1.example.com:7077"},
        {"spark.master": "k8s://https://127.0.0.1:6443"},
        {"spark.master": "yarn"},
        {"spark.master": ""},
    ],
)
def test_a_cluster_of_which_anything_listens_elsewhere_has_to_authenticate(changed):
    assert exposure(HERE | changed) is Exposure.FETCHED


def test_the_master_is_named_by_its_own_option_alone_since_what_is_asked_of_a_cluster_goes_by_it():
    for master in (None, "spark://127.0.0.1:7077"):
        with pytest.raises(ConfigError, match="write --master"):
            parse_options(master, ("spark.master=spark://prod-master:7077",), None)


def test_executors_are_away_where_one_listens_beyond_the_loopback_interface_and_untold_until_each_has_told():
    started = Executors(registered=frozenset("01"), hosts={"0": "127.0.0.1"})
    assert (started.untold, started.near, started.away) == (frozenset("1"), frozenset("0"), ())
    joined = Executors(registered=frozenset("012"), hosts={"0": "localhost", "1": "[fd00::2]", "2": "worker-2"})
    assert (joined.untold, joined.near, joined.away) == (frozenset(), frozenset("0"), ("[fd00::2]", "worker-2"))


def test_a_refusal_names_the_hosts_on_which_executors_listen():
    with pytest.raises(ConfigError, match=r"listen on 10\.0\.0\.8: start their workers with --host 127\.0\.0\.1"):
        check_exposure(parse_options("spark://127.0.0.1:7077", (), None), Exposure.FETCHED, ("10.0.0.8",))


@pytest.mark.parametrize(
    ("found", "key"),
    [(Exposure.FETCHED, "spark.authenticate"), (Exposure.READ, "spark.network.crypto.enabled")],
)
def test_a_network_that_is_not_closed_is_refused_unless_the_command_line_says_that_it_need_not_be(found, key):
    for conf in ((), (f"{key}=true",), ("spark.executor.memory=1g",), ("spark.ssl.rpc.enabled=false",)):
        with pytest.raises(ConfigError, match=rf"passwords included.*--conf {key}=false"):
            check_exposure(parse_options(MASTER, conf, None), found)
    check_exposure(parse_options(MASTER, (f"{key}=false",), None), found)
    for harmless in (Exposure.NOTHING, Exposure.TO_USERS):
        check_exposure(parse_options(MASTER, (), None), harmless)


@pytest.mark.parametrize("master", [None, MASTER])
def test_spark_shows_its_page_only_where_it_is_told_to(master):
    assert settings(master)["spark.ui.enabled"] == "false"
    assert settings(master, "spark.ui.enabled=true")["spark.ui.enabled"] == "true"


def test_a_master_that_takes_programs_from_whoever_asks_is_refused_unless_it_may():
    options = parse_options(MASTER, (), None)
    assert masters_of(options) == ["spark.example.com"]
    assert masters_of(parse_options(None, (), None)) == masters_of(parse_options("yarn", (), None)) == []
    assert check_submissions(options, ()) == ""
    with pytest.raises(
        ConfigError, match=r"anybody who reaches it .*spark\.example\.com.*spark\.master\.rest\.enabled=false"
    ):
        check_submissions(options, ("spark.example.com",))
    allowed = parse_options(MASTER, ("spark.master.rest.enabled=true",), None)
    assert "anybody who reaches it" in check_submissions(allowed, ("spark.example.com",))
    assert "other users of this machine" in check_submissions(options, ("127.0.0.1", "localhost"))
