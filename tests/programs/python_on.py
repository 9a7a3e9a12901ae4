"""Makes calls that fail until SIGUSR2 comes, from frames that come and go, in two threads. Each SIGUSR1 makes one, too."""
import ctypes
import signal
import threading

cuda = ctypes.CDLL("libcuda.so.1")
handle = (ctypes.c_char * 64)()
is_over = threading.Event()


def one():
    result = cuda.cuIpcGetMemHandle(handle, ctypes.c_uint64(4))
    assert result == 3, result


def deep(depth):
    return deep(depth - 1) if depth else one()


def produced(count):
    for depth in range(count):
        yield deep(depth % 11)


def on():
    while not is_over.is_set():
        sum(1 for _ in produced(50))


signal.signal(signal.SIGUSR1, lambda *_: deep(3))
signal.signal(signal.SIGUSR2, lambda *_: is_over.set())
print("begun", flush=True)
thread = threading.Thread(target=on)
thread.start()
on()
thread.join()
print("done", flush=True)
