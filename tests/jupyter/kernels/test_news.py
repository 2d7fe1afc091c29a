"""What is new in a run's output since a moment: every character once, or counted as missing."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellwright.jupyter.kernels.channel import Message
from cellwright.jupyter.kernels.output_log import RESULT_LIMITS, OutputLimits, OutputLog, OutputNews
from cellwright.notebook.outputs import Output, is_data, is_stream
from kernel_support import message
from requirements import requirement

PATIENT = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
SMALL = OutputLimits(text=2_000, data=2_000, outputs=10, tail=1_500, all_tails=1_500)

TEXT = st.text("ab \n", min_size=1, max_size=80)
STREAMS = st.tuples(st.sampled_from(["stdout", "stderr"]), TEXT).map(
    lambda said: message("stream", name=said[0], text=said[1])
)
RESULTS = TEXT.map(lambda text: message("display_data", data={"text/plain": text}, metadata={}))
CLEARS = st.booleans().map(lambda wait: message("clear_output", wait=wait))
POLLS = st.none()


def merged(known: list[Output], news: OutputNews) -> list[Output]:
    """What somebody knows after they were position the news."""
    if news.cleared:
        return list(news.outputs)
    whole = list(known)
    for output in news.outputs:
        last = whole[-1] if whole else None
        if is_stream(output) and last is not None and is_stream(last) and last["name"] == output["name"]:
            whole[-1] = {"output_type": "stream", "name": last["name"], "text": last["text"] + output["text"]}
        else:
            whole.append(output)
    return whole


@requirement("truth:since:any")
@PATIENT
@given(st.lists(STREAMS | RESULTS | CLEARS | POLLS, max_size=40))
def test_the_news_make_up_everything(steps: list[Message | None]) -> None:
    log = OutputLog(RESULT_LIMITS)
    position = log.position()
    known: list[Output] = []
    for step in [*steps, None]:
        if step is not None:
            log.write(step)
            continue
        news, position = log.news(position), log.position()
        known = merged(known, news)
        assert known == list(log.outputs())
        again = log.news(position)
        assert (again.outputs, again.cleared, bool(again.omitted)) == ((), False, False)


@requirement("truth:since:any")
@PATIENT
@given(st.lists(st.text("ab \n", min_size=1, max_size=900) | POLLS, min_size=5, max_size=40))
def test_in_a_flood_every_character_is_told_or_counted(steps: list[str | None]) -> None:
    log = OutputLog(SMALL)
    position = log.position()
    written = seen = missing = 0
    for step in [*steps, None]:
        if step is not None:
            log.write(message("stream", name="stdout", text=step))
            written += len(step)
            continue
        news, position = log.news(position), log.position()
        seen += sum(len(output["text"]) for output in news.outputs if is_stream(output))
        missing += news.omitted.characters
        notes = [output for output in news.outputs if is_data(output)]
        assert bool(notes) == bool(news.omitted)
        assert seen + missing == written


@requirement("truth:since:rewritten")
def test_a_line_that_is_written_over_comes_again_as_a_whole() -> None:
    log = OutputLog(RESULT_LIMITS)

    def wrote(text: str) -> Any:
        position = log.position()
        log.write(message("stream", name="stdout", text=text))
        return [output["text"] for output in log.news(position).outputs if is_stream(output)]

    assert wrote("first\n10%") == ["first\n10%"]
    assert wrote("\r20%") == ["20%"]
    assert wrote("0\nnext") == ["0\nnext"]
    assert wrote("\b\b!!") == ["ne!!"]


@requirement("truth:since:new")
def test_an_output_that_was_changed_is_new() -> None:
    log = OutputLog(RESULT_LIMITS)
    shown = {"data": {"text/plain": "1"}, "metadata": {}, "transient": {"display_id": "d"}}
    log.write(message("display_data", **shown))
    log.write(message("display_data", data={"text/plain": "other"}, metadata={}))
    position = log.position()
    log.update_display("d", {"text/plain": "2"}, {})
    assert [output["data"] for output in log.news(position).outputs if is_data(output)] == [{"text/plain": "2"}]
