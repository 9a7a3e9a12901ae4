"""Shards opened in a loop; those that are skipped stay open."""
import multiprocessing as mp
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "site-packages"))
import fastshare

import cudrv


def load_shards(conn):
    kept = 0
    while True:
        item = conn.recv()
        if item is None:
            return kept
        index, handle = item
        shard = fastshare.Mapping(handle, 4096)  # @
        head = shard.read(4)
        if head[0] % 4 == 3:
            conn.send("skipped")
            continue
        kept += 1
        shard.close()
        conn.send("kept")


def worker(conn):
    conn.send(load_shards(conn))


def main():
    ctx = mp.get_context("spawn")
    here, there = ctx.Pipe()
    w = ctx.Process(target=worker, args=(there,))
    w.start()
    cudrv.init()
    shards = []
    for i in range(40):
        p = cudrv.mem_alloc(2 << 20)
        cudrv.memset(p, i, 16)
        here.send((i, cudrv.ipc_export(p)))
        here.recv()
        shards.append(p)
    here.send(None)
    print(here.recv())
    w.join()
    for p in shards:
        cudrv.mem_free(p)


if __name__ == "__main__":
    main()
