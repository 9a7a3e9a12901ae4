"""A managed buffer is handed to a library that exports it, as Open MPI does (ompi#6799).

needs: cudart
finds: ipc-memory-kind error
says: managed memory | cannot be shared between processes
"""
import ctypes

from shared import MIB, Runtime

ATTACH_GLOBAL = 1
runtime = Runtime()
pointer = ctypes.c_void_p()
runtime.call("cudaMallocManaged", ctypes.byref(pointer), ctypes.c_size_t(4 * MIB), ctypes.c_uint(ATTACH_GLOBAL))
runtime.export(pointer.value)
runtime.call("cudaFree", pointer)
