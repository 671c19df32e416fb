"""One page per test, on which nothing may go wrong unseen: no console error, no request that leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scene_page import settle
from stage import Stage

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# Counts what a closed view must not leave behind: frames asked for, listeners on things that outlive it,
# observers still watching. It runs before any script of the page, and counts only what code of the page
# (or of a module it loaded from text) does: the driver's own waiting code listens too.
COUNTERS = """
window.left = { frames: new Set(), observers: new Set(), outside: [], drawn: 0 };
{
  const ours = () => /page-\\d+\\.html|blob:/.test(new Error().stack);
  const ask = window.requestAnimationFrame.bind(window), drop = window.cancelAnimationFrame.bind(window);
  window.requestAnimationFrame = (callback) => {
    const mine = ours();
    const id = ask((time) => { left.frames.delete(id); if (mine) left.drawn += 1; callback(time); });
    if (mine) left.frames.add(id);
    return id;
  };
  window.cancelAnimationFrame = (id) => { left.frames.delete(id); drop(id); };
  for (const name of ["IntersectionObserver", "ResizeObserver", "MutationObserver"]) {
    const Own = window[name];
    window[name] = class extends Own {
      observe(...target) { if (ours()) left.observers.add(this); return super.observe(...target); }
      disconnect() { left.observers.delete(this); return super.disconnect(); }
    };
  }
  const listen = EventTarget.prototype.addEventListener;
  EventTarget.prototype.addEventListener = function (type, listener, options) {
    const lasting = this === window || this === document || this === document.body
      || this === document.documentElement || this instanceof MediaQueryList;
    if (lasting && ours()) {
      const entry = { type, on: this.constructor.name };
      left.outside.push(entry);
      options?.signal?.addEventListener("abort", () => left.outside.splice(left.outside.indexOf(entry), 1));
    }
    return listen.call(this, type, listener, options);
  };
}
"""


@pytest.fixture(scope="session")
def spare_pages(browser: Browser) -> dict[bool, list[Page]]:
    """Blank pages that earlier tests are done with, without touch and with: a new one costs half a test."""
    return {False: [], True: []}


def take_page(browser: Browser, spare: list[Page], *, touch: bool) -> Page:
    """Return a blank page, in which nothing is left of the test that had it before."""
    if spare:
        return spare.pop()
    context = browser.new_context(has_touch=touch)
    context.add_init_script(COUNTERS)
    return context.new_page()


@pytest.fixture
def open_html(
    browser: Browser, spare_pages: dict[bool, list[Page]], tmp_path: Path
) -> Iterator[Callable[..., Page]]:
    """Open a page from a file and watch it: `open_html(html, viewport=(1280, 900), dark=False, ...)`.

    After the test, any console error, uncaught error or request other than the file itself, `data:` and
    `blob:` fails it. A page that is meant to err is opened with `errors_expected=True`; one that gets
    something lasting from its test (`page.expose_function`) with `lasting=True`, and is not used again.
    """
    opened: list[tuple[Page, bool, dict[str, Any]]] = []
    done: list[Page] = []
    wrong: list[str] = []

    def open_page(
        html: str,
        *,
        viewport: tuple[int, int] = (1280, 900),
        dark: bool = False,
        reduced_motion: bool = False,
        touch: bool = False,
        errors_expected: bool = False,
        lasting: bool = False,
    ) -> Page:
        page = take_page(browser, [] if lasting else spare_pages[touch], touch=touch)
        page.set_viewport_size({"width": viewport[0], "height": viewport[1]})
        page.emulate_media(
            media="null",  # as a fresh page has it, should an earlier test have printed
            forced_colors="none",
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce" if reduced_motion else "no-preference",
        )
        path = tmp_path / f"page-{len(opened) + len(done)}.html"
        path.write_text(html, encoding="utf-8")
        address = path.as_uri()
        heard: dict[str, Any] = {
            "request": lambda request: (
                None
                if request.url == address or request.url.startswith(("data:", "blob:", "about:"))
                else wrong.append(f"request: {request.url}")
            )
        }
        if not errors_expected:
            heard["console"] = lambda said: (
                wrong.append(f"console: {said.text}") if said.type == "error" else None
            )
            heard["pageerror"] = lambda error: wrong.append(f"uncaught: {error}")
        for event, listener in heard.items():
            page.on(event, listener)
        if lasting:
            done.append(page)
        else:
            opened.append((page, touch, heard))
        page.goto(address)
        return page

    yield open_page
    for page in done:
        page.context.close()
    for page, touch, heard in opened:
        page.mouse.move(0, 0)
        page.goto("about:blank")
        for event, listener in heard.items():
            page.remove_listener(event, listener)
        spare_pages[touch].append(page)
    assert not wrong, "\n".join(wrong)


@pytest.fixture(scope="module")
def stage(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One page for the tests of a module that leave nothing behind but what `Stage.show` takes away."""
    context = browser.new_context()
    context.add_init_script(COUNTERS)
    yield Stage(context.new_page(), tmp_path_factory.mktemp("stage"))
    context.close()


@pytest.fixture
def on_stage(stage: Stage) -> Iterator[Callable[..., Page]]:
    """Show a player on the module's page: `on_stage(player)`; errors and requests fail the test as above."""
    yield stage.show
    wrong, stage.wrong[:] = list(stage.wrong), []
    assert not wrong, "\n".join(wrong)


#: What axe-core finds by the colours of a page; all other rules read what does not change in the dark.
BY_COLOUR = ["color-contrast", "link-in-text-block"]


@pytest.fixture(scope="session")
def serious() -> Callable[..., list[tuple[str, str]]]:
    """Scan a page with axe-core: rule and first element of each finding that is serious or critical.

    With `dark_too=True` the page, which is light so far, turns dark afterwards and stays so; what hangs on
    colours is looked at again then.
    """
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="the scan needs axe-core").Axe()

    def scan(page: Page, *, dark_too: bool = False) -> list[tuple[str, str]]:
        # What passes is not asked for: telling it takes axe longer than finding what does not.
        options: dict[str, Any] = {"resultTypes": ["violations"]}
        found = axe.run(page, options=options).response["violations"]
        if dark_too:
            page.emulate_media(color_scheme="dark")
            settle(page)
            found += axe.run(page, options={**options, "runOnly": BY_COLOUR}).response["violations"]
        return [
            (f["id"], f["nodes"][0]["html"][:200]) for f in found if f["impact"] in ("serious", "critical")
        ]

    return scan
