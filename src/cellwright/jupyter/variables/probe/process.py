"""What the process that this runs in uses: memory, processor time, threads, and the processes that it has started."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

NO_CHILDREN = {"children": 0, "children_memory": 0, "children_cpu_seconds": 0.0}
MOST_PROCESSES = 200_000


def by_psutil() -> dict[str, Any]:
    """As psutil knows it, which ipykernel has loaded on most systems. Nothing is imported for this."""
    psutil: Any = sys.modules["psutil"]
    process = psutil.Process()
    use: dict[str, Any] = {
        "memory": process.memory_info().rss,
        "cpu_seconds": sum(process.cpu_times()[:2]),
        "threads": process.num_threads(),
        "uptime_seconds": time.time() - process.create_time(),
        **NO_CHILDREN,
    }
    for child in process.children(recursive=True):
        try:
            memory, spent = child.memory_info().rss, sum(child.cpu_times()[:2])
        except psutil.Error:
            # It has ended meanwhile.
            continue
        use["children"] += 1
        use["children_memory"] += memory
        use["children_cpu_seconds"] += spent
    return use


def by_proc(folder: str = "/proc") -> dict[str, Any]:
    """As Linux tells it in files."""
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    states = all_states(folder)
    own = states[os.getpid()]
    with open(f"{folder}/uptime", encoding="ascii") as file:  # noqa: PTH123 - Python 3.8, without what must be loaded first
        running = float(file.read().split()[0])
    use: dict[str, Any] = {
        "memory": own["pages"] * page,
        "cpu_seconds": own["ticks"] / ticks,
        "threads": own["threads"],
        "uptime_seconds": running - own["began"] / ticks,
        **NO_CHILDREN,
    }
    family = {os.getpid()}
    while True:
        children = {number for number, state in states.items() if state["parent"] in family} - family
        if not children:
            return use
        family |= children
        use["children"] += len(children)
        use["children_memory"] += sum(states[number]["pages"] for number in children) * page
        use["children_cpu_seconds"] += sum(states[number]["ticks"] for number in children) / ticks


def all_states(folder: str) -> dict[int, dict[str, int]]:
    states: dict[int, dict[str, int]] = {}
    for name in os.listdir(folder)[:MOST_PROCESSES]:  # noqa: PTH208 - as above
        if not name.isdigit():
            continue
        try:
            with open(f"{folder}/{name}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - as above
                # The name of the program, in brackets, may have spaces and brackets itself.
                numbers = file.read().rpartition(")")[2].split()
        except OSError:
            # It has ended meanwhile, or is somebody else's.
            continue
        states[int(name)] = {
            "parent": int(numbers[1]),
            "ticks": int(numbers[11]) + int(numbers[12]),
            "threads": int(numbers[17]),
            "began": int(numbers[19]),
            "pages": int(numbers[21]),
        }
    return states


def process_use() -> dict[str, Any]:
    if "psutil" in sys.modules:
        return by_psutil()
    return by_proc() if sys.platform.startswith("linux") else {}


def answer(_request: dict[str, Any]) -> str:
    use: dict[str, Any] = {"pid": os.getpid()}
    try:
        use.update(process_use())
    except (OSError, KeyError, ValueError, IndexError, AttributeError, RuntimeError):
        return json.dumps(use)
    return json.dumps(use)
