"""Start a notebook application on this machine alone, run notebooks in it and report what happened.

`serving(...)` starts JupyterLab or classic Notebook 6, whichever this Python's environment holds: on
loopback, with every configuration and data folder inside a temporary one, serving a copy of the notebooks.
`Host.desk(browser)` is a window of Chromium in which one notebook after another is opened; `Desk.visit(name)`
drives one as a reader would: open, wait for the session, run all cells by the application's own command, look
at every output. It yields the open page and a `Visit`, whose `problems()` is what the tests hold to be empty.
Nothing here asserts: tests and benchmarks both call it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import nbformat
import psutil
from keep_outputs import KERNELSPEC, peak_bytes, source_of
from playwright.sync_api import Browser, BrowserContext, ElementHandle, Page, WebSocket
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import TimeoutError as PlaywrightTimeout

# Generous: they only decide how long a hang takes to be called one. A start takes 3 s, a notebook 10 s.
START_SECONDS = 120
OPEN_SECONDS = 120
RUN_SECONDS = 300
DRAW_SECONDS = 30

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

# What the tests hold on to in a scene: the kit's own names (src/pulsewarp/widgets/kit).
SCENE = ".pw:has(.pw-scrub)"
SCRUB = ".pw-scrub"
PLAY = ".pw-play"
SPEED = ".pw-pace select"

# Console errors that may stand: part of the text -> the reason. Each is the application's own.
ALLOWED_CONSOLE_ERRORS: Mapping[str, str] = {}

# Schemes that never reach a network; `about:` is a frame written by the page itself.
LOCAL_SCHEMES = ("data:", "blob:", "about:")


@dataclass(frozen=True)
class View:
    """One widget view that a cell should show."""

    cell: int
    drawn: bool
    seen: str  # the place's size and its first words, for the sentence that says what is wrong


@dataclass
class Visit:
    """What happened when one notebook was opened and run to its end in one application."""

    notebook: str
    host: str
    cells: Sequence[Mapping[str, Any]] = ()
    views: Sequence[View] = ()
    console_errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)  # between browser and kernel: direction and type
    finished: bool = False
    open_seconds: float = 0.0
    run_seconds: float = 0.0
    peak_bytes: int = 0

    def problems(self) -> list[str]:
        """Return what is not as it must be, one sentence each; nothing when all is well."""
        found = [] if self.finished else [f"did not end within {RUN_SECONDS} s"]
        for number, cell in enumerate(self.cells):
            if cell["cell_type"] != "code" or not source_of(cell).strip():
                continue
            if cell.get("execution_count") is None:
                found.append(f"cell {number} has no execution count: {source_of(cell)!r}")
            for output in cell["outputs"]:
                if output["output_type"] == "error":
                    found.append(f"cell {number} ends in {output['ename']}: {output['evalue']}")
        found += [
            f"cell {view.cell} does not draw its widget: {view.seen}" for view in self.views if not view.drawn
        ]
        found += [f"console error: {text}" for text in self.console_errors]
        found += [f"request leaves the machine: {url}" for url in self.requests if not is_local(url)]
        return found


def is_local(url: str) -> bool:
    """Tell whether a request for `url` stays on this machine."""
    if url.startswith(LOCAL_SCHEMES):
        return True
    return url.partition("://")[2].partition("/")[0].partition(":")[0] == "127.0.0.1"


# --- the two applications ---------------------------------------------------------------------------------


class App(Protocol):
    """How an application is started, and how its page is asked, in JavaScript."""

    name: ClassVar[str]
    open_here: ClassVar[str | None]  # (path) -> opens it in the page that is there; None: a page each
    loaded: ClassVar[str]  # (path) -> the notebook is there
    ready: ClassVar[str]  # -> its kernel's id, when its session can run cells; may wait for that
    run_all: ClassVar[str]  # starts the application's own command
    ended: ClassVar[str]  # -> every cell has ended
    cells: ClassVar[str]  # -> the cells in nbformat's form
    show_cell: ClassVar[str]  # (index) -> the cell is on screen; brings it there
    output_node: ClassVar[str]  # ([cell, output]) -> the element that shows one output
    close: ClassVar[str]  # ends the kernel and leaves the notebook, unsaved

    @staticmethod
    def command(port: int) -> list[str]: ...

    @staticmethod
    def configure(config: Path) -> None: ...

    @staticmethod
    def address(notebook: str, visit: int) -> str: ...


class Lab(App):
    """JupyterLab."""

    name = "lab"

    @staticmethod
    def command(port: int) -> list[str]:
        return [
            *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
            "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.port={port}",
            "--ServerApp.port_retries=0",
            "--IdentityProvider.token=",
            "--ServerApp.root_dir=.",
            "--LabApp.expose_app_in_browser=True",
            "--LabApp.extension_manager=readonly",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        ]

    @staticmethod
    def configure(config: Path) -> None:
        # The announcements ask the server to fetch a news feed, and put a dialog before the notebook.
        off = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
        (config / "labconfig").mkdir()
        (config / "labconfig" / "page_config.json").write_text(json.dumps(off), encoding="utf-8")

    @staticmethod
    def address(notebook: str, visit: int) -> str:
        return f"lab/workspaces/visit-{visit}/tree/{notebook}"  # a workspace of its own: no tabs come back

    open_here = "async (path) => { await jupyterapp.commands.execute('docmanager:open', { path }); }"
    loaded = """(path) => {
        const panel = window.jupyterapp?.shell.currentWidget;
        return Boolean(panel?.sessionContext && panel.context.path === path);
    }"""
    # The idle indicator lies on first start: the session is ready when it says so itself.
    ready = """async () => {
        const panel = jupyterapp.shell.currentWidget;
        await jupyterapp.restored; await panel.context.ready; await panel.sessionContext.ready;
        return panel.sessionContext.session.kernel.id;
    }"""
    run_all = """() => {
        window.runEnded = false;
        jupyterapp.commands.execute('notebook:run-all-cells').finally(() => { window.runEnded = true; });
    }"""
    ended = "() => window.runEnded"
    cells = "() => jupyterapp.shell.currentWidget.content.model.sharedModel.toJSON().cells"
    # Cells off screen may be detached: one is brought on screen before it is looked at.
    show_cell = """async (index) => {
        const notebook = jupyterapp.shell.currentWidget.content;
        notebook.activeCellIndex = index;
        await notebook.scrollToItem(index, 'smart');
        return true;
    }"""
    output_node = """([cell, output]) => jupyterapp.shell.currentWidget.content.widgets[cell].node
        .querySelectorAll('.jp-OutputArea-child')[output]?.querySelector('.jp-OutputArea-output')"""
    # Disposed of, not closed: closing asks whether to save.
    close = """async () => {
        const panel = jupyterapp.shell.currentWidget;
        await panel.sessionContext.shutdown();
        panel.dispose();
        await new Promise((done) => setTimeout(done));  // promises that this breaks are this notebook's
    }"""


class Classic(App):
    """Classic Notebook 6, the closest thing to Colab's front end that runs here."""

    name = "classic"

    @staticmethod
    def command(port: int) -> list[str]:
        return [
            *(sys.executable, "-m", "notebook", "--no-browser", "--allow-root"),
            "--NotebookApp.ip=127.0.0.1",
            f"--NotebookApp.port={port}",
            "--NotebookApp.port_retries=0",
            "--NotebookApp.token=",
            "--NotebookApp.notebook_dir=.",
        ]

    @staticmethod
    def configure(config: Path) -> None:
        """Nothing to set: it asks nobody outside."""

    @staticmethod
    def address(notebook: str, visit: int) -> str:
        return f"notebooks/{notebook}"

    open_here = None
    loaded = """(path) => {
        const notebook = window.Jupyter?.notebook;
        return Boolean(notebook?._fully_loaded && notebook.notebook_path === path
            && notebook.kernel?.info_reply?.status === 'ok' && notebook.kernel.widget_manager);
    }"""
    # When it starts, the widget manager of ipywidgets 7 asks the kernel for widgets that exist already; one
    # born while it asks is taken for such a one, and its view is removed. Nothing says when it is done, but
    # answers come in order: asking once more and waiting for that means that the first one has ended.
    ready = """async () => {
        await Jupyter.notebook.kernel.widget_manager._loadFromKernel();
        return Jupyter.notebook.kernel.id;
    }"""
    # A cell has ended when the kernel has said idle after its last output, not when its reply came.
    run_all = """() => {
        const cells = Jupyter.notebook.get_cells().filter((cell) => cell.cell_type === 'code');
        window.runPending = cells.filter((cell) => cell.get_text().trim()).length;
        Jupyter.notebook.events.on('finished_execute.CodeCell', () => { window.runPending -= 1; });
        Jupyter.actions.call('jupyter-notebook:run-all-cells');
    }"""
    ended = "() => window.runPending === 0"
    cells = "() => Jupyter.notebook.toJSON().cells"
    show_cell = """(index) => {
        Jupyter.notebook.select(index);
        Jupyter.notebook.get_cell(index).element[0].scrollIntoView({ block: 'nearest' });
        return true;
    }"""
    output_node = """([cell, output]) => Jupyter.notebook.get_cell(cell).element[0]
        .querySelectorAll('.output_area')[output]?.querySelector('.output_subarea')"""
    close = "() => new Promise((done) => Jupyter.notebook.session.delete(done, done))"


