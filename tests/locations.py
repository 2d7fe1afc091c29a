"""Where this project's files are, for tests in whatever folder."""

from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
DOCS = ROOT / "docs"
BENCH = ROOT / "bench"
PROBE = TESTS / "probe.py"
"""A server of tests' own tools: slow ones, failing ones, ones that answer with too much."""
