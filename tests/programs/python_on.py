"""Makes calls that fail, without an end or COUNT times, from frames that come and go, in two threads; prints how many it has
made. Meanwhile each signal that may come makes one, too."""
import ctypes
import signal
import sys
import threading

cuda = ctypes.CDLL("libcuda.so.1")
handle = (ctypes.c_char * 64)()
left = int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 60
handled = 0


def one():
    result = cuda.cuIpcGetMemHandle(handle, ctypes.c_uint64(4))
    assert result == 3, result


def deep(depth):
    return deep(depth - 1) if depth else one()


def produced(count):
    for depth in range(count):
        yield deep(depth % 11)


def on(count):
    made = 0
    while made < count:
        made += sum(1 for _ in produced(50))


def handle_signal(*_):
    global handled
    handled += 1
    deep(3)


signal.signal(signal.SIGUSR1, handle_signal)
print("begun", flush=True)
thread = threading.Thread(target=on, args=(left,))
thread.start()
on(left)
thread.join()
print("done", flush=True)
