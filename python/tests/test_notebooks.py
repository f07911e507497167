"""Every notebook runs from its first cell to its last, which checks the answers; none keeps outputs."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.ipynb")))
def test_notebook(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    book = json.loads((FOLDER / name).read_text())
    assert book["nbformat"] == 4 and book["cells"][0]["cell_type"] == "markdown"
    codes = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in codes)
    shell = InteractiveShell()
    shell.history_manager.enabled = False
    result = None
    for cell in codes:
        source = "".join(cell["source"])
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            result = shell.run_cell(source)
        assert result.success, f"{name}, {cell['id']}: {result.error_before_exec or result.error_in_exec}\n{printed.getvalue()}"
    assert result is not None and bool(result.result) is True


def test_there_are_notebooks():
    assert len(list(FOLDER.glob("*.ipynb"))) == 6
