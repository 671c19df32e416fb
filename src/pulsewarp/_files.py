"""Reading and writing files so that nothing saved is ever lost or half written."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any


def write_text_atomically(path: str | os.PathLike[str], text: str) -> Path:
    """Write `text` to a temporary file beside `path`, then rename it over `path`.

    A full disk or an interrupt leaves the earlier file as it was. A link is followed. What is there and is no
    file, such as ``/dev/stdout`` or a pipe, is written into: a rename would put a file in a device's place.

    Returns
    -------
    Path
        The path written.

    Raises
    ------
    OSError
        When the folder does not exist or cannot be written; the earlier file is untouched.
    """
    named = _file(path)
    if named.exists() and not named.is_file():
        named.write_text(text, encoding="utf-8")
        return named
    target = named.resolve()
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)  # mkstemp gives 0600; a saved run is an ordinary file
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return named


def _file(path: str | os.PathLike[str]) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path is {path!r}, but must be a file's path, such as 'runs.json'.")
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path or '.'} is a folder; name a file in it.")
    return Path(path)


def read_json(
    path: str | os.PathLike[str], form: str, *, earlier: tuple[str, ...] = (), form_required: bool = True
) -> dict[str, Any]:
    """Read a JSON object whose `"form"` field is `form`, or missing where a hand-written file may omit it.

    The forms in `earlier` are let through too; the caller brings them up to date.

    Raises
    ------
    ValueError
        When the file is not JSON, not an object, or an object of another form: one sentence
        with the path and what was expected.
    """
    try:
        data = json.loads(_file(path).read_text(encoding="utf-8-sig"))  # some editors write a mark before it
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply for JSON of the form {form!r}.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file; expected JSON of the form {form!r}.") from error
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path} is not valid JSON (line {error.lineno}, column {error.colno}: {error.msg}); "
            f"it may have been cut short. Expected the form {form!r}."
        ) from error
    taken = (form, *earlier)
    if not isinstance(data, dict) or data.get("form", None if form_required else form) not in taken:
        found = data.get("form", "no form field") if isinstance(data, dict) else type(data).__name__
        raise ValueError(f"{path} holds {found!r}, not {form!r}; was it written by another program?")
    return data
