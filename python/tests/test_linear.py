"""Files that the plugin reads for the processes of tests: run by `tests/inject/pytest.rs`, which counts nothing but passes."""

import os
import subprocess

import pytest

from cupeer import _command, _pytest_watch


def _read(directory, monkeypatch, tests):
    """Returns how many files are given to `cupeer report`, by that many tests that start two processes each."""
    directory.mkdir()
    monkeypatch.setenv("CUPEER_OUT", str(directory))
    (directory / "job").touch()
    # This process is running: its file is read for each test.
    (directory / f"f00-1-{os.getpid()}-1.cupeer").touch()
    given = []

    def report(command, **_):
        given.append(len(os.listdir(command[2])))
        return subprocess.CompletedProcess(command, 1, b"", b"")

    monkeypatch.setattr(_command, "find", lambda: "cupeer")
    monkeypatch.setattr(_pytest_watch.subprocess, "run", report)
    watch = _pytest_watch._Watch()
    for test in range(tests):
        peers = _pytest_watch._Peers(f"test_{test}", watch._recording)
        peers.take()
        for number in range(2):
            # No process has such a number.
            (directory / f"f00-1-{1 << 23 | test << 1 | number}-1.cupeer").touch()
            peers.take()
        peers.take()
    return sum(given)


@pytest.mark.parametrize("tests", [300, 600])
def test_reads_grow_with_the_number_of_tests(tmp_path, monkeypatch, tests):
    # For each test, twice both of its files and once the first alone; and each time, the two that are always there.
    assert _read(tmp_path / "record", monkeypatch, tests) == tests * (2 + 2 + 1 + 3 * 2)
