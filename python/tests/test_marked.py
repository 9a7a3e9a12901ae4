"""Tests that break a rule, some of which fail by it: run by `tests/inject/pytest.rs`, with how each must end."""

import pytest

from driver import INVALID_VALUE, opened_wrongly


def test_without_a_mark_passes():
    assert opened_wrongly() == INVALID_VALUE


@pytest.mark.cupeer(error_on=["ipc-closed-twice", "ipc-flags"])
def test_of_the_rule_fails():
    assert opened_wrongly() == INVALID_VALUE


@pytest.mark.cupeer(error_on=["ipc-fl*"])
def test_of_the_pattern_fails():
    assert opened_wrongly() == INVALID_VALUE


@pytest.mark.cupeer
def test_of_the_severity_fails():
    assert opened_wrongly() == INVALID_VALUE


@pytest.mark.cupeer(error_on=["ipc-flags"])
def test_that_breaks_nothing_passes():
    pass


@pytest.mark.cupeer(error_on=["peer-*"])
def test_of_other_rules_passes():
    assert opened_wrongly() == INVALID_VALUE


@pytest.mark.xfail(strict=True)
@pytest.mark.cupeer(error_on=["ipc-flags"])
def test_that_shall_fail_xfails():
    assert opened_wrongly() == INVALID_VALUE


@pytest.fixture
def shared():
    opened_wrongly()


@pytest.fixture
def shared_at_the_end():
    yield
    opened_wrongly()


@pytest.mark.cupeer(error_on=["ipc-flags"])
def test_whose_fixture_breaks_it_errs(shared):
    pass


@pytest.mark.cupeer(error_on=["ipc-flags"])
def test_whose_fixture_breaks_it_later_errs(shared_at_the_end):
    pass


@pytest.mark.cupeer(error_on=["ipc-flags"])
@pytest.mark.parametrize("_time", range(12))
def test_again_fails(_time):
    assert opened_wrongly() == INVALID_VALUE
