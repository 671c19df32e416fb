"""Lets the tests of this folder import its stepper and its strategies: tests are no package."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))