def find_app() -> type[App] | None:
    """Return what this environment holds: JupyterLab, else classic Notebook 6, else None."""
    if importlib.util.find_spec("jupyterlab"):
        return Lab
    if importlib.util.find_spec("notebook.notebookapp"):  # gone from Notebook 7, which is JupyterLab inside
        return Classic
    return None


# --- one visit --------------------------------------------------------------------------------------------

# A widget has drawn when its place has a size, holds words or a picture, nothing in it says "wait" or raises
# an alarm, and, where there are canvases, one shows something: a canvas nobody painted is transparent.
DRAWN = """(node) => {
    if (!node) return { drawn: false, seen: 'no output' };
    const { width, height } = node.getBoundingClientRect();
    const canvases = [...node.querySelectorAll('canvas')].filter((canvas) => canvas.width && canvas.height);
    const painted = (canvas) => {
        const context = canvas.getContext('2d');
        return !context || context.getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean);
    };
    const drawn = width >= 20 && height >= 20
        && (node.innerText.trim() !== '' || node.querySelector('canvas, svg, img, input') !== null)
        && !node.querySelector('.pw-wait, .jupyter-widgets-error-widget')
        && ![...node.querySelectorAll('[role=alert]')].some((alarm) => alarm.innerText.trim())
        && !/^(Loading widget|Error (displaying|rendering|creating))/.test(node.innerText.trim())
        && (!canvases.length || canvases.some(painted));
    const words = JSON.stringify(node.innerText.trim().slice(0, 80));
    return { drawn, seen: `${Math.round(width)} x ${Math.round(height)} pixels, ${words}` };
}"""

