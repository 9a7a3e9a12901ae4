"""Findings of this process, as libcupeer.so tells them."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, NamedTuple, Optional

_TEXTS = ("rule", "severity", "confidence", "function", "message", "hint", "json")


class Finding(NamedTuple):
    """What a rule found in a call."""

    rule: str
    """The name of the rule, such as ``ipc-flags``: see ``cupeer list rules``."""
    severity: str
    """``error``, ``warning`` or ``note``."""
    confidence: str
    """``certain``, ``stale`` (it rests on what a process that has ended left behind) or ``inferred``."""
    function: str
    """The driver's function."""
    result: int
    """What the function returned."""
    message: str
    """What was found, with its values."""
    hint: str
    """What to do."""
    json: str
    """The whole finding as a JSON object, with the call's arguments and the objects it is about."""


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


# One for all listeners, kept for good: a thread may be about to call it after it was replaced.
_hear_c = _CALLBACK(_hear)


def listen(register: Any, listener: Optional[Listener]) -> bool:
    """Tells further findings to a listener, or to none, by ``cupeer_on_finding``."""
    global _listener
    _listener = listener
    given = ctypes.cast(_hear_c, ctypes.c_void_p) if listener else None
    checks: int = register(given, None)
    return checks == 1
