"""``sparkmirror acls``: what it prints, and that a mirror with exactly these rights does its work."""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType, ResourcePatternType, ResourceType
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from sparkmirror.cli.acls import by_cluster
from sparkmirror.cli.app import main
from sparkmirror.config import Side, load
from sparkmirror.lab.cluster import LabCluster, start_all
from sparkmirror.lab.jars import mirror_maker_jars
from sparkmirror.spark.java import find_java, spark_jar
from tests.flow.rights import GUARDED, USER, allow
from tests.flow.running import Running, add_partitions, admin_of, count, create_topic, until, write_file
from tests.flow.test_events import read_all, records, write

FILE = """\
clusters = A, B, C
A.bootstrap.servers = a:9092
B.bootstrap.servers = b1:9092, b2:9092
C.bootstrap.servers = c:9092
A->B.enabled = true
A->B.topics = orders, pay.*
A->C.enabled = true
A->C.topics = payments
B->C.enabled = true
B->C.topics = .*
"""

Acls = Callable[..., tuple[object, str, str]]


@pytest.fixture
def acls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Acls:
    """Runs the command on a file; gives exit code, standard output and standard error."""
    path = tmp_path / "mm2.properties"
    path.write_text(FILE, encoding="utf-8")

    def run(*options: str, file: Path = path) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["acls", str(file), *options])
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return run


def commands(printed: str) -> list[list[str]]:
    return [shlex.split(line) for line in printed.splitlines() if line and not line.startswith("#")]


