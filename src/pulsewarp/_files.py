"""Reading and writing files so that nothing saved is ever lost or half written."""

from __future__ import annotations

import functools
import json
import os
import tempfile
from pathlib import Path
from typing import Any

YAML_ENDINGS = (".yaml", ".yml")
_KINDS = {"sequence": "a list", "mapping": "a table", "scalar": "a single word"}
_NOTHING = ("", "~", "null", "Null", "NULL")


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


def _once_each(path: str | os.PathLike[str], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object; a name given twice says two things, of which one would be dropped in silence."""
    data = dict(pairs)
    if len(data) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{path}: {twice!r} is given twice; keep one.")
    return data


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
        text = _file(path).read_text(encoding="utf-8-sig")  # some editors write a mark before it
        data = json.loads(text, object_pairs_hook=functools.partial(_once_each, path))
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


def read_yaml_fields(
    path: str | os.PathLike[str], example: str
) -> tuple[dict[str, str | None], dict[str, int]]:
    """Read a file of ``name: value`` lines.

    Values are kept as the text that stands there: YAML's own guesses, by which ``no`` is false and a date is
    an object, are not made. No tag is obeyed and no object is made.

    Parameters
    ----------
    path : str or path
        The file.
    example : str
        A line such as the file should hold, for the sentence that refuses it.

    Returns
    -------
    dict
        Field to text, None where nothing or ``null`` stands there.
    dict
        Field to line, from 1.

    Raises
    ------
    ImportError
        When PyYAML is not installed.
    ValueError
        When the file is not YAML, or anything but plain fields, each given once.
    """
    root = _compose(path)
    if root is None or root.id != "mapping":
        kind = "nothing" if root is None else _KINDS[root.id]
        raise ValueError(f"{path} holds {kind}, but must hold fields, one a line, such as '{example}'.")
    fields: dict[str, str | None] = {}
    lines: dict[str, int] = {}
    for key, value in root.value:
        line = key.start_mark.line + 1
        for node, what in ((key, "a name"), (value, "the value of a field")):
            if node.id != "scalar":
                raise ValueError(
                    f"{path}, line {line}: {what} is {_KINDS[node.id]}, but must be one word or number, "
                    f"such as '{example}'."
                )
        if key.value in fields:
            raise ValueError(
                f"{path}, line {line}: {key.value!r} is given twice, first on line {lines[key.value]}; "
                "remove one of them."
            )
        fields[key.value] = None if value.style is None and value.value in _NOTHING else value.value
        lines[key.value] = line
    return fields, lines


def _compose(path: str | os.PathLike[str]) -> Any:
    try:
        import yaml
    except ImportError:
        raise ImportError(
            f"{path} is YAML, which needs the package PyYAML; run 'pip install pyyaml', or write the same "
            "fields as JSON."
        ) from None
    try:
        return yaml.compose(_file(path).read_text(encoding="utf-8-sig"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file; expected YAML.") from error
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply; expected one field a line.") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
        problem = problem.removeprefix("but ")
        raise ValueError(f"{path}{where} is not valid YAML: {problem}.") from error
