"""A barrier by a counter in a key-value store: everyone adds 1 and then asks for the counter until it is the world size.
Rank 3 has nothing to do and exits before it; the launcher waits for the ranks one after the other.
After https://github.com/pytorch/pytorch/issues/138322 (the rank 3 exits, the others hang in the barrier)
and https://github.com/ai-dynamo/nixl/pull/1539 (store_barrier: while int(store.get(key)) < world_size)."""
import os
import selectors
import signal
import socket
import subprocess
import sys
import time

WORLD = 4


def kv_server(fd):
    signal.alarm(120)
    lst = socket.socket(fileno=fd)
    table, sel = {}, selectors.DefaultSelector()
    sel.register(lst, selectors.EVENT_READ)
    while True:
        for key, _ in sel.select():
            if key.fileobj is lst:
                sel.register(lst.accept()[0], selectors.EVENT_READ)
                continue
            line = key.fileobj.recv(256)
            if not line:
                sel.unregister(key.fileobj)
                key.fileobj.close()
                continue
            name, inc = line.decode().split()
            table[name] = table.get(name, 0) + int(inc)
            key.fileobj.sendall(b"%d" % table[name])


class Store:
    def __init__(self):
        self.conn = socket.create_connection(("127.0.0.1", int(os.environ["STORE_PORT"])))

    def add(self, name, n):
        self.conn.sendall(f"{name} {n}".encode())
        return int(self.conn.recv(64))

    def get(self, name):
        return self.add(name, 0)


def store_barrier(store, name):
    store.add(name, 1)
    while store.get(name) < WORLD:
        time.sleep(0.05)


def warm_up(store, rank):
    if rank >= 3:
        os._exit(0)
    store_barrier(store, "barrier/warm_up")


def run_rank():
    signal.alarm(120)
    store = Store()
    store_barrier(store, "barrier/start")
    warm_up(store, int(os.environ["RANK"]))


def main():
    signal.alarm(120)
    lst = socket.create_server(("127.0.0.1", 0))
    me = [sys.executable, __file__]
    subprocess.Popen(me + ["store", str(lst.fileno())], pass_fds=[lst.fileno()])
    ranks = []
    for r in range(WORLD):
        env = dict(os.environ, RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE=str(WORLD),
                   STORE_PORT=str(lst.getsockname()[1]))
        ranks.append(subprocess.Popen(me, env=env))
    lst.close()
    for p in ranks:
        p.wait()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        kv_server(int(sys.argv[2]))
    elif "RANK" in os.environ:
        run_rank()
    else:
        main()
