"""Connections of a real server: silent ones, greedy ones, and heads that could be read in two ways."""

import json
import socket
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from adversarial_support import JSON_BODY, Answer, bearer, exchange, modern_headers, post, raw_request, read_answer, rpc
from cellwright.app.http.connections import Connections
from cellwright.app.http.tokens import TokenStore, parse_scopes
from requirements import requirement
from support import TOKEN, HttpServer, http_server, wait_until

pytestmark = pytest.mark.timeout(120)

MOST = 40
OTHER = "127.0.0.2"
"""Another address of this machine."""


@contextmanager
def small_server(folder: Path, *flags: str) -> Generator[HttpServer]:
    """A server with room for few connections."""
    program = (
        "import sys\n"
        "from cellwright.app.http import serving as http\n"
        "from cellwright.app.cli.entry import main\n"
        f"http.MAX_CONNECTIONS = {MOST}\n"
        "sys.exit(main())"
    )
    with http_server(folder, *flags, program=("-c", program, "serve")) as server:
        yield server


def connect(server: HttpServer, sent: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), 20, source_address=(source, 0))
    if sent:
        connection.sendall(sent)
    return connection


def health(server: HttpServer, source: str = "127.0.0.1") -> int:
    return exchange(server.port, raw_request(server.port, "GET", "/health"), source=source).status


def listed(server: HttpServer, token: str = TOKEN, source: str = "127.0.0.1") -> Answer:
    return post(server.port, rpc("tools/list"), modern_headers("tools/list", token=token), source=source)


def listening(server: HttpServer, token: str) -> bytes:
    message = rpc("subscriptions/listen", {"notifications": {"resourcesListChanged": True}})
    return raw_request(
        server.port, headers=modern_headers("subscriptions/listen", token=token), body=json.dumps(message).encode()
    )


def made_token(folder: Path, name: str) -> str:
    return TokenStore(folder / "state").create(name, parse_scopes("read"))[1].reveal()


# -- silent ones ---------------------------------------------------------------------------------------------------------------


def unfinished(server: HttpServer) -> dict[str, bytes]:
    return {
        "nothing": b"",
        "half a head": b"GET /health HTTP/1.1\r\nHost: 127",
        "half a body without a token": raw_request(server.port, headers=[JSON_BODY, ("Content-Length", "1000")]) + b"x",
        "half a body": raw_request(server.port, headers=[*modern_headers("tools/list"), ("Content-Length", "1000")])
        + b"x",
        "a stream with half a body": raw_request(
            server.port, "GET", headers=[bearer(), ("Accept", "text/event-stream"), ("Content-Length", "1000")]
        ),
    }


@requirement("door:silent")
def test_whoever_has_not_sent_a_whole_request_makes_room(tmp_path: Path) -> None:
    with small_server(tmp_path, "--max-in-flight", "1000", "--max-streams", "1000") as server:
        own = made_token(tmp_path, "own")
        for case, sent in unfinished(server).items():
            with ExitStack() as silent:
                for _ in range(3 * MOST):
                    silent.enter_context(connect(server, sent))
                assert health(server) == 200, case
                assert listed(server, own).status == 200, case


@requirement("door:silent")
def test_who_does_not_read_the_answer_makes_room(tmp_path: Path) -> None:
    with small_server(tmp_path) as server:
        own = made_token(tmp_path, "own")
        asked = raw_request(
            server.port, headers=modern_headers("tools/list"), body=json.dumps(rpc("tools/list")).encode()
        )
        with ExitStack() as silent:
            for _ in range(3 * MOST):
                deaf = silent.enter_context(socket.socket())
                deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                deaf.settimeout(20)
                deaf.connect(("127.0.0.1", server.port))
                deaf.sendall(asked)
            assert health(server) == 200
            assert listed(server, own).status == 200


@requirement("door:silent")
def test_of_the_silent_ones_those_of_the_address_with_the_most_go_first(tmp_path: Path) -> None:
    with small_server(tmp_path) as server, ExitStack() as opened:
        kept = opened.enter_context(connect(server, source=OTHER))
        for _ in range(3 * MOST):
            opened.enter_context(connect(server))
        kept.sendall(raw_request(server.port, "GET", "/health"))
        assert read_answer(kept, "GET").status == 200, "the oldest of all, and still there"


# -- greedy ones ---------------------------------------------------------------------------------------------------------------