_visits = itertools.count(1)


@dataclass
class Host:
    """An application that is running and serves a copy of some notebooks."""

    app: type[App]
    url: str
    process: subprocess.Popen[bytes]
    folder: Path

    def add(self, notebook: Path) -> str:
        """Serve a copy of one more notebook; return its name."""
        shutil.copy(notebook, self.folder)
        return notebook.name

    @contextlib.contextmanager
    def desk(self, browser: Browser, **context: Any) -> Iterator[Desk]:
        """Open a window of the browser, without a notebook in it."""
        with browser.new_context(service_workers="block", **context) as room:
            yield Desk(self, room)

    @contextlib.contextmanager
    def visit(self, browser: Browser, notebook: str, **context: Any) -> Iterator[tuple[Page, Visit]]:
        """Visit one notebook in a window of its own."""
        with self.desk(browser, **context) as desk, desk.visit(notebook) as opened:
            yield opened

    def output(self, page: Page, cell: int, output: int) -> Any:
        """Return the element that shows an output of a cell, as the page has it now."""
        return page.evaluate_handle(self.app.output_node, [cell, output])

    def scenes(self, page: Page, visit: Visit) -> Iterator[ElementHandle]:
        """Bring each of our scenes on screen in turn and yield its root."""
        for cell, output in widget_outputs(visit.cells):
            page.wait_for_function(self.app.show_cell, arg=cell)
            root = self.output(page, cell, output).as_element().query_selector(SCENE)
            if root is not None:
                yield root

    def kernel(self, number: str) -> int | None:
        """Return the process of a kernel, by the id that the application gave it; None when it has ended."""
        for each in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if f"kernel-{number}.json" in " ".join(each.cmdline()):
                    return int(each.pid)
        return None


