"""__del__ of a library's class after the script released the handle itself."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "site-packages"))
import fastshare

import cudrv

SIZE = 2 << 20


def export(buffer):
    fd = buffer.descriptor()
    os.close(fd)
    return fd


def run(steps):
    buffer = fastshare.SharedBuffer(SIZE)
    for _ in range(steps):
        export(buffer)
    at = cudrv.mem_map(buffer.handle, SIZE)
    cudrv.memset(at, 1, SIZE)
    cudrv.mem_unmap(at, SIZE)
    cudrv.mem_release(buffer.handle)
    print("released")
    del buffer  # @
    print("end")


run(3)
