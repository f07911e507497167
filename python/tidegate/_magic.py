"""``%sql`` and ``%%sql`` for IPython and notebooks."""

from __future__ import annotations

from typing import Any


def load(shell: Any) -> None:
    """Add the magics to a shell.

    ``%sql SELECT 1`` returns a lazy frame; ``%%sql`` takes the cell, and with ``%%sql name <<`` keeps the frame
    under a name. The connection is the variable ``con`` if it is one, else the default connection.
    """
    import tidegate

    def run(line: str, cell: str | None = None) -> Any:
        space = shell.user_ns
        con = space.get("con")
        if not isinstance(con, tidegate.Connection):
            con = tidegate.default_connection()
        head = line.strip()
        text, name = (head, None) if cell is None else (cell, head)
        if name is not None:
            if name and not name.endswith("<<"):
                text, name = f"{name}\n{cell}", ""
            name = name.removesuffix("<<").strip()
        frame = _planned(con, text, space)
        if name:
            space[name] = frame
            return None
        return frame

    shell.register_magic_function(run, "line_cell", "sql")


def _planned(con: Any, text: str, space: dict[str, Any]) -> Any:
    # The statement's tables may be variables of the notebook.
    scope = {"_con": con, "_text": text, **space}
    return eval("_con.sql(_text)", scope)  # noqa: S307
