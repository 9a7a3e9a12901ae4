"""minidist - blocking collectives between ranks over loopback TCP, in the manner of torch.distributed.

launch(n) starts n copies of the running script with RANK, LOCAL_RANK and WORLD_SIZE set;
init() connects every rank to every other one."""
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys

rank = -1
world = 0
_sock = {}
_early = {}
_seq = 0


def guard():
    signal.alarm(120)


def launch(n, extra_env=None):
    guard()
    listeners = []
    for _ in range(n):
        s = socket.socket()
        s.bind(("127.0.0.1", 0))
        s.listen(16)
        listeners.append(s)
    ports = ",".join(str(s.getsockname()[1]) for s in listeners)
    procs = []
    for r, s in enumerate(listeners):
        env = dict(os.environ, RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE=str(n),
                   MD_PORTS=ports, MD_FD=str(s.fileno()), **(extra_env or {}))
        procs.append(subprocess.Popen([sys.executable] + sys.argv, env=env, pass_fds=[s.fileno()]))
    for s in listeners:
        s.close()
    for p in procs:
        p.wait()


def init():
    global rank, world
    guard()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    ports = [int(p) for p in os.environ["MD_PORTS"].split(",")]
    lst = socket.socket(fileno=int(os.environ["MD_FD"]))
    for peer in range(rank):
        s = socket.create_connection(("127.0.0.1", ports[peer]))
        s.sendall(struct.pack("i", rank))
        _sock[peer] = s
    for _ in range(rank + 1, world):
        s, _addr = lst.accept()
        _sock[struct.unpack("i", _read(s, 4))[0]] = s
    lst.close()


def _read(s, n):
    buf = b""
    while len(buf) < n:
        part = s.recv(n - len(buf))
        if not part:
            raise ConnectionError("peer closed the connection")
        buf += part
    return buf


def _send(peer, tag, obj):
    data = pickle.dumps((tag, obj))
    _sock[peer].sendall(struct.pack("I", len(data)) + data)


def _recv(peer, tag):
    early = _early.setdefault(peer, [])
    while True:
        for i, (t, obj) in enumerate(early):
            if t == tag:
                del early[i]
                return obj
        n = struct.unpack("I", _read(_sock[peer], 4))[0]
        early.append(pickle.loads(_read(_sock[peer], n)))


def _tag(op):
    global _seq
    _seq += 1
    return op, _seq


def all_reduce(x):
    tag = _tag("all_reduce")
    right, left = (rank + 1) % world, (rank - 1) % world
    total = cur = x
    for _ in range(world - 1):
        _send(right, tag, cur)
        cur = _recv(left, tag)
        total += cur
    return total


def broadcast(x, src):
    tag = _tag("broadcast")
    if rank == src:
        for p in range(world):
            if p != src:
                _send(p, tag, x)
        for p in range(world):          # do not return before all of them have it
            if p != src:
                _recv(p, tag)
        return x
    x = _recv(src, tag)
    _send(src, tag, None)
    return x


def barrier():
    tag = _tag("barrier")
    if rank == 0:
        for p in range(1, world):
            _recv(p, tag)
        for p in range(1, world):
            _send(p, tag, None)
    else:
        _send(0, tag, None)
        _recv(0, tag)
