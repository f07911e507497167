"""The command ``tidegate``: ``python -m tidegate``, and the console script of the package."""

from __future__ import annotations

import signal
import sys

from tidegate import _tidegate


def main() -> None:
    """Run the command with the words of the command line, and end the process with its status."""
    # The command hears signals itself; Python's handler would raise KeyboardInterrupt afterwards.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_tidegate.main(["tidegate", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
