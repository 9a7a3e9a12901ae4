"""``pytest --cupeer``: starts the tests under ``cupeer run``, and skips or fails the tests that need the library
without it."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from typing import Any, Callable, Iterator, List

import pytest

import cupeer
from cupeer import _command

# Lets processes take plans that are armed while they are running: a pool of workers is often older than the test.
_ALLOW = "CUPEER_ALLOW_FAULTS"
# Set for the process that `cupeer run` starts, so that it never starts itself once more.
_STARTED = "PYTEST_CUPEER_STARTED"

_is_started = False


def _options(text: str) -> List[str]:
    try:
        options = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    if options and not options[0].startswith("-"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an option of 'cupeer run'; write a plain --cupeer after the tests or before another option"
        )
    return options


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cupeer", "cupeer: calls of the CUDA driver that share memory")
    group.addoption(
        "--cupeer",
        metavar="OPTIONS",
        nargs="?",
        const="",
        type=_options,
        help="run the tests under 'cupeer run OPTIONS', as in --cupeer='--sim --check'; it is an error if that is not possible",
    )
    group.addoption(
        "--cupeer-skip-missing",
        action="store_true",
        help="with --cupeer: if the library cannot be loaded, skip the tests that need it",
    )


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    """Before pytest captures output and imports what may call CUDA."""
    known = early_config.known_args_namespace
    global _is_started
    _is_started = os.environ.pop(_STARTED, None) is not None
    if cupeer.is_loaded() or known.cupeer is not None:
        os.environ.setdefault(_ALLOW, "1")
    if known.cupeer is not None and not cupeer.is_loaded():
        problem = _start(known.cupeer)
        if not known.cupeer_skip_missing:
            raise pytest.UsageError(f"--cupeer: {problem}; --cupeer-skip-missing skips the tests that need it")
    yield


def _start(options: List[str]) -> str:
    """Starts this program again under the command. Returns the reason if that is not possible."""
    if _is_started:
        return "libcupeer.so is not loaded, although 'cupeer run' started this process"
    if "PYTEST_XDIST_WORKER" in os.environ:
        return "libcupeer.so is not loaded into this worker"
    command = _command.find()
    if command is None:
        return _command.MISSING
    os.environ[_STARTED] = "1"
    _command.become(command, ["run", *options, "--", sys.executable, *_own_arguments()])


def _own_arguments() -> List[str]:
    if sys.version_info >= (3, 10):
        return sys.orig_argv[1:]
    module = ["-m", "pytest"] if os.path.basename(sys.argv[0]) == "__main__.py" else sys.argv[:1]
    return [*module, *sys.argv[1:]]


def pytest_report_header(config: pytest.Config) -> List[str]:
    options = config.getoption("--cupeer")
    if not cupeer.is_loaded():
        return [] if options is None else ["cupeer: libcupeer.so is not loaded; tests that need it are skipped"]
    unused = f"; it was loaded before pytest, so {shlex.join(options)} has no effect" if options and not _is_started else ""
    return [f"cupeer: libcupeer.so {cupeer.version()}{unused}"]


def without_library(config: pytest.Config) -> Callable[[str], Any]:
    """Returns how to end a test that needs the library if it is not loaded: fail or skip."""
    must = config.getoption("--cupeer") is not None and not config.getoption("--cupeer-skip-missing")
    return pytest.fail if must else pytest.skip