@requirement("door:caller", "door:address")
def test_one_caller_that_holds_all_the_streams_it_can_keeps_nobody_out(tmp_path: Path) -> None:
    with small_server(tmp_path, "--max-streams", "1000") as server, ExitStack() as streams:
        greedy, own = made_token(tmp_path, "greedy"), made_token(tmp_path, "own")
        statuses: list[int] = []
        for _ in range(2 * MOST):
            stream = streams.enter_context(connect(server, listening(server, greedy)))
            statuses.append(int(stream.recv(12).split()[1]))
        assert statuses == [200] * (MOST // 2) + [429] * (2 * MOST - MOST // 2)
        assert health(server) == 200
        assert listed(server, own).status == 200
        assert listed(server, greedy).status == 200, "its own calls are no streams"


@requirement("door:address")
def test_one_address_that_holds_all_the_streams_it_can_keeps_no_other_out(tmp_path: Path) -> None:
    with small_server(tmp_path) as server, ExitStack() as streams:
        for number in range(3):
            token = made_token(tmp_path, f"greedy-{number}")
            for _ in range(MOST // 2):
                stream = streams.enter_context(connect(server, listening(server, token)))
                stream.recv(1)
        full = listed(server)
        assert full.status == 503
        assert "as many connections as it can serve" in full.json()["error"]["message"]
        assert health(server) == 200
        assert health(server, OTHER) == 200
        assert listed(server, source=OTHER).status == 200, "at another address it is as if nothing were"


# -- bodies --------------------------------------------------------------------------------------------------------------------


@requirement("door:bodies")
def test_unfinished_bodies_of_one_caller_are_bounded_together(tmp_path: Path) -> None:
    size = 4 * 1024 * 1024
    with http_server(tmp_path, "--body-timeout", "60") as server, ExitStack() as opened:
        greedy = made_token(tmp_path, "greedy")
        head = raw_request(
            server.port, headers=[*modern_headers("tools/list", token=greedy), ("Content-Length", str(size))]
        )
        for _ in range(24):
            opened.enter_context(connect(server, head + b" " * (size - 1)))
        log = server.log
        wait_until(lambda: "too much at once" in log.read_text(encoding="utf-8"), "what is too much is refused")
        assert health(server) == 200
        assert listed(server).status == 200


# -- heads ---------------------------------------------------------------------------------------------------------------------

HEADS = {
    "bare line feeds": "GET /metrics HTTP/1.1\nHost: 127.0.0.1:{port}\nAuthorization: Bearer {token}\n\n",
    "one bare line feed": "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{port}\nAuthorization: Bearer {token}\r\n\r\n",
    "bare at the end": "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\n\r\n",
    "folded": "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Folded: a\r\n b\r\nAuthorization: Bearer {token}\r\n\r\n",
    "folded with a tab": "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer\r\n\t{token}\r\n\r\n",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    with http_server(tmp_path_factory.mktemp("heads")) as running:
        yield running


@requirement("door:heads")
@pytest.mark.parametrize("case", HEADS)
def test_a_head_that_can_be_read_in_two_ways_is_refused(server: HttpServer, case: str) -> None:
    head = HEADS[case].format(port=server.port, token=TOKEN).encode()
    for pieces in ([head], [head[:25], head[25:]], [bytes([byte]) for byte in head]):
        answer = exchange(server.port, *pieces)
        assert answer.status == 400
        assert answer.body == b"Lines of a request's head end in CR LF, and are not folded."


@requirement("door:heads")
@pytest.mark.parametrize("order", [1, -1])
def test_a_body_that_ends_in_two_ways_is_refused(server: HttpServer, order: int) -> None:
    lengths = ["Content-Length: 5", "transfer-encoding: chunked"][::order]
    lines = [
        "POST /mcp HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        f"Authorization: Bearer {TOKEN}",
        *lengths,
        "",
        "0",
        "",
        "",
    ]
    answer = exchange(server.port, "\r\n".join(lines).encode())
    assert answer.status == 400
    assert answer.body == b"A request has a Content-Length or a Transfer-Encoding, not both."


@requirement("door:heads")
@pytest.mark.parametrize("first", ["GET /health HTTP/1.1", "GET /health HTTP/1.1\r\nContent-Length: 4"])
def test_such_a_head_is_refused_behind_another_request(server: HttpServer, first: str) -> None:
    body = "a\n b" if "Length" in first else ""
    before = f"{first}\r\nHost: 127.0.0.1:{server.port}\r\n\r\n{body}".encode()
    head = HEADS["folded"].format(port=server.port, token=TOKEN).encode()
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        connection.sendall(before + head)
        connection.shutdown(socket.SHUT_WR)
        answers = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answers.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 400" in answers
    assert b"cellwright_info" not in answers


@requirement("door:heads")
def test_a_body_may_have_any_lines(server: HttpServer) -> None:
    body = json.dumps(rpc("tools/list"), indent=1).encode()
    assert b"\n " in body
    assert post(server.port, body, modern_headers("tools/list")).status == 200


@requirement("door:heard-out")
def test_who_is_refused_while_they_send_may_send_on_and_reads_why(server: HttpServer) -> None:
    """As programs do that look at the answer only when all is sent."""
    body = b"x" * 1_000_000
    head = raw_request(server.port, headers=[JSON_BODY, ("Content-Length", str(len(body)))])
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        connection.sendall(head + body[:100_000])
        assert connection.recv(1, socket.MSG_PEEK) == b"H", "the refusal has come"
        for start in range(100_000, len(body), 300_000):
            connection.sendall(body[start : start + 300_000])
            time.sleep(0.02)
        assert read_answer(connection).status == 401


# -- the count -----------------------------------------------------------------------------------------------------------------


class Line:
    """A connection that only notes that it was cut."""

    def __init__(self) -> None:
        self.is_cut = False

    def cut(self) -> None:
        self.is_cut = True


@requirement("door:silent", "door:address")
def test_the_longest_silent_goes_and_who_speaks_stays() -> None:
    everybody = Connections(8)
    lines = [Line() for _ in range(6)]
    assert all(everybody.open(line, "a") for line in lines)
    everybody.speaks(lines[0])
    assert everybody.open(Line(), "a"), "of one address three quarters, the longest silent goes"
    assert [line.is_cut for line in lines] == [False, True, False, False, False, False]
    everybody.falls_silent(lines[0])
    others = [Line() for _ in range(3)]
    assert all(everybody.open(line, "b") for line in others)
    assert [line.is_cut for line in lines] == [False, True, True, False, False, False], "of the address with the most"
    assert not any(line.is_cut for line in others)
    for line in (*lines, *others):
        everybody.speaks(line)
        everybody.close(line)
        everybody.close(line)
