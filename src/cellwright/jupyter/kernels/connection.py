"""One connection to one kernel, kept open and shared by all who run code in it.

Every message is given to the request it answers, by parent id; many requests may be under way at once. The connection
notices when the kernel dies or is restarted by anybody, and comes back after a cut without mixing up what is whose.
"""

import asyncio
import contextlib
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from cellwright.core.errors import CellwrightError, DeadlineExceeded, Unavailable
from cellwright.jupyter.kernels.channel import (
    ChannelClosed,
    JsonObject,
    KernelChannel,
    KernelGone,
    Message,
    OpenChannel,
    TooLong,
    left_out,
)
from cellwright.jupyter.kernels.request import (
    Completion,
    ExecuteReply,
    LanguageInfo,
    OnMessage,
    ReplyLost,
    Request,
    death,
    execute_reply,
    gone,
    never_begun,
)

logger = logging.getLogger(__name__)

START_SECONDS = 60.0
"""How long a kernel that restarts may take to answer."""
NUDGE_SECONDS = 10.0
"""How long to wait for an answer from a kernel that speaks; one that is busy for a person may not give one."""
NUDGE_EVERY = 0.5
GUARD_EVERY = 2.0
PROBE_SECONDS = 5.0
RECONNECT_SECONDS = 60.0
RECONNECT_PAUSES = (0.05, 0.2, 0.5, 1.0, 2.0)
REMEMBERED_RUNS = 64
LONG_TEXT = 256 * 1024
PROTOCOL_VERSION = "5.3"


