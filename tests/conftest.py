"""Fixtures for all tests."""

import os
import tempfile

import pytest

# What a test leaves in the state folder that nobody named must not be the state of whoever runs the tests.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="cellwright-state-")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio, as the program does."""
    return "asyncio"
