"""Two arrays of CuPy's pool have one handle, because they lie in one allocation (cupy#9436).

needs: cupy
finds: ipc-interior-pointer note
says: is 8192 bytes into the 4 MiB allocation | the handle refers to the whole allocation | the offset
"""
import cupy
from shared import MIB

block = cupy.empty(4 * MIB, dtype=cupy.uint8)
del block
first, second = (cupy.empty(8192, dtype=cupy.uint8) for _ in range(2))
assert second.data.ptr == first.data.ptr + 8192, "the pool did not cut its block in two"
for array in (first, second):
    cupy.cuda.runtime.ipcGetMemHandle(array.data.ptr)
    print("ipcGetMemHandle: success")
