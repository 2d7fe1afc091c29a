"""Measure our paths beside their floor and print one table. README.md says how to read it."""

import argparse
import dataclasses
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

from extension import extension
from finding import finding
from measure import Benchmark, Plan, Row
from notebooks import notebooks
from pads import pads
from programs import HTTP, STDIO
from search import search
from servers import serving
from wire import BenchError

from context import context
from storage import storage
from thinking import thinking

BENCHMARKS: dict[str, Benchmark] = {
    "stdio": partial(serving, STDIO),
    "http": partial(serving, HTTP),
    "notebooks": notebooks,
    "extension": extension,
    "pads": pads,
    "search": search,
    "finding": finding,
    "storage": storage,
    "thinking": thinking,
    "context": context,
}


def plan(work: Path, *, quick: bool) -> Plan:
    if quick:
        return Plan(work, lives=1, rounds=3, calls=10)
    return Plan(work, lives=9, rounds=12, calls=25)


def machine() -> dict[str, str]:
    """What the numbers depend on, as far as it can be told."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        "load": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "python": platform.python_version(),
        "mcp": version("mcp"),
        "cellwright": version("cellwright"),
    }


def table(rows: Sequence[Row]) -> list[str]:
    """What has a target first, then what is only told."""
    ordered = sorted(rows, key=lambda row: row.target is None)
    titles = ("", "ours", "floor", "unit", "ratio", "middle half", "quiet", "rounds", "target", "")
    cells = [titles, *(_cells(row) for row in ordered)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(titles))]
    left = {0, 3, 9}
    return [
        "  ".join(
            text.ljust(width) if column in left else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]


def _cells(row: Row) -> tuple[str, ...]:
    verdict = "" if row.target is None else ("OVER" if row.over else "ok")
    return (
        row.name,
        _number(row.ours),
        _number(row.floor),
        row.unit,
        f"{row.ratio:.2f}",
        f"{row.low:.2f}-{row.high:.2f}",
        f"{row.quiet:.2f}",
        str(row.rounds),
        "" if row.target is None else f"{row.target:.2f}",
        verdict,
    )


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for. A row over its target is marked, not a failure: machines differ, and people judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds: shows that it works, not how fast it is")
    parser.add_argument(
        "--only", action="append", choices=tuple(BENCHMARKS), help="only this benchmark; may be repeated"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the rows to FILE")
    options = parser.parse_args(arguments)
    about = machine()
    print(", ".join(f"{key} {value}" for key, value in about.items()), flush=True)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="cellwright-bench-") as work:
        for name in options.only or BENCHMARKS:
            print(f"measuring {name} …", file=sys.stderr, flush=True)
            try:
                rows += BENCHMARKS[name](plan(Path(work).resolve(), quick=options.quick))
            except BenchError as error:
                print(f"{name} could not be measured: {error}", file=sys.stderr)
                return 1
    print("\n".join(table(rows)))
    over = sum(row.over for row in rows)
    print(f"{over} of {sum(row.target is not None for row in rows)} targets missed")
    if options.json:
        told = {"machine": about, "rows": [{**dataclasses.asdict(row), "over": row.over} for row in rows]}
        options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