class KernelConnection:
    """The one connection to a kernel. Opens on the first request, comes back by itself, ends with `close`."""

    def __init__(
        self,
        kernel_id: str,
        open_channel: OpenChannel,
        session_id: str | None = None,
        *,
        exists: Callable[[], Awaitable[bool]] | None = None,
        busy: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """`exists` and `busy` are what the server knows of the kernel, asked for while it is quiet."""
        self.kernel_id = kernel_id
        self.session_id = session_id or secrets.token_hex(16)
        self.state = "unknown"
        """The kernel's last word about itself: idle, busy, starting, restarting, dead."""
        self.restarts = 0
        """How often the kernel was seen to start anew; a change means that variables are gone."""
        self._open_channel = open_channel
        self._exists = exists
        self._busy = busy
        self._guarding = False
        self._received = 0
        self._channel: KernelChannel | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._recovering = False
        self._requests: dict[str, Request] = {}
        self._finished: OrderedDict[str, OnMessage] = OrderedDict()
        self._opening = asyncio.Lock()
        self._answers = False
        self._identity: str | None = None
        self._buried: str | None = None
        self._starts_anew = False
        self._closed = False

    @property
    def connected(self) -> bool:
        return self._channel is not None

    @property
    def answers(self) -> bool:
        """Whether code can be run without waiting for the kernel to be reached."""
        return self._answers and self._channel is not None

    async def ready(self) -> None:
        """Return when the kernel is connected and its output is known to reach us."""
        if self.answers:
            return
        async with self._opening:
            if self._closed:
                raise Unavailable(
                    f"the connection to kernel {self.kernel_id} is closed",
                    hint="make the call again: the kernel is connected anew",
                )
            if self._channel is None:
                self._channel = await self._open_channel()
                self._spawn(self._read(self._channel))
                self._answers = False
            if not self._answers:
                await self._nudge()

    async def execute(
        self,
        code: str,
        on_message: OnMessage | None = None,
        *,
        silent: bool = False,
        store_history: bool = True,
        user_expressions: dict[str, str] | None = None,
        stop_on_error: bool = True,
    ) -> ExecuteReply:
        """Run code and give every message it publishes, in order, to `on_message`. `input()` in it fails at once.

        Threads that the code leaves behind may go on printing: that is given too, for the latest runs. After an error the kernel
        drops what is sent to it for a moment, unless `stop_on_error` is false.

        Raises KernelDied, KernelGone, ReplyLost or Unavailable. Cancelling stops the waiting, not the code.
        """
        content: JsonObject = {
            "code": code,
            "silent": silent,
            "store_history": store_history and not silent,
            "user_expressions": user_expressions or {},
            "allow_stdin": False,
            "stop_on_error": stop_on_error,
        }
        await self.ready()
        request = self._new_request("shell", "execute_request", content)
        reply = await self._ask(request, on_message)
        if on_message is not None:
            self._listen_on(request.message.id, on_message)
        return execute_reply(reply, incomplete=request.incomplete)

    async def kernel_info(self, timeout: float = START_SECONDS) -> LanguageInfo:  # noqa: ASYNC109
        content = await self._query("kernel_info_request", {}, timeout)
        language: JsonObject = content.get("language_info", {})
        return LanguageInfo(
            str(language.get("name", "")),
            str(language.get("version", "")),
            str(content.get("implementation", "")),
            str(content.get("protocol_version", "")),
        )

    async def complete(self, code: str, cursor: int, timeout: float = 15.0) -> Completion:  # noqa: ASYNC109
        """What may stand at `cursor`, counted in code points."""
        content = await self._query("complete_request", {"code": code, "cursor_pos": cursor}, timeout)
        start, end = int(content.get("cursor_start", cursor)), int(content.get("cursor_end", cursor))
        return Completion(tuple(map(str, content.get("matches", []))), start, end)

    async def inspect(self, code: str, cursor: int, detail: int = 0, timeout: float = 15.0) -> JsonObject | None:  # noqa: ASYNC109
        """What the kernel knows about the name at `cursor`, as a mime bundle, or None."""
        question = {"code": code, "cursor_pos": cursor, "detail_level": detail}
        content = await self._query("inspect_request", question, timeout)
        return dict(content.get("data", {})) if content.get("found") else None

    def note_restart(self, seen_before: int) -> None:
        """The server says that it has restarted the kernel since this was seen `seen_before` times.

        The old process is gone for certain, whether or not the new one has been heard yet.
        """
        if self.restarts == seen_before:
            # What the old process said last may still be on its way here, and must not be taken for the new one.
            self._buried, self._identity = self._identity, None
            self._note_death("was restarted")

    def note_shutdown(self) -> None:
        """The server says that it has shut the kernel down: what is under way in it ended with it."""
        self._drop_channel()
        self._fail_all(gone(self.kernel_id))

    async def close(self) -> None:
        """Leave the kernel; it goes on running. Requests under way fail."""
        self._closed = True
        self._fail_all(
            Unavailable(
                f"the connection to kernel {self.kernel_id} was closed",
                hint="make the call again: the kernel is connected anew",
            )
        )
        channel, self._channel = self._channel, None
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if channel is not None:
            await channel.close()

    def _listen_on(self, request_id: str, on_message: OnMessage) -> None:
        self._finished[request_id] = on_message
        while len(self._finished) > REMEMBERED_RUNS:
            self._finished.popitem(last=False)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _query(self, kind: str, content: JsonObject, timeout: float) -> JsonObject:  # noqa: ASYNC109
        try:
            async with asyncio.timeout(timeout):
                await self.ready()
                return (await self._ask(self._new_request("shell", kind, content))).content
        except TimeoutError as error:
            raise DeadlineExceeded(
                f"kernel {self.kernel_id} did not answer a {kind} within {timeout:g} s (it is {self.state})",
                hint="It answers when the code that runs now has ended; interrupt that, or ask again later",
            ) from error

    def _new_request(self, channel: str, kind: str, content: JsonObject) -> Request:
        header = {
            "msg_id": secrets.token_hex(16),
            "msg_type": kind,
            "username": "cellwright",
            "session": self.session_id,
            "date": datetime.now(UTC).isoformat(),
            "version": PROTOCOL_VERSION,
        }
        return Request(Message(channel, header, content))

    async def _ask(self, request: Request, on_message: OnMessage | None = None) -> Message:
        self._requests[request.message.id] = request
        try:
            channel = self._channel
            if channel is None:
                raise Unavailable(
                    f"the connection to kernel {self.kernel_id} was cut", hint="Nothing was run; try again"
                )
            # A cut while sending leaves the fate of the request open: the reader's recovery settles it.
            with contextlib.suppress(ChannelClosed):
                await channel.send(request.message)
            if self._exists is not None and not self._guarding and request.runs_code:
                self._guarding = True
                self._spawn(self._guard(self._exists))
            return await request.finish(on_message)
        finally:
            self._requests.pop(request.message.id, None)

    async def _nudge(self) -> None:
        """Ask until both an answer and output have come: a subscription that is still being made loses output."""
        required, heard_before = self._starts_anew, self._received
        asked: set[asyncio.Task[Message]] = set()
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(START_SECONDS):
                while not any(task.done() for task in asked):
                    waited = asyncio.get_running_loop().time() - began
                    if waited > NUDGE_SECONDS and self._received > heard_before and not required:
                        break
                    # The control channel is answered while the shell is busy; not every kernel has it.
                    for channel in ("control", "shell") if len(asked) % 8 == 0 else ("control",):
                        request = self._new_request(channel, "kernel_info_request", {})
                        asked.add(asyncio.create_task(self._ask(request)))
                    await asyncio.wait(asked, timeout=NUDGE_EVERY, return_when=asyncio.FIRST_COMPLETED)
            done = [task for task in asked if task.done()]
            if done and not any(task.exception() is None for task in done):
                done[0].result()
        except TimeoutError as error:
            if required:
                raise Unavailable(
                    f"kernel {self.kernel_id} does not answer since it was restarted", hint="Restart the kernel"
                ) from error
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        self._answers = True
        self._starts_anew = False

    async def _read(self, channel: KernelChannel) -> None:
        try:
            while True:
                try:
                    message = await channel.receive()
                except ValueError as error:
                    logger.warning("kernel_message_unreadable kernel=%s error=%s", self.kernel_id, error)
                    continue
                self._dispatch(message)
                if len(message.content.get("text", "")) >= LONG_TEXT:
                    # The pieces of a long stream are all there: between them others have their turns.
                    await asyncio.sleep(0)
                # The next one may be long in coming, and this one may be large.
                del message
        except TooLong as error:
            self._note_left_out(str(error))
        except ChannelClosed:
            pass
        finally:
            # However the reading ended: nobody may wait for an answer that is not read any more.
            if self._channel is channel:
                self._note_cut()

    def _note_left_out(self, what: str) -> None:
        """A message was not taken in, and nobody knows whose it was: all that runs now is told, in the place of the output."""
        logger.warning("kernel_message_too_long kernel=%s", self.kernel_id)
        for request in tuple(self._requests.values()):
            if request.runs_code and request.started:
                request.receive(left_out(what, {}, request.message.header))

    def _note_cut(self) -> None:
        self._channel = None
        self._answers = False
        running = False
        for request in tuple(self._requests.values()):
            if request.runs_code:
                request.incomplete = running = True
            else:
                request.fail(
                    Unavailable(
                        f"the connection to kernel {self.kernel_id} was cut",
                        hint="make the call again: the kernel is connected anew",
                    )
                )
        if running and not self._recovering:
            self._recovering = True
            self._spawn(self._recover())

    def _drop_channel(self) -> None:
        """The new process may have other ports, and the server looks for them only when a connection is opened."""
        channel, self._channel = self._channel, None
        if channel is not None:
            self._spawn(channel.close())
        for request in tuple(self._requests.values()):
            if not request.runs_code:
                request.fail(Unavailable(f"kernel {self.kernel_id} died before it answered", hint="Ask again"))

    def _dispatch(self, message: Message) -> None:
        self._received += 1
        self._note_identity(message)
        if message.type == "status":
            self._note_state(message)
        elif message.channel == "iopub" and message.type == "shutdown_reply" and message.content.get("restart"):
            # The old process takes its leave. What is sent before the new one is heard may find nobody who listens to its output.
            self.note_restart(self.restarts)
        request = self._requests.get(message.parent_id)
        if request is not None:
            request.receive(message)
        elif message.channel == "iopub" and message.type != "status" and message.parent_id in self._finished:
            # Not called from here: what it raises must not end the reading of all others.
            asyncio.get_running_loop().call_soon(self._finished[message.parent_id], message)

    def _note_identity(self, message: Message) -> None:
        """A kernel signs its messages with a session of its own: a new one is a new process, whoever restarted it."""
        signed = str(message.header.get("session", ""))
        # Some kernels repeat the session of the question, and the server's own messages carry ours: neither tells.
        if not signed or signed in (self.session_id, message.parent.get("session"), self._identity, self._buried):
            return
        known, self._identity = self._identity, signed
        if known is not None:
            self._note_death("was restarted", spare=message.parent_id)

    def _note_state(self, message: Message) -> None:
        state = str(message.content.get("execution_state", ""))
        if state in ("restarting", "dead"):
            self._identity = None
            self._note_death("died")
            self._drop_channel()
        elif state == "starting" and self._identity is None and self._answers:
            self._note_death("was restarted")
        asked = self._requests.get(message.parent_id)
        if asked is None or asked.message.channel != "control":
            self.state = state

    def _note_death(self, how: str, spare: str = "") -> None:
        self.restarts += 1
        self._answers = False
        self._starts_anew = True
        self._finished.clear()
        sent: list[Request] = []
        for request in tuple(self._requests.values()):
            if not request.runs_code or request.message.id == spare:
                continue
            if request.started:
                request.fail(death(self.kernel_id, how, started=True))
            else:
                # It went down with the old process, or waits on the wire for the new one: that will show.
                sent.append(request)
        if sent:
            self._spawn(self._settle(sent, death(self.kernel_id, how, started=False)))

    async def _guard(self, exists: Callable[[], Awaitable[bool]]) -> None:
        """While code is under way and the kernel is quiet, see that it is still there and that nothing was lost."""
        try:
            while any(request.runs_code for request in self._requests.values()):
                before = self._received
                await asyncio.sleep(GUARD_EVERY)
                if self._received != before:
                    continue
                # What cannot be found out now, a kernel that went meanwhile too, is looked at the next time.
                with contextlib.suppress(CellwrightError, TimeoutError):
                    # A kernel that is shut down says nothing, and its websocket stays open.
                    if not await exists():
                        self._drop_channel()
                        return self._fail_all(gone(self.kernel_id))
                    if await self._doubtful():
                        await self._probe()
        finally:
            self._guarding = False

    async def _doubtful(self) -> bool:
        """Whether something may have been lost. Not asked of the kernel itself: people would see it as idle."""
        if self._channel is None:
            return False
        # A restart was noticed, by a reply maybe, and nobody has asked for anything since.
        async with asyncio.timeout(PROBE_SECONDS):
            await self.ready()
        if any(request.replied or not request.started for request in self._requests.values()):
            return True
        return self._busy is not None and not await self._busy()

    async def _probe(self) -> None:
        """Ask something that is answered at once, for nobody hears of a restart whose first messages were lost.

        The answer comes after all that was published before: a reply without its end of output then stays without.
        """
        ended = [request for request in self._requests.values() if request.replied]
        with contextlib.suppress(TimeoutError, Unavailable):
            async with asyncio.timeout(PROBE_SECONDS):
                await self._ask(self._new_request("control", "kernel_info_request", {}))
        for request in ended:
            request.end_output()
        unheard = [one for one in self._requests.values() if one.runs_code and not (one.started or one.doubted)]
        for request in unheard:
            request.doubted = True
        if unheard:
            self._spawn(self._settle(unheard, never_begun(self.kernel_id)))

    async def _recover(self) -> None:
        """Come back after a cut while somebody waits, then find out which answers were lost."""
        try:
            await self._reconnect()
        except CellwrightError as error:
            self._fail_all(error)
            return
        finally:
            self._recovering = False
        lost = ReplyLost(
            f"the connection to kernel {self.kernel_id} was cut while this ran, and its result was lost",
            hint="The code has ended; look at its variables before you run it again",
        )
        await self._settle([request for request in self._requests.values() if request.incomplete], lost)

    async def _reconnect(self) -> None:
        give_up = asyncio.get_running_loop().time() + RECONNECT_SECONDS
        for attempt in range(1000):
            try:
                return await self.ready()
            except KernelGone:
                raise
            except CellwrightError:
                if asyncio.get_running_loop().time() > give_up or self._closed:
                    raise
            await asyncio.sleep(RECONNECT_PAUSES[min(attempt, len(RECONNECT_PAUSES) - 1)])
        return None

    async def _settle(self, waiting: list[Request], lost: CellwrightError) -> None:
        """The shell answers in order: what has no answer when a later question has one, will never get one."""
        try:
            await self.ready()
            await self._ask(self._new_request("shell", "kernel_info_request", {}))
        except CellwrightError as error:
            # After another cut the recovery settles them; otherwise nothing will.
            if self._recovering:
                return
            lost = error
        for request in waiting:
            request.fail(lost)

    def _fail_all(self, error: CellwrightError) -> None:
        for request in tuple(self._requests.values()):
            request.fail(error)
