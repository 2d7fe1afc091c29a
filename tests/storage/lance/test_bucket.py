"""An index in LanceDB that is in a bucket: on a real S3 server, and on one that ignores the condition of a write."""

import asyncio
import importlib
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from cellwright.core.errors import ConfigError
from cellwright.core.types import Secret
from cellwright.storage.lance.opening import open_lance_search
from cellwright.storage.lance.place import BucketPlace, LanceFailed, lance_place
from cellwright.storage.lance.s3 import Bucket, bucket_of
from cellwright.storage.location import open_database
from cellwright.storage.search.schema import MIGRATIONS
from requirements import requirement
from storage.lance.test_index import LanceShelf
from storage.search.test_search import cell

pytestmark = pytest.mark.anyio

ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "do-not-show-this-0470"}
# The parts of moto have few types.
WSGI = Callable[[dict[str, Any], Any], Any]


@pytest.fixture(scope="module")
def store() -> WSGI:
    """moto's S3, as a program behind any server."""
    # Takes a second, which is not to count as time to answer.
    importlib.import_module("lancedb")
    moto: Any = importlib.import_module("moto.server")
    return moto.DomainDispatcherApplication(moto.create_backend_app)


def serving(app: WSGI) -> Iterator[str]:
    werkzeug: Any = importlib.import_module("werkzeug.serving")

    class Quiet(werkzeug.WSGIRequestHandler):
        def log_request(self, *_: Any) -> None:
            return None

    server = werkzeug.make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    connection = HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("PUT", "/bucket")
    assert connection.getresponse().status == 200
    connection.close()
    yield f"http://127.0.0.1:{server.port}"
    server.shutdown()
    thread.join(10)
    server.server_close()


@pytest.fixture(scope="module")
def sound(store: WSGI) -> Iterator[str]:
    yield from serving(store)


@pytest.fixture(scope="module")
def deaf(store: WSGI) -> Iterator[str]:
    """The same, but the condition of a write does not arrive: as stores are that do not know it."""
    yield from serving(lambda environ, start: store(environ | {"HTTP_IF_NONE_MATCH": ""}, start))


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.fixture
async def shelf(sound: str, keys: pytest.MonkeyPatch, tmp_path: Path) -> AsyncGenerator[LanceShelf]:
    keys.setenv("AWS_ENDPOINT_URL", sound)
    database = open_database(tmp_path / "db", MIGRATIONS)
    shelf = LanceShelf(database, open_lance_search(database, lance_place("s3://bucket/a/prefix", tmp_path)))
    yield shelf
    await shelf.index.close()
    await database.close()


@requirement("lance:bucket")
async def test_an_index_in_a_bucket_answers(shelf: LanceShelf) -> None:
    await shelf.put(cell("a", "text one", namespace="n"), cell("b", "text two"))
    assert set(await shelf.found("text")) == {"a", "b"}
    assert await shelf.found("text", namespaces=("n",)) == ["a"]
    assert shelf.answered >= 2


@requirement("lance:bucket:unsafe")
async def test_a_store_that_ignores_the_condition_is_refused(
    sound: str, deaf: str, keys: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    database = open_database(tmp_path / "db", MIGRATIONS)
    keys.setenv("AWS_ENDPOINT_URL", deaf)
    place = lance_place("s3://bucket/x", tmp_path)
    with pytest.raises(ConfigError, match="lose each other's commits") as refused:
        open_lance_search(database, place)
    assert "folder" in refused.value.hint
    with pytest.raises(ConfigError):
        await asyncio.to_thread(place.connect)
    keys.setenv("AWS_ENDPOINT_URL", sound)
    lance_place("s3://bucket/x", tmp_path).check()
    with pytest.raises(ConfigError, match="answers 404"):
        lance_place("s3://no-such-bucket/x", tmp_path).check()


@requirement("lance:bucket")
def test_a_store_that_does_not_answer_leaves_the_database(
    keys: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Nobody listens at this port, which only the system may give out.
    keys.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    place = lance_place("s3://bucket/x", tmp_path)
    with pytest.raises(LanceFailed):
        place.check()
    open_lance_search(open_database(tmp_path / "db", MIGRATIONS), place)
    assert "lance_index_not_reached" in caplog.text


@requirement("lance:bucket:address")
@pytest.mark.parametrize(
    ("uri", "missing", "said"),
    [
        ("s3://UPPER/x", "", "s3://bucket/prefix"),
        ("s3://key:secret@bucket/x", "", "s3://bucket/prefix"),
        ("s3://bucket/a?b=c", "", "s3://bucket/prefix"),
        ("s3://bucket/x", "AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY_ID"),
        ("s3://bucket/x", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY"),
    ],
)
def test_what_is_no_bucket_or_has_no_key_is_refused(uri: str, missing: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        bucket_of(uri, {name: value for name, value in ENVIRONMENT.items() if name != missing})
    assert said in refused.value.hint
    assert "secret@" not in str(refused.value)


@requirement("lance:bucket:address")
def test_the_address_is_as_the_environment_says_and_the_key_is_not_shown() -> None:
    plain = bucket_of("s3://bucket/a/b/", ENVIRONMENT | {"AWS_REGION": "eu-west-1"})
    assert (plain.endpoint, plain.prefix, plain.uri) == ("https://s3.eu-west-1.amazonaws.com", "a/b", "s3://bucket/a/b")
    assert ENVIRONMENT["AWS_SECRET_ACCESS_KEY"] not in repr(BucketPlace(plain))
    with pytest.raises(ConfigError, match="AWS_ENDPOINT_URL"):
        bucket_of("s3://bucket", ENVIRONMENT | {"AWS_ENDPOINT_URL": "host:9000"})


@requirement("lance:bucket:signed")
@pytest.mark.parametrize("token", [None, Secret("session-token")])
def test_requests_are_signed_as_amazons_own_library_signs_them(token: Secret | None) -> None:
    auth: Any = importlib.import_module("botocore.auth")
    request: Any = importlib.import_module("botocore.awsrequest")
    credentials: Any = importlib.import_module("botocore.credentials")
    bucket = Bucket("s3://b1/x", "b1", "x", "https://store.example:9000", "eu-west-1", "KEY", Secret("hidden"), token)
    theirs = request.AWSRequest("PUT", "https://store.example:9000/b1/x/probe-1", data=b"")
    keys = credentials.Credentials("KEY", "hidden", token.reveal() if token else None)
    auth.S3SigV4Auth(keys, "s3", "eu-west-1").add_auth(theirs)
    when = datetime.strptime(theirs.headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    ours = bucket._headers("PUT", "store.example:9000", "/b1/x/probe-1", when)
    assert ours["Authorization"] == theirs.headers["Authorization"]
    assert ours["If-None-Match"] == "*"
