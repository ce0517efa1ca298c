"""The link between plain sockets, and before a real broker. Times are only asserted as what they cannot fall below."""

from __future__ import annotations

import logging
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sparkmirror.errors import LabError
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.link import DELAY_MS as LAB_DELAY_MS
from sparkmirror.lab.link import Link, Way
from sparkmirror.lab.ports import HOST, free_ports

DELAY_MS = 30.0
TIMEOUT = 20.0
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
MOST_THAT_WAITS = 1 << 28


@contextmanager
def answering(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server whose every connection is served in a thread of its own; gives its port."""
    with socket.create_server((HOST, 0)) as server, ThreadPoolExecutor(8) as threads:
        served = []

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                connection.settimeout(TIMEOUT)
                served.append(threads.submit(serve, connection))

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            accepting.join(TIMEOUT)
        for each in served:
            each.result(TIMEOUT)


def connect(link: Link) -> socket.socket:
    return socket.create_connection((HOST, link.port), timeout=TIMEOUT)


def everything(connection: socket.socket) -> bytes:
    """What comes until the other side has sent all."""
    pieces = []
    while piece := connection.recv(1 << 16):
        pieces.append(piece)
    return b"".join(pieces)


def echo(connection: socket.socket) -> None:
    with connection:
        while piece := connection.recv(1 << 16):
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)


def exchange(link: Link, data: bytes) -> bytes:
    """Sends all of it and reads what comes back, side by side."""
    with connect(link) as connection, ThreadPoolExecutor(1) as threads:
        answer = threads.submit(everything, connection)
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return answer.result(TIMEOUT)


def test_a_round_trip_takes_twice_the_delay_at_least():
    with answering(echo) as port, Link(port, delay_ms=DELAY_MS) as link, connect(link) as connection:
        for _ in range(3):
            began = time.monotonic()
            connection.sendall(b"ping")
            assert connection.recv(16) == b"ping"
            assert time.monotonic() - began >= 2 * DELAY_MS / 1000
        connection.shutdown(socket.SHUT_WR)
        assert everything(connection) == b""


def test_bytes_arrive_whole_and_in_order_over_several_connections():
    chance = random.Random(7)
    data = [chance.randbytes(size) for size in (3_000_000, 1, 700_000, 65_536, 0)]
    with answering(echo) as port, Link(port, delay_ms=5) as link, ThreadPoolExecutor(len(data)) as threads:
        assert list(threads.map(lambda sent: exchange(link, sent), data)) == data


def test_the_end_of_one_direction_leaves_the_other_open():
    def answer_at_the_end(connection: socket.socket) -> None:
        with connection:
            assert everything(connection) == b"question"
            connection.sendall(b"answer")

    with answering(answer_at_the_end) as port, Link(port, delay_ms=5) as link:
        assert exchange(link, b"question") == b"answer"


def test_a_reset_breaks_the_other_side_after_what_was_on_its_way():
    def answer_and_break(connection: socket.socket) -> None:
        connection.recv(16)
        connection.sendall(b"last words")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        connection.close()

    with answering(answer_and_break) as port, Link(port, delay_ms=5) as link, connect(link) as connection:
        connection.sendall(b"hello")
        assert connection.recv(16) == b"last words"
        with pytest.raises(ConnectionResetError):
            connection.recv(16)


def test_a_client_that_breaks_off_is_told_to_the_server():
    broken = threading.Event()

    def wait_for_the_break(connection: socket.socket) -> None:
        with connection:
            assert connection.recv(16) == b"hello"
            with pytest.raises(ConnectionResetError):
                connection.recv(16)
        broken.set()

    with answering(wait_for_the_break) as port, Link(port, delay_ms=5) as link:
        connection = connect(link)
        connection.sendall(b"hello")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        connection.close()
        assert broken.wait(TIMEOUT)


def test_a_server_that_ends_and_then_breaks_off_leaves_nothing_behind(caplog: pytest.LogCaptureFixture):
    """The link does not read from it any more, so it meets the break when it has something to deliver."""
    ended, broken = threading.Event(), threading.Event()

    def end_and_break(connection: socket.socket) -> None:
        connection.shutdown(socket.SHUT_WR)
        assert ended.wait(TIMEOUT)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        connection.close()
        broken.set()

    with answering(end_and_break) as port, Link(port, delay_ms=5) as link, connect(link) as connection:
        assert connection.recv(16) == b""
        ended.set()
        assert broken.wait(TIMEOUT)
        connection.shutdown(socket.SHUT_WR)
        with connect(link) as later, suppress(ConnectionResetError):  # what was to be delivered before has been by then
            assert later.recv(16) == b""
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_broker_that_is_away_turns_the_client_away():
    """At once, or so soon that connecting itself fails."""
    with Link(free_ports(1)[0], delay_ms=5) as link, pytest.raises(ConnectionResetError), connect(link) as connection:
        connection.recv(16)


def until_it_blocks(connection: socket.socket) -> Iterator[int]:
    with suppress(TimeoutError):
        for _ in range(MOST_THAT_WAITS >> 16):
            yield connection.send(bytes(1 << 16))


def test_a_receiver_that_does_not_read_stops_the_sender():
    """The sender gets rid of what the link may hold and what sockets buffer, then waits; nothing is lost by it."""
    go_on = threading.Event()
    received: list[bytes] = []

    def read_late(connection: socket.socket) -> None:
        with connection:
            assert go_on.wait(TIMEOUT)
            received.append(everything(connection))

    with answering(read_late) as port, Link(port, delay_ms=1, most_bytes=100_000) as link, connect(link) as connection:
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            connection.setsockopt(socket.SOL_SOCKET, option, 1 << 16)
        connection.settimeout(1.0)
        sent = sum(until_it_blocks(connection))
        assert sent < MOST_THAT_WAITS
        go_on.set()
        connection.settimeout(TIMEOUT)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(16) == b""
        assert len(received[0]) == sent


def silent(connection: socket.socket, seconds: float = 0.3) -> bool:
    """Whether nothing comes and the connection stands."""
    connection.settimeout(seconds)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(TIMEOUT)
    return False


def answers(connection: socket.socket, word: bytes) -> bool:
    connection.sendall(word)
    return connection.recv(16) == word


def test_a_cut_line_breaks_what_is_connected_and_turns_clients_away_until_it_is_mended():
    with answering(patient_echo) as port, Link(port, delay_ms=1) as link:
        with connect(link) as connection:
            assert answers(connection, b"before")
            link.cut()
            with pytest.raises(ConnectionResetError):
                connection.recv(16)
        with pytest.raises(ConnectionResetError), connect(link) as refused:
            assert refused.recv(16) is None
        link.mend()
        with connect(link) as connection:
            assert answers(connection, b"after")


@pytest.mark.parametrize("way", list(Way))
def test_what_waits_on_a_held_line_arrives_whole_when_it_is_mended(way: Way):
    with answering(patient_echo) as port, Link(port, delay_ms=1) as link, connect(link) as connection:
        assert answers(connection, b"before")
        link.hold(way)
        connection.sendall(b"during")
        assert silent(connection)
        link.mend()
        assert connection.recv(16) == b"during"
        assert answers(connection, b"after")


def test_an_end_that_was_sent_over_a_held_line_arrives_after_its_bytes():
    with answering(patient_echo) as port, Link(port, delay_ms=1) as link, connect(link) as connection:
        link.hold(Way.TO_BROKER)
        connection.sendall(b"last")
        connection.shutdown(socket.SHUT_WR)
        assert silent(connection)
        link.mend()
        assert everything(connection) == b"last"


@pytest.mark.parametrize("way", list(Way))
def test_a_connection_that_lost_bytes_is_broken_when_the_line_is_mended(way: Way):
    with answering(patient_echo) as port, Link(port, delay_ms=1) as link:
        with connect(link) as harmed:
            assert answers(harmed, b"before")
            link.lose(way)
            harmed.sendall(b"lost")
            assert silent(harmed)
            link.mend()
            with pytest.raises(ConnectionResetError):
                harmed.recv(16)
        with connect(link) as connection:
            assert answers(connection, b"after")


def test_a_connection_without_traffic_outlives_a_dead_line():
    with answering(patient_echo) as port, Link(port, delay_ms=1) as link, connect(link) as connection:
        assert answers(connection, b"before")
        link.lose(*Way)
        link.mend()
        assert answers(connection, b"after")


def test_a_client_that_leaves_over_a_dead_line_is_not_noticed_before_it_is_mended():
    gone = threading.Event()

    def wait_for_the_end(connection: socket.socket) -> None:
        with connection, suppress(ConnectionResetError):
            everything(connection)
        gone.set()

    with answering(wait_for_the_end) as port, Link(port, delay_ms=1) as link:
        with connect(link) as connection:
            connection.sendall(b"hello")
            link.lose(Way.TO_BROKER)
        assert not gone.wait(0.3)
        link.mend()
        assert gone.wait(TIMEOUT)


def test_a_line_becomes_slow_and_quick_again():
    with answering(patient_echo) as port, Link(port, delay_ms=1) as link, connect(link) as connection:
        link.slow(200)
        began = time.monotonic()
        assert answers(connection, b"slow")
        assert time.monotonic() - began >= 0.4
        link.mend()
        assert answers(connection, b"quick")


def test_a_link_that_does_not_run_says_so():
    with pytest.raises(LabError, match="does not run"):
        Link(1).cut()


def patient_echo(connection: socket.socket) -> None:
    """Takes it when its client, or the line, breaks off."""
    with suppress(ConnectionResetError, BrokenPipeError):
        echo(connection)


def test_a_port_that_is_taken_is_told():
    with socket.create_server((HOST, 0)) as other, pytest.raises(LabError, match="the link cannot listen on port"):
        Link(1, port=other.getsockname()[1]).start()


def test_a_stopped_link_breaks_its_connections_and_gives_the_port_back():
    def answer_and_wait(connection: socket.socket) -> None:
        with connection:
            connection.sendall(connection.recv(16))
            with pytest.raises(ConnectionResetError):
                connection.recv(16)

    with answering(answer_and_wait) as port:
        link = Link(port, delay_ms=1).start()
        with connect(link) as connection:
            connection.sendall(b"hello")
            assert connection.recv(16) == b"hello"
            link.stop()
            with pytest.raises(ConnectionResetError):
                connection.recv(16)
        link.stop()
        socket.create_server((HOST, link.port)).close()


@pytest.mark.kafka
def test_a_broker_is_reached_through_the_link_and_directly(cluster_b: LabCluster, topic_name: str):
    """Metadata over the link leads to the link again: else the second acknowledgement would come at once."""
    direct, far = cluster_b.bootstrap_servers, cluster_b.listener("LINK")
    assert set(direct.split(",")).isdisjoint(far.split(","))
    admin = AdminClient({"bootstrap.servers": direct})
    admin.create_topics([NewTopic(topic_name, 1, 1)])[topic_name].result(TIMEOUT)
    producer = Producer({"bootstrap.servers": far, "linger.ms": 0})
    for _ in range(2):
        began = time.monotonic()
        producer.produce(topic_name, b"hello")
        assert producer.flush(TIMEOUT) == 0
        assert time.monotonic() - began >= 2 * LAB_DELAY_MS / 1000
    assert set(AdminClient({"bootstrap.servers": far}).list_topics(timeout=TIMEOUT).brokers) == {1}
