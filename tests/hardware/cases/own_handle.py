"""CuPy opens an array's handle in the process that made it (UCX#11603).

needs: cupy
finds: ipc-open-in-exporting-process error
says: is opened in the process that exported it | In the process that exported the memory, use the pointer
"""
import cupy
from shared import MIB

cupy.cuda.set_allocator(None)
array = cupy.empty(4 * MIB, dtype=cupy.uint8)
handle = cupy.cuda.runtime.ipcGetMemHandle(array.data.ptr)
try:
    cupy.cuda.runtime.ipcOpenMemHandle(handle)
    print("ipcOpenMemHandle: success")
except cupy.cuda.runtime.CUDARuntimeError as error:
    print("ipcOpenMemHandle:", error)
