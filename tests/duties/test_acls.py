"""ACLs: what becomes of each binding, as tables; then rounds between clusters with authorizers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from sparkmirror.config import AclSync, FlowConfig, GroupSettings, PolicyChoice, PolicyKind, load
from sparkmirror.duties import topics
from sparkmirror.duties.acl_translation import can_come_of, translate, wanted
from sparkmirror.duties.acls import ChangeBinding, Note, Observed, TopicAcls, _words, decide, observe
from sparkmirror.duties.duty import Sides, Sign, do_round
from sparkmirror.duties.internal_topics import ensure_internal_topics
from sparkmirror.duties.topics import NOTHING_BEGUN, Begun
from sparkmirror.errors import BrokerError
from sparkmirror.kafka.acls import (
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    create_acls,
    delete_acls,
    describe_acls,
)
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.store import Store
from sparkmirror.lab.cluster import LabCluster, start_all
from sparkmirror.naming import internal_topic
from sparkmirror.offsets.duty_records import AclRecord
from tests.flow.rights import GUARDED
from tests.flow.running import admin_of, create_topic, until, write_file

A, B = "A", "B"


def parse(text: str) -> AclBinding:
    """``ALLOW READ alice topic orders`` as a binding; ``orders*`` is a prefix, ``*`` alone is everything."""
    permission, operation, user, kind, name = text.split()
    prefixed = name.endswith("*") and name != "*"
    return AclBinding(
        ResourceType[kind.upper()],
        name.removesuffix("*") if prefixed else name,
        PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        f"User:{user}",
        "*",
        Operation[operation],
        Permission[permission],
    )


def parsed(*texts: str) -> frozenset[AclBinding]:
    return frozenset(parse(text) for text in texts)


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> FlowConfig:
    path = tmp_path_factory.mktemp("acls") / "mm2.properties"
    a, b = ({"bootstrap.servers": f"localhost:{port}"} for port in (1, 2))
    (found,) = load([write_file(path, {A: a, B: b}, {"A->B": "orders, payments.*"})]).flows
    return found


WIDE = AclSync(prefixed=True)
GROUPS = AclSync(groups=True)
IDENTITY = PolicyChoice(kind=PolicyKind.IDENTITY)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("ALLOW READ alice topic orders", "ALLOW READ alice topic A.orders"),
        ("ALLOW DESCRIBE alice topic payments-1", "ALLOW DESCRIBE alice topic A.payments-1"),
        ("ALLOW ALTER_CONFIGS alice topic orders", "ALLOW ALTER_CONFIGS alice topic A.orders"),
        ("ALLOW WRITE alice topic orders", None),
        ("ALLOW ALL alice topic orders", "ALLOW READ alice topic A.orders"),
        ("DENY WRITE alice topic orders", "DENY WRITE alice topic A.orders"),
        ("DENY ALL alice topic orders", "DENY ALL alice topic A.orders"),
        ("DENY WRITE * topic orders", None),
        ("DENY READ * topic orders", "DENY READ * topic A.orders"),
        ("DENY ALL * topic orders", "DENY READ * topic A.orders"),
        ("DENY DESCRIBE * topic orders", None),
        ("DENY ALTER_CONFIGS * topic orders", None),
        ("ALLOW READ alice topic other", None),
        ("ALLOW READ alice topic __consumer_offsets", None),
        ("ALLOW READ alice topic B.orders", None),
        ("ALLOW READ alice topic heartbeats", "ALLOW READ alice topic A.heartbeats"),
        ("ALLOW READ alice topic orders*", None),
        ("ALLOW READ alice topic *", None),
        ("ALLOW READ alice group orders", None),
    ],
)
def test_topics_follow_the_rules_of_mirror_maker(flow: FlowConfig, source: str, target: str | None):
    assert wanted(flow, parsed(source), ()) == (parsed(target) if target else frozenset())


@pytest.mark.parametrize(
    ("policy", "source", "target"),
    [
        (PolicyChoice(), "ALLOW READ alice topic pay*", "ALLOW READ alice topic A.pay*"),
        (PolicyChoice(separator="_"), "ALLOW READ alice topic pay*", "ALLOW READ alice topic A_pay*"),
        (PolicyChoice(), "DENY ALL alice topic pay*", "DENY ALL alice topic A.pay*"),
        (PolicyChoice(), "ALLOW ALL alice topic *", "ALLOW READ alice topic A.*"),
        (PolicyChoice(), "ALLOW WRITE alice topic pay*", None),
        (PolicyChoice(), "ALLOW READ alice topic other*", None),
        (IDENTITY, "ALLOW READ alice topic pay*", "ALLOW READ alice topic pay*"),
        (IDENTITY, "ALLOW READ alice topic *", None),
        (IDENTITY, "DENY READ alice topic *", None),
        (PolicyChoice(), "ALLOW READ alice topic orders", "ALLOW READ alice topic A.orders"),
    ],
)
def test_prefixes_are_renamed_where_a_copied_topic_has_them(
    flow: FlowConfig, policy: PolicyChoice, source: str, target: str | None
):
    flow = replace(flow, acls=WIDE, policy=policy)
    assert wanted(flow, parsed(source), ("payments-1",)) == (parsed(target) if target else frozenset())


@pytest.mark.parametrize("pattern", [PatternType.PREFIXED, PatternType.LITERAL])
def test_an_asterisk_as_a_prefix_means_names_that_begin_with_it(flow: FlowConfig, pattern: PatternType):
    some = replace(parse("ALLOW READ alice topic *"), pattern=pattern)
    (one,) = translate(replace(flow, acls=WIDE), [some])
    assert (one.name, one.pattern) == (("A.*" if pattern is PatternType.PREFIXED else "A."), PatternType.PREFIXED)
    assert wanted(replace(flow, acls=WIDE), [some], ("payments-1",)) == (
        frozenset() if pattern is PatternType.PREFIXED else {one}
    )


@pytest.mark.parametrize(
    ("policy", "sync", "source", "copied"),
    [
        (PolicyChoice(), AclSync(), ("DENY READ bob topic ord*",), ("DENY READ bob topic A.orders",)),
        (PolicyChoice(), AclSync(), ("DENY ALL bob topic *",), ("DENY ALL bob topic A.orders",)),
        (PolicyChoice(), AclSync(), ("DENY READ bob topic pay*", "DENY WRITE * topic *"), ()),
        (IDENTITY, AclSync(), ("DENY READ bob topic *",), ("DENY READ bob topic orders",)),
        (IDENTITY, WIDE, ("DENY READ bob topic *",), ("DENY READ bob topic orders",)),
        (IDENTITY, WIDE, ("DENY READ bob topic ord*",), ("DENY READ bob topic ord*",)),
        (PolicyChoice(), WIDE, ("DENY READ bob topic *",), ("DENY READ bob topic A.*",)),
    ],
)
def test_whom_the_source_keeps_out_of_many_topics_may_not_read_a_copy_either(
    flow: FlowConfig, policy: PolicyChoice, sync: AclSync, source: tuple[str, ...], copied: tuple[str, ...]
):
    flow, given = replace(flow, policy=policy, acls=sync), parse("ALLOW READ * topic orders")
    (allowed,) = translate(flow, [given])
    assert wanted(flow, {given, *parsed(*source)}, ("orders", "payments-1")) == {allowed, *parsed(*copied)}
    assert all(can_come_of(flow, each, ("orders", "payments-1")) for each in parsed(*copied))


OPERATIONS = [Operation[name] for name in ("READ", "ALL", "DESCRIBE", "WRITE", "DELETE", "ALTER", "ALTER_CONFIGS")]
IMPLIED_BY = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def may(bindings: Collection[AclBinding], user: str, operation: Operation, topic: str) -> bool:
    """Kafka's decision, see ``StandardAuthorizerData``."""

    def means(each: AclBinding) -> bool:
        prefixed = each.pattern is PatternType.PREFIXED
        return topic.startswith(each.name) if prefixed else each.name in (topic, "*")

    found = [each for each in bindings if each.principal in (user, "User:*") and means(each)]
    denied = {each.operation for each in found if each.permission is Permission.DENY}
    allowed = {each.operation for each in found if each.permission is Permission.ALLOW}
    return not denied & {operation, Operation.ALL} and bool(
        allowed & {operation, Operation.ALL, *IMPLIED_BY.get(operation, ())}
    )


