"""Players: one Python and one JavaScript file for each scene, on a shared kit."""

from __future__ import annotations

from pulsewarp.widgets.systolic import SystolicPlayer

__all__ = ["SystolicPlayer"]
