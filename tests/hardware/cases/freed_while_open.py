"""The exporter frees a buffer that another process has open still, as caches of mappings have it (UCX#10346).

needs: cudart
finds: ipc-freed-while-open error
says: was freed while | open in process {importer} | Close the handle in the importers first
"""
import os
import sys

from shared import MIB, Other, Runtime, hear, role, tell

runtime = Runtime()
if role() == "importer":
    pointer = runtime.open(bytes.fromhex(hear()))
    tell(str(os.getpid()))
    hear()
    runtime.show("cudaIpcCloseMemHandle", pointer)
else:
    importer = Other("importer")
    pointer = runtime.malloc(4 * MIB)
    importer.tell(runtime.export(pointer.value).hex())
    print("importer =", importer.hear(), file=sys.stderr)
    runtime.show("cudaFree", pointer)
    importer.tell("close it")
    importer.end()
