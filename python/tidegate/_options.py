"""Options of the package, for the whole process."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass
class Options:
    """What may be set as ``tidegate.options.name = value``."""

    #: Whether long statements show a progress bar; ``None`` for terminals and notebooks.
    progress: bool | None = None
    #: The most bytes that an array becomes in NumPy.
    result_limit: int = 2 << 30

    def __setattr__(self, name: str, value: Any) -> None:
        known = [field.name for field in fields(self)]
        if name not in known:
            raise AttributeError(f"there is no option {name!r}: there are {', '.join(known)}", name=name, obj=self)
        if name == "progress" and not (value is None or isinstance(value, bool)):
            raise TypeError(f"options.progress={value!r}: it is True, False or None")
        if name == "result_limit" and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise TypeError(f"options.result_limit={value!r}: it is a number of bytes")
        super().__setattr__(name, value)


options = Options()
