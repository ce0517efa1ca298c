"""Every error that sparkmirror raises on purpose.

    SparkmirrorError
    ├── ConfigError    the configuration is wrong, and its author can mend it: file, key, reason, remedy
    ├── BrokerError    a broker said no: code, name, cluster, topic, partition, offset, and what to do
    │   └── FencedError   a newer epoch of a producer id is out: who held this one no longer has the flow
    ├── LinkError      the exchange with a broker failed: cluster, address, reason, a likely cause
    ├── BatchError     bytes of a record batch that cannot be copied as they are: topic, partition, offset, reason
    │   └── RecordTooLargeError   sound, but some of its records are above what the target topic allows
    ├── HeldError      an operator's order says that the flow copies nothing now
    ├── JavaError      there is no Java that Spark can run on: what was tried, what to install
    └── LabError       a local broker of the lab could not be started or stopped

Messages suggest the cause and never hold a secret. Exceptions of libraries are mapped at the edge of the package that
uses the library.
"""

from __future__ import annotations


class SparkmirrorError(Exception):
    """The root: catch this to catch what sparkmirror reports by itself."""


class ConfigError(SparkmirrorError):
    """The configuration is wrong; names the place and the remedy.

    Attributes:
        file: the file as the user named it.
        key: the key as written in the file, or "" when the file as a whole is meant.
        reason: what is wrong.
        remedy: what to do about it.
    """

    def __init__(self, *, file: str, key: str, reason: str, remedy: str = "") -> None:
        self.file, self.key, self.reason, self.remedy = file, key, reason, remedy
        place = f"{file}: {key}" if key else file
        super().__init__(f"{place}: {reason}" + (f" ({remedy})" if remedy else ""))


class BrokerError(SparkmirrorError):
    """A broker answered with an error code.

    Attributes:
        code: Kafka's error code.
        name: Kafka's name of it, such as ``TOPIC_AUTHORIZATION_FAILED``.
        cluster: the alias of the cluster that answered.
        topic, partition, offset: the place, as far as it is known.
        remedy: what to do about it.
    """

    def __init__(
        self,
        *,
        code: int,
        name: str,
        cluster: str,
        topic: str = "",
        partition: int | None = None,
        offset: int | None = None,
        remedy: str = "",
    ) -> None:
        self.code, self.name, self.cluster = code, name, cluster
        self.topic, self.partition, self.offset, self.remedy = topic, partition, offset, remedy
        place = f"cluster {cluster}"
        if topic:
            place += f", {topic}" + (f"-{partition}" if partition is not None else "")
        if offset is not None:
            place += f" at offset {offset}"
        super().__init__(f"{place}: {name} ({code})" + (f": {remedy}" if remedy else ""))


class FencedError(BrokerError):
    """The transaction coordinator knows a newer epoch, or another producer id, than the caller's.

    Another driver has raised it; or a transaction that fenced was open for longer than its timeout, and the coordinator
    ended it. Who has the flow is on record in its internal topic.
    """


class LinkError(SparkmirrorError):
    """The exchange with a broker failed: no connection, a broken one, or no answer in time.

    Attributes:
        cluster: its alias.
        address: its bootstrap servers.
        reason: what happened.
        hint: what to do about it, or "".
        setting: the client's setting to look at.
        lasting: whether it stays so until somebody changes something, such as a password that is wrong.
    """

    def __init__(
        self,
        *,
        cluster: str,
        address: str,
        reason: str,
        hint: str = "",
        setting: str = "bootstrap.servers",
        lasting: bool = False,
    ) -> None:
        self.cluster, self.address, self.reason, self.hint = cluster, address, reason, hint
        self.setting, self.lasting = setting, lasting
        super().__init__(f"cluster {cluster} at {address}: {reason}" + (f" ({hint})" if hint else ""))


class BatchError(SparkmirrorError):
    """A record batch that cannot be copied; its partition stops, the others go on."""

    def __init__(self, *, offset: int, reason: str, topic: str = "", partition: int = -1, remedy: str = "") -> None:
        self.offset, self.reason, self.topic, self.partition, self.remedy = offset, reason, topic, partition, remedy
        place = f"{topic}-{partition} at offset {offset}" if topic else f"offset {offset}"
        super().__init__(f"{place}: {reason}" + (f" ({remedy})" if remedy else ""))

    def at(self, topic: str, partition: int) -> BatchError:
        """The same error with its partition, which those who look into batches do not know."""
        return BatchError(offset=self.offset, reason=self.reason, topic=topic, partition=partition, remedy=self.remedy)


class RecordTooLargeError(BatchError):
    """Records of one batch that no batch which the target topic allows can hold.

    Attributes:
        offset: of the first of them, its own.
        offsets: of all of them, in order.
    """

    def __init__(self, *, offset: int, reason: str, remedy: str = "", offsets: tuple[int, ...] = ()) -> None:
        self.offsets = offsets or (offset,)
        super().__init__(offset=offset, reason=reason, remedy=remedy)


class HeldError(SparkmirrorError):
    """The flow copies nothing until it is released, since its target was switched to; the message says by whom."""


class LabError(SparkmirrorError):
    """A local broker of the lab could not be fetched, started or stopped."""


class JavaError(SparkmirrorError):
    """No Java 17 or 21 on this machine; the message lists what was tried and what to install."""
