"""Calls the driver from wherever Python code may be, and prints where, as Python itself has it: a line of JSON for each
failed call, the innermost frame first, each as [file, line, function]."""
import ctypes
import json
import sys
import threading

cuda = ctypes.CDLL("libcuda.so.1")
handle = (ctypes.c_char * 64)()


def told(frame):
    stack = []
    while frame:
        code = frame.f_code
        stack.append([code.co_filename, frame.f_lineno, code.co_name])
        frame = frame.f_back
    sys.stdout.write(json.dumps(stack) + "\n")


# fmt: off
def call():
    return told(sys._getframe()) or cuda.cuIpcGetMemHandle(handle, ctypes.c_uint64(4))
# fmt: on


def nested():
    def inner():
        return (
            1
            and call()
        )

    return inner()


def generated():
    yield 1
    yield call()
    yield from (call() for _ in range(2))


async def awaited():
    return call()


class Called:
    def __init__(self):
        call()

    def __len__(self):
        call()
        return 0

    @property
    def of_a_property(self):
        return call()


def decorated(function):
    def around(*args, **kwargs):
        return function(*args, **kwargs)

    return around


@decorated
def recursive(left):
    return recursive(left - 1) if left else call()


def caught():
    try:
        raise ValueError
    except ValueError:
        call()
    finally:
        call()


cuda.cuInit(0)
nested()
list(generated())
try:
    awaited().send(None)
except StopIteration:
    pass
# So often that the interpreter specializes what it executes.
for _ in range(60):
    Called()
len(Called())
Called().of_a_property
[call() for _ in range(2)]
{k: call() for k in range(2)}
sorted([1], key=lambda x: call())
recursive(2)
recursive(40)
caught()
exec(compile("\n\ncall()\n", "a file whose name is nö ASCII", "exec"))
exec(compile("def f日本(): call()\nf日本()\n", "\U0001f40d", "exec"))
exec(compile("\n" * 70000 + "call()\n", "long", "exec"))
for end in range(3):
    # New code in the place of what is gone.
    exec(compile("\n" * end + f"def of_{end}(): call()\nof_{end}()\n", "again", "exec"))
for length in [20, 400, 400, 400]:
    for above in range(1, 9):
        # And new code of which little is new: its table of lines is as long, begins and ends alike.
        lines = ["    x = 1"] * length
        changed = [""] * above + ["    call()"] + [""] * (9 - above)
        exec(compile("\n".join(["def f():", *lines, *changed, *lines, "f()"]), "changed", "exec"))
        if length > 20:
            del f
for each in range(26):
    # As many functions as frames are kept, each in a file of its own.
    names = {"inner": call if each == 0 else outer}
    exec(compile(f"def of_{each}():\n    return inner()\n", f"file {each}", "exec"), names)
    outer = names[f"of_{each}"]
outer()
threads = [threading.Thread(target=nested) for _ in range(4)]
for thread in threads:
    thread.start()
    thread.join()
