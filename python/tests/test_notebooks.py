"""Every notebook runs from its first cell to its last, which checks the answers; none keeps outputs.

The guide's index links each, and each of the guide's walkthroughs has one.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

DOCS = Path(__file__).resolve().parents[2] / "docs"
GUIDE = DOCS / "guide"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
WALKTHROUGHS = sorted(page.name for page in (GUIDE / "walkthroughs").glob("*.md") if page.name != "README.md")
#: What a notebook says of itself, and nothing of who wrote it or where.
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
CELL = {"cell_type", "id", "metadata", "source"}


def named(path: Path) -> str:
    return str(path.relative_to(DOCS))


def linked(page: Path, text: str) -> set[Path]:
    """The notebooks that a text of a page links."""
    return {(page.parent / target).resolve() for target in re.findall(r"\]\(([^)\s]+\.ipynb)\)", text)}


def check_format(book: dict[str, Any]) -> None:
    """Look at what readers of format 4.5 rely on, and at what a notebook must not keep."""
    assert set(book) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert book["metadata"] == METADATA
    assert book["cells"], "no cells"
    assert book["cells"][0]["cell_type"] == "markdown" and book["cells"][0]["source"][0].startswith("# ")
    ids = [cell["id"] for cell in book["cells"]]
    assert len(set(ids)) == len(ids), "cells share an id"
    for number, cell in enumerate(book["cells"], 1):
        where = f"cell {number}"
        assert cell["cell_type"] in ("markdown", "code"), where
        is_code = cell["cell_type"] == "code"
        assert set(cell) == (CELL | {"execution_count", "outputs"} if is_code else CELL), where
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", cell["id"]) and cell["metadata"] == {}, where
        lines = cell["source"]
        assert lines and "".join(lines).splitlines(keepends=True) == lines and not lines[-1].endswith("\n"), where
        if is_code:
            assert cell["outputs"] == [] and cell["execution_count"] is None, f"{where} keeps an output"


@contextlib.contextmanager
def ipython() -> Iterator[InteractiveShell]:
    """A shell with a namespace of its own, which leaves the program's main module as it was."""
    shell = InteractiveShell()
    shell.history_manager.enabled = False
    try:
        yield shell
    finally:
        shell.restore_sys_module_state()


def run_cells(book: dict[str, Any]) -> None:
    """Run the cells of code in order, in one namespace; the last one must be true."""
    value: object = None
    with ipython() as shell:
        for number, cell in enumerate(book["cells"], 1):
            if cell["cell_type"] != "code":
                continue
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                result = shell.run_cell("".join(cell["source"]))
            error = result.error_before_exec or result.error_in_exec
            assert result.success, f"cell {number} ({cell['id']}): {error!r}\n{printed.getvalue()}"
            value = result.result
        assert value is not None and bool(value) is True, f"the last cell is {value!r}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to run in, where IPython keeps its files, too."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    return tmp_path / "empty"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_notebook(path: Path, folder: Path) -> None:
    book = json.loads(path.read_text())
    try:
        check_format(book)
        run_cells(book)
    except AssertionError as error:
        pytest.fail(f"{named(path)}: {error}", pytrace=False)
    assert list(folder.iterdir()) == [], "a notebook removes the files that it makes"


def test_the_index_links_every_notebook() -> None:
    index = GUIDE / "README.md"
    assert linked(index, index.read_text()) == set(NOTEBOOKS)


@pytest.mark.parametrize("name", WALKTHROUGHS)
def test_every_walkthrough_has_a_notebook(name: str) -> None:
    index = GUIDE / "walkthroughs" / "README.md"
    (row,) = [line for line in index.read_text().splitlines() if f"]({name})" in line]
    (notebook,) = linked(index, row)
    assert notebook in NOTEBOOKS


def book_of(*codes: str) -> dict[str, Any]:
    cells: list[dict[str, Any]] = [{"cell_type": "markdown", "id": "cell-0", "metadata": {}, "source": ["# A title"]}]
    for number, code in enumerate(codes, 1):
        cell = {"cell_type": "code", "id": f"cell-{number}", "metadata": {}, "source": code.splitlines(keepends=True)}
        cells.append({**cell, "execution_count": None, "outputs": []})
    return {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def test_cells_share_names_have_magics_and_may_await(folder: Path) -> None:
    book = book_of(
        "import tidegate as tg\n%load_ext tidegate\ncon = tg.connect(devices='')",
        "%%sql kept <<\nSELECT 41 AS x",
        "import asyncio\nawait asyncio.sleep(0)\nrows = await kept.collect_async()",
        "kept.item() + 1 == 42",
    )
    check_format(book)
    run_cells(book)


@pytest.mark.filterwarnings("ignore:To exit")
@pytest.mark.parametrize(
    "codes, said",
    [
        (["x = 1", "1 / 0", "True"], "cell 3 .*ZeroDivisionError"),
        (["x =", "True"], "cell 2 .*SyntaxError"),
        (["%no_such_magic", "True"], "cell 2 .*no_such_magic"),
        (["%load_ext tidegate\n%sql SELECT no_such_column", "True"], "cell 2 .*no_such_column"),
        (["raise SystemExit(0)", "True"], "cell 2 .*SystemExit"),
        (["assert 1 == 2", "True"], "cell 2 .*AssertionError"),
        (["True", "1 == 2"], "the last cell is False"),
        (["True", "x = 1"], "the last cell is None"),
    ],
)
def test_a_cell_that_fails_is_told(codes: list[str], said: str, folder: Path) -> None:
    with pytest.raises(AssertionError, match=said):
        run_cells(book_of(*codes))


@pytest.mark.parametrize(
    "change",
    [
        {"outputs": [{"name": "stdout", "output_type": "stream", "text": ["1\n"]}]},
        {"execution_count": 1},
        {"id": "cell-0"},
        {"id": "a cell"},
        {"metadata": {"scrolled": True}},
        {"source": "1 + 1"},
        {"source": []},
        {"cell_type": "raw"},
        {"attachments": {}},
    ],
    ids=str,
)
def test_what_a_notebook_must_not_have_is_refused(change: dict[str, Any]) -> None:
    book = book_of("1 + 1")
    check_format(book)
    book["cells"][1].update(change)
    with pytest.raises(AssertionError):
        check_format(book)
