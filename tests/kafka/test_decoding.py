"""Frames that are none, answers that do not fit their schema, and lengths of what never comes."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc
import uuid
from collections.abc import Iterable
from typing import Any

import pytest
from kafka.protocol.admin import ListGroupsRequest, ListGroupsResponse
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest, MetadataResponse

from kafka import errors as kafka_errors
from sparkmirror.kafka.decoding import MORE_TOPICS, MOST_ITEMS, MOST_PARTITIONS, MOST_STRUCTS
from sparkmirror.kafka.transport import OTHERS_LIMIT, Protocol
from tests.kafka.hostile_broker import GIB_2, Model, damage, framed

LIMIT = 256 << 20


def asking(request: Any, version: int, limit: int = LIMIT) -> tuple[Protocol, int]:
    """A connection that waits for the answer to a request."""
    protocol = Protocol(client_id="test", limit=limit)
    request.API_VERSION = version
    number = protocol.send_request(request)
    protocol.send_bytes()
    return protocol, number


def groups_request(version: int = 5) -> tuple[Protocol, int]:
    return asking(ListGroupsRequest(states_filter=[], types_filter=[]), version)


def frame(number: int, body: bytes) -> bytes:
    return struct.pack(">iiB", len(body) + 5, number, 0) + body


def groups(body: bytes) -> Any:
    protocol, number = groups_request()
    return protocol.receive_bytes(frame(number, body))[0][1]


GROUP = b"\x02g\x09consumer\x06Empty\x08classic\0"


def test_an_answer_comes_as_it_was_sent_however_it_was_cut():
    whole = b"\0\0\0\0" + b"\0\0" + b"\x02" + GROUP + b"\0"
    assert [group.group_id for group in groups(whole).groups] == ["g"]
    protocol, number = groups_request()
    answers: list[Any] = []
    for byte in frame(number, whole):
        answers += protocol.receive_bytes(bytes([byte]))
    assert [answer.groups[0].protocol_type for _, answer in answers] == ["consumer"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\0\0\0\0\0\0\0\0", "groups has no value"),
        (b"\0\0\0\0\0\0\x02" + GROUP.replace(b"\x02g", b"\0", 1) + b"\0", "group_id has no value"),
        (b"\0\0\0\0\0\0\x02" + GROUP[:-8] + b"\x7fclassic", "beyond the end|requires a buffer"),
        (b"\0\0\0\0\0\0\x02" + b"\x80" * 6 + GROUP + b"\0", "more than five bytes"),
        (b"\0\0", "requires a buffer"),
        (b"", "requires a buffer"),
    ],
    ids=["no array", "no text", "a text longer than the frame", "a number without end", "cut", "empty"],
)
def test_an_answer_that_does_not_fit_its_schema_is_refused(body: bytes, reason: str):
    with pytest.raises(kafka_errors.KafkaProtocolError, match=f"no ListGroupsResponse of version 5: .*(?:{reason})"):
        groups(body)


def test_a_broker_that_does_not_know_a_version_says_so_in_the_first_one():
    protocol, number = asking(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
    body = struct.pack(">hi", 35, 1) + struct.pack(">hhh", 18, 0, 3)
    ((_, answer),) = protocol.receive_bytes(struct.pack(">ii", len(body) + 4, number) + body)
    assert (answer.error_code, [(one.api_key, one.max_version) for one in answer.api_keys]) == (35, [(18, 3)])


def test_fields_of_later_versions_are_passed_over():
    answer = groups(b"\0\0\0\0\0\0\x01" + b"\x02" + b"\x63\x03abc" + b"\x64\x00")
    assert (answer.groups, answer.unknown_tags) == ([], None)


def test_an_answer_of_more_items_than_anybody_has_is_refused_before_they_are_made():
    """A partition with 1,500,000 replicas, and as many in sync, of which not one byte comes."""
    protocol, number = asking(MetadataRequest(topics=None), 1)
    many = struct.pack(">i", 1_500_000)
    topic = b"\0\0\0\1t\0" + struct.pack(">i", 1) + bytes(10) + many + bytes(4) * 1_500_000 + many
    body = bytes(4) + bytes(4) + struct.pack(">i", 1) + topic
    with pytest.raises(kafka_errors.KafkaProtocolError, match=f"more than {MOST_ITEMS} items"):
        protocol.receive_bytes(struct.pack(">ii", len(body) + 4, number) + body)
    with pytest.raises(kafka_errors.KafkaProtocolError, match=f"more than {MOST_ITEMS} items"):
        groups(b"\0\0\0\0\0\0" + b"\xff\xff\xff\xff\x0f" + GROUP)


def test_an_answer_of_more_structures_than_anybody_has_is_refused_before_they_are_made():
    """Of any kind: here groups, each of five bytes."""
    many = MOST_STRUCTS + 1
    body = b"\0\0\0\0\0\0" + varint(many + 1) + b"\x01\x01\x01\x01\0" * many + b"\0"
    began = time.process_time()
    with pytest.raises(kafka_errors.KafkaProtocolError, match=f"more than {MOST_STRUCTS} structures"):
        groups(body)
    assert time.process_time() - began < 0.2


def test_structures_within_structures_count_too():
    protocol, number = asking(MetadataRequest(topics=None), 1)
    body = bytes(4) + bytes(4) + struct.pack(">i", MOST_STRUCTS) + partitions(1) + partitions(0) * (MOST_STRUCTS - 1)
    began = time.process_time()
    with pytest.raises(kafka_errors.KafkaProtocolError, match="structures"):
        protocol.receive_bytes(struct.pack(">ii", len(body) + 4, number) + body)
    assert time.process_time() - began < 0.2


@pytest.mark.parametrize("length", [-2, -(1 << 31)])
def test_a_negative_length_of_an_array_makes_no_room_for_more_items(length: int):
    protocol, number = asking(MetadataRequest(topics=None), 1)
    many = struct.pack(">i", 3_000_000) + bytes(4) * 3_000_000
    body = struct.pack(">i", length) + bytes(4) + struct.pack(">i", 1) + b"\0\0\0\1t\0" + struct.pack(">i", 1)
    body += bytes(10) + many + bytes(4)
    began = time.process_time()
    with pytest.raises(kafka_errors.KafkaProtocolError, match="negative length"):
        protocol.receive_bytes(struct.pack(">ii", len(body) + 4, number) + body)
    assert time.process_time() - began < 0.2


def partitions(count: int) -> bytes:
    """A topic of version 1 with partitions that have neither replicas nor a leader."""
    return b"\0\0\0\1t\0" + struct.pack(">i", count) + bytes(18) * count


MORE = f"more than {MOST_PARTITIONS} partitions are named"


def test_a_topic_of_more_partitions_than_a_cluster_has_is_refused_before_they_are_made():
    protocol, number = asking(MetadataRequest(topics=None), 1)
    body = bytes(4) + bytes(4) + struct.pack(">i", 1) + partitions(MOST_PARTITIONS + 1)
    came = struct.pack(">ii", len(body) + 4, number) + body
    tracemalloc.start()
    try:
        with pytest.raises(kafka_errors.KafkaProtocolError, match=MORE):
            protocol.receive_bytes(came)
        assert tracemalloc.get_traced_memory()[1] < len(came) + (8 << 20)
    finally:
        tracemalloc.stop()


def test_topics_of_more_partitions_than_a_cluster_has_are_refused():
    protocol, number = asking(MetadataRequest(topics=None), 1)
    body = bytes(4) + bytes(4) + struct.pack(">i", 4) + partitions(MOST_PARTITIONS // 4 + 1) * 4
    with pytest.raises(kafka_errors.KafkaProtocolError, match=MORE):
        protocol.receive_bytes(struct.pack(">ii", len(body) + 4, number) + body)


def test_each_answer_is_bounded_by_what_was_asked_for_it():
    """Two requests wait at once, the first about one topic, the second about all."""
    protocol, first = asking(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")]), 1)
    every = MetadataRequest(topics=None)
    every.API_VERSION = 1
    second = protocol.send_request(every)
    protocol.send_bytes()
    body = bytes(4) + bytes(4) + struct.pack(">i", MORE_TOPICS + 2) + partitions(0) * (MORE_TOPICS + 2)
    with pytest.raises(kafka_errors.KafkaProtocolError, match="more topics are named than were asked about"):
        protocol.receive_bytes(struct.pack(">ii", len(body) + 4, first) + body)
    ((number, answer),) = protocol.receive_bytes(struct.pack(">ii", len(body) + 4, second) + body)
    assert (number, len(answer.topics)) == (second, MORE_TOPICS + 2)


def test_an_answer_of_as_many_partitions_as_a_cluster_may_have_is_taken():
    protocol, number = asking(MetadataRequest(topics=None), 1)
    body = bytes(4) + bytes(4) + struct.pack(">i", 3) + partitions(MOST_PARTITIONS // 3) * 3
    ((_, answer),) = protocol.receive_bytes(struct.pack(">ii", len(body) + 4, number) + body)
    assert [len(topic.partitions) for topic in answer.topics] == [MOST_PARTITIONS // 3] * 3


@pytest.mark.parametrize("length", [GIB_2, LIMIT + 1, OTHERS_LIMIT + 1, -1, -(1 << 31)])
def test_a_length_that_no_answer_has_is_refused_at_once(length: int):
    protocol, _ = groups_request()
    with pytest.raises(kafka_errors.InvalidReceiveError, match=f"an answer of {length} bytes is announced"):
        protocol.receive_bytes(struct.pack(">i", length))


def test_what_is_announced_takes_memory_only_as_it_comes():
    protocol, number = groups_request()
    tracemalloc.start()
    try:
        protocol.receive_bytes(struct.pack(">ii", OTHERS_LIMIT, number) + b"x" * 1_000)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_an_answer_that_comes_in_many_reads_comes_whole():
    name = "n" * 200
    count = 20_000
    one = ListGroupsResponse.ListedGroup(group_id=name, protocol_type=name, group_state="", group_type="")
    protocol, number = groups_request()
    answer = ListGroupsResponse(throttle_time_ms=0, error_code=0, groups=[one] * count, version=5)
    whole = framed(number, answer)
    came = [got for at in range(0, len(whole), 1 << 20) for got in protocol.receive_bytes(whole[at : at + (1 << 20)])]
    assert len(came[0][1].groups) == count


@pytest.mark.parametrize(
    "body",
    [
        b"\0\0\0\0\0\0" + b"\xff" * (2 << 20),
        b"\0\0\0\0\0\0" + b"\xff\xff\xff\x07" + b"\x01\x01\x01\x01\x01\x01\x00" * 150_000,
    ],
    ids=["a number without end", "structs with tagged fields"],
)
def test_no_answer_takes_time_with_the_square_of_its_length(body: bytes):
    began = time.monotonic()
    with pytest.raises(kafka_errors.KafkaProtocolError):
        groups(body)
    assert time.monotonic() - began < 10


def varint(number: int) -> bytes:
    encoded = b""
    while number >= 0x80:
        encoded, number = encoded + bytes([number & 0x7F | 0x80]), number >> 7
    return encoded + bytes([number])


def tagged(tags: Iterable[int]) -> bytes:
    """Empty fields of these tags."""
    written = [varint(tag) + b"\0" for tag in tags]
    return varint(len(written)) + b"".join(written)


REPEATED = varint(2_000_000) + b"d\0" * 2_000_000
ASCENDING = tagged(range(1_000, 1_000_000))
NO_GROUPS = b"\0\0\0\0\0\0\x01"


@pytest.mark.parametrize("where", ["head", "end", "items"])
@pytest.mark.parametrize("tags", [REPEATED, ASCENDING, tagged((5, 5)), tagged((5, 4))], ids=range(4))
def test_tagged_fields_take_no_longer_than_other_items(tags: bytes, where: str):
    protocol, number = groups_request()
    body = NO_GROUPS + tags if where == "end" else b"\0\0\0\0\0\0\x02" + GROUP[:-1] + tags
    head = b"\0"
    if where == "head":
        head, body = tags, NO_GROUPS + b"\0"
    began = time.process_time()
    with pytest.raises(kafka_errors.KafkaProtocolError, match=r"items|out of order"):
        protocol.receive_bytes(struct.pack(">ii", 4 + len(head) + len(body), number) + head + body)
    assert time.process_time() - began < 0.2


def test_tagged_fields_that_nobody_knows_are_passed_over_wherever_they_are():
    protocol, number = groups_request()
    tags = tagged(range(100, 150))
    body = tags + b"\0\0\0\0\0\0\x02" + GROUP[:-1] + tags + tags
    (answer,) = protocol.receive_bytes(struct.pack(">ii", 4 + len(body), number) + body)
    assert [group.group_id for group in answer[1].groups] == ["g"]


def fetched(*ends: tuple[int, int]) -> bytes:
    """An answer to Fetch that says by tagged fields who leads each partition, as brokers do that do not lead it."""
    kind = FetchResponse.FetchableTopicResponse
    leaders = [kind.PartitionData.LeaderIdAndEpoch(leader_id=node, leader_epoch=epoch) for node, epoch in ends]
    partitions = [
        kind.PartitionData(
            partition_index=at,
            error_code=6,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            aborted_transactions=None,
            preferred_read_replica=-1,
            records=None,
            current_leader=leader,
        )
        for at, leader in enumerate(leaders)
    ]
    node = FetchResponse.NodeEndpoint(node_id=3, host="h", port=9, rack=None)
    topic = kind(topic="", topic_id=uuid.UUID(int=1), partitions=partitions)
    return bytes(
        FetchResponse(
            throttle_time_ms=0, error_code=0, session_id=0, responses=[topic], node_endpoints=[node], version=16
        ).encode()
    )


def fetch_request() -> tuple[Protocol, int]:
    return asking(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[], forgotten_topics_data=[]), 16)


def test_tagged_fields_that_are_known_are_read():
    protocol, number = fetch_request()
    ((_, answer),) = protocol.receive_bytes(frame(number, fetched(*((at, 7) for at in range(20_000)))))
    parts = answer.responses[0].partitions
    assert [(part.current_leader.leader_id, part.current_leader.leader_epoch) for part in parts[:3]] == [
        (0, 7),
        (1, 7),
        (2, 7),
    ]
    assert [(node.node_id, node.host, node.port) for node in answer.node_endpoints] == [(3, "h", 9)]


def test_arrays_in_tagged_fields_count_as_items():
    protocol, number = fetch_request()
    node = b"\0\0\0\1\x01\0\0\0\0\0\0"
    nodes = varint(1 + 300_000) + node * 300_000
    body = b"\0\0\0\0\0\0\0\0\0\0\x01" + b"\x01\0" + varint(len(nodes)) + nodes
    with pytest.raises(kafka_errors.KafkaProtocolError, match="items"):
        protocol.receive_bytes(frame(number, body))


def test_an_answer_to_another_request_and_one_to_none_are_refused():
    protocol, number = groups_request()
    with pytest.raises(kafka_errors.CorrelationIdError, match="another request"):
        protocol.receive_bytes(frame(number + 1, b"\0\0\0\0\0\0\x01\0"))
    with pytest.raises(kafka_errors.CorrelationIdError, match="nothing was asked"):
        protocol.receive_bytes(frame(number, b"\0\0\0\0\0\0\x01\0"))


def test_damaged_answers_are_answers_or_refused():
    model, chance, outcomes = Model(port=1), random.Random(1), {True: 0, False: 0}
    for _ in range(4_000):
        version = chance.randrange(MetadataResponse.max_version + 1)
        request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")])
        protocol, number = asking(request, version)
        body = bytearray(framed(number, model.answer(MetadataRequest.API_KEY, request))[4:])
        damage(chance, body)
        try:
            protocol.receive_bytes(struct.pack(">i", len(body)) + bytes(body))
            outcomes[True] += 1
        except kafka_errors.KafkaProtocolError:
            outcomes[False] += 1
    assert min(outcomes.values()) > 100
