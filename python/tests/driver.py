"""The few functions of the driver that the tests call."""

import ctypes

SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, INVALID_DEVICE, MAP_FAILED = 0, 1, 2, 101, 205

_cuda = ctypes.CDLL("libcuda.so.1")


class _Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]


def exported() -> int:
    """What it returns to make a handle of new memory."""
    handle = (ctypes.c_char * 64)()
    return _cuda.cuIpcGetMemHandle(handle, _memory)


def opened_wrongly() -> int:
    """What it returns to open a handle without the flag that it must have: the rule ipc-flags."""
    handle, address = _Handle(), ctypes.c_uint64()
    assert _cuda.cuIpcGetMemHandle(ctypes.byref(handle), _memory) == SUCCESS
    return _cuda.cuIpcOpenMemHandle_v2(ctypes.byref(address), handle, 0)


def can_access() -> int:
    """What it returns to ask whether device 0 can reach device 1."""
    answer = ctypes.c_int()
    return _cuda.cuDeviceCanAccessPeer(ctypes.byref(answer), 0, 1)


def _call(name: str, *arguments: object) -> None:
    result = getattr(_cuda, name)(*arguments)
    assert result == SUCCESS, f"{name}: {result}"


_context, _memory = ctypes.c_void_p(), ctypes.c_uint64()
_call("cuInit", 0)
_call("cuDevicePrimaryCtxRetain", ctypes.byref(_context), 0)
_call("cuCtxSetCurrent", _context)
_call("cuMemAlloc_v2", ctypes.byref(_memory), ctypes.c_size_t(1 << 21))
