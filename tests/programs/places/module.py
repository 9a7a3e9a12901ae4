"""A spawned worker that closes what it has closed."""
import multiprocessing as mp

import cudrv


def consume(pointer, n):
    total = sum(cudrv.read(pointer, n))
    cudrv.ipc_close(pointer)
    return total


def worker(conn):
    cudrv.init()
    p = cudrv.ipc_open(conn.recv())
    try:
        total = consume(p, 256)
        conn.send(total)
    finally:
        try:
            cudrv.ipc_close(p)  # @
        except cudrv.CudaError as e:
            print("worker:", e)
    conn.send("done")


def main():
    ctx = mp.get_context("spawn")
    here, there = ctx.Pipe()
    w = ctx.Process(target=worker, args=(there,))
    w.start()
    cudrv.init()
    p = cudrv.mem_alloc(4096)
    cudrv.memset(p, 1, 4096)
    here.send(cudrv.ipc_export(p))
    print(here.recv(), here.recv())
    w.join()
    cudrv.mem_free(p)


if __name__ == "__main__":
    main()
