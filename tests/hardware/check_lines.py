#!/usr/bin/env python3
"""Lines of Python on a real GPU: what leaks, what hangs and what PyTorch shares is told with the user's own line.

usage: check_lines.py CUPEER
"""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lines.py")


def line_of(what):
    """The line of the program that its comment says to be of something."""
    for number, text in enumerate(open(PROGRAM), 1):
        if "# here: " in text and what in text.split("# here: ")[1]:
            return number
    raise LookupError(what)


def main():
    cupeer = sys.argv[1]
    wrong = []
    with tempfile.TemporaryDirectory() as work:
        plays = [
            ("leak", ["--record", "full"], ["--leaks"]),
            ("hang", ["--inject", "cuIpcOpenMemHandle*:when=3:hang"], ["--all"]),
            ("share", ["--record", "full"], []),
        ]
        if importlib.util.find_spec("torch") is None:
            print("share: left out, PyTorch is not installed")
            plays.pop()
        for what, options, report in plays:
            record = os.path.join(work, what)
            environment = {name: value for name, value in os.environ.items() if name != "CUPEER_RECORD"}
            run = [cupeer, "run", *options, "--out", record, "--", sys.executable, PROGRAM, what]
            done = subprocess.run(run, capture_output=True, text=True, timeout=150, env=environment)
            text = subprocess.run([cupeer, "report", record, *report], capture_output=True, text=True).stdout
            said = f"lines.py:{line_of(what)} in "
            if what == "share":
                answer = subprocess.run([cupeer, "report", record, "--format", "trace"], capture_output=True, text=True)
                calls = [call for call in json.loads(answer.stdout)["traceEvents"] if call.get("ph") == "X"]
                opens = [call for call in calls if call["name"] == "cuIpcOpenMemHandle_v2"]
                text = "\n".join(call["args"]["caller"] for call in opens)
            lines = [line for line in text.splitlines() if said in line]
            print(f"{what}: status {done.returncode}: {lines[0].strip()[:400] if lines else 'no line says ' + said}")
            if not lines:
                wrong.append(what)
                print(text[:4000], done.stderr[-2000:], sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
