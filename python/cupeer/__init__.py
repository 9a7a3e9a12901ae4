"""Make CUDA calls fail for one block of a Python test, receive findings, and mark points in time in a recording.

The functions of this module are those of libcupeer.so, which ``cupeer run PROGRAM`` preloads::

    import cupeer

    with cupeer.inject("cuIpcOpenMemHandle*:error=MAP_FAILED") as plan:
        share_a_tensor()          # every open of a handle fails
    assert plan.fired > 0         # or nothing was tested

The module also works if the library is not loaded: :func:`is_loaded` returns False, :func:`mark` and
:func:`on_finding` return False, :func:`release` returns 0, and :func:`inject` raises :class:`NotLoaded`.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import re
from typing import Any, Callable, List, Optional, Tuple

from cupeer._findings import Finding, listen

__all__ = [
    "Finding",
    "NotLoaded",
    "Plan",
    "PlanError",
    "Plans",
    "inject",
    "is_loaded",
    "mark",
    "on_finding",
    "release",
    "version",
]
__version__ = "0.1.0"

# The largest size of the reason why a plan is not valid, in bytes.
_MESSAGE_SIZE = 4096


class NotLoaded(RuntimeError):
    """libcupeer.so is not loaded into this process, or is too old for fault plans."""


class PlanError(ValueError):
    """A plan is not valid.

    ``line`` and ``column`` are the position of the error, counted from 1; ``column`` is None if the plan as a whole is
    not valid.
    """

    def __init__(self, message: str, column: Optional[int] = None, line: int = 1) -> None:
        super().__init__(message)
        self.column = column
        self.line = line

    @classmethod
    def _of(cls, reason: str) -> PlanError:
        place = re.match(r"(?:line (\d+), )?column (\d+): ", reason)
        if place is None:
            return cls(reason)
        return cls(reason, int(place[2]), int(place[1] or 1))


def _find(name: str, result: Any, *arguments: Any) -> Any:
    """Returns a function of the preloaded library, or None.

    The lookup uses the scope of the whole process, so that it never loads a copy of the library that is not preloaded.
    """
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError):
        return None
    function.restype = result
    function.argtypes = arguments
    return function


_COUNT = ctypes.POINTER(ctypes.c_uint64)
_version = _find("cupeer_version", ctypes.c_char_p)
_mark = _find("cupeer_mark", ctypes.c_int, ctypes.c_char_p)
_arm = _find("cupeer_arm", ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
_disarm = _find("cupeer_disarm", ctypes.c_int, ctypes.c_int, _COUNT, _COUNT)
_counts = _find("cupeer_counts", ctypes.c_int, ctypes.c_int, _COUNT, _COUNT)
_release = _find("cupeer_release", ctypes.c_int, ctypes.c_char_p)
_on_finding = _find("cupeer_on_finding", ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def is_loaded() -> bool:
    """Returns True if libcupeer.so is loaded into this process."""
    return _version is not None


def version() -> Optional[str]:
    """Returns the version of libcupeer.so, such as ``"0.1.0"``, or None if it is not loaded."""
    return None if _version is None else _version().decode()


def mark(text: str) -> bool:
    """Writes a text into the log and the recording, to mark a point in time, and for faults with ``mark=``.

    Returns True if it was written to either::

        cupeer.mark("epoch 1")
    """
    return _mark is not None and _mark(_text(text)) == 1


def release(label: str = "hang") -> int:
    """Releases calls of this process that hang under a label (``hang=LABEL``), now and later, by faults that are armed now.

    Returns the number of calls that hang under the label.
    """
    return 0 if _release is None else max(0, _release(_text(label)))


def on_finding(listener: Optional[Callable[[Finding], None]]) -> bool:
    """Calls ``listener`` with each :class:`Finding` of this process from now on. It replaces the previous listener; None
    removes it.

    The listener receives the first ten findings per rule and caller. Setting the same listener again, as at the start of
    each test, starts new counts. It is called in the thread that broke the rule, which waits for the GIL. A forked child
    calls its own copy of the listener.

    Returns True if rules are checked. If they are not (``cupeer run --check=off``), the listener is never called::

        cupeer.on_finding(lambda finding: print(finding.rule, finding.message))
    """
    return _on_finding is not None and listen(_on_finding, listener)


if _on_finding is not None:
    # A thread that outlives the interpreter must not call into it.
    atexit.register(on_finding, None)


def inject(rules: str) -> Plan:
    """Returns a fault plan that is armed during its ``with`` block. ``rules`` contains faults as for ``cupeer run
    --inject``, separated by semicolons or newlines.

    Entering the block raises :class:`PlanError` if the plan is not valid, and :class:`NotLoaded` without the library.
    Exceptions of the block itself pass through. The plan is disarmed in any case.
    """
    return Plan(rules)


class Plan(contextlib.AbstractContextManager["Plan"]):
    """Fault plan: see :func:`inject`. An armed plan applies to the whole process and its descendants: children that it forks or
    starts afterwards, and, under ``cupeer run --allow-faults`` or the pytest plugin, those that are already running. Started
    children need the directory of a recording."""

    def __init__(self, rules: str) -> None:
        self.rules = rules
        self._number = 0
        self._is_entered = False
        self._done = (0, 0)

    def arm(self) -> Plan:
        """Arms the plan until :meth:`disarm`, as entering a ``with`` block does. Returns the plan.

        Raises :class:`PlanError` if the plan is not valid, :class:`NotLoaded` without the library, and RuntimeError if
        the plan is already armed.
        """
        if _arm is None or _disarm is None or _counts is None:
            loaded = version()
            raise NotLoaded(
                "libcupeer.so is not loaded; run the program as `cupeer run -- python3 ...`"
                if loaded is None
                else f"libcupeer.so {loaded} knows no fault plans; use a newer one"
            )
        if self._number:
            raise RuntimeError("the plan is already armed")
        if "\0" in self.rules:
            raise PlanError("a plan cannot contain NUL", self.rules.index("\0") + 1)
        message = ctypes.create_string_buffer(_MESSAGE_SIZE)
        number = _arm(_text(self.rules), message, len(message))
        if number <= 0:
            reason = message.value.decode(errors="replace")
            raise PlanError._of(reason or "the plan was not armed")
        self._number = number
        return self

    def disarm(self) -> None:
        """Disarms the plan, and releases the calls that it holds. Does nothing if the plan is not armed."""
        if self._number:
            number, self._number, self._is_entered = self._number, 0, False
            self._done = _ask(_disarm, number) or self._done

    @property
    def is_armed(self) -> bool:
        """True if the plan is armed."""
        return self._number != 0

    @property
    def matched(self) -> int:
        """Number of calls that met the conditions of the faults, in this process and its descendants."""
        return self._so_far()[0]

    @property
    def fired(self) -> int:
        """Number of calls at which the faults fired, in this process and its descendants."""
        return self._so_far()[1]

    def _so_far(self) -> Tuple[int, int]:
        if self._number:
            self._done = _ask(_counts, self._number) or self._done
        return self._done

    def __enter__(self) -> Plan:
        # A plan of the fixture is armed already; a block within its own block is an error.
        if not self._number or self._is_entered:
            self.arm()
        self._is_entered = True
        return self

    def __exit__(self, *raised: object) -> None:
        self.disarm()

    def __repr__(self) -> str:
        matched, fired = self._so_far()
        return f"<cupeer.Plan {self.rules!r} matched={matched} fired={fired}>"


class Plans(contextlib.AbstractContextManager["Plans"]):
    """Arms one plan per call, and disarms all of them at the end of the ``with`` block. A plan can also have a block of
    its own, at whose end it is disarmed::

        with cupeer.Plans() as inject:
            plan = inject("@ipc:delay=5ms")
            with inject("cuIpcOpenMemHandle*:error=MAP_FAILED"):
                share_a_tensor()
    """

    def __init__(self) -> None:
        self._armed: List[Plan] = []

    def __call__(self, rules: str) -> Plan:
        plan = Plan(rules).arm()
        self._armed.append(plan)
        return plan

    def __exit__(self, *raised: object) -> None:
        while self._armed:
            self._armed.pop().disarm()


def _ask(function: Any, number: int) -> Optional[Tuple[int, int]]:
    matched, fired = ctypes.c_uint64(), ctypes.c_uint64()
    if function(number, ctypes.byref(matched), ctypes.byref(fired)) != 1:
        return None
    return matched.value, fired.value


def _text(text: str) -> bytes:
    return text.encode(errors="replace")
