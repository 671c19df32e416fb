"""What the tests in this folder hold to be empty is not empty when something is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from notebook_hosts import Desk, Host
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


@pytest.fixture(scope="module")
def apart(host: Host, browser: Browser) -> Iterator[Desk]:
    """Give what goes wrong on purpose a window of its own, so that nothing of it reaches a lesson's visit."""
    with host.desk(browser) as one:
        yield one


def test_each_planted_fault_is_named_and_not_said_of_the_next_notebook(
    apart: Desk, serve: Callable[[str, Sequence[str]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("notebook_hosts.DRAW_SECONDS", 1)  # none of these draws later
    with apart.visit(serve("faults", [WIDGET, *FAULTS])) as (_, visit):
        pass
    problems = "\n".join(visit.problems())
    assert [words for words in FAULTS.values() if words not in problems] == [], problems
    with apart.visit(serve("sound", [WIDGET, "show('el.append(\"drawn\")')"])) as (_, after):
        pass
    assert (after.problems(), len(after.views)) == ([], 1)


@pytest.mark.exhaustive
def test_a_notebook_that_does_not_end_is_named_and_its_page_left(
    apart: Desk, serve: Callable[[str, Sequence[str]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("notebook_hosts.RUN_SECONDS", 1)
    with apart.visit(serve("endless", ["import time", "time.sleep(60)"])) as (_, visit):
        pass
    assert "did not end within 1 s" in visit.problems()
    assert apart.page is None


@pytest.mark.exhaustive
def test_a_session_that_never_gets_ready_is_an_error_and_no_hang(
    host: Host, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    from playwright.sync_api import TimeoutError as PlaywrightTimeout

    class Waiting(host.app):  # type: ignore[name-defined, misc]  # the class that this environment has
        """A page that is there at once, with a session that never says that it is ready."""

        address = staticmethod(lambda notebook, visit: "api")
        loaded = "() => true"
        ready = "() => new Promise(() => {})"

    monkeypatch.setattr("notebook_hosts.OPEN_SECONDS", 5)  # enough for a page of one line
    waiting = replace(host, app=Waiting)
    with pytest.raises(PlaywrightTimeout, match="wait_for_function"), waiting.visit(browser, "any.ipynb"):
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