@pytest.mark.parametrize("prefixed", [False, True])
@pytest.mark.parametrize("policy", [PolicyChoice(), IDENTITY])
def test_nobody_may_do_to_a_copy_what_the_source_does_not_let_them_do(
    flow: FlowConfig, policy: PolicyChoice, prefixed: bool
):
    flow, chance = replace(flow, policy=policy, acls=AclSync(prefixed=prefixed)), Random(5)
    chosen = ("orders", "payments-1", "payments-2")
    names = [*((name, PatternType.LITERAL) for name in (*chosen, "*", "other"))]
    names += [(name, PatternType.PREFIXED) for name in ("pay", "payments-1", "o", "*")]
    users, permissions = ("User:x", "User:y", "User:*"), (Permission.ALLOW, Permission.ALLOW, Permission.DENY)
    for _ in range(1_500):
        given = frozenset(
            AclBinding(
                ResourceType.TOPIC,
                *chance.choice(names),
                chance.choice(users),
                "*",
                chance.choice(OPERATIONS),
                chance.choice(permissions),
            )
            for _ in range(chance.randint(1, 4))
        )
        there = wanted(flow, given, chosen)
        for topic, user, operation in product(chosen, ("User:x", "User:z"), (*OPERATIONS, *IMPLIED_BY)):
            copy = topics.remote_topic(flow, topic)
            if operation is not Operation.ALL and may(there, user, operation, copy):
                assert may(given, user, operation, topic), (given, there, user, operation, topic)


