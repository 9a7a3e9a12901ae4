"""Driver calls by ctypes, with checked results."""
import ctypes
from ctypes import byref, c_char, c_int, c_size_t, c_uint, c_uint64, c_void_p

SUCCESS = 0
LAZY = 1
FD = 1
EVENT_DISABLE_TIMING = 2
EVENT_INTERPROCESS = 4
_lib = ctypes.CDLL("libcuda.so.1")


class CudaError(RuntimeError):
    def __init__(self, code, name):
        super().__init__(f"{name}: error {code}")
        self.code = code


class IpcMemHandle(ctypes.Structure):
    _fields_ = [("reserved", c_char * 64)]


class IpcEventHandle(ctypes.Structure):
    _fields_ = [("reserved", c_char * 64)]


class Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class AllocationProp(ctypes.Structure):
    _fields_ = [
        ("type", c_int),
        ("handle_types", c_int),
        ("location", Location),
        ("win32", c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


class AccessDesc(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", c_int)]


_lib.cuIpcOpenMemHandle_v2.argtypes = [c_void_p, IpcMemHandle, c_uint]


def check(code, name="driver call"):
    if code != SUCCESS:
        raise CudaError(code, name)


def call(name, *args):
    check(getattr(_lib, name)(*args), name)


def init(ordinal=0):
    device, context = c_int(), c_void_p()
    call("cuInit", c_uint(0))
    call("cuDeviceGet", byref(device), c_int(ordinal))
    call("cuDevicePrimaryCtxRetain", byref(context), device)
    call("cuCtxSetCurrent", context)
    return context


def mem_alloc(size):
    p = c_uint64()
    call("cuMemAlloc_v2", byref(p), c_size_t(size))
    return p.value


def mem_free(p):
    call("cuMemFree_v2", c_uint64(p))


def memset(p, value, size):
    call("cuMemsetD8_v2", c_uint64(p), ctypes.c_ubyte(value), c_size_t(size))


def read(p, size):
    host = ctypes.create_string_buffer(size)
    call("cuMemcpyDtoH_v2", host, c_uint64(p), c_size_t(size))
    return host.raw


def ipc_export(p):
    h = IpcMemHandle()
    call("cuIpcGetMemHandle", byref(h), c_uint64(p))
    return ctypes.string_at(byref(h), 64)


def ipc_open(data):
    h, p = IpcMemHandle.from_buffer_copy(data), c_uint64()
    check(_lib.cuIpcOpenMemHandle_v2(byref(p), h, LAZY), "cuIpcOpenMemHandle")
    return p.value


def ipc_close(p):
    check(_lib.cuIpcCloseMemHandle(c_uint64(p)), "cuIpcCloseMemHandle")


def event_create(flags):
    e = c_void_p()
    call("cuEventCreate", byref(e), c_uint(flags))
    return e


def event_export(e):
    h = IpcEventHandle()
    call("cuIpcGetEventHandle", byref(h), e)
    return ctypes.string_at(byref(h), 64)


def mem_create(size, exportable=True, ordinal=0):
    prop = AllocationProp(1, FD if exportable else 0, Location(1, ordinal))
    h = c_uint64()
    call("cuMemCreate", byref(h), c_size_t(size), byref(prop), c_uint64(0))
    return h.value


def mem_release(h):
    call("cuMemRelease", c_uint64(h))


def mem_export(h):
    fd = c_int()
    call("cuMemExportToShareableHandle", byref(fd), c_uint64(h), c_int(FD), c_uint64(0))
    return fd.value


def mem_import(fd):
    h = c_uint64()
    call("cuMemImportFromShareableHandle", byref(h), c_void_p(fd), c_int(FD))
    return h.value


def mem_map(h, size, ordinal=0):
    p = c_uint64()
    access = AccessDesc(Location(1, ordinal), 3)
    call("cuMemAddressReserve", byref(p), c_size_t(size), c_size_t(0), c_uint64(0), c_uint64(0))
    call("cuMemMap", p, c_size_t(size), c_size_t(0), c_uint64(h), c_uint64(0))
    call("cuMemSetAccess", p, c_size_t(size), byref(access), c_size_t(1))
    return p.value


def mem_unmap(p, size):
    call("cuMemUnmap", c_uint64(p), c_size_t(size))
    call("cuMemAddressFree", c_uint64(p), c_size_t(size))
