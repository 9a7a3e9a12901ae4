"""Ranks 1 to 3 try again and again to connect to MASTER_PORT, where nobody listens; rank 0 has taken another port
for its server and waits there.
After https://github.com/locustio/locust/issues/571 and https://github.com/locustio/locust/pull/2125."""
import os
import signal
import socket
import subprocess
import sys
import time

WORLD = 4


class Rendezvous:
    def __init__(self, addr, port):
        self.addr, self.port = addr, port

    def serve(self, n):
        lst = socket.create_server((self.addr, 0))
        peers = []
        while len(peers) < n:
            conn, _ = lst.accept()
            peers.append(conn)
        for p in peers:
            p.sendall(b"go")

    def connect(self):
        while True:
            try:
                return socket.create_connection((self.addr, self.port), timeout=5)
            except OSError:
                time.sleep(0.2)


def run_rank():
    signal.alarm(120)
    rdzv = Rendezvous(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if os.environ["RANK"] == "0":
        rdzv.serve(WORLD - 1)
    else:
        s = rdzv.connect()
        s.recv(2)


def main():
    signal.alarm(120)
    keep = socket.socket()              # bound, not listening: the port is free of others
    keep.bind(("127.0.0.1", 0))
    procs = []
    for r in range(WORLD):
        env = dict(os.environ, RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE=str(WORLD),
                   MASTER_ADDR="127.0.0.1", MASTER_PORT=str(keep.getsockname()[1]))
        procs.append(subprocess.Popen([sys.executable, __file__], env=env))
    for p in procs:
        p.wait()


if __name__ == "__main__":
    run_rank() if "RANK" in os.environ else main()