@pytest.mark.parametrize("policy", [PolicyChoice(), IDENTITY])
def test_a_denial_by_name_stays_as_long_as_that_of_many_topics_which_it_stands_for(
    flow: FlowConfig, policy: PolicyChoice
):
    flow = replace(flow, policy=policy, acls=AclSync(remove=True))
    source = parsed("ALLOW READ * topic orders", "DENY READ bob topic *")
    empty = Observed(flow=flow, source=source, chosen=("orders",))
    made = [action.binding for action in decide(empty) if isinstance(action, ChangeBinding)]
    assert [each.permission for each in made] == [Permission.DENY, Permission.ALLOW]
    there = replace(empty, target=frozenset(made), created=frozenset(made))
    for now in (there, replace(there, chosen=())):
        assert not [action for action in decide(now) if isinstance(action, ChangeBinding)]
    left = replace(there, source=parsed("ALLOW READ * topic orders"))
    gone = [action for action in decide(left) if isinstance(action, ChangeBinding)]
    assert [(each.sign, each.binding) for each in gone] == [(Sign.REMOVE, made[0])]


def test_whom_the_source_keeps_out_of_all_that_is_allowed_by_a_prefix_may_not_read_a_copy_either(flow: FlowConfig):
    flow = replace(flow, policy=IDENTITY, acls=WIDE)
    given = parsed("ALLOW READ * topic pay*", "DENY READ bob topic *")
    expected = parsed("ALLOW READ * topic pay*", "DENY READ bob topic payments-1")
    assert wanted(flow, given, ("orders", "payments-1")) == expected


@pytest.mark.parametrize(
    ("sync", "source", "copied"),
    [
        (GROUPS, "ALLOW READ alice group team-1", "ALLOW READ alice group team-1"),
        (GROUPS, "ALLOW ALL alice group team-1", "ALLOW READ alice group team-1"),
        (GROUPS, "DENY DESCRIBE alice group team-1", "DENY DESCRIBE alice group team-1"),
        (GROUPS, "ALLOW DELETE alice group team-1", None),
        (GROUPS, "ALLOW READ alice group other", None),
        (GROUPS, "ALLOW READ alice group team-x", None),
        (GROUPS, "ALLOW READ alice group team-*", None),
        (replace(GROUPS, prefixed=True), "ALLOW READ alice group team-*", "ALLOW READ alice group team-*"),
        (replace(GROUPS, prefixed=True), "ALLOW READ alice group *", None),
        (WIDE, "ALLOW READ alice group team-1", None),
    ],
)
def test_groups_that_are_chosen_keep_their_names(flow: FlowConfig, sync: AclSync, source: str, copied: str | None):
    flow = replace(flow, acls=sync, groups=GroupSettings(include=("team-.*",), exclude=(".*x",)))
    assert wanted(flow, parsed(source), ()) == (parsed(copied) if copied else frozenset())


FULL = AclSync(prefixed=True, groups=True, remove=True)


