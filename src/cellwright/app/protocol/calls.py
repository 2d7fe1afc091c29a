"""One call of one tool: its arguments are checked, failures become answers, its size is bounded, and observers are informed."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from cellwright.app.log import log_event
from cellwright.app.offers.catalogue import OfferedTool
from cellwright.app.protocol.results import (
    Answer,
    answer_error,
    answer_result,
    failure_with_news,
    with_news,
    write_result,
)
from cellwright.core.errors import INTERNAL_ERROR, INTERNAL_HINT, INTERNAL_MESSAGE, CellwrightError, Crash
from cellwright.core.turns import Turns
from cellwright.core.types import Call

Observe = Callable[[str, str, float], None]
"""Called after every tool call with the tool, the outcome and the seconds."""


class CallRecorder(Protocol):
    """Records calls. Both methods are called while a request is served and must return at once."""

    def called(self, call: Call, tool: str, arguments: Mapping[str, Any], outcome: str) -> None: ...

    def left(self, session_key: str) -> None:
        """A handshake-era connection ended."""
        ...


class Witness(Protocol):
    """Watches calls while they are made. Both methods are called while a request is served and must return at once."""

    def began(self, call: Call, tool: str, arguments: Mapping[str, Any]) -> object:
        """Returns what `ended` gets as `state`."""
        ...

    def ended(self, call: Call, state: Any, outcome: str, seconds: float, answer: Answer, /) -> None:  # noqa: ANN401 - what the witness returned
        """`answer` is what the model reads; it is empty if the call was cancelled."""
        ...


class ToolCalls:
    """Makes calls, and informs the observer, the recorder and the witness."""

    def __init__(self, result_tokens: int, observe: Observe, recorder: CallRecorder | None = None) -> None:
        self._result_tokens = result_tokens
        self._observe = observe
        self.recorder = recorder
        self._turns = Turns()
        self.witness: Witness | None = None
        """Set before the first call."""

    async def run(self, call: Call, offered: OfferedTool, arguments: Mapping[str, Any]) -> Answer:
        started = time.perf_counter()
        outcome = "cancelled"
        answer = Answer(())
        turn = self._turns.begin(call.session)
        call = replace(call, turn=turn)
        witness_state = self.witness.began(call, offered.name, arguments) if self.witness is not None else None
        try:
            parsed = offered.signature.parse(arguments)
            leading = (offered.service, call) if offered.signature.takes_call else (offered.service,)
            result = await offered.tool.function(*leading, **parsed)
            answer = await self._answer(with_news(result, call.news) if call.news else result, offered)
            outcome = "failed" if answer.failed else "ok"
        except CellwrightError as error:
            outcome = error.code
            answer = answer_error(failure_with_news(error, call.news) if call.news else error, offered.failure)
        except Exception:  # noqa: BLE001 - the edge of the process: a crash is logged in full and answered in one line
            outcome = INTERNAL_ERROR
            log_event("crash", level=40, exc_info=True, tool=offered.name, request=call.request_id)
            answer = answer_error(Crash(f"{INTERNAL_MESSAGE} {call.request_id}", hint=INTERNAL_HINT), offered.failure)
        finally:
            turn.end(answered=outcome != "cancelled")
            seconds = time.perf_counter() - started
            self._observe(offered.name, outcome, seconds)
            if self.recorder is not None:
                self.recorder.called(call, offered.name, arguments, outcome)
            if self.witness is not None:
                self.witness.ended(call, witness_state, outcome, seconds, answer)
            log_event(
                "tool",
                tool=offered.name,
                outcome=outcome,
                ms=seconds * 1000,
                principal=call.principal.id,
                request=call.request_id,
            )
        return answer

    async def _answer(self, result: object, offered: OfferedTool) -> Answer:
        whole = write_result(result)

        def make() -> Answer:
            return answer_result(whole, offered.signature, self._result_tokens)

        # In a thread, because to cut megabytes to their budget takes seconds, and others wait meanwhile.
        return await asyncio.to_thread(make) if whole.is_large else make()
