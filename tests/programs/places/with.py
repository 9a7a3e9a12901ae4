"""A with-block whose mapping is closed by hand as well."""
import ctypes
import multiprocessing as mp
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "site-packages"))
import fastshare


def first_bytes(data):
    with fastshare.Mapping(data, 4096) as m:  # @
        head = m.read(16)
        if not any(head):
            print("all zero")
        m.close()
    return head


def worker(conn):
    try:
        conn.send(first_bytes(conn.recv()))
    except fastshare.DriverError as e:
        conn.send(str(e))


def main():
    ctx = mp.get_context("spawn")
    here, there = ctx.Pipe()
    w = ctx.Process(target=worker, args=(there,))
    w.start()
    fastshare.driver.start()
    p = ctypes.c_uint64()
    fastshare.driver.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(4096))
    here.send(fastshare.share(p.value))
    print(here.recv())
    w.join()
    fastshare.driver.cuMemFree_v2(p)


if __name__ == "__main__":
    main()