@pytest.mark.parametrize(
    ("policy", "binding", "possible"),
    [
        (PolicyChoice(), "ALLOW READ alice topic A.orders", True),
        (PolicyChoice(), "DENY ALL alice topic A.payments-1", True),
        (PolicyChoice(), "DENY READ * topic A.orders", True),
        (PolicyChoice(), "ALLOW READ alice topic A.pay*", True),
        (PolicyChoice(), "ALLOW READ alice topic A.*", True),
        (PolicyChoice(separator="_"), "ALLOW READ alice topic A_pay*", True),
        (PolicyChoice(), "ALLOW READ alice group readers", True),
        (PolicyChoice(), "DENY DESCRIBE alice group read*", True),
        (IDENTITY, "ALLOW READ alice topic orders", True),
        (IDENTITY, "ALLOW READ alice topic pay*", True),
        (PolicyChoice(), "DENY READ alice topic payroll", False),
        (PolicyChoice(), "DENY READ alice topic A.payroll", False),
        (PolicyChoice(), "ALLOW READ alice topic B.payroll", False),
        (PolicyChoice(), "ALLOW READ alice topic A.B.orders", False),
        (PolicyChoice(separator="_"), "ALLOW READ alice topic A.orders", False),
        (PolicyChoice(), "DENY WRITE * topic A.orders", False),
        (PolicyChoice(), "ALLOW WRITE alice topic A.orders", False),
        (PolicyChoice(), "ALLOW ALL alice topic A.orders", False),
        (PolicyChoice(), "ALLOW READ alice topic *", False),
        (PolicyChoice(), "ALLOW READ alice topic pay*", False),
        (PolicyChoice(), "ALLOW READ alice topic A.other*", False),
        (PolicyChoice(), "DENY READ alice group *", False),
        (PolicyChoice(), "DENY READ alice group writers", False),
        (PolicyChoice(), "DENY DELETE alice group readers", False),
        (PolicyChoice(), "DENY ALTER alice cluster kafka-cluster", False),
        (IDENTITY, "DENY ALTER alice cluster orders", False),
        (IDENTITY, "DENY DESCRIBE alice transactional_id orders", False),
        (IDENTITY, "DENY READ alice user orders", False),
        (IDENTITY, "DENY READ alice topic payroll", False),
        (IDENTITY, "DENY READ alice topic roll*", False),
        (IDENTITY, "DENY READ alice topic *", False),
        (IDENTITY, "DENY WRITE * topic orders", False),
    ],
)
def test_only_what_the_flow_would_make_now_can_have_come_of_the_source(
    flow: FlowConfig, policy: PolicyChoice, binding: str, possible: bool
):
    flow = replace(flow, policy=policy, acls=FULL, groups=GroupSettings(include=("read.*",)))
    assert can_come_of(flow, parse(binding), ("orders", "payments-1")) is possible


@pytest.mark.parametrize(
    ("sync", "binding"),
    [
        (replace(FULL, prefixed=False), "DENY READ alice topic A.pay*"),
        (replace(FULL, prefixed=False), "DENY READ alice group read*"),
        (replace(FULL, groups=False), "DENY READ alice group readers"),
        (replace(FULL, groups=False), "DENY READ alice group read*"),
    ],
)
def test_what_is_not_synchronized_cannot_have_come_of_the_source(flow: FlowConfig, sync: AclSync, binding: str):
    assert not can_come_of(replace(flow, acls=sync), parse(binding), ("payments-1",))


LOWER = """\
class Lower:
    def __init__(self, settings):
        pass

    def format_remote_topic(self, source_alias, topic):
        return f"{source_alias}.{topic.lower()}"

    def topic_source(self, topic):
        return topic.split(".")[0] if "." in topic else None

    def upstream_topic(self, topic):
        return topic.split(".", 1)[1] if "." in topic else None
"""


def test_of_topics_with_one_name_on_the_target_only_the_rules_of_the_copied_one_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "lower_names.py").write_text(LOWER)
    monkeypatch.syspath_prepend(str(tmp_path))
    a, b = ({"bootstrap.servers": f"localhost:{port}"} for port in (1, 2))
    settings = {"replication.policy.class": "lower_names:Lower"}
    (flow,) = load([write_file(tmp_path / "mm2.properties", {A: a, B: b}, {"A->B": ".*"}, settings)]).flows
    hr, mallory = "ALLOW READ hr topic payroll", "ALLOW READ mallory topic PayRoll"
    begun = Begun(topics=frozenset({"payroll"}), there=frozenset({"payroll"}))
    copied = parsed("ALLOW READ hr topic A.payroll")
    both = Observed(flow=flow, source=parsed(hr, mallory), chosen=("PayRoll", "payroll"), begun=begun)
    assert both.wanted == copied
    assert replace(both, source=parsed(mallory)).wanted == frozenset()
    assert replace(both, chosen=("PayRoll",)).wanted == copied, "the copy of one that is gone keeps its name"
    assert replace(both, chosen=("payroll",), begun=NOTHING_BEGUN).wanted == copied, "who comes first has the name"


