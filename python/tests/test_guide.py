"""Every block of Python in the guide runs, in order, and prints what the page shows after it."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGES = [
    "docs/guide/python.md",
    "docs/guide/python-from-dask.md",
    "docs/guide/python-from-duckdb.md",
    "docs/guide/python-from-polars.md",
    "docs/guide/python-models.md",
    "README.md",
]
ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n+```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", PAGES)
def test_blocks_print_what_the_page_shows(name, tmp_path, monkeypatch):
    blocks = list(BLOCK.finditer((ROOT / name).read_text()))
    if name == "README.md":
        # Others are for servers.
        blocks = [block for block in blocks if "import tidegate" in block.group(1)]
    assert blocks
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"__name__": "guide"}
    for block in blocks:
        code, expect = block.groups()
        line = (ROOT / name).read_text()[: block.start()].count("\n") + 1
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * line + code, name, "exec"), scope)
        if expect is not None:
            assert printed.getvalue().split() == expect.split(), f"{name}:{line}"
