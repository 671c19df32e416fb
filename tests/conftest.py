"""What every test shares: repeatable Hypothesis, run-time type checks on demand, one browser."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parent.parent
# Tests and the scripts of tools/ belong to no package: what several of them share is imported by its name.
sys.path += [str(ROOT / folder) for folder in ("tools", "tests/simt", "tests/systolic", "tests/browser")]

TYPES_CHECKED_AT_RUN_TIME = os.environ.get("PULSEWARP_BEARTYPE") == "1"

if TYPES_CHECKED_AT_RUN_TIME:
    # Before anything imports the package: the claw rewrites modules as they load. Readers pay nothing.
    from beartype import BeartypeConf
    from beartype.claw import beartype_package

    if "pulsewarp" in sys.modules:
        raise RuntimeError("pulsewarp was imported before its run-time type checks could be switched on")
    # PEP 484: an int may stand where a float is asked for, as mypy reads our signatures too.
    beartype_package("pulsewarp", conf=BeartypeConf(is_pep484_tower=True))

from find_browser import NoBrowserError, find_browser  # noqa: E402  # needs the path above

# The same examples on every machine: a red suite must be red for the next person too. No deadline: a
# shared two-core machine is slow for reasons that are no property of the code.
settings.register_profile("ci", derandomize=True, deadline=None)
# With annotations enforced, every law runs again to meet every signature: what many examples find besides
# is the same on every version, and is sought with the newest of everything.
settings.register_profile("floors", settings.get_profile("ci"), max_examples=20)
settings.load_profile("floors" if TYPES_CHECKED_AT_RUN_TIME else "ci")


def pytest_configure(config: pytest.Config) -> None:
    # A shell that starts the tests in the background leaves Ctrl-C ignored; what an interrupt must not lose
    # is tested with a real one.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if TYPES_CHECKED_AT_RUN_TIME:
        # The type check picks at random which element of a container it looks at; no test depends on that.
        config.addinivalue_line("filterwarnings", "ignore:Do not use the `random` module inside strategies")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if TYPES_CHECKED_AT_RUN_TIME:
        reason = "passes a wrong type on purpose; the run-time type check would answer before our sentence"
        for item in items:
            if item.get_closest_marker("wrong_type"):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what each notebook took in an application (recorded by tests/hosts, from any worker)."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    rows = [
        value
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "notebook visit" and report.when == "call"
    ]
    if rows:
        terminalreporter.section("notebooks in their application")
        for row in sorted(rows):
            terminalreporter.write_line(row)


@pytest.fixture(scope="session")
def missing() -> Callable[[str], NoReturn]:
    """Call it with a reason where a test lacks something: a failure under CI, a skip elsewhere."""

    def end(reason: str) -> NoReturn:
        if os.environ.get("CI", "").lower() not in ("", "0", "false"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)

    return end


@pytest.fixture(scope="session")
def browser_path(missing: Callable[[str], NoReturn]) -> str:
    """Return the path of a Chromium that starts, fetched if need be."""
    try:
        return find_browser()
    except NoBrowserError as nowhere:
        missing(str(nowhere))


@pytest.fixture(scope="session")
def browser(browser_path: str, missing: Callable[[str], NoReturn]) -> Iterator[Browser]:
    """One headless Chromium for all tests of this process; each test opens its own context in it.

    Names outside this machine do not resolve in it, so that a stray request fails at once and everywhere
    alike, instead of leaving the machine where there happens to be a network.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("Browser tests need Playwright: pip install playwright.")
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=browser_path,
            args=["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"],
        )
        yield chromium
        chromium.close()
