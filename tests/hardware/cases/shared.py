"""What the cases share: the CUDA runtime by ctypes, as vLLM calls it, the driver by cuda-python, and a second process.

A case is a program of its own. Its head says what it needs, which findings it has to lead to, and what has to be said;
../check_cases.py reads that. It prints what it did and how that ended, and nothing that differs from run to run.
"""
import ctypes
import glob
import os
import subprocess
import sys

MIB = 1 << 20


def loaded_runtime():
    """The path of the CUDA runtime: the one that is loaded, else the one that is installed."""
    for line in open("/proc/self/maps"):
        if "libcudart" in line:
            return line[line.index("/"):].strip()
    patterns = [os.path.join(path, "nvidia", "*", "lib", "libcudart.so.*") for path in sys.path]
    patterns += ["/usr/local/cuda*/lib64/libcudart.so.*", "/usr/local/cuda*/targets/*/lib/libcudart.so.*"]
    return next(path for pattern in patterns for path in sorted(glob.glob(pattern)))


class Runtime:
    """The CUDA runtime: each call prints its result, unless it is told to be silent."""

    class Handle(ctypes.Structure):
        _fields_ = [("bytes", ctypes.c_byte * 64)]

    def __init__(self):
        self.library = ctypes.CDLL(loaded_runtime())
        self.library.cudaGetErrorName.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        """A call that has to succeed."""
        status = getattr(self.library, name)(*arguments)
        assert status == 0, f"{name}: {self.library.cudaGetErrorName(status).decode()}"

    def show(self, name, *arguments):
        """A call on which the case turns."""
        status = getattr(self.library, name)(*arguments)
        print(f"{name}: {self.library.cudaGetErrorName(status).decode()}", flush=True)
        return status

    def malloc(self, size):
        pointer = ctypes.c_void_p()
        self.call("cudaMalloc", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def export(self, pointer):
        """Shows how the export of a pointer ends."""
        handle = self.Handle()
        self.show("cudaIpcGetMemHandle", ctypes.byref(handle), ctypes.c_void_p(pointer))
        return bytes(handle)

    def open(self, handle):
        pointer = ctypes.c_void_p()
        self.call("cudaIpcOpenMemHandle", ctypes.byref(pointer), self.Handle.from_buffer_copy(handle), ctypes.c_uint(1))
        return pointer


def driver():
    """cuda-python's driver, initialised, with a current context."""
    from cuda.bindings import driver as cu

    done(cu.cuInit(0))
    context = done(cu.cuDevicePrimaryCtxRetain(0))
    done(cu.cuCtxSetCurrent(context))
    return cu


def done(answer):
    """What a call of cuda-python that has to succeed returned."""
    result, *values = answer
    assert result == 0, repr(result)
    return values[0] if values else None


def show(name, answer):
    """A call of cuda-python on which the case turns."""
    print(f"{name}: {answer[0].name}", flush=True)
    return answer[0]


def cannot(why):
    """Ends a case that cannot be played on this machine."""
    print(why, file=sys.stderr)
    sys.exit(77)


class Other:
    """The same program once more, told what to be; both write and read lines of text through pipes."""

    def __init__(self, role, *before):
        command = [*before, sys.executable, os.path.abspath(sys.argv[0]), role]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def hear(self):
        text = self.process.stdout.readline()
        assert text, "the other process has ended"
        return text.strip()

    def end(self):
        """Shows what it has left to say, and waits for it."""
        self.process.stdin.close()
        print(self.process.stdout.read(), end="", flush=True)
        assert self.process.wait() == 0, f"the other process ended with {self.process.returncode}"


def role():
    """What this process is told to be; None for the first one."""
    return sys.argv[1] if len(sys.argv) > 1 else None


def hear():
    """What the first process tells this one."""
    text = sys.stdin.readline()
    assert text, "the first process has ended"
    return text.strip()


def tell(text):
    print(text, flush=True)