def options(command: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for word, following in zip(command, [*command[1:], "--"], strict=True):
        if word.startswith("--"):
            found.setdefault(word, []).append("" if following.startswith("--") else following)
    return found


def test_commands_are_grouped_by_cluster_and_follow_the_files_order(acls: Acls):
    code, out, err = acls("--for", "target")
    assert (code, err) == (0, "")
    assert re.findall(r"# cluster .*", out) == [
        "# cluster B, for A->B, C->B (heartbeats alone)",
        "# cluster C, for A->C, B->C",
        "# cluster A, for B->A (heartbeats alone), C->A (heartbeats alone)",
    ]
    assert {options(one)["--bootstrap-server"][0] for one in commands(out)} == {"a:9092", "b1:9092,b2:9092", "c:9092"}
    assert acls("--for", "target") == (0, out, ""), "the same text each time"
    sources = re.findall(r"# cluster .*", acls("--for", "source")[1])
    assert sources == ["# cluster A, for A->B, A->C", "# cluster B, for B->C"]


def test_a_command_allows_all_that_a_resource_needs_and_says_what_for(acls: Acls):
    _, out, _ = acls("--for", "source", "--flow", "A->B", "--principal", "User:CN=mirror one")
    lines = out.splitlines()
    (place,) = [number for number, line in enumerate(lines) if " --topic orders " in line]
    assert lines[place - 1] == "# copying; creating topics with their properties; topic configs"
    assert options(shlex.split(lines[place])) == {
        "--bootstrap-server": ["a:9092"],
        "--add": [""],
        "--allow-principal": ["User:CN=mirror one"],
        "--operation": ["Read", "DescribeConfigs"],
        "--topic": ["orders"],
        "--resource-pattern-type": ["literal"],
    }
    assert " --cluster" in out
    assert "--topic pay --resource-pattern-type prefixed" in out
    assert "deny" not in out.lower()


def test_a_cluster_that_only_gets_heartbeats_needs_nothing_else(acls: Acls):
    _, out, _ = acls("--for", "target")
    (one,) = commands("#" + out.partition("# cluster A, for")[2])
    told = options(one)
    assert (told["--topic"], told["--operation"]) == (["heartbeats"], ["Write", "Create"])
    assert "# cluster A" not in acls("--for", "target", "--flow", "A->B")[1]


def test_what_moving_needs_is_named_with_its_reason(acls: Acls, tmp_path: Path):
    some_groups = tmp_path / "some-groups.properties"
    some_groups.write_text(f"{FILE}groups = team-.*\n", encoding="utf-8")

    def told(*options: str) -> dict[str, str]:
        lines = acls("--for", "target", "--flow", "A->B", *options, file=some_groups)[1].splitlines()
        return {line: reason.removeprefix("# ") for reason, line in pairwise(lines)}

    def operations(found: dict[str, str], place: str) -> tuple[list[str], str]:
        (line,) = [line for line in found if f" {place} " in f"{line} "]
        return options(shlex.split(line))["--operation"], found[line]

    taking_over = "taking over from MirrorMaker 2, at the first start only"
    by_itself = told()
    assert operations(by_itself, "--topic mm2-offsets.A.internal") == (["Read"], taking_over)
    assert operations(by_itself, "--group A-mm2") == (["Describe"], taking_over)
    both, reasons = told("--hand-over"), f"handing over to MirrorMaker 2; {taking_over}"
    assert operations(both, "--topic mm2-offsets.A.internal") == (["Read", "Write", "Create"], reasons)
    assert operations(both, "--group A-mm2") == (["Describe"], reasons)
    assert operations(told("--offsets-topic", "connect-offsets"), "--topic connect-offsets")[0] == ["Read"]


def test_strimzi_gets_a_user_for_each_cluster(acls: Acls):
    code, out, err = acls("--for", "target", "--format", "strimzi")
    assert (code, err) == (0, "")
    first, *others = out.split("---\n")
    assert re.findall(r"strimzi.io/cluster: (\S+)", out) == ['"B"', '"C"', '"A"']
    assert len(others) == 2
    assert 'kind: KafkaUser\nmetadata:\n  name: "mirror"\n' in first
    assert (
        "      - resource:\n"
        "          type: topic\n"
        '          name: "A.pay"\n'
        "          patternType: prefix\n"
        "        operations:\n"
        "          - Read\n"
    ) in first
    assert "          type: cluster\n        operations:\n" in first
    assert "          type: transactionalId\n" in first


def test_terraform_gets_one_resource_for_each_operation(acls: Acls):
    code, out, err = acls("--for", "source", "--format", "terraform")
    assert (code, err) == (0, "")
    labels = re.findall(r'^resource "kafka_acl" "([^"]+)" \{$', out, flags=re.MULTILINE)
    assert len(labels) == len(set(labels))
    block = out.split('resource "kafka_acl" "A_topic_orders_read" {\n')[1].split("}")[0]
    assert dict(re.findall(r"^  (\w+) += (.*)$", block, flags=re.MULTILINE)) == {
        "provider": "kafka.A",
        "resource_name": '"orders"',
        "resource_type": '"Topic"',
        "resource_pattern_type_filter": '"Literal"',
        "acl_principal": '"User:mirror"',
        "acl_host": '"*"',
        "acl_operation": '"Read"',
        "acl_permission_type": '"Allow"',
    }
    assert "provider" not in acls("--for", "source", "--format", "terraform", "--flow", "A->B")[1]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--for", "source", "--principal", "mirror"], "is no principal: write User:mirror"),
        (["--for", "source", "--format", "strimzi", "--principal", "User:Mirror"], "a KafkaUser is named with small"),
        (["--for", "both"], "'both' is not one of"),
        ([], "Missing option '--for'"),
        (["--for", "source", "--flow", "A->X"], "A->X"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_says_why(acls: Acls, options: list[str], complaint: str):
    code, out, err = acls(*options)
    assert (code, out) == (2, "")
    assert complaint in " ".join(re.sub(r"[│╭╮╰╯─]", " ", err).split())


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[LabCluster, LabCluster]]:
    source, target = start_all(["least-source", "least-target"], security=("SASL_PLAIN",), config=GUARDED)
    yield source, target
    source.stop()
    target.stop()


@pytest.fixture(scope="module")
def kafka_acls() -> Iterator[Callable[[str, LabCluster], None]]:
    """Runs printed commands with the class behind ``kafka-acls.sh``, all in one JVM; a refusal ends that JVM."""
    port = launch_gateway(
        jarpath=str(spark_jar("py4j-*.jar")),
        classpath=f"{mirror_maker_jars()}/*",
        java_path=str(find_java().executable),
        javaopts=["-Xmx128m"],
        die_on_exit=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))

    def run(printed: str, cluster: LabCluster) -> None:
        for tool, *words in commands(printed):
            assert tool == "kafka-acls.sh"
            words[words.index("--bootstrap-server") + 1] = cluster.bootstrap_servers
            arguments = gateway.new_array(gateway.jvm.java.lang.String, len(words))
            for number, word in enumerate(words):
                arguments[number] = word
            gateway.jvm.org.apache.kafka.tools.AclCommand.main(arguments)

    yield run
    gateway.shutdown()