def test_what_others_have_put_on_record_is_not_removed(flow: FlowConfig, monkeypatch: pytest.MonkeyPatch):
    """Whoever writes to the internal topic names bindings there; the flow deletes only what it can have made."""
    records = [
        AclRecord(binding=_words(parse(text)), time_ms=1)
        for text in (
            "ALLOW READ alice topic A.payments-gone",
            "DENY READ mallory topic payroll",
            "DENY WRITE * topic A.orders",
            "DENY READ mallory group payroll",
            "DENY ALTER mallory cluster kafka-cluster",
        )
    ]
    store: Any = SimpleNamespace(
        follow=lambda: None, state=SimpleNamespace(progress={}, acls={str(n): r for n, r in enumerate(records)})
    )
    flow = replace(flow, acls=AclSync(remove=True))
    nothing: Any = None
    sides = Sides(flow=flow, source=nothing, target=nothing, store=store)
    monkeypatch.setattr("sparkmirror.duties.acls.acls.describe_acls", lambda *_: frozenset())
    monkeypatch.setattr("sparkmirror.duties.acls.admin.list_topics", lambda *_, **__: {})
    removed, note = decide(observe(sides))
    assert removed.change.text == "- B: ACL of topic A.payments-gone  ALLOW READ to User:alice from any host"
    assert isinstance(note, Note)
    assert note.what == "4 ACLs on record"


def test_only_what_the_target_lacks_is_created(flow: FlowConfig):
    source = parsed("ALLOW READ alice topic orders", "ALLOW READ bob topic orders", "ALLOW WRITE bob topic orders")
    target = parsed("ALLOW READ alice topic A.orders", "ALLOW READ carol topic A.orders")
    observed = Observed(flow=flow, source=source, target=target)
    (action,) = decide(observed)
    assert action.change.text == "+ B: ACL of topic A.orders  ALLOW READ to User:bob from any host"
    assert decide(replace(observed, target=target | parsed("ALLOW READ bob topic A.orders"))) == ()


@pytest.mark.parametrize(
    ("left", "removed"),
    [
        (["ALLOW READ alice topic gone"], []),
        (["ALLOW ALL alice topic gone"], []),
        (["ALLOW WRITE alice topic gone"], ["ALLOW READ alice topic A.gone"]),
        ([], ["ALLOW READ alice topic A.gone"]),
    ],
)
def test_what_the_flow_created_is_removed_when_its_origin_is_gone_whatever_is_chosen_now(
    flow: FlowConfig, left: list[str], removed: list[str]
):
    target = parsed("ALLOW READ alice topic A.gone", "ALLOW READ bob topic A.gone")
    created = parsed("ALLOW READ alice topic A.gone")
    actions = decide(Observed(flow=flow, source=parsed(*left), target=target, created=created))
    assert [action.binding for action in actions if isinstance(action, ChangeBinding)] == sorted(parsed(*removed))
    assert all(action.change.sign is Sign.REMOVE for action in actions)


def test_a_source_without_an_authorizer_removes_nothing(flow: FlowConfig):
    observed = Observed(flow=flow, source=None, created=parsed("ALLOW READ alice topic A.orders"))
    assert [action.change.sign for action in decide(observed)] == [Sign.NOTE]


@pytest.mark.parametrize(
    ("observed", "notes"),
    [
        ({"source": None}, ["no authorizer"]),
        ({"source": parsed("ALLOW READ alice topic orders"), "target": None}, ["no authorizer"]),
        ({"source": parsed("ALLOW READ alice topic x*")}, ["ACLs of prefixes and of all topics"]),
        ({"source": parsed("ALLOW READ alice group x*")}, []),
        ({"source": frozenset(), "lacking": ("alice",)}, ["SCRAM user alice"]),
    ],
)
def test_what_cannot_be_copied_is_noted(flow: FlowConfig, observed: dict[str, Any], notes: list[str]):
    actions = decide(replace(Observed(flow=flow, source=frozenset()), **observed))
    assert [action.what for action in actions if isinstance(action, Note)] == notes


