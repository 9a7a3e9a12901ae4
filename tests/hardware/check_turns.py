"""Compares real programs with and without cupeer, by turns: `check_turns.py CUPEER [PROGRAM...]`.

Each round runs a program of steps.py alone, with everything off, recorded, and by default. Fails if a result differs,
if a report finds anything above a note, or if a median is more than 10% above that of the runs alone and above the
slowest of them. ROUNDS (5) sets the rounds, and no round of a program begins after TURNS_SECONDS of it, if that is given; RECORDS
keeps the records of the last round. Ends with status 77 if the machine lacks all of the programs.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from steps import MISSING, PROGRAMS

HERE = os.path.dirname(os.path.abspath(__file__))
MODES = {
    "alone": None,
    "off": ["--record", "off", "--check=off"],
    "recorded": ["--record", "full", "--check=off"],
    "default": [],
}
LIMIT = 1.10


def once(cupeer, name, mode, record):
    """Runs a program once and returns the time of each of its figures, its results, and the seconds of the whole run."""
    command = [sys.executable, os.path.join(HERE, "steps.py"), name]
    if MODES[mode] is not None:
        options = MODES[mode] if mode == "off" else [*MODES[mode], "--out", record]
        command = [cupeer, "run", *options, "--", *command]
    begun = time.monotonic()
    # Python draws the order of its tables for each process, and a step that is Python's then takes up to a tenth longer.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    limit = float(os.environ.get("LIMIT", 120))
    run = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=environment)
    took = time.monotonic() - begun
    steps = [line.split(" ", 3)[1:] for line in run.stdout.splitlines() if line.startswith("step ")]
    if run.returncode == MISSING:
        return None, run.stderr.strip().splitlines()[0], took
    if run.returncode or not steps:
        tail = "\n".join((run.stdout + run.stderr).splitlines()[-15:])
        raise RuntimeError(f"{name}, {mode}: status {run.returncode}\n{tail}")
    return {figure: float(time) for figure, time, _ in steps}, "; ".join(result for _, _, result in steps), took


def judge(cupeer, record):
    """Returns the first line of a record's report, its size in bytes, and what it found above a note."""
    head = subprocess.run([cupeer, "report", record], capture_output=True, text=True).stdout.splitlines()[0]
    report = json.loads(
        subprocess.run([cupeer, "report", record, "--format", "json"], capture_output=True, text=True).stdout
    )
    found = [f"{finding['severity']} {finding['rule']}" for finding in report["findings"] if finding["severity"] != "note"]
    size = sum(entry.stat().st_size for entry in os.scandir(record) if entry.is_file())
    return head, size, found


def compare(cupeer, name, rounds, records):
    """Runs one program by turns, prints a line for each figure and mode, and returns whether all is well.

    Returns None if the machine lacks the program.
    """
    times, results, walls = {}, {}, {mode: [] for mode in MODES}
    ends = time.monotonic() + float(os.environ.get("TURNS_SECONDS", "inf"))
    for number in range(rounds):
        if number and time.monotonic() > ends:
            rounds = number
            break
        # In four rounds, each mode runs once in each place, and once behind each other: what ran before leaves a device warm.
        for place in (0, 1, 3, 2):
            mode = list(MODES)[(number + place) % len(MODES)]
            record = os.path.join(records, f"{name}-{mode}")
            shutil.rmtree(record, ignore_errors=True)
            took, result, wall = once(cupeer, name, mode, record)
            if took is None:
                print(f"skipped {name}: {result}", flush=True)
                return None
            for figure, step in took.items():
                times.setdefault(figure, {mode: [] for mode in MODES})[mode].append(step)
            walls[mode].append(wall)
            results.setdefault(result, set()).add(mode)
    good = len(results) == 1
    print(f"{name}, {rounds} rounds: {'the results differ: ' + str(results) if not good else 'results alike: ' + next(iter(results))}")
    for figure, modes in times.items():
        alone = statistics.median(modes["alone"])
        for mode, steps in modes.items():
            median = statistics.median(steps)
            slow = median > LIMIT * alone and median > max(modes["alone"])
            good &= not slow
            print(
                f"  {figure:<15} {mode:<9} least {min(steps):>10.2f}  median {median:>10.2f}  most {max(steps):>10.2f} us"
                f" {100 * (median / alone - 1):+6.1f}%{'  TOO SLOW' if slow else ''}"
            )
    print("  whole run:", ", ".join(f"{mode} {statistics.median(seconds):.2f} s" for mode, seconds in walls.items()))
    for mode in ("recorded", "default"):
        head, size, found = judge(cupeer, os.path.join(records, f"{name}-{mode}"))
        good &= not found
        print(f"  {mode}: record of {size} bytes; {head}{'; FOUND ' + ', '.join(found) if found else ''}", flush=True)
    return good


def main():
    cupeer, names = sys.argv[1], sys.argv[2:] or list(PROGRAMS)
    rounds = int(os.environ.get("ROUNDS", 5))
    records = os.environ.get("RECORDS") or tempfile.mkdtemp()
    outcomes = {}
    for name in names:
        try:
            outcomes[name] = compare(cupeer, name, rounds, records)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(error)
            outcomes[name] = False
    failed = [name for name, good in outcomes.items() if good is False]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")
    if set(outcomes.values()) == {None}:
        sys.exit(MISSING)


main()
