"""A launcher with a key-value store and four ranks. Ranks 1 to 3 ask the store for the id which rank 0
has to set first; rank 0 is still at work on the data set.
After https://github.com/pytorch/pytorch/issues/107177 (store->get('0'): rank 0 is a straggler)
and https://github.com/pytorch/pytorch/issues/53840."""
import os
import select
import signal
import socket
import subprocess
import sys
import time

WORLD = 4


class StoreServer:
    """SET k v / GET k, one line each; a GET is answered when there is a value."""

    def __init__(self):
        self.lst = socket.socket()
        self.lst.bind(("127.0.0.1", 0))
        self.lst.listen(16)
        self.port = self.lst.getsockname()[1]
        self.data, self.waiting, self.conns = {}, {}, []

    def serve(self):
        while True:
            ready, _, _ = select.select([self.lst] + self.conns, [], [])
            for s in ready:
                if s is self.lst:
                    self.conns.append(s.accept()[0])
                    continue
                req = s.recv(4096).decode().split()
                if not req:
                    self.conns.remove(s)
                elif req[0] == "SET":
                    self.data[req[1]] = req[2]
                    for w in self.waiting.pop(req[1], []):
                        w.sendall(req[2].encode())
                    s.sendall(b"ok")
                elif req[1] in self.data:
                    s.sendall(self.data[req[1]].encode())
                else:
                    self.waiting.setdefault(req[1], []).append(s)


class StoreClient:
    def __init__(self):
        self.s = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))

    def _ask(self, line):
        self.s.sendall(line.encode())
        return self.s.recv(4096).decode()

    def set(self, key, value):
        return self._ask(f"SET {key} {value}")

    def get(self, key):
        return self._ask(f"GET {key}")


def tokenize_corpus():
    shards = 0
    while shards < 100000:
        time.sleep(30)
        shards += 1


def init_communicator(store, rank):
    if rank == 0:
        store.set("nccl/unique_id/0", "abcd")
    return store.get("nccl/unique_id/0")


def run_rank():
    signal.alarm(120)
    rank = int(os.environ["RANK"])
    store = StoreClient()
    store.set(f"worker/{rank}", "up")
    if rank == 0:
        tokenize_corpus()
    init_communicator(store, rank)


def main():
    signal.alarm(120)
    server = StoreServer()
    for r in range(WORLD):
        env = dict(os.environ, RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE=str(WORLD),
                   MASTER_ADDR="127.0.0.1", MASTER_PORT=str(server.port))
        subprocess.Popen([sys.executable, __file__], env=env)
    server.serve()


if __name__ == "__main__":
    run_rank() if "RANK" in os.environ else main()
