"""What an error code of a broker means for us: one pure table, error code to advice.

Source: ``org.apache.kafka.common.protocol.Errors`` and the classes under ``RetriableException`` and
``InvalidMetadataException``. A code of a later release is given up on: better a clear stop than a guess.
"""

from __future__ import annotations

from enum import Enum

from kafka import errors as kafka_errors
from sparkmirror.errors import BrokerError
from sparkmirror.events import Kind


class Advice(Enum):
    """What to do after an error code."""

    NONE = "no error"
    RETRY = "send the same again after a pause"
    REFRESH = "learn the leader anew, then send the same again"
    GIVE_BACK = "the partition stops here; the driver decides how it goes on"
    GIVE_UP = "the partition stops with a clear error"


UNKNOWN_SERVER_ERROR = -1
OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
MESSAGE_TOO_LARGE = 10
TOPIC_AUTHORIZATION_FAILED = 29
FETCH_SESSION_ID_NOT_FOUND = 70
INVALID_FETCH_SESSION_EPOCH = 71
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75
UNKNOWN_TOPIC_ID = 100
INCONSISTENT_TOPIC_ID = 103
FETCH_SESSION_TOPIC_ID_ERROR = 106

GONE = frozenset({UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID})

UNAUTHORIZED = frozenset({TOPIC_AUTHORIZATION_FAILED, 30, 31, 53, 58, 65})
"""This user may not: topic, group, cluster, transactional id, login, delegation token."""

SESSION_ERRORS = frozenset({FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR})

_ADVICE: dict[int, Advice] = {
    0: Advice.NONE,
    3: Advice.REFRESH,  # UNKNOWN_TOPIC_OR_PARTITION: also while a new topic spreads
    5: Advice.REFRESH,  # LEADER_NOT_AVAILABLE
    6: Advice.REFRESH,  # NOT_LEADER_OR_FOLLOWER
    7: Advice.RETRY,  # REQUEST_TIMED_OUT
    8: Advice.REFRESH,  # BROKER_NOT_AVAILABLE
    9: Advice.REFRESH,  # REPLICA_NOT_AVAILABLE
    13: Advice.REFRESH,  # NETWORK_EXCEPTION
    14: Advice.RETRY,  # COORDINATOR_LOAD_IN_PROGRESS
    15: Advice.REFRESH,  # COORDINATOR_NOT_AVAILABLE
    16: Advice.REFRESH,  # NOT_COORDINATOR
    19: Advice.RETRY,  # NOT_ENOUGH_REPLICAS
    20: Advice.RETRY,  # NOT_ENOUGH_REPLICAS_AFTER_APPEND
    41: Advice.REFRESH,  # NOT_CONTROLLER
    45: Advice.GIVE_BACK,  # OUT_OF_ORDER_SEQUENCE_NUMBER
    46: Advice.GIVE_BACK,  # DUPLICATE_SEQUENCE_NUMBER
    47: Advice.GIVE_BACK,  # INVALID_PRODUCER_EPOCH
    51: Advice.RETRY,  # CONCURRENT_TRANSACTIONS
    56: Advice.REFRESH,  # KAFKA_STORAGE_ERROR: the disk of this leader is gone, another one takes over
    59: Advice.GIVE_BACK,  # UNKNOWN_PRODUCER_ID
    70: Advice.RETRY,  # FETCH_SESSION_ID_NOT_FOUND
    88: Advice.RETRY,  # UNSTABLE_OFFSET_COMMIT: a transaction that commits offsets of a group is open
    71: Advice.RETRY,  # INVALID_FETCH_SESSION_EPOCH
    72: Advice.REFRESH,  # LISTENER_NOT_FOUND
    74: Advice.REFRESH,  # FENCED_LEADER_EPOCH
    75: Advice.REFRESH,  # UNKNOWN_LEADER_EPOCH
    78: Advice.RETRY,  # OFFSET_NOT_AVAILABLE
    80: Advice.REFRESH,  # PREFERRED_LEADER_NOT_AVAILABLE
    83: Advice.REFRESH,  # ELIGIBLE_LEADERS_NOT_AVAILABLE
    89: Advice.RETRY,  # THROTTLING_QUOTA_EXCEEDED
    90: Advice.GIVE_BACK,  # PRODUCER_FENCED
    100: Advice.REFRESH,  # UNKNOWN_TOPIC_ID: while a new topic spreads; `copy.leaders` tells a topic that is gone
    103: Advice.REFRESH,  # INCONSISTENT_TOPIC_ID: the broker, or we, have not heard yet that it was made anew
    106: Advice.RETRY,  # FETCH_SESSION_TOPIC_ID_ERROR
}

_GIVE_UP = frozenset(
    {
        -1,  # UNKNOWN_SERVER_ERROR: a defect of the broker; its log tells
        1,  # OFFSET_OUT_OF_RANGE: where a partition goes on is a decision, see `copy.intake`
        2,  # CORRUPT_MESSAGE: retriable for Java; here a disk that stays corrupt would be asked for ever in silence
        *(4, 10, 12, 17, 18, 21, 28, 32, 35, 42, 43, 76, 87),  # the request or its records can never be accepted
        *(29, 30, 31, 33, 34, 53, 54, 58, 65, 97),  # this user may not
        *(36, 37, 38, 39, 40, 44, 60, 73, 84, 85, 91, 92, 93, 95, 96),  # a wish of an administrator that fails
        *(48, 49, 50, 52, 55, 105, 120),  # transactions: we open none for data
        *(22, 23, 24, 25, 26, 27, 68, 69, 79, 81, 82, 86, 110, 111, 112, 113, 124),  # groups: lanes are in none
        *(61, 62, 63, 64, 66, 67),  # delegation tokens
        *(117, 118, 121, 122, 123, 128, 130, 131, 132, 133),  # telemetry, share groups, Streams: never asked for
        *(11, 57, 77, 94, 98, 99, 101, 102, 104, 107, 108, 114, 115, 116, 119, 125, 126, 127, 129),  # between brokers
        109,  # OFFSET_MOVED_TO_TIERED_STORAGE: told to followers only
    }
)
"""Decided, not forgotten: a test compares both with the codes of Kafka's own clients."""

