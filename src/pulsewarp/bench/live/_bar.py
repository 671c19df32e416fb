"""The bar that a sweep shows to whoever watches, and to nobody else."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

# tqdm looks at its own variable once, when it is imported. A page is written without a kernel behind it. A
# notebook under nbval compares its outputs, and pytest's variable is the one its kernel inherits.
_UNWATCHED = ("TQDM_DISABLE", "PULSEWARP_EXPORT", "PYTEST_VERSION")


class Bar:
    """A tqdm bar where it can be seen: in a notebook as a widget, on a terminal's stderr as text.

    Silent in a pipe, in an exported page, under nbval and under ``TQDM_DISABLE=1``, so that logs and saved
    outputs stay comparable. The widget writes nothing to stderr, with ipywidgets 7 and 8 alike.

    Parameters
    ----------
    total : int
        Steps until it is full.
    shown : bool or None
        Whether to show it; None leaves that to the place.
    """

    def __init__(self, total: int, shown: bool | None) -> None:
        self._bar: Any = None
        if shown if shown is not None else _is_watched():
            from tqdm.auto import tqdm

            self._bar = tqdm(total=total, unit=" products", leave=False, dynamic_ncols=True)

    def name(self, words: str) -> None:
        """Say what is being measured."""
        if self._bar is not None:
            self._bar.set_description(words)

    def step(self) -> None:
        """Go on by one."""
        if self._bar is not None:
            self._bar.update()

    def aside(self) -> contextlib.AbstractContextManager[None]:
        """Take the bar away while something is printed."""
        if self._bar is None:
            return contextlib.nullcontext()
        return self._bar.external_write_mode(file=sys.stdout)  # type: ignore[no-any-return]  # tqdm is untyped

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()


def _is_watched() -> bool:
    if any(os.environ.get(name) for name in _UNWATCHED):
        return False
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is not None:
        return True
    return sys.stderr is not None and sys.stderr.isatty()
