"""What a run of random requests showed: faults, how long answers took, and how many requests of which kind each tool was sent."""

import heapq
import json
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, cast

from fuzz_support import KINDS, Reply, Request

LONGEST_SECONDS = 5.0
SHOWN_SLOWEST = 12
STATUSES = {200, 202, 400, 404, 413}
INTERNAL = -32603
OUTAGES = ("UNAVAILABLE", "TIMEOUT")
"""Jupyter did not answer, which is told of a resource as of a tool."""
RPC_CODES = {-32700, -32600, -32601, -32602, -32002, -32029, -32020, -32021, -32022, -32001}


def say(what: str) -> None:
    """Tell whoever waits for a long run."""
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


@dataclass
class Findings:
    """What a run showed."""

    seed: int
    faults: list[str] = field(default_factory=list[str])
    slow: list[tuple[float, Request]] = field(default_factory=list[tuple[float, Request]])
    outcomes: Counter[str] = field(default_factory=Counter[str])
    statuses: Counter[int] = field(default_factory=Counter[int])
    seconds: defaultdict[str, list[float]] = field(
        default_factory=lambda: defaultdict[str, list[float]](lambda: [0, 0.0, 0.0])
    )
    """By method and tool: how often, seconds in all, the longest."""
    kinds: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict[str, Counter[str]](Counter))
    """By method and tool: how many requests of each kind."""
    slowest: list[tuple[float, int, str]] = field(default_factory=list[tuple[float, int, str]])
    """The longest answers, a heap: seconds, the number of the request, its method or tool."""
    health: float = 0.0
    """The longest that /health took."""
    sent: int = 0

    def fault(self, what: str, request: Request) -> None:
        self.faults.append(f"{what}; {request.told(self.seed)}")
        say(self.faults[-1])

    def take(self, request: Request, reply: Reply) -> None:
        self._count(request, reply)
        if reply.status not in STATUSES:
            self.fault(f"status {reply.status} {reply.body[:300]!r}", request)
            return
        try:
            message = reply.message()
        except ValueError:
            self.fault(f"no JSON: {reply.body[:300]!r}", request)
            return
        code = outcome_of(message)
        self.outcomes[code] += 1
        if code in {"INTERNAL_ERROR", str(INTERNAL)} or (code[:1] == "-" and int(code) not in RPC_CODES):
            self.fault(f"{code}: {reply.body[:600]!r}", request)

    def _count(self, request: Request, reply: Reply) -> None:
        self.sent += 1
        self.statuses[reply.status] += 1
        name = request.subject if request.method == "tools/call" else request.method
        self.kinds[name][request.kind] += 1
        spent = self.seconds[name]
        spent[0] += 1
        spent[1] += reply.seconds
        spent[2] = max(spent[2], reply.seconds)
        add = heapq.heappush if len(self.slowest) < SHOWN_SLOWEST else heapq.heappushpop
        add(self.slowest, (reply.seconds, request.number, name))
        if reply.seconds > LONGEST_SECONDS:
            self.slow.append((reply.seconds, request))

    def report(self, tools: list[str], seconds: float, memory: list[int]) -> str:
        dearest = sorted(self.seconds.items(), key=lambda one: -one[1][1])[:25]
        told = [f"{name} {n:.0f}x {all_ / n * 1000:.1f} ms (max {most:.2f} s)" for name, (n, all_, most) in dearest]
        longest = [f"{name} #{number} {spent:.2f} s" for spent, number, name in sorted(self.slowest, reverse=True)]
        rate = self.sent / seconds
        return "\n".join(
            [
                f"{self.sent} requests of seed {self.seed} in {seconds:.0f} s ({rate:.0f}/s); /health at most {self.health:.2f} s",
                f"statuses: {dict(self.statuses.most_common())}",
                f"outcomes: {dict(self.outcomes.most_common())}",
                *self._shares(tools),
                f"memory in MB, on the way: {[size // 1_000_000 for size in memory]}",
                f"slow: {[(round(spent, 1), one.subject) for spent, one in self.slow[:20]]}",
                f"slowest: {', '.join(longest)}",
                f"dearest: {', '.join(told)}",
                f"counts: {json.dumps(self.kinds)}",
                f"faults: {len(self.faults)}",
            ]
        )

    def _shares(self, tools: list[str]) -> list[str]:
        """How many requests each tool was sent: of all kinds, and of each."""

        def told(what: str, sent: dict[str, int]) -> str:
            few, many = min(sent, key=lambda name: sent[name]), max(sent, key=lambda name: sent[name])
            all_ = sum(sent.values())
            return f"{what}: {all_} to {len(sent)} tools, from {sent[few]} ({few}) to {sent[many]} ({many}) each"

        every = told("calls", {name: self.kinds[name].total() for name in tools})
        return [every, *(told(kind, {name: self.kinds[name][kind] for name in tools}) for kind in KINDS)]


def outcome_of(message: Any) -> str:
    """The code of a failure; `ok`, or `none` where there is no message."""
    if message is None:
        return "none"
    if "error" in message:
        error: dict[str, Any] = message["error"]
        # The protocol has one code for what failed inside and for what does not answer; the data of the error tells them apart.
        data: Any = error.get("data")
        reason = cast("dict[str, Any]", data).get("code") if isinstance(data, dict) else None
        return str(reason if error["code"] == INTERNAL and reason in OUTAGES else error["code"])
    result: dict[str, Any] = message["result"]
    if not result.get("isError"):
        return "ok"
    told: dict[str, Any] = result.get("structuredContent") or {}
    return str(told["error"]["code"]) if "error" in told else "failed"
