"""Find a Chromium that starts, or fetch one, and print its path.

    python tools/find_browser.py            # find or fetch
    python tools/find_browser.py --no-fetch # only look

Looked for in this order: the path in PULSEWARP_BROWSER, then on PATH the headless shell of Chromium (the same
engine without the windows, menus and extensions that nobody sees here: a fifth less work for the processor),
chromium or google-chrome, then Playwright's own. Fetched, if none of these starts: by Playwright, else by
apt, the latter only as root on Debian, where apt carries a real Chromium and nobody is asked for a password.

Used by `make test`, by tests/conftest.py and by the benchmarks; it lives outside the package because no
reader of a notebook needs it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

VARIABLE = "PULSEWARP_BROWSER"
SHELL = "chromium-headless-shell"
NAMES = (SHELL, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
REMEDY = (
    "No Chromium starts here. Install one (Debian: apt-get install chromium; elsewhere: "
    f"python -m playwright install --with-deps chromium), or set {VARIABLE} to the path of one."
)


class NoBrowserError(RuntimeError):
    """No browser starts, and none could be fetched."""


def find_browser(*, fetch: bool = True) -> str:
    """Return the path of a Chromium that starts; with `fetch`, get one where there is none."""
    named = os.environ.get(VARIABLE)
    if named:
        # A path somebody set on purpose is obeyed or refused, never quietly replaced by another.
        if starts(named):
            return named
        raise NoBrowserError(f"{VARIABLE} is {named!r}, which does not start as a browser. {REMEDY}")
    found = on_path() or playwrights_own()
    if found is None and fetch:
        found = fetched_by_playwright() or fetched_by_apt()
    if found is None:
        raise NoBrowserError(REMEDY)
    return found


def starts(path: str) -> bool:
    """Tell whether `path` runs: a stub that only points to a snap, or a missing library, does not."""
    try:
        asked = subprocess.run([path, "--version"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0


def on_path() -> str | None:
    candidates = (shutil.which(name) for name in NAMES)
    return next((path for path in candidates if path and starts(path)), None)


def playwrights_own() -> str | None:
    # In a process of its own: Playwright's driver would leave an event loop running in this one.
    ask = (
        "from playwright.sync_api import sync_playwright\n"
        "with sync_playwright() as playwright: print(playwright.chromium.executable_path)"
    )
    asked = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=False)
    path = asked.stdout.strip()
    return path if asked.returncode == 0 and Path(path).is_file() and starts(path) else None


def fetched_by_playwright() -> str | None:
    _run(sys.executable, "-m", "playwright", "install", "chromium")
    return playwrights_own()


def fetched_by_apt() -> str | None:
    # Only Debian's own: Ubuntu's package of that name is a stub that needs a running snap daemon.
    try:
        is_debian = "ID=debian" in Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    if not is_debian or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    wait = ("-o", "DPkg::Lock::Timeout=300")  # two test workers may arrive here together
    _run("apt-get", *wait, "update", "--quiet")
    for package in (SHELL, "chromium"):  # older Debians have only the second
        _run("apt-get", *wait, "install", "--quiet", "--yes", "--no-install-recommends", package)
        if found := on_path():
            return found
    return None


def _run(*command: str) -> None:
    """Run a command whose words belong on stderr; whether it helped is seen by looking again."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(command, env=environment, stdout=sys.stderr, check=False)


def main() -> int:
    options = argparse.ArgumentParser(description="Find a Chromium that starts, or fetch one.")
    options.add_argument("--no-fetch", action="store_true", help="only look, install nothing")
    try:
        print(find_browser(fetch=not options.parse_args().no_fetch))
    except NoBrowserError as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
