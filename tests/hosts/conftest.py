"""JupyterLab, or classic Notebook in an environment of Colab's age, running on this machine alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from notebook_hosts import Desk, Host
    from playwright.sync_api import Browser

# tools/notebook_hosts.py is imported inside: where only unit tests run there is no Playwright.


def work_unit(test: str) -> str:
    """Return what runs as one on one worker: the file of a test that shares its visit, else the test itself.

    pytest-xdist has groups for this; its 3.8 cannot tell them to pytest 9.2, and then spreads their tests.
    """
    file, _, _ = test.partition("::")
    return file if file.endswith(("test_cells_in_their_host.py", "test_hosts_catch.py")) else test


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class ByVisit(LoadScopeScheduling):  # type: ignore[misc]  # xdist may be missing where nothing is tested
        """Send work units one at a time; those of many tests first, then in the order of the files."""

        def _split_scope(self, nodeid: str) -> str:
            return work_unit(nodeid)

    return ByVisit(config, log)


@pytest.fixture(scope="session")
def host(missing: Callable[[str], NoReturn]) -> Iterator[Host]:
    """Start this environment's application, once for all tests of a process; `host.add(path)` serves more."""
    try:
        import notebook_hosts
    except ImportError as absent:
        missing(f"Tests in a notebook application need {absent.name}: install the groups test and browser.")
    app = notebook_hosts.find_app()
    if app is None:
        missing("Here is neither JupyterLab nor classic Notebook 6: install pulsewarp[lab] or notebook<7.")
    # A reader is asked to predict; a variable of whoever runs the tests must not take that away.
    with notebook_hosts.serving(app, [], {"PULSEWARP_SKIP": ""}) as running:
        yield running


@pytest.fixture(scope="session")
def desk(host: Host, browser: Browser) -> Iterator[Desk]:
    """One window for all notebooks of a process: JupyterLab is loaded once, as a reader leaves it open."""
    with host.desk(browser) as one:
        yield one


@pytest.fixture(scope="session")
def serve(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Sequence[str]], str]:
    """Serve a notebook of code cells: `serve("name", [source, ...])` returns the name to visit."""
    import notebook_hosts

    folder: Path = tmp_path_factory.mktemp("notebooks")
    return lambda name, sources: host.add(notebook_hosts.write_notebook(folder / f"{name}.ipynb", sources))
