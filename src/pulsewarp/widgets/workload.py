"""A form for a workload, and the report on it; it knows no guide and decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from pulsewarp._checks import names_keywords
from pulsewarp.widgets._player import Answering


class WorkloadForm(Answering):
    """Fields in groups, a button that asks, and the report that is handed over for them.

    :func:`pulsewarp.lesson.own_workload` makes these and answers the request ``"advise"``, which holds
    ``values``: the text of every field by its name. The answer is a report, or ``error`` (one sentence) with
    ``field``. Nothing typed stays in the widget: once the answer is shown, `request` and `reply` are emptied,
    so that a saved notebook holds neither.

    Synced traits: ``groups`` -> browser (``title``, ``open`` and the ``fields`` of each), ``examples`` ->
    browser (``label``, ``values`` and, on a page without a kernel, the ``report``), ``report`` -> browser
    (the one shown at first, empty for none), ``task`` -> browser; ``request`` <- browser, ``reply`` ->
    browser.

    Parameters
    ----------
    groups : sequence of mapping
        What is asked, group by group.
    examples : sequence of mapping
        What the reader may start from.
    report : mapping, optional
        Shown at first.
    task : str
        What the reader is asked to do, one sentence.

    Examples
    --------
    >>> from pulsewarp import widgets
    >>> field = {"name": "chips", "label": "Chips", "kind": "number", "value": ""}
    >>> widgets.WorkloadForm([{"title": "Size", "open": True, "fields": [field]}], [])
    WorkloadForm(1 field)
    """

    _scene = "workload.js"

    groups = traitlets.List(traitlets.Dict()).tag(sync=True)
    examples = traitlets.List(traitlets.Dict()).tag(sync=True)
    report = traitlets.Dict().tag(sync=True)
    task = traitlets.Unicode().tag(sync=True)

    @names_keywords
    def __init__(
        self,
        groups: Sequence[Mapping[str, Any]],
        examples: Sequence[Mapping[str, Any]],
        *,
        report: Mapping[str, Any] | None = None,
        task: str = "",
    ) -> None:
        super().__init__(
            groups=[dict(group) for group in groups],
            examples=[dict(example) for example in examples],
            report=dict(report or {}),
            task=task,
        )

    def __repr__(self) -> str:
        count = sum(len(group["fields"]) for group in self.groups)
        return f"{type(self).__name__}({count} field{'' if count == 1 else 's'})"

    def _page_state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("groups", "examples", "report", "task")}
