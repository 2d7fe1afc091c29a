"""What the process that this runs in uses: memory, processor time, threads, and the processes that it has started."""

from __future__ import annotations

import json
import os
import time
from typing import Any

NO_CHILDREN = {"children": 0, "children_memory": 0, "children_cpu_seconds": 0.0}


def process_use() -> dict[str, Any]:
    """As psutil knows it, which IPython's kernel needs itself; empty where there is none. It is loaded for this at most once."""
    try:
        import psutil  # noqa: PLC0415 - in a kernel, which need not have it
    except ImportError:
        return {}
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


def answer(_request: dict[str, Any]) -> str:
    use: dict[str, Any] = {"pid": os.getpid()}
    try:
        use.update(process_use())
    except (OSError, KeyError, ValueError, IndexError, AttributeError, RuntimeError):
        return json.dumps(use)
    return json.dumps(use)
