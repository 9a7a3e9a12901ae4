"""Faults on purpose, on a real GPU: usage: check_faults.py CUPEER [NVCC]

The table of tests/programs/faults.txt as the simulated driver answers it, and a program with a static CUDA runtime that
gets injected results as the runtime's own.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

cupeer = sys.argv[1]
nvcc = sys.argv[2] if len(sys.argv) > 2 else None
tests = Path(__file__).parent.parent
work = tempfile.TemporaryDirectory()
failed = 0


def say(is_good, name, seen):
    global failed
    failed += not is_good
    print(f"  {'ok  ' if is_good else 'FAIL'} {name}: {seen}", flush=True)


def run(plan, *program, options=()):
    command = [cupeer, "run", "--record", "off", *options, *(["--inject", plan] if plan else []), "--", *program]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def table():
    program = f"{work.name}/faults"
    subprocess.run(["cc", "-O1", "-o", program, tests / "programs/faults.c", "-ldl", "-lpthread"], check=True)
    lines = (tests / "programs/faults.txt").read_text().splitlines()
    wrong = good = 0
    for line in lines:
        if not line or line.startswith("#"):
            continue
        plan, word, expected = (part.strip() for part in line.split("|"))
        done = run(plan, program, "turns", "1", "1", word)
        got = done.stdout.partition(":")[2].strip()
        if got == expected:
            good += 1
        else:
            wrong += 1
            print(f"    {plan} {word}: {got!r}, not {expected!r} {done.stderr[-300:]}")
    say(wrong == 0, "plans of faults.txt", f"{good} as on the simulated driver, {wrong} not")


def runtime():
    program = f"{work.name}/runtime"
    subprocess.run([nvcc, "-arch=native", "-cudart", "static", "-o", program, tests / "hardware/faults.cu"], check=True)

    def words(plan):
        done = run(plan, program)
        return {name: rest.split() for name, _, rest in (line.partition(" ") for line in done.stdout.splitlines())}, done

    plain, done = words("")
    say(plain["open"][0] == plain["again"][0] == "cudaSuccess", "static runtime without a plan", plain)
    got, done = words("cuIpcOpenMemHandle*:when=1:error=MAP_FAILED")
    say(got["open"][0] == "cudaErrorMapBufferObjectFailed" and got["again"][0] == "cudaSuccess", "MAP_FAILED", got)
    say("matched 2, fired 1" in done.stderr, "the summary", done.stderr.strip())
    got, _ = words("cuIpcOpenMemHandle*:when=1:stage=undo:error=MAP_FAILED")
    say(got["open"][0] == "cudaErrorMapBufferObjectFailed" and got["again"][0] == got["close"][0] == "cudaSuccess", "after and undone", got)
    got, _ = words("cuIpcOpenMemHandle*:when=2:delay=700ms")
    say(int(got["again"][1]) >= 700 > int(plain["again"][1]), "delay", f"{plain['again']} without, {got['again']} with")
    got, _ = words("cuCtxEnablePeerAccess:error=PEER_ACCESS_UNSUPPORTED")
    say(got["enable"] == ["cudaErrorPeerAccessUnsupported"], "enable", got["enable"])
    got, _ = words("cuDeviceCanAccessPeer:out=canAccessPeer=0")
    say(got["can"] == ["0"], "canAccessPeer", got["can"])


table()
if nvcc:
    runtime()
else:
    print("  the static runtime was left out: no nvcc")
sys.exit(failed != 0)
