"""One call of one tool, whatever happens: arguments checked, work done, failures in words, size bounded, everybody told."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from cellwright.app.log import log_event
from cellwright.app.offers.catalogue import OfferedTool
from cellwright.app.protocol.results import Answer, answer_error, answer_result, write_result
from cellwright.core.errors import INTERNAL_ERROR, INTERNAL_HINT, INTERNAL_MESSAGE, CellwrightError, Crash
from cellwright.core.types import Call

Observe = Callable[[str, str, float], None]
"""Told of every tool call: tool, outcome, seconds."""


class CallRecorder(Protocol):
    """Who keeps what was done. Both are called on the path of a request and must return at once."""

    def called(self, call: Call, tool: str, arguments: Mapping[str, Any], outcome: str) -> None: ...

    def left(self, session_key: str) -> None:
        """A handshake-era connection ended."""
        ...


class Witness(Protocol):
    """Who is shown calls while they are made. Both are called on the path of a request and must return at once."""

    def began(self, call: Call, tool: str, arguments: Mapping[str, Any]) -> object:
        """What `ended` is to be given back."""
        ...

    def ended(self, call: Call, begun: Any, outcome: str, seconds: float, answer: Answer) -> None:  # noqa: ANN401 - the witness's own
        """`answer` is what the model reads; an empty one if the call was cancelled."""
        ...


class ToolCalls:
    """Makes calls, and tells those who want to know of them."""

    def __init__(self, result_tokens: int, observe: Observe, recorder: CallRecorder | None = None) -> None:
        self._result_tokens = result_tokens
        self._observe = observe
        self.recorder = recorder
        self.witness: Witness | None = None
        """Set before the first call."""

    async def run(self, call: Call, offered: OfferedTool, arguments: Mapping[str, Any]) -> Answer:
        started = time.perf_counter()
        outcome = "cancelled"
        answer = Answer(())
        begun = self.witness.began(call, offered.name, arguments) if self.witness is not None else None
        try:
            taken = offered.signature.parse(arguments)
            first = (offered.service, call) if offered.signature.takes_call else (offered.service,)
            answer = await self._answer(await offered.tool.function(*first, **taken), offered)
            outcome = "failed" if answer.failed else "ok"
        except CellwrightError as error:
            outcome = error.code
            answer = answer_error(error, offered.failure)
        except Exception:  # noqa: BLE001 - the edge of the process: a crash is logged whole and told in one line
            outcome = INTERNAL_ERROR
            log_event("crash", level=40, exc_info=True, tool=offered.name, request=call.request_id)
            answer = answer_error(Crash(f"{INTERNAL_MESSAGE} {call.request_id}", hint=INTERNAL_HINT), offered.failure)
        finally:
            spent = time.perf_counter() - started
            self._observe(offered.name, outcome, spent)
            if self.recorder is not None:
                self.recorder.called(call, offered.name, arguments, outcome)
            if self.witness is not None:
                self.witness.ended(call, begun, outcome, spent, answer)
            log_event(
                "tool",
                tool=offered.name,
                outcome=outcome,
                ms=spent * 1000,
                principal=call.principal.id,
                request=call.request_id,
            )
        return answer

    async def _answer(self, result: object, offered: OfferedTool) -> Answer:
        written = write_result(result, offered.signature)

        def make() -> Answer:
            return answer_result(written, offered.signature, self._result_tokens)

        # To cut megabytes to their budget takes seconds, in which others want to be answered.
        return await asyncio.to_thread(make) if written.is_large else make()
