"""functools.partial for the calls; one frees what it should close."""
import functools
import multiprocessing as mp
from ctypes import c_uint64

import cudrv

free = functools.partial(cudrv.call, "cuMemFree_v2")
close = functools.partial(cudrv.call, "cuIpcCloseMemHandle")


class Tensors:
    def __init__(self):
        self.own, self.remote = [], []

    def drop(self):
        for p in self.own + self.remote:
            try:
                free(c_uint64(p))  # @
            except cudrv.CudaError as e:
                print("drop:", e)
        self.own, self.remote = [], []


def worker(handles, done):
    cudrv.init()
    t = Tensors()
    t.own += [cudrv.mem_alloc(4096) for _ in range(3)]
    t.remote += [cudrv.ipc_open(handles[0])]
    p = cudrv.ipc_open(handles[1])
    print(cudrv.read(p, 4))
    close(c_uint64(p))
    t.drop()
    done.put(1)


def main():
    ctx = mp.get_context("spawn")
    cudrv.init()
    a, b = cudrv.mem_alloc(4096), cudrv.mem_alloc(4096)
    done = ctx.Queue()
    w = ctx.Process(target=worker, args=([cudrv.ipc_export(a), cudrv.ipc_export(b)], done))
    w.start()
    done.get()
    w.join()
    cudrv.mem_free(a)
    cudrv.mem_free(b)


if __name__ == "__main__":
    main()
