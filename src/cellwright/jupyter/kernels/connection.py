"""One connection to one kernel, kept open and shared by all who run code in it.

Every message goes to the request that it answers, by its parent id; many requests may be under way at once. The connection
notices when the kernel dies or is restarted by anybody, and reconnects after a cut without mixing up the requests.
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
    NothingListens,
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
    execute_reply,
    kernel_died,
    kernel_gone,
    never_begun,
    server_gone,
)
from cellwright.jupyter.lives import KernelLife
from cellwright.jupyter.ran import USERNAME, KernelRuns

logger = logging.getLogger(__name__)

START_SECONDS = 60.0
"""How long a kernel that restarts may take to answer."""
NUDGE_SECONDS = 10.0
"""How long to wait for an answer from a kernel that sends messages. If it is busy for a person, it may not answer."""
NUDGE_EVERY = 0.5
GUARD_EVERY = 2.0
PROBE_SECONDS = 5.0
RECONNECT_SECONDS = 60.0
GONE_SECONDS = 10.0
"""After which a server whose address nothing listens at is taken for gone."""
RECONNECT_PAUSES = (0.05, 0.2, 0.5, 1.0, 2.0)
REMEMBERED_RUNS = 64
LONG_TEXT = 256 * 1024
PROTOCOL_VERSION = "5.3"


class KernelConnection:
    """The one connection to a kernel. It opens on the first request, reconnects by itself, and ends with `close`."""

    def __init__(
        self,
        kernel_id: str,
        open_channel: OpenChannel,
        session_id: str | None = None,
        *,
        exists: Callable[[], Awaitable[bool]] | None = None,
        busy: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """`exists` and `busy` ask the server about the kernel. They are called while the kernel is quiet."""
        self.kernel_id = kernel_id
        self.session_id = session_id or secrets.token_hex(16)
        self.state = "unknown"
        """The last state that the kernel reported: idle, busy, starting, restarting, dead."""
        self.restarts = 0
        """How many restarts were noticed. If it grows, all variables are gone."""
        self._ending = ""
        """How the kernel's process before this one ended, if we noticed that."""
        self.questions = asyncio.Lock()
        """Held by who asks the kernel about itself, which makes it busy for a moment."""
        self._open_channel = open_channel
        self._exists = exists
        self._busy = busy
        self._guarding = False
        self._received = 0
        self._channel: KernelChannel | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._recovering = False
        self._cut_at: float | None = None
        self._requests: dict[str, Request] = {}
        self._finished: OrderedDict[str, OnMessage] = OrderedDict()
        self._opening = asyncio.Lock()
        self._answers = False
        self._identity: str | None = None
        """The session with which the kernel's process signs its messages."""
        self._old_identity: str | None = None
        """That of the process before a restart which the server told us of."""
        self._starts_anew = False
        self._closed = False
        self.ran = KernelRuns()
        """What ran in the kernel's present life, as far as we heard of it."""

    @property
    def connected(self) -> bool:
        return self._channel is not None

    @property
    def seconds_away(self) -> float:
        """For how long the connection has been lost while code ran; 0 if it is not."""
        return 0.0 if self._cut_at is None else asyncio.get_running_loop().time() - self._cut_at

    @property
    def life(self) -> KernelLife:
        """The kernel's present life, by which it is told from itself before a restart."""
        return KernelLife(self.kernel_id, self.session_id, self.restarts, self._identity, self._ending)

    @property
    def answers(self) -> bool:
        """Whether code can be run without waiting for a connection."""
        return self._answers and self._channel is not None

    async def ready(self) -> None:
        """Wait until the kernel is connected and its output is known to reach us."""
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
                self.ran.note_gap()
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
        """Run code, and call `on_message` with every message that it publishes, in order. `input()` in it fails at once.

        For the latest runs, `on_message` also gets what threads of the code print afterwards. After an error the kernel drops
        further requests for a moment, unless `stop_on_error` is false.

        Raises KernelDied, KernelGone, ReplyLost or Unavailable. Cancelling ends the wait, not the code.
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
            self._finished[request.message.id] = on_message
            while len(self._finished) > REMEMBERED_RUNS:
                self._finished.popitem(last=False)
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
        """Completions at `cursor`, which counts code points."""
        content = await self._query("complete_request", {"code": code, "cursor_pos": cursor}, timeout)
        start, end = int(content.get("cursor_start", cursor)), int(content.get("cursor_end", cursor))
        return Completion(tuple(map(str, content.get("matches", []))), start, end)

    async def inspect(self, code: str, cursor: int, detail: int = 0, timeout: float = 15.0) -> JsonObject | None:  # noqa: ASYNC109
        """The kernel's information about the name at `cursor`, as a mime bundle, or None."""
        question = {"code": code, "cursor_pos": cursor, "detail_level": detail}
        content = await self._query("inspect_request", question, timeout)
        return dict(content.get("data", {})) if content.get("found") else None

    async def all_that_ran(self, timeout: float) -> KernelRuns:  # noqa: ASYNC109
        """What ran in the kernel's present life, also before we listened, if the kernel tells within `timeout` seconds."""
        with contextlib.suppress(DeadlineExceeded):
            await self._remember_history(timeout)
        return self.ran

    async def _remember_history(self, timeout: float) -> None:  # noqa: ASYNC109
        if self.ran.whole and self.answers:
            return
        question = {"hist_access_type": "range", "session": 0, "start": 1, "stop": None, "raw": True, "output": False}
        self.ran.complete(await self._query("history_request", question, timeout))

    def note_restart(self, seen_before: int) -> None:
        """The server says that it has restarted the kernel. `seen_before` is `restarts` before the request to restart.

        The old process is certainly gone, whether or not the new one has sent a message yet.
        """
        if self.restarts == seen_before:
            # The last messages of the old process may still be on their way, and must not be taken for those of the new one.
            self._old_identity, self._identity = self._identity or self._old_identity, None
            self._note_death("was restarted")

    def note_shutdown(self) -> None:
        """The server says that it has shut the kernel down: all requests under way ended with it."""
        self._drop_channel()
        self._fail_all(kernel_gone(self.kernel_id))

    async def close(self) -> None:
        """Close the connection; the kernel goes on running. Requests under way fail."""
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
        # Nothing comes any more. They lead to the queue, which has this: a ring, with all that ran in the kernel.
        self._finished.clear()
        if channel is not None:
            await channel.close()

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
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
            "username": USERNAME,
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
            # After a cut while sending, nobody knows whether the kernel got the request: `_recover` finds that out.
            with contextlib.suppress(ChannelClosed):
                await channel.send(request.message)
            if self._exists is not None and not self._guarding and request.runs_code:
                self._guarding = True
                self._spawn(self._guard(self._exists))
            return await request.finish(on_message)
        finally:
            self._requests.pop(request.message.id, None)

    async def _nudge(self) -> None:
        """Send requests until one has an answer and its output: a subscription that is still being made loses output."""
        required, received_before = self._starts_anew, self._received
        nudges: set[asyncio.Task[Message]] = set()
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(START_SECONDS):
                while not any(task.done() for task in nudges):
                    waited = asyncio.get_running_loop().time() - began
                    if waited > NUDGE_SECONDS and self._received > received_before and not required:
                        break
                    # The control channel is answered while the shell is busy, but not every kernel has it.
                    for channel in ("control", "shell") if len(nudges) % 8 == 0 else ("control",):
                        request = self._new_request(channel, "kernel_info_request", {})
                        nudges.add(asyncio.create_task(self._ask(request)))
                    await asyncio.wait(nudges, timeout=NUDGE_EVERY, return_when=asyncio.FIRST_COMPLETED)
            finished = [task for task in nudges if task.done()]
            if finished and not any(task.exception() is None for task in finished):
                finished[0].result()
        except TimeoutError as error:
            if required:
                raise Unavailable(
                    f"kernel {self.kernel_id} does not answer since it was restarted", hint="Restart the kernel"
                ) from error
        finally:
            for task in nudges:
                task.cancel()
            await asyncio.gather(*nudges, return_exceptions=True)
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
                    # The pieces of a long stream come without a wait: let other tasks run in between.
                    await asyncio.sleep(0)
                # The message may be large, and the next one may take long.
                del message
        except TooLong as error:
            self._note_left_out(str(error))
        except ChannelClosed:
            pass
        finally:
            # However the reading ended, nobody may wait for an answer that is not read any more.
            if self._channel is channel:
                self._note_cut()

    def _note_left_out(self, reason: str) -> None:
        """A message was not received, and it is not known to which request it belonged: all running code gets a note among its outputs."""
        logger.warning("kernel_message_too_long kernel=%s", self.kernel_id)
        for request in tuple(self._requests.values()):
            if request.runs_code and request.started:
                request.receive(left_out(reason, {}, request.message.header))

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
            self._cut_at = asyncio.get_running_loop().time()
            self._spawn(self._recover())

    def _drop_channel(self) -> None:
        """Close the channel: the new process may have other ports, and the server looks for them only when a connection is opened."""
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
        elif self._announces_restart(message):
            # The old process ends. Wait for the new one before sending code: until then nobody may listen to its output.
            self.note_restart(self.restarts)
        request = self._requests.get(message.parent_id)
        if message.channel == "iopub" and (request is None or request.counts):
            self.ran.receive(message)
        if request is not None:
            request.receive(message)
        elif message.channel == "iopub" and message.type != "status" and message.parent_id in self._finished:
            # Not called from here, because an exception must not end the reading for all others.
            asyncio.get_running_loop().call_soon(self._finished[message.parent_id], message)

    def _announces_restart(self, message: Message) -> bool:
        """Whether the process says that it ends for a restart of which we do not know yet."""
        told = message.channel == "iopub" and message.type == "shutdown_reply" and message.content.get("restart")
        return bool(told) and message.header.get("session") != self._old_identity

    def _note_identity(self, message: Message) -> None:
        """Notice a new process. A kernel signs its messages with a session of its own, and a restart by anybody changes it."""
        identity = str(message.header.get("session", ""))
        # Some kernels repeat the session of the request, and the server's own messages have ours: neither says anything.
        uninformative = (self.session_id, message.parent.get("session"), self._identity, self._old_identity)
        if not identity or identity in uninformative:
            return
        before, self._identity = self._identity, identity
        if before is not None:
            self._note_death("was restarted", spare=message.parent_id)

    def _note_state(self, message: Message) -> None:
        state = str(message.content.get("execution_state", ""))
        if state in ("restarting", "dead"):
            self._old_identity, self._identity = self._identity or self._old_identity, None
            self._note_death("died")
            self._drop_channel()
        elif state == "starting" and self._identity is None and self._answers:
            self._note_death("was restarted")
        request = self._requests.get(message.parent_id)
        if request is None or request.message.channel != "control":
            self.state = state

    def _note_death(self, event: str, spare: str = "") -> None:
        """Fail the requests that ended with the old process. `spare` is the id of one that the new process answers."""
        self.restarts += 1
        self.ran.begin_life()
        self._ending = event
        self._answers = False
        self._starts_anew = True
        self._finished.clear()
        unstarted: list[Request] = []
        for request in tuple(self._requests.values()):
            if not request.runs_code or request.message.id == spare:
                continue
            if request.started:
                request.fail(kernel_died(self.kernel_id, event, started=True))
            else:
                # Either the old process had it, or it still waits for the new one: `_settle` finds that out.
                unstarted.append(request)
        if unstarted:
            self._spawn(self._settle(unstarted, kernel_died(self.kernel_id, event, started=False)))

    async def _guard(self, exists: Callable[[], Awaitable[bool]]) -> None:
        """While code runs and the kernel is quiet, check that the kernel still exists and that nothing was lost."""
        try:
            while any(request.runs_code for request in self._requests.values()):
                before = self._received
                await asyncio.sleep(GUARD_EVERY)
                if self._received != before:
                    continue
                # If a check fails, or the kernel goes meanwhile, the next round finds out.
                with contextlib.suppress(CellwrightError, TimeoutError):
                    # A kernel that is shut down sends nothing, and its websocket stays open.
                    if not await exists():
                        self._drop_channel()
                        return self._fail_all(kernel_gone(self.kernel_id))
                    if await self._may_have_lost_something():
                        await self._probe()
        finally:
            self._guarding = False

    async def _may_have_lost_something(self) -> bool:
        """Whether a message may have been lost. The kernel itself is not asked, because people would then see it as idle."""
        if self._channel is None:
            return False
        # A restart may have been noticed, with no request since.
        async with asyncio.timeout(PROBE_SECONDS):
            await self.ready()
        if any(request.replied or not request.started for request in self._requests.values()):
            return True
        return self._busy is not None and not await self._busy()

    async def _probe(self) -> None:
        """Send a request that is answered at once, to notice a restart whose first messages were lost.

        The answer comes after all earlier output: if the end of a request's output has not come by then, it never will.
        """
        replied = [request for request in self._requests.values() if request.replied]
        with contextlib.suppress(TimeoutError, Unavailable):
            async with asyncio.timeout(PROBE_SECONDS):
                await self._ask(self._new_request("control", "kernel_info_request", {}))
        for request in replied:
            request.end_output()
        unstarted = [
            request
            for request in self._requests.values()
            if request.runs_code and not (request.started or request.doubted)
        ]
        for request in unstarted:
            request.doubted = True
        if unstarted:
            self._spawn(self._settle(unstarted, never_begun(self.kernel_id)))

    async def _recover(self) -> None:
        """Reconnect after a cut during a request, then find out which answers were lost."""
        try:
            await self._reconnect()
        except CellwrightError as error:
            self._fail_all(error)
            return
        finally:
            self._recovering = False
            self._cut_at = None
        error = ReplyLost(
            f"the connection to kernel {self.kernel_id} was cut while this ran, and its result was lost",
            hint="The code has ended; look at its variables before you run it again",
        )
        await self._settle([request for request in self._requests.values() if request.incomplete], error)

    async def _reconnect(self) -> None:
        began = asyncio.get_running_loop().time()
        deadline = began + RECONNECT_SECONDS
        for attempt in range(1000):
            try:
                return await self.ready()
            except KernelGone:
                raise
            except NothingListens as error:
                if self.seconds_away > GONE_SECONDS or self._closed:
                    raise server_gone(self.kernel_id, GONE_SECONDS) from error
            except CellwrightError:
                if asyncio.get_running_loop().time() > deadline or self._closed:
                    raise
            await asyncio.sleep(RECONNECT_PAUSES[min(attempt, len(RECONNECT_PAUSES) - 1)])
        return None

    async def _settle(self, requests: list[Request], error: CellwrightError) -> None:
        """Fail those of these requests that will get no answer. The shell answers in order, so a later request tells."""
        try:
            await self.ready()
            await self._ask(self._new_request("shell", "kernel_info_request", {}))
        except CellwrightError as failure:
            # After another cut `_recover` settles them; otherwise nothing will.
            if self._recovering:
                return
            error = failure
        for request in requests:
            request.fail(error)

    def _fail_all(self, error: CellwrightError) -> None:
        for request in tuple(self._requests.values()):
            request.fail(error)
