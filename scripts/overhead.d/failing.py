"""Makes calls from a function of Python: failing.py LIBRARY DRIVER CALL CALLS. failing.c says what is printed."""
import ctypes
import sys
import time

library, driver, name, calls = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
measured = ctypes.CDLL(library)
assert measured.prepare(driver.encode(), name.encode())
call = measured.call
call.argtypes = [ctypes.c_ulonglong]


def batch(start, count):
    begun = time.perf_counter_ns()
    for i in range(start, start + count):
        call(i)
    return (time.perf_counter_ns() - begun) / count


first = batch(0, 1)
done = 1
while done < calls - 100000:
    batch(done, 1000)
    done += 1000
taken = sorted(batch(done + i * 1000, 1000) for i in range(100))
print(f"{first:.1f} {taken[0]:.1f} {taken[50]:.1f}")
