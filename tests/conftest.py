"""What every test shares: repeatable Hypothesis, run-time type checks on demand, one browser."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parent.parent
TYPES_CHECKED_AT_RUN_TIME = os.environ.get("PULSEWARP_BEARTYPE") == "1"

if TYPES_CHECKED_AT_RUN_TIME:
    # Before anything imports the package: the claw rewrites modules as they load. Readers pay nothing.
    from beartype.claw import beartype_package

    if "pulsewarp" in sys.modules:
        raise RuntimeError("pulsewarp was imported before its run-time type checks could be switched on")
    beartype_package("pulsewarp")

# The same examples on every machine: a red suite must be red for the next person too. No deadline: a
# shared two-core machine is slow for reasons that are no property of the code.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci")


def load_file(path: Path) -> ModuleType:
    """Import a script that belongs to no package (a file of tools/ or a test's helper), once."""
    name = f"pulsewarp_{path.parent.name}_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up while it loads
        spec.loader.exec_module(module)
    return sys.modules[name]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if TYPES_CHECKED_AT_RUN_TIME:
        reason = "passes a wrong type on purpose; the run-time type check would answer before our sentence"
        for item in items:
            if item.get_closest_marker("wrong_type"):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def tool() -> object:
    """Load a script of tools/ by name, for example `tool("address")`."""
    return lambda name: load_file(ROOT / "tools" / f"{name}.py")


@pytest.fixture(scope="session")
def browser_path() -> str:
    """Path of a Chromium that starts; without one: a failure under CI, a skip with the remedy elsewhere."""
    finder = load_file(ROOT / "tools" / "find_browser.py")
    try:
        return str(finder.find_browser())
    except finder.NoBrowserError as missing:
        if os.environ.get("CI", "").lower() not in ("", "0", "false"):
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def browser(browser_path: str) -> Iterator[Browser]:
    """One headless Chromium for all tests of this process; each test opens its own context in it.

    Names outside this machine do not resolve in it, so that a stray request fails at once and everywhere
    alike, instead of leaving the machine where there happens to be a network.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="browser tests need Playwright")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=browser_path,
            args=["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"],
        )
        yield chromium
        chromium.close()