def test_all_topics_under_identity_naming_are_noted_and_not_opened(flow: FlowConfig):
    flow = replace(flow, acls=WIDE, policy=IDENTITY)
    source = parsed("ALLOW READ alice topic *", "ALLOW READ alice topic orders*")
    (note,) = decide(Observed(flow=flow, source=source))
    assert note.change.what == "ACLs of * whose names would stay the same"
    assert translate(flow, source) == parsed("ALLOW READ alice topic orders*")


@pytest.mark.parametrize(("enabled", "interval"), [(True, 7.0), (False, None)])
def test_the_file_says_whether_and_how_often(flow: FlowConfig, enabled: bool, interval: float | None):
    flow = replace(flow, acls=AclSync(enabled=enabled, interval_s=7.0))
    with closing(Cluster(A, flow.source.admin, role="test")) as nobody:
        duty = TopicAcls(Sides(flow=flow, source=nobody, target=nobody, store=None))
    assert duty.interval_s == interval


Round = Callable[..., list[str]]


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[LabCluster, LabCluster]]:
    source, target = start_all(["acls-source", "acls-target"], security=("SASL_SCRAM",), config=GUARDED)
    yield source, target
    source.stop()
    target.stop()


@contextmanager
def sides(
    tmp_path: Path,
    clusters: tuple[LabCluster | dict[str, str], LabCluster | dict[str, str]],
    topics: str,
    alias: str = A,
    **settings: str,
) -> Iterator[Sides]:
    """Both clusters, as administrator where a cluster is given, and the flow's own topics on the target."""
    keys = {key.replace("_", "."): value for key, value in settings.items()}
    file = write_file(tmp_path / "mm2.properties", {alias: clusters[0], B: clusters[1]}, {f"{alias}->B": topics}, keys)
    (flow,) = load([file]).flows
    with ExitStack() as open_ones:
        source, target = (
            open_ones.enter_context(closing(Cluster(end.alias, end.admin, role="test")))
            for end in (flow.source, flow.target)
        )
        store = None
        if isinstance(clusters[1], LabCluster):
            ensure_internal_topics(replace(flow, internal_replication_factor=1), target)
            store = Store(target, internal_topic(flow.name), flow.admin_timeout_ms)
        yield Sides(flow=flow, source=source, target=target, store=store)


def texts(duty: TopicAcls) -> list[str]:
    """The changes of one round."""
    return [text for text in told(duty) if not text.startswith("!")]


def told(duty: TopicAcls) -> list[str]:
    """The changes of one round, and its notes."""
    results = do_round(duty)
    assert [result.failure for result in results if result.failure] == []
    return [result.action.change.text for result in results if result.action.change is not None]


def there(cluster: Cluster, stem: str) -> frozenset[AclBinding]:
    kinds = (ResourceType.TOPIC, ResourceType.GROUP)
    return frozenset(binding for binding in describe_acls(cluster, kinds) or () if stem in binding.name)


@pytest.mark.kafka
def test_a_round_creates_what_is_missing_and_the_next_one_nothing(guarded, topic, tmp_path):
    name = topic("orders")
    create_topic(guarded[0], name)
    source = parsed(
        f"ALLOW READ alice topic {name}",
        f"ALLOW WRITE alice topic {name}",
        f"ALLOW ALL nobody topic {name}",
        f"DENY READ bob topic {name[:-1]}*",
        f"ALLOW READ alice group team-{name}",
    )
    with sides(tmp_path, guarded, f"{name}.*", sync_topic_acls_prefixed="true", sync_group_acls_enabled="true") as both:
        create_acls(both.source, sorted(source)).complete()
        until(lambda: there(both.source, name[:-1]) == source, "the source's brokers know them", 20)
        duty = TopicAcls(both)
        first = texts(duty)
        copies = parsed(
            f"ALLOW READ alice topic A.{name}",
            f"ALLOW READ nobody topic A.{name}",
            f"DENY READ bob topic A.{name[:-1]}*",
            f"ALLOW READ alice group team-{name}",
        )
        until(lambda: there(both.target, name[:-1]) == copies, "they are there, and no others", 20)
        assert len(first) == len(copies)
        assert texts(duty) == []
        assert texts(TopicAcls(both)) == [], "a new driver finds the same"


