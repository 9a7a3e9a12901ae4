"""Tests that start processes which break a rule: run by `tests/inject/pytest.rs`, with how each must end."""

import os
import subprocess
import sys

import pytest

BREAKS = [sys.executable, "-c", "import driver; driver.opened_wrongly()"]


def test_without_a_mark_passes():
    subprocess.run(BREAKS, check=True)


@pytest.mark.cupeer(error_on=["ipc-flags"])
def test_whose_process_breaks_it_fails():
    subprocess.run(BREAKS, check=True)


@pytest.mark.cupeer
def test_whose_process_is_started_by_a_shell_fails():
    subprocess.run(["sh", "-c", '"$@"; true', "sh", *BREAKS], check=True)


@pytest.mark.cupeer(error_on=["ipc-flags"])
def test_whose_forked_child_breaks_it_fails():
    child = os.fork()
    if child == 0:
        import driver

        driver.opened_wrongly()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


@pytest.fixture
def started():
    process = subprocess.Popen(["sh", "-c", 'read _; "$@"', "sh", *BREAKS], stdin=subprocess.PIPE)
    yield
    process.communicate(b"\n")


@pytest.mark.cupeer(error_on=["ipc-flags"])
def test_whose_fixture_ends_the_process_errs(started):
    pass


@pytest.mark.cupeer(error_on=["peer-*"])
def test_of_other_rules_passes():
    subprocess.run(BREAKS, check=True)


@pytest.mark.cupeer(error_on=["ipc-flags"])
def test_that_starts_nothing_passes():
    pass
