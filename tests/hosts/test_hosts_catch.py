"""What the tests in this folder hold to be empty is not empty when something is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.lab

WIDGET = """import anywidget

def show(body):
    script = "export default { render({ el }) { " + body + " } };"
    return type("Scene", (anywidget.AnyWidget,), {"_esm": script})()
"""

# One visit shows them all, each widget wrong in its own way. Python's error comes last: it ends the run.
FAULTS = {
    "show('throw new Error(\"planted fault in render\")')": "cell 1 does not draw its widget",
    "show('el.append(document.createElement(\"canvas\"))')": "cell 2 does not draw its widget",
    "show('')": "cell 3 does not draw its widget",
    "show('console.error(\"planted console error\")')": "console error: planted console error",
    "show('fetch(\"https://example.org/planted\").catch(() => {})')": "https://example.org/planted",
    "show('new WebSocket(\"wss://example.org/socket\")')": "wss://example.org/socket",
    "raise ValueError('planted')": "cell 7 ends in ValueError: planted",
    "1 + 1": "cell 8 has no execution count",
}


def test_each_planted_fault_is_named(
    start_host: Callable[..., Any],
    write_notebook: Callable[[str, Sequence[str]], Path],
    browser: Browser,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("notebook_hosts.DRAW_SECONDS", 1)  # none of these draws later
    notebook = write_notebook("faults", [WIDGET, *FAULTS])
    with start_host([notebook]) as host, host.visit(browser, notebook.name) as (_, visit):
        pass
    problems = "\n".join(visit.problems())
    assert [words for words in FAULTS.values() if words not in problems] == [], problems


@pytest.mark.exhaustive
def test_a_notebook_that_does_not_end_is_named(
    start_host: Callable[..., Any],
    write_notebook: Callable[[str, Sequence[str]], Path],
    browser: Browser,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("notebook_hosts.RUN_SECONDS", 1)
    notebook = write_notebook("endless", ["import time", "time.sleep(60)"])
    with start_host([notebook]) as host, host.visit(browser, notebook.name) as (_, visit):
        pass
    assert "did not end within 1 s" in visit.problems()


@pytest.mark.exhaustive
def test_a_session_that_never_gets_ready_is_an_error_and_no_hang(
    start_host: Callable[..., Any],
    write_notebook: Callable[[str, Sequence[str]], Path],
    browser: Browser,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from playwright.sync_api import TimeoutError as PlaywrightTimeout

    notebook = write_notebook("waiting", ["1"])
    with start_host([notebook]) as host:
        monkeypatch.setattr("notebook_hosts.OPEN_SECONDS", 10)
        monkeypatch.setattr(host.app, "loaded", "() => true")
        monkeypatch.setattr(host.app, "ready", "() => new Promise(() => {})")
        with pytest.raises(PlaywrightTimeout), host.visit(browser, notebook.name):
            pass


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:8888/lab", True),
        ("ws://127.0.0.1:8888/api/kernels/1/channels", True),
        ("data:image/png;base64,AAAA", True),
        ("blob:http://127.0.0.1:8888/1", True),
        ("about:srcdoc", True),
        ("https://example.org/", False),
        ("https://127.0.0.1.example.org/", False),
        ("https://example.org/127.0.0.1", False),
        ("http://127.0.0.1@example.org/", False),
        ("wss://example.org/", False),
        ("file:///etc/passwd", False),
    ],
)
def test_only_this_machine_counts_as_local(url: str, local: bool) -> None:
    from notebook_hosts import is_local

    assert is_local(url) is local
