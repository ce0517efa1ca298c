"""A false broker: it answers as a small cluster of one broker would, until it is told to lie.

What it answers is made with kafka-python's own messages (`Model`), so a lie can be in any field of any answer, in its
bytes, in its frame, or in what comes instead of it (`Lies`). Everything comes from a seed.
"""

from __future__ import annotations

import random
import socket
import ssl
import struct
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafka.protocol import admin, consumer, metadata, producer, sasl
from kafka.protocol.admin import transactions

from sparkmirror.config import ClientSettings, Security
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.journal import encode

PARTITIONS = 2
TOPIC_IDS = uuid.UUID(int=7)
RECORDS = 12
GIB_2 = 0x7FFFFFFF
RESOURCE_NOT_FOUND = 91
REQUEST_BYTES = 100 << 20
"""Brokers close a connection on which more is announced, as by a client that begins with TLS."""
FOREIGN = "\x1b]0;owned\x07\n\u202e"
"""What must not reach a terminal as it is."""


def _messages(ending: str) -> dict[int, Any]:
    kinds: dict[int, Any] = {}
    for module in (admin, transactions, consumer, metadata, producer, sasl):
        for name, kind in vars(module).items():
            if name.endswith(ending) and not name.startswith("SaslBytes") and kind.API_KEY is not None:
                kinds[kind.API_KEY] = kind
    return kinds


_REQUESTS, _RESPONSES = _messages("Request"), _messages("Response")
API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE, METADATA, FETCH, PRODUCE = 18, 17, 36, 3, 1, 0
LOGIN_KEYS = frozenset({API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE})


def name_of(key: int) -> str:
    """The message that a key of the protocol means."""
    return str(_REQUESTS[key].__name__).removesuffix("Request")


