"""Two containers, in each of which the program is process 1 (vllm#55906).

needs: cuda.bindings
finds: ipc-equal-pids error
says: both have pid | pid namespaces | docker run --init
"""
import os
import subprocess
import sys

from shared import MIB, Other, cannot, done, driver, hear, role, show, tell


def container():
    """What starts a program in a pid namespace of its own."""
    for before in (["unshare", "-pf", "--mount-proc"], ["unshare", "-Urpf", "--mount-proc"]):
        said = subprocess.run([*before, "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if said.returncode == 0:
            return before
    cannot(said.stderr.strip())


if role() is None:
    before = container()
    exporter, importer = Other("exporter", *before), Other("importer", *before)
    importer.tell(exporter.hear())
    importer.end()
    exporter.end()
    sys.exit(0)
assert os.getpid() == 1
cu = driver()
if role() == "exporter":
    pointer = done(cu.cuMemAlloc(4 * MIB))
    tell(bytes(done(cu.cuIpcGetMemHandle(pointer)).reserved).hex())
    sys.stdin.read()
    done(cu.cuMemFree(pointer))
else:
    handle = cu.CUipcMemHandle()
    handle.reserved = bytes.fromhex(hear())
    show("cuIpcOpenMemHandle", cu.cuIpcOpenMemHandle(handle, 1))
