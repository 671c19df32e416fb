"""Every environment in which the project must hold, one session each. `make test` runs them all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nox

ROOT = Path(__file__).parent
nox.needs_version = ">=2024.10.9"
nox.options.default_venv_backend = "uv"
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = True
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # uv lives there
# Tests start hundreds of Pythons: kernels, servers, command lines. Where our caller forbids them to keep what
# they compile, each compiles NumPy, JAX and this project anew: two thirds of the time of an import.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def find_pythons() -> dict[str, str]:
    """Return the Pythons that are here, newest first: version -> path."""
    script = ["sh", str(ROOT / "tools" / "find_python.sh")]
    paths = subprocess.run(script, check=True, capture_output=True, text=True).stdout.split()
    ask = "import sys; print(*sys.version_info[:2], sep='.')"
    return {
        subprocess.run([path, "-c", ask], check=True, capture_output=True, text=True).stdout.strip(): path
        for path in paths
    }


PYTHONS = find_pythons()
NEWEST, *_, OLDEST = [*PYTHONS, *PYTHONS]  # the same one twice where only one is found
# The whole has to stay under 25 minutes on two cores. So the two ends are tried: the newest of everything on
# the newest Python (`unit`), and the lowest versions on the oldest (`floors`); what lies between runs by name
# (`nox -s unit-3.12`).
nox.options.sessions = ["lint", "types", f"unit-{NEWEST}", "newest", "colab", "floors"]
# nox and uv look interpreters up by version on PATH: the ones that start come first there.
os.environ["PATH"] = os.pathsep.join([*(str(Path(p).parent) for p in PYTHONS.values()), os.environ["PATH"]])
# Reading nbval's own dependencies takes every process of pytest seconds; only notebooks' own run needs them.
PYTEST = ["pytest", "-p", "no:nbval", "-n", "2"]
FAST = ["-m", "not browser and not lab and not bench"]
# What tries one rule of whole numbers on very many cases hangs on no version of NumPy: it runs once, with the
# newest of everything.
BRIEF = ["-m", f"{FAST[1]} and not exhaustive"]
COLAB = ROOT / "tests" / "colab-constraints.txt"


def group(name: str) -> list[str]:
    return ["--group", name]


def say(session: nox.Session) -> None:
    session.log("Pythons found: " + ", ".join(f"{version} ({path})" for version, path in PYTHONS.items()))
    session.log(f"this session: {session.python}")


def browser(session: nox.Session) -> None:
    """Find a browser, or fetch one; under CI a missing one is a failure."""
    path = session.run("python", "tools/find_browser.py", silent=True)
    session.env["PULSEWARP_BROWSER"] = str(path).strip().splitlines()[-1]
    session.log(f"browser: {session.env['PULSEWARP_BROWSER']}")


def nbval(session: nox.Session) -> None:
    """Run every notebook; strict nbval compares each kept output."""
    session.run(
        "pytest", "--nbval", "--nbval-current-env", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider",
        "notebooks", env={"PULSEWARP_SKIP": "1"},
    )  # fmt: skip


def read(session: nox.Session, *scenes: str, marked: str = "") -> None:
    """Do what a reader does: run the notebooks, open scenes, and open notebooks in their application."""
    nbval(session)
    browser(session)
    # Who runs what there, tests/hosts/conftest.py says: tests that share a visit stay together.
    session.run(*PYTEST, "-m", marked, "tests/hosts")
    session.run(*PYTEST, "--dist", "worksteal", *scenes)


@nox.session(python=NEWEST)
def lint(session: nox.Session) -> None:
    """Ruff and the import floors."""
    say(session)
    session.install("-e", ".", *group("check"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports")


@nox.session(python=NEWEST)
def types(session: nox.Session) -> None:
    """Python's types and JavaScript's."""
    say(session)
    session.install("-e", ".", *group("check"))
    session.run("mypy")
    session.run("npx", "--yes", "--package", "typescript@~5.9.0", "tsc", "-p", "tsconfig.json")


@nox.session(python=list(PYTHONS))
def unit(session: nox.Session) -> None:
    """Unit and reference tests and doctests on one Python, newest of everything."""
    say(session)
    session.install("-e", ".[lab]", *group("test"), *group("check"))
    session.run(*PYTEST, *FAST, "--doctest-modules", "tests", "src", *session.posargs)


@nox.session(python=NEWEST)
def newest(session: nox.Session) -> None:
    """Notebooks, scenes and JupyterLab with the newest of everything."""
    say(session)
    session.install("-e", ".[lab]", *group("test"), *group("browser"))
    read(session, "tests/browser")


@nox.session(python=NEWEST)
def colab(session: nox.Session) -> None:
    """Notebooks, classic Notebook and the exporter in an environment of Colab's age."""
    say(session)
    session.install("-r", str(COLAB), "-e", ".", *group("test"), *group("browser"))
    # Unit tests run with the newest of everything and with our floors; Colab's versions lie between the two.
    # A scene on a page of its own is the same text in every environment: the session `newest` tries all of
    # them. What differs here is the application, its widget manager and the exporter.
    read(session, "tests/browser/test_exported_pages.py", marked="not exhaustive")


@nox.session(python=OLDEST)
def floors(session: nox.Session) -> None:
    """Unit tests with the lowest versions that our floors allow; annotations are enforced at run time too."""
    say(session)
    session.install("--resolution", "lowest-direct", "-e", ".[jax]")
    session.install(*group("test"))
    session.run(*PYTEST, *BRIEF, "tests", env={"PULSEWARP_BEARTYPE": "1"})


@nox.session(python=NEWEST)
def bench(session: nox.Session) -> None:
    """Measure; never part of the tests."""
    session.install("-e", ".[lab]", *group("test"), *group("browser"))
    browser(session)
    session.run("python", "benchmarks/run.py", *session.posargs)


@nox.session(python=NEWEST)
def notebooks(session: nox.Session) -> None:
    """Execute the notebooks and keep the outputs that nbval compares."""
    session.install("-e", ".[lab]", *group("test"))
    session.run("python", "tools/keep_outputs.py", *session.posargs, env={"PULSEWARP_SKIP": "1"})


@nox.session(python=NEWEST)
def picture(session: nox.Session) -> None:
    """Draw the README's picture from the product."""
    session.install("-e", ".", *group("browser"))
    browser(session)
    session.run("python", "tools/picture.py")
