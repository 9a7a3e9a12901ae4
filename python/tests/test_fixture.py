"""The fixture, under pytest: `cupeer run --sim -- python3 -m pytest -p cupeer.pytest_plugin test_fixture.py`."""

from driver import MAP_FAILED, SUCCESS, exported


def test_a_plan_holds_for_its_test(cupeer_inject):
    plan = cupeer_inject("cuIpcGetMemHandle:error=MAP_FAILED")
    assert exported() == MAP_FAILED
    assert plan.fired == 1


def test_a_plan_holds_for_its_block(cupeer_inject):
    with cupeer_inject("cuIpcGetMemHandle:error=MAP_FAILED") as plan:
        assert exported() == MAP_FAILED
    assert (exported(), plan.fired, plan.is_armed) == (SUCCESS, 1, False)
    outer = cupeer_inject("cuIpcGetMemHandle:error=MAP_FAILED")
    with outer:
        try:
            with outer:
                raise AssertionError("it is within its own block")
        except RuntimeError:
            pass
        assert exported() == MAP_FAILED
    assert exported() == SUCCESS


def test_and_not_for_the_next(cupeer_inject):
    assert exported() == SUCCESS
