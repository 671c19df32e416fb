#!/bin/sh
# Prints every Python 3.13, 3.12 and 3.11 that starts, newest first, one path a line: those on PATH,
# then those that pyenv keeps (its shims answer on PATH even when they lead nowhere, hence the trial start).
for minor in 13 12 11; do
    for candidate in "python3.$minor" python3 python "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor".*/bin/python; do
        path=$(command -v "$candidate") || continue
        found=$("$path" -c 'import sys, venv; print(*sys.version_info[:2], sep=".")' 2>/dev/null) || continue
        if [ "$found" = "3.$minor" ]; then
            "$path" -c 'import sys; print(sys.executable)'
            break
        fi
    done
done