@pytest.mark.kafka
def test_only_what_it_created_itself_is_removed_also_by_a_later_driver(guarded, topic, tmp_path):
    name, alias = topic("gone"), topic("S")
    source = parsed(f"ALLOW READ alice topic {name}", f"ALLOW READ bob topic {name}")
    copies = parsed(f"ALLOW READ alice topic {alias}.{name}", f"ALLOW READ bob topic {alias}.{name}")
    before = parsed(f"ALLOW READ bob topic {alias}.{name}")
    with sides(tmp_path, guarded, name, alias=alias) as both:
        create_acls(both.source, sorted(source)).complete()
        create_acls(both.target, sorted(before)).complete()
        until(lambda: there(both.source, name) == source and there(both.target, name) == before, "all know them", 20)
        assert len(texts(TopicAcls(both))) == 1
        until(lambda: there(both.target, name) == copies, "both are there", 20)
        delete_acls(both.source, sorted(source)).complete()
        until(lambda: not there(both.source, name), "the source has none", 20)
        assert texts(TopicAcls(both)) == [], "unless asked for, nothing is removed"
    with sides(tmp_path, guarded, name, alias=alias, sync_topic_acls_remove="true") as both:
        assert texts(TopicAcls(both)) == [
            f"- B: ACL of topic {alias}.{name}  ALLOW READ to User:alice from any host",
        ]
        until(lambda: there(both.target, name) == before, "what was there before stays", 20)
        assert texts(TopicAcls(both)) == []
        assert both.store is not None
        both.store.follow()
        assert both.store.state.acls == {}


@pytest.mark.kafka
def test_scram_users_that_the_target_lacks_are_told_once(guarded, topic, tmp_path):
    name, user = topic("scram"), topic("user")
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    admin = admin_of(guarded[0])
    wanted_user = UserScramCredentialUpsertion(user, info, b"canary-password")
    for future in admin.alter_user_scram_credentials([wanted_user]).values():
        future.result(60)
    source = parsed(f"ALLOW READ {user} topic {name}", f"ALLOW READ alice topic {name}")
    with sides(tmp_path, guarded, name) as both:
        create_acls(both.source, sorted(source)).complete()
        until(lambda: there(both.source, name) == source, "the source's brokers know them", 20)
        duty = TopicAcls(both)
        (note,) = [text for text in told(duty) if "SCRAM" in text]
        assert note.startswith(f"! B: SCRAM user {user}  is known to A and not here")
        assert told(duty) == []


@pytest.mark.kafka
def test_a_cluster_without_an_authorizer_is_told_of_once(guarded, cluster_a, cluster_b, topic, tmp_path):
    with sides(tmp_path, (cluster_a, cluster_b), ".*") as both:
        duty = TopicAcls(both)
        (note,) = told(duty)
        assert note.startswith("! A: no authorizer")
        assert told(duty) == []
    name = topic("bare")
    with sides(tmp_path, (guarded[0], cluster_b), name) as both:
        create_acls(both.source, [parse(f"ALLOW READ alice topic {name}")]).complete()
        until(lambda: there(both.source, name), "the source's brokers know it", 20)
        duty = TopicAcls(both)
        (note,) = told(duty)
        assert note.startswith("! B: no authorizer")
        assert told(duty) == []


@pytest.mark.kafka
def test_a_missing_right_is_an_error_that_names_it_once(guarded, topic, tmp_path):
    name = topic("rights")
    user = guarded[1].client_properties("SASL_SCRAM")
    with sides(tmp_path, (guarded[0], user), name) as both:
        some = [parse(f"ALLOW READ {who} topic {name}") for who in ("alice", "bob")]
        create_acls(both.source, some).complete()
        until(lambda: len(there(both.source, name)) == 2, "the source's brokers know them", 20)
        with pytest.raises(BrokerError, match=r"cluster B.*allow DESCRIBE on the Cluster to this user"):
            do_round(TopicAcls(both))
        allowed = AclBinding(
            ResourceType.CLUSTER,
            "kafka-cluster",
            PatternType.LITERAL,
            "User:mirror",
            "*",
            Operation.DESCRIBE,
            Permission.ALLOW,
        )
        with sides(tmp_path, guarded, name) as administrator:
            create_acls(administrator.target, [allowed]).complete()

            def error() -> str:
                try:
                    do_round(TopicAcls(both))
                except BrokerError as failure:
                    return str(failure)
                return ""

            until(lambda: "allow ALTER on the Cluster to this user" in error(), "the other right is named", 20)
            delete_acls(administrator.target, [allowed]).complete()