@dataclass
class Model:
    """What an honest broker would say; but for what a test sets.

    Attributes:
        log_in, mechanism, lifetime_ms: how logins are answered, and how long sessions last.
        handshake: fields of the answer to a handshake that differ.
        host, port: its address.
        mute: how many partitions the answers to commits leave out.
        beyond: how much too high the high watermarks are.
        throttle_ms: for clients that ask for metadata.
        cluster_id: that of the cluster.
        configs: what brokers and topics are set to.
    """

    port: int = 0
    logs: dict[tuple[str, int], list[bytes]] = field(default_factory=lambda: defaultdict(list))
    ends: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    log_in: Callable[[bytes], bytes] = lambda _: b""
    mechanism: str = "PLAIN"
    names: dict[uuid.UUID, str] = field(default_factory=dict)
    epoch: int = 0
    lifetime_ms: int = 0
    handshake: dict[str, Any] = field(default_factory=dict)
    host: str = "127.0.0.1"
    mute: int = 0
    beyond: int = 0
    throttle_ms: int = 0
    cluster_id: str = "hostile"
    configs: dict[str, str] = field(default_factory=lambda: {"retention.ms": "1", "max.message.bytes": "7"})

    def fill(self, topic: str, count: int = RECORDS) -> None:
        """Has a topic hold records."""
        for partition in range(PARTITIONS):
            for number in range(0, count, 3):
                self.append(topic, partition, encode([(f"k{number + i}", "{}") for i in range(3)]))

    def forget(self, topic: str) -> None:
        """Has a topic hold nothing."""
        for partition in range(PARTITIONS):
            self.logs[topic, partition].clear()
            self.ends[topic, partition] = 0

    def append(self, topic: str, partition: int, batch: bytes) -> int:
        """Takes a batch as a leader does: it gets an offset."""
        base = self.ends[topic, partition]
        stamped = bytearray(batch)
        struct.pack_into(">q", stamped, 0, base)
        self.logs[topic, partition].append(bytes(stamped))
        self.ends[topic, partition] = base + struct.unpack_from(">i", batch, 23)[0] + 1
        return base

    def answer(self, key: int, request: Any) -> Any:
        """The answer to a request, or None where there is none."""
        response = _RESPONSES[key]
        made = getattr(self, f"_{response.__name__.removesuffix('Response').lower()}")(request, response)
        made.API_VERSION = request.API_VERSION
        return made

    def topic_id(self, name: str) -> uuid.UUID:
        """The identity of a topic."""
        made = uuid.uuid5(TOPIC_IDS, name)
        self.names[made] = name
        return made

    def _name(self, topic: Any, field_name: str = "name") -> str:
        return getattr(topic, field_name, None) or self.names.get(topic.topic_id, "")

    def _apiversions(self, _: Any, response: Any) -> Any:
        keys = [response.ApiVersion(api_key=k, min_version=0, max_version=r.max_version) for k, r in _RESPONSES.items()]
        return response(error_code=0, api_keys=keys, throttle_time_ms=0)

    def _saslhandshake(self, _: Any, response: Any) -> Any:
        return response(**({"error_code": 0, "mechanisms": [self.mechanism]} | self.handshake))

    def _saslauthenticate(self, request: Any, response: Any) -> Any:
        said = self.log_in(bytes(request.auth_bytes))
        return response(error_code=0, error_message=None, auth_bytes=said, session_lifetime_ms=self.lifetime_ms)

    def _metadata(self, request: Any, response: Any) -> Any:
        wanted = ["t"] if request.topics is None else [topic.name for topic in request.topics]
        part = response.MetadataResponseTopic.MetadataResponsePartition
        topics = [
            response.MetadataResponseTopic(
                error_code=0,
                name=name,
                topic_id=self.topic_id(name),
                is_internal=False,
                partitions=[
                    part(
                        error_code=0,
                        partition_index=number,
                        leader_id=1,
                        leader_epoch=0,
                        replica_nodes=[1],
                        isr_nodes=[1],
                        offline_replicas=[],
                    )
                    for number in range(PARTITIONS)
                ],
            )
            for name in wanted
        ]
        broker = response.MetadataResponseBroker(node_id=1, host=self.host, port=self.port, rack=None)
        return response(
            throttle_time_ms=self.throttle_ms,
            brokers=[broker],
            cluster_id=self.cluster_id,
            controller_id=1,
            topics=topics,
            error_code=0,
        )

    def _listoffsets(self, request: Any, response: Any) -> Any:
        part = response.ListOffsetsTopicResponse.ListOffsetsPartitionResponse
        topics = [
            response.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    part(
                        partition_index=one.partition_index,
                        error_code=0,
                        timestamp=-1,
                        offset=0 if one.timestamp == -2 else self.ends[topic.name, one.partition_index],
                        leader_epoch=0,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return response(throttle_time_ms=0, topics=topics)

    def _findcoordinator(self, request: Any, response: Any) -> Any:
        found = [
            response.Coordinator(key=key, node_id=1, host="127.0.0.1", port=self.port, error_code=0, error_message=None)
            for key in request.coordinator_keys or [request.key]
        ]
        return response(
            throttle_time_ms=0,
            error_code=0,
            error_message=None,
            node_id=1,
            host="127.0.0.1",
            port=self.port,
            coordinators=found,
        )

    def _initproducerid(self, _: Any, response: Any) -> Any:
        self.epoch += 1
        return response(throttle_time_ms=0, error_code=0, producer_id=7, producer_epoch=self.epoch)

    def _produce(self, request: Any, response: Any) -> Any:
        kind = response.TopicProduceResponse
        topics = [
            kind(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    kind.PartitionProduceResponse(
                        index=one.index,
                        error_code=0,
                        base_offset=self.append(self._name(topic), one.index, bytes(one.records)),
                        log_append_time_ms=-1,
                        log_start_offset=0,
                        record_errors=[],
                        error_message=None,
                    )
                    for one in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
        return response(responses=topics, throttle_time_ms=0)

    def _fetch(self, request: Any, response: Any) -> Any:
        kind = response.FetchableTopicResponse
        topics = [
            kind(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[self._fetched(kind, self._name(topic, "topic"), one) for one in topic.partitions],
            )
            for topic in request.topics
        ]
        if not any(part.records for topic in topics for part in topic.partitions):
            time.sleep(min(request.max_wait_ms, 10) / 1000)
        return response(throttle_time_ms=0, error_code=0, session_id=0, responses=topics)

    def _fetched(self, kind: Any, topic: str, wanted: Any) -> Any:
        at, number = (topic, wanted.partition), wanted.fetch_offset
        batches = [
            batch
            for batch in self.logs[at]
            if struct.unpack_from(">q", batch)[0] + struct.unpack_from(">i", batch, 23)[0] >= number
        ]
        return kind.PartitionData(
            partition_index=wanted.partition,
            error_code=0,
            high_watermark=self.ends[at] + self.beyond,
            last_stable_offset=self.ends[at],
            log_start_offset=0,
            aborted_transactions=[kind.PartitionData.AbortedTransaction(producer_id=3, first_offset=9_999)],
            preferred_read_replica=-1,
            records=b"".join(batches) or None,
        )

    def _offsetfetch(self, request: Any, response: Any) -> Any:
        several, single = response.OffsetFetchResponseGroup, response.OffsetFetchResponseTopic
        committed = {"partition_index": 0, "committed_offset": 3, "committed_leader_epoch": 0, "metadata": ""}
        committed["error_code"] = 0
        of_group = several.OffsetFetchResponseTopics
        groups = [
            several(
                group_id=one.group_id,
                topics=[of_group(name="t", partitions=[of_group.OffsetFetchResponsePartitions(**committed)])],
                error_code=0,
            )
            for one in request.groups or ()
        ]
        topics = [single(name="t", partitions=[single.OffsetFetchResponsePartition(**committed)])]
        return response(throttle_time_ms=0, topics=topics, error_code=0, groups=groups)

    def _offsetcommit(self, request: Any, response: Any) -> Any:
        kind = response.OffsetCommitResponseTopic
        topics = [
            kind(
                name=topic.name,
                partitions=[
                    kind.OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=0)
                    for one in topic.partitions[self.mute :]
                ],
            )
            for topic in request.topics
        ]
        return response(throttle_time_ms=0, topics=topics)

    def _listgroups(self, _: Any, response: Any) -> Any:
        group = response.ListedGroup(group_id="g", protocol_type="consumer", group_state="Empty", group_type="classic")
        return response(throttle_time_ms=0, error_code=0, groups=[group])

    def _describegroups(self, request: Any, response: Any) -> Any:
        kind = response.DescribedGroup
        member = kind.DescribedGroupMember(
            member_id="m",
            group_instance_id=None,
            client_id="c",
            client_host="h",
            member_metadata=b"\0\0",
            member_assignment=b"\0\0",
        )
        groups = [
            kind(
                error_code=0,
                error_message=None,
                group_id=name,
                group_state="Stable",
                protocol_type="consumer",
                protocol_data="range",
                members=[member],
            )
            for name in request.groups
        ]
        return response(throttle_time_ms=0, groups=groups)

    def _describeproducers(self, request: Any, response: Any) -> Any:
        kind = response.TopicResponse
        state = kind.PartitionResponse.ProducerState(
            producer_id=70,
            producer_epoch=1,
            last_sequence=5,
            last_timestamp=1,
            coordinator_epoch=-1,
            current_txn_start_offset=-1,
        )
        topics = [
            kind(
                name=topic.name,
                partitions=[
                    kind.PartitionResponse(
                        partition_index=number, error_code=0, error_message=None, active_producers=[state]
                    )
                    for number in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
        return response(throttle_time_ms=0, topics=topics)

    def _offsetforleaderepoch(self, request: Any, response: Any) -> Any:
        kind = response.OffsetForLeaderTopicResult
        topics = [
            kind(
                topic=topic.topic,
                partitions=[
                    kind.EpochEndOffset(
                        error_code=0,
                        partition=one.partition,
                        leader_epoch=0,
                        end_offset=self.ends[topic.topic, one.partition],
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return response(throttle_time_ms=0, topics=topics)

    def _describeconfigs(self, request: Any, response: Any) -> Any:
        kind = response.DescribeConfigsResult
        config = partial(
            kind.DescribeConfigsResourceResult, read_only=False, config_source=5, is_sensitive=False, synonyms=[]
        )
        results = [
            kind(
                error_code=0,
                error_message=None,
                resource_type=one.resource_type,
                resource_name=one.resource_name,
                configs=[config(name=name, value=value) for name, value in self.configs.items()],
            )
            for one in request.resources
        ]
        return response(throttle_time_ms=0, results=results)

    def _createtopics(self, request: Any, response: Any) -> Any:
        topics = [
            response.CreatableTopicResult(
                name=topic.name, topic_id=self.topic_id(topic.name), error_code=0, error_message=None, configs=[]
            )
            for topic in request.topics
        ]
        return response(throttle_time_ms=0, topics=topics)

    def _describeacls(self, _: Any, response: Any) -> Any:
        kind = response.DescribeAclsResource
        acl = kind.AclDescription(principal="User:a", host="*", operation=3, permission_type=3)
        resource = kind(resource_type=2, resource_name="t", pattern_type=3, acls=[acl])
        return response(throttle_time_ms=0, error_code=0, error_message=None, resources=[resource])

    def _describeuserscramcredentials(self, request: Any, response: Any) -> Any:
        kind = response.DescribeUserScramCredentialsResult
        results = [
            kind(user=one.name, error_code=RESOURCE_NOT_FOUND, error_message=None, credential_infos=[])
            for one in request.users or ()
        ]
        return response(throttle_time_ms=0, error_code=0, error_message=None, results=results)

    def _createacls(self, request: Any, response: Any) -> Any:
        kind = response.AclCreationResult
        return response(throttle_time_ms=0, results=[kind(error_code=0, error_message=None) for _ in request.creations])

    def _deleteacls(self, request: Any, response: Any) -> Any:
        kind = response.DeleteAclsFilterResult
        results = [kind(error_code=0, error_message=None, matching_acls=[]) for _ in request.filters]
        return response(throttle_time_ms=0, filter_results=results)

    def _describecluster(self, _: Any, response: Any) -> Any:
        broker = response.DescribeClusterBroker(broker_id=1, host=self.host, port=self.port, rack=None)
        return response(
            throttle_time_ms=0,
            error_code=0,
            error_message=None,
            endpoint_type=1,
            cluster_id=self.cluster_id,
            controller_id=1,
            brokers=[broker],
            authorized_operations={8},
        )

    def _describetransactions(self, request: Any, response: Any) -> Any:
        states = [
            response.TransactionState(
                error_code=0,
                transactional_id=name,
                transaction_state="Ongoing",
                transaction_timeout_ms=1,
                transaction_start_time_ms=1,
                producer_id=7,
                producer_epoch=1,
                topics=[],
            )
            for name in request.transactional_ids
        ]
        return response(throttle_time_ms=0, transaction_states=states)

    def _incrementalalterconfigs(self, request: Any, response: Any) -> Any:
        kind = response.AlterConfigsResourceResponse
        results = [
            kind(error_code=0, error_message=None, resource_type=one.resource_type, resource_name=one.resource_name)
            for one in request.resources
        ]
        return response(throttle_time_ms=0, responses=results)

    def _createpartitions(self, request: Any, response: Any) -> Any:
        kind = response.CreatePartitionsTopicResult
        results = [kind(name=topic.name, error_code=0, error_message=None) for topic in request.topics]
        return response(throttle_time_ms=0, results=results)

    def _deletetopics(self, request: Any, response: Any) -> Any:
        kind = response.DeletableTopicResult
        results = [
            kind(name=one.name, topic_id=one.topic_id, error_code=0, error_message=None) for one in request.topics
        ]
        return response(throttle_time_ms=0, responses=results)

    def _addpartitionstotxn(self, request: Any, response: Any) -> Any:
        kind = response.AddPartitionsToTxnTopicResult
        topics = [
            kind(
                name=topic.name,
                results_by_partition=[
                    kind.AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=0)
                    for number in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
        return response(throttle_time_ms=0, results_by_topic_v3_and_below=topics)

    def _endtxn(self, _: Any, response: Any) -> Any:
        return response(throttle_time_ms=0, error_code=0)


NUMBERS = {
    "int8": (-128, -1, 0, 1, 2, 3, 127),
    "int16": (-32768, -2, -1, 0, 1, 3, 6, 35, 47, 74, 110, 999, 32767),
    "uint16": (0, 1, 65535),
    "int32": (-(1 << 31), -2, -1, 0, 1, 2, 7, 12345, 99_999, (1 << 31) - 1),
    "int64": (-(1 << 63), -2, -1, 0, 1, 6, 12, 1 << 31, 1 << 53, (1 << 63) - 1),
}
TEXTS = (None, "", FOREIGN, "x" * 30_000, "../../etc/passwd", "[/red]", "\x00", "t", "é" * 400, "%s%n{0}")
HOSTS = (None, "", FOREIGN, "h" * 300, "a..b", "127.0.0.1\n", "300.1.1.1", "[::1", "\x00")
THROTTLE = (-(1 << 31), -1, 0, 1, 30)


@dataclass
class Lies:
    """What becomes of an honest answer.

    Attributes:
        seed: of all that is random.
        keys: the messages that are lied about; empty for all but the versions and the login.
        first: how many answers are let pass before.
        most: how many lies there are.
        told: the lies so far, for the message of a test.
    """

    seed: int
    keys: frozenset[int] = frozenset()
    first: int = 0
    most: int = 1
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def wants(self, key: int) -> bool:
        """Whether the next answer to such a request is a lie."""
        if (self.keys and key not in self.keys) or (
            not self.keys and key in (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE)
        ):
            return False
        if self.first:
            self.first -= 1
            return False
        return len(self.told) < self.most

    def tell(self, key: int, number: int, response: Any) -> Iterator[bytes | float | None]:
        """The pieces that go to the client: bytes, seconds to wait, or None for the end of the connection."""
        kind = self.chance.choices((self._in_a_field, self._in_the_bytes, self._in_the_frame), (60, 25, 15))[0]
        before = len(self.told)
        yield from kind(number, response)
        assert len(self.told) == before + 1
        self.told[-1] = f"{name_of(key)} v{response.API_VERSION}: {self.told[-1]}"

    def _in_a_field(self, number: int, response: Any) -> Iterator[bytes | None]:
        said = []
        for _ in range(self.chance.choice((1, 1, 1, 2, 5))):
            places = list(_places(response, response.API_VERSION))
            if not places:
                break
            owner, name, of = self.chance.choice(places)
            value = self._value(name, of, getattr(owner, name))
            said.append(f"{name}={len(value)} items" if isinstance(value, list) else f"{name}={value!r:.60}")
            setattr(owner, name, value)
        self.told.append(", ".join(said))
        yield framed(number, response)

    def _value(self, name: str, of: Any, now: Any) -> Any:
        kind = of.type_str
        if of.is_array():
            items = list(now or ())
            lies: tuple[Any, ...] = (
                None,
                [],
                items * 2,
                items[:-1],
                (items * 300)[:3_000],
                items[::-1],
                items + [items[0]] * 3 if items else [],
            )
            return self.chance.choice(lies)
        if name == "throttle_time_ms":
            return self.chance.choice(THROTTLE)
        if name == "host":
            return self.chance.choice(HOSTS)
        if kind in NUMBERS:
            return self.chance.choice(NUMBERS[kind])
        if kind == "string":
            return self.chance.choice(TEXTS)
        if kind in ("bytes", "records"):
            return self.chance.choice((None, b"", b"\xff" * 100, damaged(self.chance, bytes(now or b"\0" * 20))))
        if kind == "uuid":
            return self.chance.choice((None, uuid.UUID(int=1), uuid.UUID(int=(1 << 128) - 1)))
        if kind == "bitfield":
            return self.chance.choice((None, set(), {3}, set(range(31)), {31, 3}))
        return self.chance.choice((True, False)) if kind == "bool" else now

    def _in_the_bytes(self, number: int, response: Any) -> Iterator[bytes | None]:
        whole = framed(number, response)
        body = bytearray(whole[8:])
        self.told.append(damage(self.chance, body))
        yield struct.pack(">ii", len(body) + 4, number) + bytes(body)

    def _in_the_frame(self, number: int, response: Any) -> Iterator[bytes | float | None]:
        whole = framed(number, response)
        what, said = self.chance.choice(tuple(self._frames(whole, number, response).items()))
        self.told.append(what)
        yield from said

    def _frames(self, whole: bytes, number: int, response: Any) -> dict[str, list[bytes | None]]:
        pick, body = self.chance.choice, whole[4:]
        other = _RESPONSES[22](throttle_time_ms=0, error_code=0, producer_id=1, producer_epoch=1, version=0)
        head = struct.Struct(">i").pack
        return {
            "the number of another": [whole[:4], head(pick((0, -1, number - 1, number + 1, GIB_2))), whole[8:]],
            "too long": [head(len(whole) + pick((1, 100, 1 << 27))), body, None],
            "too short": [head(self.chance.randrange(len(whole) - 4)), body],
            "an absurd length": [head(pick((GIB_2, -1, -(1 << 31), 0, 1 << 28, 1 << 30))), body, None],
            "twice": [whole, whole],
            "cut": [whole[: self.chance.randrange(len(whole))], None],
            "closed": [None],
            "byte by byte": [*(whole[at : at + 1] for at in range(min(len(whole), 60))), whole[60:]],
            "of another message": [framed(number, other)],
            "one more": [whole, framed(number + 1, response)],
        }


def _places(item: Any, version: int) -> Iterator[tuple[Any, str, Any]]:
    """All fields of a message that a version has, with what they are of."""
    kinds = item.fields.values()
    for of in kinds:
        if not of.for_version_q(version):
            continue
        if not (of.is_struct() and not of.is_struct_array()):
            yield item, of.name, of
        value = getattr(item, of.name, None)
        if of.is_struct_array():
            for each in value or ():
                yield from _places(each, version)
        elif of.is_struct() and value is not None:
            yield from _places(value, version)


def damaged(chance: random.Random, data: bytes) -> bytes:
    """Bytes with one damage."""
    copy = bytearray(data)
    damage(chance, copy)
    return bytes(copy)


def damage(chance: random.Random, body: bytearray) -> str:
    """Changes bytes in place; what was done."""
    what = chance.choice(("flip", "flips", "cut", "insert", "number", "endless", "noise", "tail"))
    at = chance.randrange(len(body)) if body else 0
    if what == "flip" and body:
        body[at] ^= 1 << chance.randrange(8)
    elif what == "flips":
        for _ in range(chance.randrange(1, 20)):
            if body:
                body[chance.randrange(len(body))] = chance.randrange(256)
    elif what == "cut":
        del body[at:]
    elif what == "insert":
        body[at:at] = chance.randbytes(chance.randrange(1, 30))
    elif what == "number":
        body[at : at + 4] = struct.pack(">i", chance.choice((-1, 0, GIB_2, -(1 << 31), 0x00FFFFFF, 65536)))
    elif what == "endless":
        body[at:at] = chance.choice((b"\x80", b"\xff")) * chance.choice((4, 5, 6, 10, 1000, 3_000_000))
    elif what == "noise":
        body[:] = chance.randbytes(chance.choice((0, 1, 3, 50, 2000)))
    else:
        body += chance.randbytes(chance.choice((1, 100)))
    return f"{what} at {at}"


def framed(number: int, response: Any) -> bytes:
    """A whole answer."""
    response.with_header(correlation_id=number)
    return bytes(response.encode(header=True, framed=True))


class TamperedTls:
    """A connection under TLS, of which the bytes that leave are changed on their way."""

    def __init__(self, connection: socket.socket, context: ssl.SSLContext, tamper: Callable[[bytes], bytes]) -> None:
        self._connection, self._tamper = connection, tamper
        self._came, self._leaves = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._came, self._leaves, server_side=True)
        self._do(self._tls.do_handshake)

    def read(self, size: int) -> bytes:
        """So many bytes.

        Raises:
            OSError: the client has closed, or does not understand TLS any more.
        """
        said = b""
        while len(said) < size:
            said += self._do(partial(self._tls.read, size - len(said)))
        return said

    def sendall(self, data: bytes) -> None:
        """Sends what is to be read, if nothing has changed it, as it is given."""
        self._do(lambda: self._tls.write(data))

    def _do(self, step: Callable[[], Any]) -> Any:
        while True:
            try:
                done = step()
            except ssl.SSLWantReadError:
                self._flush()
                if not (came := self._connection.recv(1 << 16)):
                    raise ConnectionResetError from None
                self._came.write(came)
            else:
                self._flush()
                return done

    def _flush(self) -> None:
        if self._leaves.pending:
            self._connection.sendall(self._tamper(self._leaves.read()))


class HostileBroker:
    """A server on a port of its own; one thread for each connection.

    Attributes:
        model: what it says where it does not lie.
        lies: how it lies now; None for not at all.
        heard: the bytes of all logins.
        tls: of the server; None for plain text.
        tamper: what becomes of the bytes of TLS.
        slow_s: how long it thinks about each answer.
        greeting: the pieces that each client gets instead of all else, as in `Lies.tell`; None for a broker that talks.
        instead: what takes the connections, and raises OSError at their end; None for this broker.
    """

    def __init__(self, model: Model | None = None) -> None:
        self.model = model or Model()
        self.lies: Lies | None = None
        self.heard: list[bytes] = []
        self.tls: ssl.SSLContext | None = None
        self.tamper: Callable[[bytes], bytes] = lambda data: data
        self.slow_s = 0.0
        self.greeting: list[bytes | float | None] | None = None
        self.instead: Callable[[socket.socket], None] | None = None
        self.asked: set[int] = set()
        self._lock = threading.Lock()
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.model.port = self._server.getsockname()[1]
        self._closed = False
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.model.port}"

    def close(self) -> None:
        self._closed = True
        self._server.close()

    def _serve(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with connection, connection.makefile("rb") as plain:
                if self.instead is not None:
                    self.instead(connection)
                    return
                if self.greeting is not None:
                    self._say(self.greeting, connection.sendall)
                    return
                tls = None if self.tls is None else TamperedTls(connection, self.tls, self.tamper)
                read, send = (plain.read, connection.sendall) if tls is None else (tls.read, tls.sendall)
                while len(head := read(4)) == 4 and (size := int.from_bytes(head, "big")) <= REQUEST_BYTES:
                    frame = read(size)
                    time.sleep(self.slow_s)
                    if not self._say(self._said(frame), send):
                        return
        except OSError:
            return

    def _say(self, pieces: list[bytes | float | None], send: Callable[[bytes], None]) -> bool:
        """Whether the connection goes on."""
        for piece in pieces:
            if piece is None:
                return False
            if isinstance(piece, float):
                time.sleep(piece)
            else:
                send(piece)
        return True

    def _said(self, frame: bytes) -> list[bytes | float | None]:
        key, version, number = struct.unpack_from(">hhi", frame)
        kind = _REQUESTS[key]
        (size,) = struct.unpack_from(">h", frame, 8)
        at = 10 + max(size, 0) + (1 if kind.flexible_version_q(version) else 0)
        with self._lock:
            self.asked.add(key)
            request = kind[version].decode(frame[at:])
            if key == SASL_AUTHENTICATE:
                self.heard.append(bytes(request.auth_bytes))
            response = self.model.answer(key, request)
            if self.lies is not None and self.lies.wants(key):
                return list(self.lies.tell(key, number, response))
            return [framed(number, response)]


def settings_of(broker: HostileBroker, security: Security | None = None, **more: Any) -> ClientSettings:
    """Of a client that does not wait long."""
    quick = {
        "retry_backoff_ms": 1,
        "retry_backoff_max_ms": 5,
        "reconnect_backoff_ms": 1,
        "reconnect_backoff_max_ms": 5,
        "request_timeout_ms": 1_000,
    }
    if security is not None:
        more["security"] = security
    return ClientSettings(bootstrap_servers=(broker.address,), **(quick | more))


def cluster_of(broker: HostileBroker, security: Security | None = None, loop: Any = None) -> Cluster:
    """A client of it."""
    return Cluster("A", settings_of(broker, security), role="hostile", loop=loop)
