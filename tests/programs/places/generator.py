"""A generator that closes each block after its turn; the script keeps the last one."""
import multiprocessing as mp
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "site-packages"))
import fastshare

import cudrv


def largest(handles):
    best, size = None, -1
    for block in fastshare.mapped_blocks(handles, 4096):
        n = block.read(1)[0]
        if n > size:
            best, size = block, n
    return best


def worker(handles, out):
    block = largest(handles)
    try:
        out.put(block.read(8))  # @
    except fastshare.DriverError as e:
        out.put(str(e))


def main():
    ctx = mp.get_context("spawn")
    cudrv.init()
    blocks = [cudrv.mem_alloc(4096) for _ in range(4)]
    for i, p in enumerate(blocks):
        cudrv.memset(p, (i * 3) % 7, 4096)
    out = ctx.Queue()
    w = ctx.Process(target=worker, args=([cudrv.ipc_export(p) for p in blocks], out))
    w.start()
    print(out.get())
    w.join()
    for p in blocks:
        cudrv.mem_free(p)


if __name__ == "__main__":
    main()
