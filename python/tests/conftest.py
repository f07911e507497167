"""What the tests share: one session of this process, without devices."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tidegate as tg  # noqa: E402


@pytest.fixture(scope="session")
def con() -> tg.Connection:
    """A session with two threads."""
    return tg.connect(devices="", threads=2)