@dataclass
class Desk:
    """A window of the browser in which notebooks of one application are opened, one after the other.

    JupyterLab is loaded once and opens each notebook in the page that is there, as when a reader clicks on it
    in the list of files; a classic notebook is a page of its own. A page on which a visit broke off, or a
    notebook did not end, is closed, and the next visit starts with a fresh one.
    """

    host: Host
    room: BrowserContext
    page: Page | None = None  # between visits: one that is ready for the next notebook
    current: Visit | None = None  # what happens in the page is recorded here

    @contextlib.contextmanager
    def visit(self, notebook: str) -> Iterator[tuple[Page, Visit]]:
        """Open a notebook, run it to its end, look at its outputs; yield the open page and the report.

        What the page does up to the end of the `with` block is recorded in the report as well.
        """
        app = self.host.app
        visit = self.current = Visit(notebook, app.name)
        page, self.page = self.page, None
        fresh = page is None
        page = page or self._new_page()
        stays = False
        try:
            kernel = self._open(page, visit, fresh)
            self._run(page, visit)
            visit.cells = page.evaluate(app.cells)
            visit.views = self._look(page, visit.cells)
            process = self.host.kernel(kernel)
            visit.peak_bytes = peak_bytes(process) if process else 0
            yield page, visit
            stays = visit.finished and app.open_here is not None
        finally:
            try:
                page.evaluate(app.close)
            except PlaywrightError:  # where the page is broken, the server ends the kernel
                stays = False
            if stays:
                self.page = page
            else:
                page.close()

    def _new_page(self) -> Page:
        """Return an empty page; what happens in it belongs to the visit of that moment."""
        page = self.room.new_page()
        page.set_default_timeout(1000 * OPEN_SECONDS)
        page.on("request", lambda request: self._now().requests.append(request.url))
        page.on("websocket", lambda socket: _record_socket(self._now(), socket))
        page.on("pageerror", lambda error: self._now().console_errors.append(str(error)))
        page.on("console", lambda message: _record_error(self._now(), message.type, message.text))
        return page

    def _now(self) -> Visit:
        if self.current is None:
            raise LookupError("Nothing is visited; a page is opened for a visit.")
        return self.current

    def _open(self, page: Page, visit: Visit, fresh: bool) -> str:
        """Open the visit's notebook and return the id of its kernel when that can run cells."""
        app = self.host.app
        start = time.perf_counter()
        page.set_default_timeout(1000 * OPEN_SECONDS)
        if fresh or not app.open_here:
            page.goto(self.host.url + app.address(visit.notebook, next(_visits)))
        else:
            page.evaluate(app.open_here, visit.notebook)
        page.wait_for_function(app.loaded, arg=visit.notebook)
        kernel = page.wait_for_function(app.ready).json_value()  # not evaluate, which would wait for ever
        visit.open_seconds = time.perf_counter() - start
        return str(kernel)

    def _run(self, page: Page, visit: Visit) -> None:
        start = time.perf_counter()
        page.evaluate(self.host.app.run_all)
        with contextlib.suppress(PlaywrightTimeout):
            page.wait_for_function(self.host.app.ended, timeout=1000 * RUN_SECONDS)
            visit.finished = True
        visit.run_seconds = time.perf_counter() - start

    def _look(self, page: Page, cells: Sequence[Mapping[str, Any]]) -> list[View]:
        views = []
        for cell, output in widget_outputs(cells):
            page.wait_for_function(self.host.app.show_cell, arg=cell)
            node = self.host.output(page, cell, output)
            seen = node.evaluate(DRAWN)
            deadline = time.monotonic() + DRAW_SECONDS
            while not seen["drawn"] and time.monotonic() < deadline:
                page.wait_for_timeout(100)
                node = self.host.output(page, cell, output)
                seen = node.evaluate(DRAWN)
            views.append(View(cell, **seen))
        return views


def part(scene: ElementHandle, selector: str) -> ElementHandle:
    """Return one of a scene's controls."""
    found = scene.query_selector(selector)
    if found is None:
        raise LookupError(f"The scene has no {selector!r}; the kit names its parts otherwise now.")
    return found


def shown_cycle(scene: ElementHandle) -> int:
    """Return the cycle at which a scene's playhead stands."""
    return int(scene.eval_on_selector(SCRUB, "(bar) => Number(bar.value)"))


def answers_keyboard(page: Page, scene: ElementHandle) -> bool:
    """Tell whether a focused scene goes to its first cycle at Home and one cycle on at the right arrow."""
    scene.focus()
    page.keyboard.press("Home")
    first = shown_cycle(scene)
    page.keyboard.press("ArrowRight")
    return (first, shown_cycle(scene)) == (0, 1)


