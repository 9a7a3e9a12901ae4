"""Findings of this process, received from libcupeer.so."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, NamedTuple, Optional

_TEXTS = ("rule", "severity", "confidence", "function", "message", "hint", "json")


class Finding(NamedTuple):
    """Finding of a rule in a call."""

    rule: str
    """Name of the rule, such as ``ipc-flags``; ``cupeer explain RULE`` describes it."""
    severity: str
    """Severity: ``error``, ``warning``, or ``note``."""
    confidence: str
    """Certainty: ``certain``, ``stale`` (it follows from the data of a process that ended), or ``inferred``."""
    function: str
    """Name of the driver's function."""
    result: int
    """Result that the function returned (a CUresult)."""
    message: str
    """Sentence that states the error, with its values."""
    hint: str
    """Action that fixes the error."""
    json: str
    """Finding as a JSON object, with the arguments of the call and the objects that it is about."""


class _Finding(ctypes.Structure):
    """``cupeer_finding`` of cupeer.h."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("rule", ctypes.c_char_p),
        ("severity", ctypes.c_char_p),
        ("confidence", ctypes.c_char_p),
        ("function", ctypes.c_char_p),
        ("result", ctypes.c_int),
        ("message", ctypes.c_char_p),
        ("hint", ctypes.c_char_p),
        ("json", ctypes.c_char_p),
    ]


Listener = Callable[[Finding], None]
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Finding), ctypes.c_void_p)
_listener: Optional[Listener] = None


def _hear(found: Any, _data: Any) -> None:
    listener = _listener
    if listener is not None:
        found = found.contents
        texts = {name: (getattr(found, name) or b"").decode(errors="replace") for name in _TEXTS}
        listener(Finding(result=found.result, **texts))


# One for all listeners, never freed: a thread may be about to call it after it was replaced.
_hear_c = _CALLBACK(_hear)


def listen(register: Any, listener: Optional[Listener]) -> bool:
    """Passes further findings to a listener, or to none, by ``cupeer_on_finding``."""
    global _listener
    _listener = listener
    given = ctypes.cast(_hear_c, ctypes.c_void_p) if listener else None
    checks: int = register(given, None)
    return checks == 1