DECIDED = frozenset(_ADVICE) | _GIVE_UP

_BEFORE_APPENDING = DECIDED - {
    -1,  # UNKNOWN_SERVER_ERROR: whatever failed, it may have been after the append
    3,  # UNKNOWN_TOPIC_OR_PARTITION
    5,  # LEADER_NOT_AVAILABLE
    6,  # NOT_LEADER_OR_FOLLOWER: so ends a batch that was appended and waited for replicas when the leader changed
    7,  # REQUEST_TIMED_OUT: appended, and not replicated in time
    8,  # BROKER_NOT_AVAILABLE
    9,  # REPLICA_NOT_AVAILABLE
    13,  # NETWORK_EXCEPTION: the answer was lost
    20,  # NOT_ENOUGH_REPLICAS_AFTER_APPEND
    46,  # DUPLICATE_SEQUENCE_NUMBER: it, or another one in its place, is there
    56,  # KAFKA_STORAGE_ERROR: the disk failed while, or after, it was written
    74,  # FENCED_LEADER_EPOCH
    75,  # UNKNOWN_LEADER_EPOCH
    80,  # PREFERRED_LEADER_NOT_AVAILABLE
    83,  # ELIGIBLE_LEADERS_NOT_AVAILABLE
    100,  # UNKNOWN_TOPIC_ID
    103,  # INCONSISTENT_TOPIC_ID
}
"""Codes of a Produce answer which say for sure that the batch is not in the log.

While an appended batch waits for its replicas, the leader may change, and the topic or the disk may go: what the broker
then answers is what it would have answered before the append (``DelayedProduce.tryComplete``).
"""

_NAMES = {
    -1: "UNKNOWN_SERVER_ERROR",
    0: "NONE",
    6: "NOT_LEADER_OR_FOLLOWER",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    39: "INVALID_REPLICA_ASSIGNMENT",
    128: "INVALID_REGULAR_EXPRESSION",
    129: "REBOOTSTRAP_REQUIRED",
    130: "STREAMS_INVALID_TOPOLOGY",
    131: "STREAMS_INVALID_TOPOLOGY_EPOCH",
    132: "STREAMS_TOPOLOGY_FENCED",
    133: "SHARE_SESSION_LIMIT_REACHED",
}
"""Kafka 4.3.1's names that kafka-python does not know, or that it spells otherwise."""

_REMEDY: dict[int, str] = {
    1: "the offset is not in the log: retention overtook the mirror, or the topic was made anew",
    2: "the broker found the batch corrupt: check memory and network on the way",
    10: "raise max.message.bytes of the target topic",
    17: "the topic name is not allowed there",
    29: "allow READ on the source topic, and WRITE and DESCRIBE on the target topic, to this user",
    31: "allow the operation on the cluster to this user",
    32: "a timestamp lies outside message.timestamp.after.max.ms or .before.max.ms of the target topic",
    38: "replication.factor is larger than the number of brokers: lower it in the file",
    44: "a policy of the target cluster forbids it: ask its administrator",
    53: "allow WRITE and DESCRIBE on TransactionalId with the prefix sparkmirror. to this user",
    58: "check user name, password and mechanism",
    76: "the target broker does not know the codec of the batch: set producer.compression.type, or upgrade the broker",
    87: "the broker refuses the record: without a key in a compacted topic?",
    100: "the topic was deleted, or deleted and made anew, while it was mirrored",
}


def advice(code: int) -> Advice:
    """Tells what to do after ``code``."""
    return _ADVICE.get(code, Advice.GIVE_UP)


def kind_of(code: int) -> Kind:
    """What the event is about when a partition stops for ``code``."""
    if code == MESSAGE_TOO_LARGE:
        return Kind.RECORD_TOO_LARGE
    return Kind.UNAUTHORIZED if code in UNAUTHORIZED else Kind.STOPPED


def may_be_appended(code: int) -> bool:
    """Whether a batch that was answered with ``code`` may be in the log all the same."""
    return code not in _BEFORE_APPENDING


def name_of(code: int) -> str:
    """Kafka's own name for ``code``, such as ``NOT_LEADER_OR_FOLLOWER``."""
    if code in _NAMES:
        return _NAMES[code]
    found = kafka_errors.for_code(code)
    message = getattr(found, "message", "") or found.__name__
    return str(message)


def broker_error(
    code: int, cluster: str, *, topic: str = "", partition: int | None = None, offset: int | None = None
) -> BrokerError:
    """The error that tells a person of ``code``."""
    return BrokerError(
        code=code,
        name=name_of(code),
        cluster=cluster,
        topic=topic,
        partition=partition,
        offset=offset,
        remedy=_REMEDY.get(code, ""),
    )
