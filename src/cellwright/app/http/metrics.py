"""Counters in the text format of Prometheus. It is small enough to need no library."""

import time
from collections import Counter
from collections.abc import Callable

BUCKETS = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)


class Metrics:
    """Counts since the start: HTTP responses by status, tool calls by outcome and duration."""

    def __init__(self, version: str, running_tasks: Callable[[], int] = lambda: 0) -> None:
        self._version = version
        self._running_tasks = running_tasks
        self._started = time.time()
        self._answers: Counter[int] = Counter()
        self._calls: Counter[tuple[str, str]] = Counter()
        self._spent: Counter[str] = Counter()
        self._buckets: Counter[tuple[str, float]] = Counter()

    def answered(self, status: int) -> None:
        self._answers[status] += 1

    def called(self, tool: str, outcome: str, seconds: float) -> None:
        self._calls[tool, outcome] += 1
        self._spent[tool] += seconds  # pyright: ignore[reportArgumentType] - a Counter adds floats as well
        for bound in BUCKETS:
            if seconds <= bound:
                self._buckets[tool, bound] += 1

    def text(self) -> str:
        """The body of `/metrics`."""
        lines = [
            "# TYPE cellwright_info gauge",
            f'cellwright_info{{version="{self._version}"}} 1',
            "# TYPE cellwright_start_time_seconds gauge",
            f"cellwright_start_time_seconds {self._started:.3f}",
            "# TYPE cellwright_tasks_running gauge",
            f"cellwright_tasks_running {self._running_tasks()}",
            "# TYPE cellwright_http_responses_total counter",
            *(
                f'cellwright_http_responses_total{{status="{status}"}} {n}'
                for status, n in sorted(self._answers.items())
            ),
            "# TYPE cellwright_tool_calls_total counter",
            *(
                f'cellwright_tool_calls_total{{tool="{tool}",outcome="{outcome}"}} {n}'
                for (tool, outcome), n in sorted(self._calls.items())
            ),
            "# TYPE cellwright_tool_seconds histogram",
        ]
        for tool in sorted(self._spent):
            total = sum(n for (name, _), n in self._calls.items() if name == tool)
            lines += [
                f'cellwright_tool_seconds_bucket{{tool="{tool}",le="{bound:g}"}} {self._buckets[tool, bound]}'
                for bound in BUCKETS
            ]
            lines += [
                f'cellwright_tool_seconds_bucket{{tool="{tool}",le="+Inf"}} {total}',
                f'cellwright_tool_seconds_sum{{tool="{tool}"}} {self._spent[tool]:.6f}',
                f'cellwright_tool_seconds_count{{tool="{tool}"}} {total}',
            ]
        return "\n".join(lines) + "\n"
