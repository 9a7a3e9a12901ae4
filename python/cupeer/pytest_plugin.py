"""The pytest plugin, which pytest loads if this package is installed: an option that runs the tests under cupeer, a
fixture that makes calls fail, and a mark for tests that must not break rules::

    $ pytest --cupeer=--sim

    def test_falls_back(cupeer_inject):
        plan = cupeer_inject("cuIpcOpenMemHandle*:error=MAP_FAILED")
        assert share_a_tensor() == "through the host"
        assert plan.fired > 0

    def test_recovers(cupeer_inject):
        with cupeer_inject("cuIpcOpenMemHandle*:error=MAP_FAILED"):
            assert share_a_tensor() == "through the host"
        assert share_a_tensor() == "directly"

    @pytest.mark.cupeer(error_on=["ipc-*"])
    def test_shares():
        share_a_tensor()

A plan also applies to the processes that the test starts, and to workers that are already running, but not to other workers of
pytest-xdist. Every plan that a test arms is disarmed at its end. Without libcupeer.so, tests that use the fixture or the mark are skipped; with ``--cupeer`` they
fail, unless ``--cupeer-skip-missing`` is given.
"""

from __future__ import annotations

from typing import Callable, Iterator

import cupeer
from cupeer._command import HOW_TO_RUN


def plans(skip: Callable[[str], object]) -> Iterator[cupeer.Plans]:
    """Implements the fixture: yields a :class:`cupeer.Plans`, and disarms all of its plans. Calls ``skip`` with the
    reason if the library is not loaded."""
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
    from cupeer import _pytest_start
    from cupeer._pytest_start import pytest_addoption, pytest_load_initial_conftests, pytest_report_header
    from cupeer._pytest_watch import pytest_configure

    __all__ = [
        "cupeer_inject",
        "plans",
        "pytest_addoption",
        "pytest_configure",
        "pytest_load_initial_conftests",
        "pytest_report_header",
    ]

    @pytest.fixture
    def cupeer_inject(request: pytest.FixtureRequest) -> Iterator[cupeer.Plans]:
        """Arms fault plans for one test: call it with faults as for ``cupeer run --inject``."""
        yield from plans(_pytest_start.without_library(request.config))
