"""Assigns findings to tests: in their reports, in the summary, and with ``@pytest.mark.cupeer`` as their failures."""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from types import FrameType
from typing import Any, Dict, Generator, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

import pytest

import cupeer
from cupeer import _command
from cupeer._pytest_start import without_library

MARKER = (
    "cupeer(error_on=RULES): the test fails when it breaks one of these rules: names or patterns of 'cupeer list rules'; "
    "without error_on, when it breaks a rule whose severity is error; the processes that it starts count"
)
UNCHECKED = "rules are not checked in this process (--check=off, or --record off), so the test cannot fail by them"
NO_TEST = "outside of tests"
NOTHING_RAN = "no test called the CUDA driver, so cupeer checked nothing"
# The environment variable with the name of the test, which the processes that it starts inherit.
_TEST = "CUPEER_TEST"
# The beginnings of the names of files that all processes share: the job, open handles, and counts of fault plans.
_SHARED = ("job", "live-", "faults-")
# Two changes of a directory within so many nanoseconds may have the same time.
_COARSE = 20_000_000


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    config.pluginmanager.register(_Watch(), "cupeer-watch")


class _Recording:
    """The files of the recording. None is read again for a later test, unless its process is still running."""

    def __init__(self) -> None:
        self._known: Set[str] = set()
        self._running: Set[str] = set()
        # When each directory was last changed, as of its last listing.
        self._listed: Dict[str, int] = {}

    def new(self) -> Set[str]:
        """Returns the files that are new since the last call."""
        found: Set[str] = set()
        directories = [_directory(), *self._listed]
        for path in directories:
            try:
                changed = os.stat(path).st_mtime_ns
                if self._listed.get(path) == changed:
                    continue
                with os.scandir(path) as entries:
                    for entry in entries:
                        if entry.name.endswith(".cupeer"):
                            found.add(entry.path)
                        elif entry.path not in self._listed and entry.is_dir(follow_symlinks=False):
                            directories.append(entry.path)
            except OSError:
                continue
            # The clock of files is coarse: another change may get the same time.
            self._listed[path] = changed if time.time_ns() - changed > _COARSE else 0
        found -= self._known
        self._known |= found
        self._running |= found
        return found

    def report(self, files: Set[str], arguments: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
        """Reports on some files, on those of running processes, and on what all processes share."""
        self._running = {file for file in self._running if _is_running(file)}
        shared = [entry.path for entry in os.scandir(_directory()) if entry.name.startswith(_SHARED) and entry.is_file()]
        with tempfile.TemporaryDirectory(prefix="cupeer-") as place:
            for file in files.union(self._running, shared):
                _link(file, os.path.join(place, os.path.basename(file)))
            return subprocess.run([_command.find() or "cupeer", "report", place, *arguments], capture_output=True)


class _Peers:
    """Findings of the processes that one test starts, from the recording."""

    def __init__(self, test: str, recording: _Recording) -> None:
        self._test = test
        self._recording = recording
        self._files: Set[str] = set()
        self._told: Set[Tuple[str, ...]] = set()
        recording.new()

    def take(self) -> List[Dict[str, str]]:
        """Returns the findings that are new since the last call."""
        self._files |= self._recording.new()
        if _command.find() is None or not self._files:
            return []
        done = self._recording.report(self._files, ["--process", f"{_TEST}={self._test}", "--format", "json"])
        # If no process of the test called the driver, this is an error.
        report = json.loads(done.stdout) if done.returncode == 0 else {"processes": [], "findings": []}
        peers = {process["proc"]: process for process in report["processes"] if process["pid"] != os.getpid()}
        found = []
        for finding in report["findings"]:
            whose = [peers[proc] for proc in finding["procs"] if proc in peers]
            key = (finding["rule"], finding["function"], finding["message"], *(peer["proc"] for peer in whose))
            if whose and key not in self._told and not finding["suppressed_by"]:
                self._told.add(key)
                where = ", ".join(_called(peer) for peer in whose)
                message = f"{finding['message']} (in {where})"
                told = {key: finding[key] for key in ("rule", "severity", "function", "hint")}
                caller = finding["caller"]
                line = caller.get("python") or next(iter(caller.get("lines", ())), None)
                found.append({**told, "message": message, "place": _place(line)})
        return found


def _directory() -> str:
    return os.environ.get("CUPEER_OUT", "").replace("%h", os.uname().nodename)


def _recorded() -> Set[str]:
    """Returns the files of the recording, one for each process that called the driver."""
    files = (os.path.join(path, file) for path, _, files in os.walk(_directory()) for file in files)
    return {file for file in files if file.endswith(".cupeer")}


def _is_running(file: str) -> bool:
    """Decides by the name of a file: boot, pid namespace, pid, and start of its process."""
    parts = os.path.basename(file).split("-")
    return len(parts) < 4 or os.path.exists(f"/proc/{parts[2]}")


def _link(file: str, place: str) -> None:
    """Links a file, or copies it if the place is on another file system."""
    try:
        os.link(file, place)
    except OSError:
        # A process that stops before it has recorded anything removes its file.
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(file, place)


def _called(process: Dict[str, Any]) -> str:
    return f"process {process['pid']}" if process["rank"] is None else f"rank {process['rank']}"


class _Watch:
    """Findings by test: those of this process as they happen, those of processes that the test starts from the recording."""

    def __init__(self) -> None:
        # Appended to by any thread.
        self._heard: List[Dict[str, str]] = []
        # The file of the test that runs.
        self._file = ""
        self._is_checked = False
        self._recording = _Recording()
        self._peers: Optional[_Peers] = None
        # How many tests were skipped because the library is not loaded.
        self._skipped = 0
        # What the reports of all tests say, also of those that pytest-xdist ran elsewhere.
        self._told: List[Tuple[str, Dict[str, str]]] = []

    def _listen(self) -> None:
        """Starts new counts: otherwise, only the first ten tests that break a rule at one line would receive it."""
        self._is_checked = cupeer.on_finding(self._hear)

    def _hear(self, finding: cupeer.Finding) -> None:
        """Notes a finding, in the thread that made the call, with the innermost line of the test's own file."""
        about = json.loads(finding.json or "{}")
        made = _place(about.get("python"))
        frame: Optional[FrameType] = sys._getframe()
        while frame is not None and frame.f_code.co_filename != self._file:
            frame = frame.f_back
        own = frame and {"file": self._file, "line": frame.f_lineno, "function": frame.f_code.co_name}
        place = _place(own) or made
        through = "" if made in (place, "") else f" (through {made.split(' in ')[0]})"
        self._heard.append({**finding._asdict(), "place": place + through})

    def _take(self) -> List[Dict[str, str]]:
        taken, self._heard[:] = self._heard[:], []
        return taken

    def pytest_sessionstart(self) -> None:
        self._listen()

    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        patterns = {pattern for item in items for pattern in _error_on(item) or ()}
        if patterns and cupeer.is_loaded():
            _check_patterns(patterns)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._tell(NO_TEST, self._take())
        self._listen()
        outer = os.environ.get(_TEST)
        os.environ[_TEST] = item.nodeid
        self._file = str(getattr(item, "path", None) or item.fspath)
        self._peers = _Peers(item.nodeid, self._recording) if cupeer.is_loaded() else None
        yield
        self._peers = None
        del os.environ[_TEST]
        if outer is not None:
            os.environ[_TEST] = outer

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if item.get_closest_marker("cupeer") is None:
            return
        if not cupeer.is_loaded():
            without_library(item.config)(_command.HOW_TO_RUN)
        if not self._is_checked:
            pytest.fail(f"cupeer: {UNCHECKED}", pytrace=False)

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
        """After each phase: setup, call and teardown."""
        found = self._take()
        found += self._peers.take() if self._peers is not None else []
        broken = [finding for finding in found if _is_error(finding, _error_on(item))]
        if broken and call.excinfo is None:
            # As if the test had raised it, so that xfail and others judge it as they do that.
            lines = "\n".join(f"  {_line(finding)}" for finding in broken)
            call.excinfo = _raised(f"cupeer: the test broke rules that it must not break\n{lines}")
        outcome = yield
        report: Any = outcome.get_result()
        if found:
            report.sections.append((f"cupeer {report.when}", "\n".join(_paragraph(finding) for finding in found)))
            # Plain values, which pytest-xdist passes on.
            report.cupeer_findings = found

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._skipped += report.skipped and _command.HOW_TO_RUN in str(report.longrepr)
        for finding in getattr(report, "cupeer_findings", ()):
            self._told.append((report.nodeid, finding))

    def _tell(self, where: str, found: Iterable[Dict[str, str]]) -> None:
        self._told.extend((where, finding) for finding in found)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        self._tell(NO_TEST, self._take())
        # Each line once, with how often it came.
        lines: Dict[str, int] = {}
        for where, finding in self._told:
            if finding["severity"] != "note":
                line = f"{where}: {_line(finding)}"
                lines[line] = lines.get(line, 0) + 1
        if lines:
            terminalreporter.section("cupeer: broken rules")
            for line, times in lines.items():
                terminalreporter.line(line + (f" ({times} times)" if times > 1 else ""))
        if self._skipped:
            tests = "1 test was" if self._skipped == 1 else f"{self._skipped} tests were"
            terminalreporter.line(f"cupeer: {tests} skipped: {_command.HOW_TO_RUN}")
        elif cupeer.is_loaded() and os.environ.get("CUPEER_RECORD") != "off" and "%" not in _directory() and not _recorded():
            terminalreporter.line(f"cupeer: {NOTHING_RAN}")

    def pytest_unconfigure(self) -> None:
        cupeer.on_finding(None)


def _place(line: Optional[Dict[str, Any]]) -> str:
    """Returns a line of source as editors open it: ``tests/test_share.py:20 in exchange``."""
    if not line or not line["line"]:
        return ""
    file = os.path.relpath(line["file"]) if line["file"].startswith(os.getcwd() + os.sep) else line["file"]
    function = f" in {line['function']}" if line["function"] else ""
    return f"{file}:{line['line']}{function}"


def _line(finding: Dict[str, Any]) -> str:
    place = f" [{finding['place']}]" if finding["place"] else ""
    return "{severity} {rule}: {function}: {message}".format(**finding) + place


def _paragraph(finding: Dict[str, Any]) -> str:
    return f"{_line(finding)}\n    hint: {finding['hint']}"


def _raised(text: str) -> Any:
    try:
        pytest.fail(text, pytrace=False)
    except BaseException:
        return pytest.ExceptionInfo.from_current()


def _error_on(item: pytest.Item) -> Optional[Sequence[str]]:
    """Returns the patterns of a test's mark: empty if only the severity counts, None without a mark."""
    mark = item.get_closest_marker("cupeer")
    if mark is None:
        return None
    unknown = set(mark.kwargs) - {"error_on"}
    rules = mark.kwargs.get("error_on", ())
    if mark.args or unknown or isinstance(rules, str) or not all(isinstance(rule, str) for rule in rules):
        raise pytest.UsageError(f"{item.nodeid}: write @pytest.mark.cupeer(error_on=[\"RULE\", ...])")
    return tuple(rules)


def _is_error(finding: Dict[str, Any], error_on: Optional[Sequence[str]]) -> bool:
    """Decides whether a finding fails its test: by the mark, or by --error-on, whose findings alone are then errors."""
    if error_on and any(fnmatch.fnmatchcase(finding["rule"], pattern) for pattern in error_on):
        return True
    is_asked = error_on == () or bool(os.environ.get("CUPEER_ERROR_ON"))
    return is_asked and finding["severity"] == "error"


def _check_patterns(patterns: Iterable[str]) -> None:
    """Refuses a pattern that matches no rule, because the test could never fail."""
    command = _command.find()
    if command is None:
        return
    listed = subprocess.run([command, "list", "rules", "--format", "json"], stdout=subprocess.PIPE, check=True)
    rules = [rule["rule"] for rule in json.loads(listed.stdout)]
    for pattern in sorted(patterns):
        if not fnmatch.filter(rules, pattern):
            raise pytest.UsageError(f"@pytest.mark.cupeer: error_on has '{pattern}', which matches no rule; see 'cupeer list rules'")
