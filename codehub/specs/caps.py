"""How much a spec directory may hold: bounds that no team meets and every bomb does.

A spec is a page of YAML. Each cap leaves a factor of a hundred and more above real use, and
together they bound the time and the memory that reading takes, whatever somebody commits.
"""

from __future__ import annotations

from typing import Final

FILE_BYTES: Final = 1 << 20
"""One file: about a thousand workspaces. A larger one is refused by its size, unread."""

TOTAL_BYTES: Final = 64 << 20
"""All files together: bounds the memory of one load."""

FILES: Final = 20_000
"""Twice the largest hub that the performance tests keep."""

DIRECTORIES: Final = 10_000
"""Links inside the directory could multiply a few directories into very many paths."""

NESTING: Final = 32
"""Levels inside a document; a spec needs five. Keeps recursive readers off the stack's end."""

PATH_DEPTH: Final = 32
"""Directories below each other."""

NODES: Final = 100_000
"""Values in one file, with every alias counted as what it stands for."""

ALIASES: Final = 32
"""Aliases in one file: enough to share a block, too few to build a bomb from."""

NUMBER_LENGTH: Final = 40
"""Characters of a number; a longer one stays text, since converting takes quadratic time."""

PROBLEMS_PER_FILE: Final = 50
"""Nobody reads more at a time; a file of garbage must not fill the log."""

EXCERPT: Final = 160
"""Characters of a line that a problem shows."""
