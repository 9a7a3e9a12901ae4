"""Makes calls from DEPTH functions deep: python.py LIBRARY DRIVER DEPTH BATCHES"""
import ctypes
import sys
import time

library, driver, depth, batches = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
measured = ctypes.CDLL(library)
assert measured.prepare(driver.encode())


def deep(left, work):
    return work() if left <= 1 else deep(left - 1, work)


def one():
    return measured.once()


def other():
    return measured.once()


def by_turns():
    """From two functions by turns; what Python takes for that is in it."""
    taken = []
    for _ in range(batches):
        start = time.perf_counter_ns()
        for _ in range(100):
            one()
            other()
        taken.append((time.perf_counter_ns() - start) / 200)
    taken.sort()
    sys.stdout.write(f"; by turns {taken[0]:.1f} {taken[batches // 2]:.1f}")


deep(depth, lambda: measured.measure(batches))
deep(depth, by_turns)
