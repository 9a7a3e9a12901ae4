"""waits.py WHAT: processes that wait for what never comes, until stdin ends. Prints "ready" before each waits.
  recv    rank 0 exports a handle and never sends it; rank 1 waits for it
  open    rank 0 exports a handle and sends it; rank 1 opens it
  queue   two threads, each of which waits for the other to put something into a queue
  busy    calculates"""
import ctypes
import os
import queue
import socket
import subprocess
import sys
import threading


def ready():
    sys.stdout.write("ready\n")
    sys.stdout.flush()


def device():
    cuda = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    for failed in (
        cuda.cuInit(0),
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
        cuda.cuCtxSetCurrent(context),
    ):
        assert not failed, failed
    return cuda


class Handle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * 64)]


def export(cuda):
    memory, handle = ctypes.c_uint64(), Handle()
    assert not cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20))
    assert not cuda.cuIpcGetMemHandle(ctypes.byref(handle), memory)
    return bytes(handle)


def receive(peer):
    return peer.recv(64)  # recv


def ranks(what):
    ours, theirs = socket.socketpair()
    both = [
        subprocess.Popen(
            [sys.executable, __file__, "rank", what, str(end.fileno())],
            pass_fds=[end.fileno()],
            stdin=subprocess.PIPE,
            env={**os.environ, "RANK": str(rank)},
        )
        for rank, end in enumerate((ours, theirs))
    ]
    ours.close()
    theirs.close()
    sys.stdin.read()
    for one in both:
        one.kill()
        one.wait()


def rank(what, end):
    peer = socket.socket(fileno=end)
    cuda = device()
    if os.environ["RANK"] == "0":
        handle = export(cuda)
        if what == "open":
            peer.send(handle)
        ready()
        sys.stdin.read()  # rank 0 waits
    elif what == "recv":
        ready()
        receive(peer)
    else:
        handle = Handle.from_buffer_copy(receive(peer))
        memory = ctypes.c_uint64()
        cuda.cuIpcOpenMemHandle_v2.argtypes = [ctypes.c_void_p, Handle, ctypes.c_uint]
        if "never_opens" in os.environ.get("LD_PRELOAD", ""):
            ctypes.CDLL(None).never_open()
        ready()
        cuda.cuIpcOpenMemHandle_v2(ctypes.byref(memory), handle, 1)  # open


def queues():
    one, other = queue.Queue(), queue.Queue()

    def second():
        other.get()  # second
        one.put(1)

    threading.Thread(target=second, daemon=True).start()
    ready()
    one.get()  # first
    other.put(1)


def busy():
    number = 1
    ready()
    while True:  # busy
        number = number * 48271 % 2147483647  # busy


def end():
    sys.stdin.read()
    os._exit(0)


what = sys.argv[1]
if what == "rank":
    rank(sys.argv[2], int(sys.argv[3]))
elif what in ("queue", "busy"):
    threading.Thread(target=end, daemon=True).start()
    queues() if what == "queue" else busy()
else:
    ranks(what)
