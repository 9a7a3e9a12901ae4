"""Events with ctypes' errcheck; one lacks the flag."""
import ctypes

import cudrv

lib = ctypes.CDLL("libcuda.so.1")


def _errcheck(result, func, args):
    if result:
        raise RuntimeError(f"{func.__name__}: {result}")
    return args


for _name in ("cuEventCreate", "cuIpcGetEventHandle", "cuEventDestroy_v2"):
    getattr(lib, _name).errcheck = _errcheck


class Event:
    def __init__(self, interprocess=False):
        self.raw = ctypes.c_void_p()
        lib.cuEventCreate(ctypes.byref(self.raw), ctypes.c_uint(6 if interprocess else 2))

    @property
    def handle(self):
        h = cudrv.IpcEventHandle()
        lib.cuIpcGetEventHandle(ctypes.byref(h), self.raw)
        return bytes(h)


class Pipeline:
    def __init__(self):
        self.ready = Event(interprocess=True)
        self.free = Event()

    def describe(self):
        out = {"ready": self.ready.handle}
        out["free"] = self.free.handle  # @
        return out


cudrv.init()
try:
    Pipeline().describe()
except RuntimeError as e:
    print(e)