def bindings(cluster: LabCluster, principal: str) -> set[tuple[int, str, int, str, int]]:
    """What a principal may do there; that nothing is denied to it is asserted."""
    admin = admin_of(cluster)
    every = AclBindingFilter(
        ResourceType.ANY,
        None,  # type: ignore[arg-type]  # its own documentation: None is any
        ResourcePatternType.ANY,
        principal,
        None,  # type: ignore[arg-type]  # the same
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    found = admin.describe_acls(every).result(60)
    assert {each.permission_type for each in found} <= {AclPermissionType.ALLOW}
    return {
        (each.restype.value, each.name, each.resource_pattern_type.value, each.host, each.operation.value)
        for each in found
    }


def expected(file: Path, side: Side) -> set[tuple[int, str, int, str, int]]:
    (cluster,) = by_cluster(load([file]), side)
    return {
        (int(grant.kind), grant.name, int(grant.pattern), "*", int(operation))
        for grant in cluster.grants
        for operation in grant.operations
    }


@pytest.mark.kafka
@pytest.mark.slow
def test_a_mirror_with_exactly_these_rights_copies_and_copies_acls(
    guarded: tuple[LabCluster, LabCluster],
    kafka_acls: Callable[[str, LabCluster], None],
    acls: Acls,
    topic: Callable[..., str],
    tmp_path: Path,
):
    source, target = guarded
    name, beside = topic("orders.eu"), topic("secret")
    for each in (name, beside):
        create_topic(source, each)
        write(source, each, (0,), records(50))
    allow(source, ResourceType.TOPIC, name, AclOperation.READ, principal="User:alice")
    clusters = {"a": source.client_properties("SASL_PLAIN"), "g": target.client_properties("SASL_PLAIN")}
    settings = {
        "sync.topic.acls.interval.seconds": "1",
        "sync.topic.configs.enabled": "true",
        "sync.topic.configs.interval.seconds": "1",
        "emit.heartbeats.enabled": "true",
        "heartbeats.topic.replication.factor": "1",
        "g->a.emit.heartbeats.enabled": "false",
        "emit.offset-syncs.enabled": "true",
        "offset-syncs.topic.replication.factor": "1",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
    }
    file = write_file(tmp_path / "least.properties", clusters, {"a->g": "orders.*, never-(a|b)"}, settings)

    def grant(side: Side, cluster: LabCluster) -> None:
        code, printed, _ = acls("--for", side.value, file=file)
        assert code == 0
        kafka_acls(printed, cluster)
        until(lambda: bindings(cluster, USER) == expected(file, side), "the rights are there", 20)

    grant(Side.SOURCE, source)
    grant(Side.TARGET, target)
    with Running(file, log=tmp_path / "run.log") as mirror:
        until(lambda: count(target, f"a.{name}") >= 50, "the copy")
        add_partitions(source, name, 2)
        write(source, name, (1,), records(20))
        until(lambda: count(target, f"a.{name}") >= 70, "the new partition's records")
        for worker in mirror.lane_workers():
            os.kill(worker, signal.SIGKILL)
        write(source, name, (0,), records(30, 50))
        until(lambda: read_all(target, f"a.{name}")[0] == records(80), "the partition is taken over")
        until(lambda: "ACL of topic" in mirror.output, "the binding of alice is copied")
        mirror.stop_in_time()
    read = (ResourceType.TOPIC.value, f"a.{name}", ResourcePatternType.LITERAL.value, "*", AclOperation.READ.value)
    assert bindings(target, "User:alice") == {read}
    assert "AUTHORIZATION" not in mirror.output, mirror.tail()
    assert "Traceback" not in mirror.output, mirror.tail()
    assert not count(target, f"a.{beside}"), "what the file does not name is not copied"