def wait_until_quiet(page: Page, visit: Visit) -> None:
    """Wait until no message has crossed to or from the kernel for a second and a half."""
    seen = -1
    while seen != len(visit.messages):
        seen = len(visit.messages)
        page.wait_for_timeout(1500)


def wait_for_message(page: Page, visit: Visit, message: str, since: int) -> bool:
    """Tell whether a message crosses, after the first `since` of the visit; wait for it half a minute."""
    for _ in range(300):
        if message in visit.messages[since:]:
            return True
        page.wait_for_timeout(100)
    return False


def messages_while_playing(page: Page, visit: Visit, scene: ElementHandle) -> list[str]:
    """Play a scene from its first cycle to its last; return what crossed to or from the kernel meanwhile.

    Messages already under way when Play is pressed, and the resting place that is saved a moment after the
    end, are not part of playing: the first are waited for, the second comes later than this looks.
    """
    scene.focus()
    page.keyboard.press("Home")
    part(scene, SPEED).select_option("15")
    wait_until_quiet(page, visit)
    before = len(visit.messages)
    part(scene, PLAY).click()
    at_end = "([root, bar]) => { const at = root.querySelector(bar); return at.value === at.max; }"
    page.wait_for_function(at_end, arg=[scene, SCRUB], polling=20)
    return visit.messages[before:]


def widget_outputs(cells: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int]]:
    """Yield (cell, output) of each widget view, by position."""
    for number, cell in enumerate(cells):
        for position, output in enumerate(cell.get("outputs", ())):
            if WIDGET_VIEW in output.get("data", ()):
                yield number, position


def _record_socket(visit: Visit, socket: WebSocket) -> None:
    visit.requests.append(socket.url)
    if "/api/kernels/" in socket.url:
        socket.on("framesent", lambda frame: visit.messages.append(f"to kernel: {_message_type(frame)}"))
        socket.on(
            "framereceived", lambda frame: visit.messages.append(f"from kernel: {_message_type(frame)}")
        )


def _message_type(frame: str | bytes) -> str:
    """Return the type that a message's header names; the header comes first in both wire forms."""
    data = frame.encode() if isinstance(frame, str) else frame
    found = re.search(rb'"msg_type": *"(\w+)"', data)
    return found[1].decode() if found else "unknown"


def _record_error(visit: Visit, kind: str, text: str) -> None:
    if kind == "error" and not any(allowed in text for allowed in ALLOWED_CONSOLE_ERRORS):
        visit.console_errors.append(text)


def write_notebook(path: Path, sources: Sequence[str]) -> Path:
    """Write a notebook of code cells; it names its kernel, or JupyterLab would ask for one in a dialog."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    notebook.metadata["kernelspec"] = dict(KERNELSPEC)
    nbformat.write(notebook, path)
    return path


@contextlib.contextmanager
def serving(
    app: type[App], notebooks: Iterable[Path], environment: Mapping[str, str] | None = None
) -> Iterator[Host]:
    """Start an application that serves a copy of `notebooks`, and end it with all its kernels."""
    with tempfile.TemporaryDirectory(prefix="pulsewarp-host-") as name:
        folder = Path(name)
        for part in ("config", "data", "runtime", "ipython", "work"):
            (folder / part).mkdir()
        for notebook in notebooks:
            shutil.copy(notebook, folder / "work")
        app.configure(folder / "config")
        variables = {
            **os.environ,
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "IPYTHONDIR": str(folder / "ipython"),
            # Servers and kernels start in numbers; each would compile the same thousands of files again.
            "PYTHONDONTWRITEBYTECODE": "",
            **(environment or {}),
        }
        port = _free_port()
        log = folder / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                app.command(port), cwd=folder / "work", env=variables, stdout=out, stderr=subprocess.STDOUT
            )
        try:
            host = Host(app, f"http://127.0.0.1:{port}/", process, folder / "work")
            _wait(host, log)
            yield host
        finally:
            _end(process)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait(host: Host, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and host.process.poll() is None:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(host.url + "api", timeout=5).close()
            return
        time.sleep(0.1)
    last = log.read_text(encoding="utf-8", errors="replace")[-2000:]
    raise RuntimeError(f"{host.app.name} did not start within {START_SECONDS} s. The end of its log:\n{last}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the server and what it started; a kernel that outlives its server is ended as well."""
    started = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    process.terminate()
    _, alive = psutil.wait_procs(started, timeout=10)
    for each in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait()
