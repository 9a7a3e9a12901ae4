"""The fixture ``cupeer_inject`` for pytest, which finds it by itself if this package is installed::

    def test_falls_back(cupeer_inject):
        plan = cupeer_inject("cuIpcOpenMemHandle*:error=MAP_FAILED")
        assert share_a_tensor() == "through the host"
        assert plan.fired > 0

Every plan that a test arms is disarmed at its end. Without libcupeer.so the test is skipped.
"""

from __future__ import annotations

from typing import Callable, Iterator

import cupeer

HOW_TO_RUN = "libcupeer.so is not loaded; run the tests as `cupeer run -- python3 -m pytest`"


def plans(skip: Callable[[str], object]) -> Iterator[cupeer.Plans]:
    """What the fixture does: yields what arms plans, and disarms all of them. Calls ``skip`` with the reason if the
    library is not loaded."""
    if not cupeer.is_loaded():
        skip(HOW_TO_RUN)
    with cupeer.Plans() as inject:
        yield inject


try:
    import pytest
except ImportError:
    # This file is imported without pytest.
    pass
else:

    @pytest.fixture
    def cupeer_inject() -> Iterator[cupeer.Plans]:
        """Arms fault plans for one test: call it with rules as ``cupeer run --inject`` takes them."""
        yield from plans(pytest.skip)
