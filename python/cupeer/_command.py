"""Finds the command ``cupeer``, and replaces a Python program with it."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from importlib import metadata
from typing import Iterator, NoReturn, Optional, Sequence

MISSING = "the command cupeer is neither installed with this module nor on PATH"
HOW_TO_RUN = (
    "libcupeer.so is not loaded; run pytest with --cupeer, or the tests as `cupeer run -- python3 -m pytest`"
)


def find() -> Optional[str]:
    """Returns the command that was installed with this module, or else the one on PATH."""
    return next(_installed(), None) or shutil.which("cupeer")


def become(command: str, arguments: Sequence[str]) -> NoReturn:
    """Replaces this process with the command."""
    # Python ignores these, and whatever it starts would inherit that.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command, ["cupeer", *arguments])


def _installed() -> Iterator[str]:
    own = os.path.dirname(os.path.realpath(__file__))
    for package in metadata.distributions(name="cupeer"):
        # On the path there may be others than the one that this file is from.
        if os.path.realpath(str(package.locate_file("cupeer"))) != own:
            continue
        for file in package.files or ():
            path = os.path.realpath(str(package.locate_file(file)))
            if file.name == "cupeer" and _is_program(path):
                yield path
    # Where pip installs to a --target, it moves the command and does not say so.
    path = os.path.join(os.path.dirname(own), "bin", "cupeer")
    if _is_program(path):
        yield path


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
