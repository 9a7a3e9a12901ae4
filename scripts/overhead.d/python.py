"""Makes calls from DEPTH functions deep, each of LINES lines: python.py LIBRARY DRIVER DEPTH BATCHES [LINES]"""
import ctypes
import sys
import time

library, driver, depth, batches = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
measured = ctypes.CDLL(library)
assert measured.prepare(driver.encode())


lines = int(sys.argv[5]) if len(sys.argv) > 5 else 1
# What is never carried out has its lines all the same, before and behind the call. Each is a function of its own.
others = "    if work is None:\n" + "        work(left, [left + 1, left * 2])\n" * (lines // 2 - 1) if lines > 3 else ""
functions = {"deep_0": lambda work: work()}
for each in range(1, depth):
    exec(f"def deep_{each}(work):\n{others}    return deep_{each - 1}(work)\n{others}", functions)
deep = functions[f"deep_{depth - 1}"]


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


deep(lambda: measured.measure(batches))
deep(by_turns)
