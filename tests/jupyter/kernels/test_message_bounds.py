"""What a kernel says is bounded: what is over a bound is told in the place of the output, and nothing else is lost."""

import json
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

import pytest

from cellwright.core.types import ALL_SCOPES, Call, Principal, Secret
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.kernels.channel import CONTENT_BOUNDS, MAX_MESSAGE_BYTES, Message, messages_of, pack, unpack
from cellwright.jupyter.kernels.executions import ExecutionView
from cellwright.jupyter.server.address import JupyterAddress
from cellwright.jupyter.server.connect import to_named
from cellwright.jupyter.service import LiveNotebooks
from jupyter_support import JupyterServer, write_notebook
from requirements import requirement

pytestmark = pytest.mark.anyio

CALL = Call(Principal("test", ALL_SCOPES))
DISPLAY = (
    "from IPython.display import display\n"
    "print('before')\n"
    "display({{'application/x-large': 'x' * {size}, 'text/plain': 'large'}}, raw=True)\n"
    "print('after')\n"
    "kept = 41 + 1\n"
    "kept"
)


@pytest.fixture
async def notebooks(server_process: JupyterServer) -> AsyncGenerator[LiveNotebooks]:
    address = JupyterAddress.parse(server_process.url, token=Secret(server_process.token))
    service = LiveNotebooks(to_named(address), lambda: datetime.now(UTC))
    try:
        yield service
    finally:
        await service.close()


async def run_both(notebooks: LiveNotebooks, path: NotebookPath) -> tuple[ExecutionView, list[str]]:
    """How the two cells ended when they were run, and their outputs in the notebook."""
    async with notebooks.open(CALL, path) as document:
        ids = [document.view.id_at(index) for index in range(2)]
    view = await notebooks.run(CALL, path, ids, 120)
    async with notebooks.open(CALL, path) as document:
        outputs = [json.dumps(document.view.json_at(index)["outputs"]) for index in range(2)]
    await notebooks.shut_down(CALL, path)
    return view, outputs


@requirement("memory:messages")
@pytest.mark.timeout(180)
async def test_an_output_over_the_bound_is_told_in_its_place_and_nothing_else_is_lost(
    notebooks: LiveNotebooks, server_process: JupyterServer
) -> None:
    path = NotebookPath("over.ipynb")
    write_notebook(server_process.root, path.text, [DISPLAY.format(size=CONTENT_BOUNDS.size + 1), "kept + 1"])
    view, (outputs, next_outputs) = await run_both(notebooks, path)
    assert [cell.state.value for cell in view.cells] == ["done", "done"]
    assert not view.cells[0].notes
    assert f"bytes; at most {CONTENT_BOUNDS.size:,} are taken, so this output is missing here" in outputs
    places = [outputs.index(words) for words in ("before", "missing here", "after", "42")]
    assert places == sorted(places)
    assert "43" in next_outputs


@requirement("memory:messages")
@pytest.mark.timeout(180)
async def test_a_message_that_is_not_even_received_is_told_and_the_kernel_lives(
    notebooks: LiveNotebooks, server_process: JupyterServer
) -> None:
    path = NotebookPath("far-over.ipynb")
    write_notebook(server_process.root, path.text, [DISPLAY.format(size=MAX_MESSAGE_BYTES + 1), "kept + 1"])
    view, (outputs, next_outputs) = await run_both(notebooks, path)
    assert f"a message of more than {MAX_MESSAGE_BYTES:,} bytes, so this output is missing here" in outputs
    assert outputs.index("before") < outputs.index("missing here")
    # What came behind it on the same connection may be gone with it, and that is said as well.
    assert any("output may be missing" in note for note in view.cells[0].notes)
    assert [cell.state.value for cell in view.cells] == ["done", "done"]
    assert "43" in next_outputs


@requirement("memory:messages")
@pytest.mark.timeout(180)
async def test_an_output_of_tens_of_megabytes_is_taken(notebooks: LiveNotebooks, server_process: JupyterServer) -> None:
    path = NotebookPath("long.ipynb")
    write_notebook(server_process.root, path.text, [DISPLAY.format(size=CONTENT_BOUNDS.size - 10_000), "kept + 1"])
    view, (outputs, next_outputs) = await run_both(notebooks, path)
    assert [cell.state.value for cell in view.cells] == ["done", "done"]
    assert "missing here" not in outputs
    assert outputs.index("before") < outputs.index("large") < outputs.index("after") < outputs.index("42")
    assert "43" in next_outputs


