"""The fixture ``cupeer_inject`` for pytest, which finds it by itself where this package is installed::

    def test_falls_back(cupeer_inject):
        plan = cupeer_inject("cuIpcOpenMemHandle*:error=MAP_FAILED")
        assert share_a_tensor() == "through the host"
        assert plan.fired > 0

All that a test arms is taken back at its end. Without libcupeer.so the test is skipped.
"""

from __future__ import annotations

from typing import Callable, Iterator

import cupeer

HOW_TO_RUN = "libcupeer.so is not loaded; run the tests as `cupeer run -- python3 -m pytest`"


def plans(skip: Callable[[str], object]) -> Iterator[cupeer.Plans]:
    """What the fixture does: gives what arms plans, and takes back all of them. Calls ``skip`` with the reason where
    that cannot be."""
    if not cupeer.is_loaded():
        skip(HOW_TO_RUN)
    with cupeer.Plans() as inject:
        yield inject


try:
    import pytest
except ImportError:
    # Somebody looks at this file without pytest.
    pass
else:

    @pytest.fixture
    def cupeer_inject() -> Iterator[cupeer.Plans]:
        """Arms fault plans for one test: call it with rules as ``cupeer run --inject`` takes them."""
        yield from plans(pytest.skip)
