"""Plans reach the processes that a test starts, under pytest; with pytest-xdist, not those of other workers."""

import multiprocessing
import multiprocessing.pool
import os
import time
from pathlib import Path
from typing import Iterator

import pytest
from driver import INVALID_DEVICE, SUCCESS, can_access

FAILS = "cuDeviceCanAccessPeer:error=INVALID_DEVICE"
# When something that must happen counts as a hang.
PATIENCE = 120

Pool = multiprocessing.pool.Pool


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    """Starts a process that is older than the plans."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(can_access) == SUCCESS
        yield pool


def test_a_plan_reaches_a_spawned_child(cupeer_inject):
    with cupeer_inject(FAILS) as plan:
        with multiprocessing.get_context("spawn").Pool(1) as young:
            assert young.apply(can_access) == INVALID_DEVICE
            assert (plan.matched, plan.fired) == (1, 1)
            assert can_access() == INVALID_DEVICE
            assert plan.fired == 2
        assert plan.fired == 2
    assert (plan.matched, plan.fired, can_access()) == (2, 2, SUCCESS)


@pytest.mark.parametrize("turn", range(3))
def test_a_plan_reaches_a_pool_that_is_older(cupeer_inject, pool, turn):
    assert pool.apply(can_access) == SUCCESS
    plan = cupeer_inject(FAILS)
    assert pool.apply(can_access) == INVALID_DEVICE
    assert plan.fired == 1


def test_it_is_gone_afterwards(pool):
    assert (pool.apply(can_access), can_access()) == (SUCCESS, SUCCESS)


def _wait_for(file: Path) -> None:
    until = time.monotonic() + PATIENCE
    while not file.exists():
        assert time.monotonic() < until, f"waited in vain for {file.name}"
        time.sleep(0.005)


apart = pytest.mark.skipif("PLACE_OF_BOTH" not in os.environ, reason="needs two workers of pytest-xdist")


@apart
@pytest.mark.xdist_group("one")
def test_one_worker_arms_a_plan(cupeer_inject, pool):
    place = Path(os.environ["PLACE_OF_BOTH"])
    plan = cupeer_inject(FAILS)
    (place / "armed").touch()
    _wait_for(place / "called")
    assert plan.fired == 0
    assert (can_access(), pool.apply(can_access), plan.fired) == (INVALID_DEVICE, INVALID_DEVICE, 2)


@apart
@pytest.mark.xdist_group("other")
def test_the_other_worker_does_not_have_it(pool):
    place = Path(os.environ["PLACE_OF_BOTH"])
    _wait_for(place / "armed")
    assert (can_access(), pool.apply(can_access)) == (SUCCESS, SUCCESS)
    (place / "called").touch()