@requirement("memory:messages")
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"data":' + b"[" * 300 + b"]" * 300 + b"}", "levels of nesting"),
        (b'{"data":[' + b"1," * 600_000 + b"1]}", "more than 500,000 values"),
        (b'{"data":"' + b"x" * CONTENT_BOUNDS.size + b'"}', "bytes; at most"),
    ],
    ids=["deep", "many", "long"],
)
def test_content_with_too_much_in_it_is_told_in_its_place_unparsed(content: bytes, why: str) -> None:
    header, parent = b'{"msg_id":"m","msg_type":"display_data","session":"k"}', b'{"msg_id":"asked"}'
    [message] = messages_of("iopub", [header, parent, b"{}", content])
    assert (message.type, message.parent_id, message.header["session"]) == ("stream", "asked", "k")
    assert why in message.content["text"]
    assert "the kernel sent a display_data that has" in message.content["text"]
    with pytest.raises(ValueError, match=why):
        list(messages_of("shell", [header.replace(b"display_data", b"execute_reply"), parent, b"{}", content]))


@requirement("memory:messages")
def test_a_message_comes_back_as_it_was_packed() -> None:
    said = Message("iopub", {"msg_type": "x"}, {"a": [1, "é😀"]}, {"msg_id": "p"}, {"m": 1}, (b"\0\1", b""))
    assert [*unpack(pack(said))] == [said]


ODD = 'é😀\u2028\x1b[31m"q" \\ \\\\n\t/\x00\ud800'
"""What is written as an escape, or takes several bytes."""


@requirement("memory:messages")
@pytest.mark.parametrize("ascii_only", [True, False], ids=["escaped", "plain"])
@pytest.mark.parametrize("name_first", [True, False], ids=["name first", "text first"])
@pytest.mark.parametrize("line", [ODD * 3 + "a line of text that has no escapes\n", "12\n", "x", '"}', "\\ab\n"])
def test_a_stream_over_the_bound_is_taken_in_pieces_and_nothing_of_it_is_lost(
    ascii_only: bool, name_first: bool, line: str
) -> None:
    said = line * (CONTENT_BOUNDS.size // len(line) + 100_000)
    content = {"name": "stderr", "text": said} if name_first else {"text": said, "name": "stderr"}
    packed = json.dumps(content, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    header, parent = b'{"msg_id":"m","msg_type":"stream","session":"k"}', b'{"msg_id":"asked"}'
    got = [*messages_of("iopub", [header, parent, b"{}", memoryview(packed)])]
    assert "".join(message.content["text"] for message in got) == said
    assert {message.content["name"] for message in got} == {"stderr"}
    assert {(message.type, message.parent_id) for message in got} == {("stream", "asked")}
    assert max(len(message.content["text"]) for message in got) < 2 * 1024 * 1024


@requirement("memory:messages")
@pytest.mark.parametrize(
    ("content", "missing"),
    [
        (b'{"name":"stdout","text":"' + b"\\\\" * CONTENT_BOUNDS.size + b'"}', "this output"),
        (
            b'{"name":"stdout","text":"' + b"x" * 2_000_000 + b"\\\\" * CONTENT_BOUNDS.size + b'"}',
            "the rest of this output",
        ),
        (b'{"name":"stdout","more":1,"text":"' + b"x" * CONTENT_BOUNDS.size + b'"}', "this output"),
        (b'{"name":"stdout","text":"' + b"x" * CONTENT_BOUNDS.size, "this output"),
    ],
    ids=["no place to cut", "later no place", "no stream's", "no end"],
)
def test_of_a_stream_that_cannot_be_cut_the_rest_is_told(content: bytes, missing: str) -> None:
    header = b'{"msg_id":"m","msg_type":"stream","session":"k"}'
    *_, last = messages_of("iopub", [header, b"{}", b"{}", content])
    assert (
        f"{len(content):,} bytes; at most {CONTENT_BOUNDS.size:,} are taken, so {missing} is missing"
        in last.content["text"]
    )


@requirement("memory:messages", "outputs:floods:print")
async def test_tens_of_megabytes_printed_in_one_breath_are_counted_to_the_letter(
    notebooks: LiveNotebooks, server_process: JupyterServer
) -> None:
    path = NotebookPath("breath.ipynb")
    code = "import sys\nkept = sys.stdout.write('first ' + 'é' * 30_000_000 + ' last')"
    write_notebook(server_process.root, path.text, [code, "kept"])
    view, (outputs, next_outputs) = await run_both(notebooks, path)
    assert [cell.state.value for cell in view.cells] == ["done", "done"]
    assert "missing here" not in outputs
    head, note, tail = json.loads(outputs)
    assert head["text"].startswith("first é")
    assert tail["text"].endswith("é last")
    missing = 30_000_011 - len(head["text"]) - len(tail["text"])
    assert f"{missing:,} characters left out" in note["data"]["text/plain"]
    assert "30000011" in next_outputs
