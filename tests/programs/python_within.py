"""Calls the driver from an interpreter within the interpreter, where this Python has such; prints "left out" where not."""
import sys

WITHIN = """
import ctypes
def within():
    ctypes.CDLL("libcuda.so.1").cuIpcGetMemHandle((ctypes.c_char * 64)(), ctypes.c_uint64(4))
within()
"""


def run():
    if sys.version_info >= (3, 13):
        import _interpreters as interpreters

        one = interpreters.create("legacy")
    else:
        import _xxsubinterpreters as interpreters

        one = interpreters.create(isolated=False)
    failure = interpreters.run_string(one, WITHIN)
    if failure:
        raise RuntimeError(failure)
    interpreters.destroy(one)


try:
    run()
except (ImportError, RuntimeError, TypeError) as error:
    print("left out:", error)
