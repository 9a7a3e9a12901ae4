"""Fail CUDA calls on purpose for one block of a Python test, hear of broken rules, and mark places in a program's record.

The functions of this module are those of libcupeer.so, which ``cupeer run PROGRAM`` preloads::

    import cupeer

    with cupeer.inject("cuIpcOpenMemHandle*:error=MAP_FAILED") as plan:
        share_a_tensor()          # every opening of a handle fails
    assert plan.fired > 0         # or nothing was tested

If the library is not loaded, nothing here does any harm: :func:`is_loaded` is False, :func:`mark` and
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

# The most bytes of a reason why a plan is not valid.
_MESSAGE_SIZE = 4096


class NotLoaded(RuntimeError):
    """libcupeer.so is not loaded into this process, or is too old to know fault plans."""


class PlanError(ValueError):
    """A plan is not valid.

    ``line`` and ``column`` say where the mistake is, counted from 1; ``column`` is None if it is the plan as a whole.
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
    """A function of the preloaded library, or None. It is looked up in the scope of the whole process, so that a copy
    of the library that is not preloaded is never loaded."""
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
    """Whether libcupeer.so is loaded into this process."""
    return _version is not None


def version() -> Optional[str]:
    """The version of libcupeer.so, or None if it is not loaded."""
    return None if _version is None else _version().decode()


def mark(text: str) -> bool:
    """Writes a text into the log and the record, to mark this place in them, and for rules with ``mark=``.

    Returns whether it was written to either.
    """
    return _mark is not None and _mark(_text(text)) == 1


def release(label: str = "hang") -> int:
    """Releases calls of this process that hang by ``hang=LABEL``, now and in future, by rules that are armed now.

    Returns how many calls hang there.
    """
    return 0 if _release is None else max(0, _release(_text(label)))


def on_finding(listener: Optional[Callable[[Finding], None]]) -> bool:
    """Calls ``listener`` with each finding of this process from now on; it replaces the previous one, and None removes it.

    Only the first ten findings per rule and caller are told: the same listener given again, as at the start of each
    test, is told of ten more. It is called in the thread that broke the rule, which waits for the GIL. Forked children
    tell their own copy of it.

    Returns whether rules are checked. If they are not (``cupeer run --check=off``), it is never called.
    """
    return _on_finding is not None and listen(_on_finding, listener)


if _on_finding is not None:
    # A thread that outlives the interpreter must not call into it.
    atexit.register(on_finding, None)


def inject(rules: str) -> Plan:
    """A fault plan, armed while its ``with`` block lasts: rules as ``cupeer run --inject`` takes them, separated by
    semicolons or newlines.

    The block raises :class:`PlanError` if they are not valid and :class:`NotLoaded` without the library. What the block
    itself raises is left alone; the plan is disarmed in any case.
    """
    return Plan(rules)


class Plan(contextlib.AbstractContextManager["Plan"]):
    """A fault plan: see :func:`inject`. It is armed in the whole process, and in children that it forks."""

    def __init__(self, rules: str) -> None:
        self.rules = rules
        self._number = 0
        self._done = (0, 0)

    def arm(self) -> Plan:
        """Arms it until :meth:`disarm`, as a ``with`` block does when it begins."""
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
        """Disarms it, and releases calls it holds. Does nothing if it is not armed."""
        if self._number:
            number, self._number = self._number, 0
            self._done = _ask(_disarm, number) or self._done

    @property
    def is_armed(self) -> bool:
        """Whether it is armed now."""
        return self._number != 0

    @property
    def matched(self) -> int:
        """How many calls met the conditions of its rules, in this process and its children."""
        return self._so_far()[0]

    @property
    def fired(self) -> int:
        """At how many calls its rules fired."""
        return self._so_far()[1]

    def _so_far(self) -> Tuple[int, int]:
        if self._number:
            self._done = _ask(_counts, self._number) or self._done
        return self._done

    def __enter__(self) -> Plan:
        return self.arm()

    def __exit__(self, *raised: object) -> None:
        self.disarm()

    def __repr__(self) -> str:
        matched, fired = self._so_far()
        return f"<cupeer.Plan {self.rules!r} matched={matched} fired={fired}>"


class Plans(contextlib.AbstractContextManager["Plans"]):
    """Arms plans one after the other, each by a call with its rules, and disarms all of them at its end::

        with cupeer.Plans() as inject:
            plan = inject("@ipc:delay=5ms")
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
