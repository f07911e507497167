"""Options of the package, for the whole process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Options:
    """What may be set as ``tidegate.options.name = value``."""

    #: Whether long statements show a progress bar; ``None`` for terminals and notebooks.
    progress: bool | None = None
    #: The most bytes that an array becomes in NumPy.
    result_limit: int = 2 << 30


options = Options()
