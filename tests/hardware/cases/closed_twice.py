"""A mapping is closed once for each piece that was copied, as UCX did (UCX#4410).

needs: cuda.bindings
finds: ipc-closed-twice error
says: as often as it had opened it | Close once per successful cuIpcOpenMemHandle
"""
from shared import MIB, Other, done, driver, hear, role, show

cu = driver()
if role() == "importer":
    handle = cu.CUipcMemHandle()
    handle.reserved = bytes.fromhex(hear())
    pointer = done(cu.cuIpcOpenMemHandle(handle, 1))
    for _ in range(2):
        show("cuIpcCloseMemHandle", cu.cuIpcCloseMemHandle(pointer))
else:
    importer = Other("importer")
    pointer = done(cu.cuMemAlloc(4 * MIB))
    importer.tell(bytes(done(cu.cuIpcGetMemHandle(pointer)).reserved).hex())
    importer.end()
    done(cu.cuMemFree(pointer))
