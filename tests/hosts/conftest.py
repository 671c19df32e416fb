"""JupyterLab, or classic Notebook in an environment of Colab's age, running on this machine alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from notebook_hosts import Host, Visit
    from playwright.sync_api import Browser, Page

# tools/notebook_hosts.py is imported inside: where only unit tests run there is no Playwright.


@pytest.fixture(scope="session")
def start_host(
    missing: Callable[[str], NoReturn],
) -> Callable[[Sequence[Path]], AbstractContextManager[Host]]:
    """Start this environment's application on a copy of some notebooks."""
    try:
        import notebook_hosts
    except ImportError as absent:
        missing(f"Tests in a notebook application need {absent.name}: install the groups test and browser.")
    app = notebook_hosts.find_app()
    if app is None:
        missing("Here is neither JupyterLab nor classic Notebook 6: install pulsewarp[lab] or notebook<7.")

    def start(notebooks: Sequence[Path]) -> AbstractContextManager[Host]:
        # A reader is asked to predict; a variable of whoever runs the tests must not take that away.
        return notebook_hosts.serving(app, notebooks, {"PULSEWARP_SKIP": ""})

    return start


@pytest.fixture(scope="module")
def write_notebook(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Sequence[str]], Path]:
    """Write a notebook of code cells: `write_notebook("name", [source, ...])`."""
    import notebook_hosts

    folder = tmp_path_factory.mktemp("notebooks")
    return lambda name, sources: notebook_hosts.write_notebook(folder / f"{name}.ipynb", sources)


@pytest.fixture(scope="module")
def opened(
    request: pytest.FixtureRequest,
    start_host: Callable[[Sequence[Path]], AbstractContextManager[Host]],
    write_notebook: Callable[[str, Sequence[str]], Path],
    browser: Browser,
) -> Iterator[tuple[Host, Page, Visit]]:
    """Open and run one notebook for all tests of a module: the module's own `CELLS`."""
    notebook = write_notebook("cells", request.module.CELLS)
    with start_host([notebook]) as host, host.visit(browser, notebook.name) as (page, visit):
        yield host, page, visit
