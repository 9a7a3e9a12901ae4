"""check_memory.py CUPEER: starts each job of memory.py, under cupeer and not, and checks how it ends, what the summary says,
and that the figures of the report are those that nvidia-smi saw meanwhile.

Needs one GPU that nobody else uses, and PyTorch."""
import json
import os
import re
import subprocess
import sys
import tempfile
import threading

CUPEER = sys.argv[1]
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "memory.py")
LIMIT = 120
FAILED = 3
GIB = 1 << 30
# A process has its context beside its allocations: 518 MiB with driver 580, and more with the modules of PyTorch.
CONTEXT = 1.5 * GIB
NEAR = 0.02
LINES = open(SCRIPT).read().split("\n")


def line(mark):
    """An expression for the line with a mark."""
    return rf"memory\.py:{next(number for number, text in enumerate(LINES, 1) if text.endswith(f'# {mark}'))}\b"


# What the summary has, whether the report has a table of who holds the device's memory, and the largest row's line.
JOBS = {
    "colocated": ([line("activations"), r"empty_cache"], True, "activations"),
    "sleep": ([line("taken")], True, "taken"),
    "partial": ([line("unmap"), line("use"), r"1 is mapped again|mapped again"], False, None),
    "loader": ([line("ballast")], True, "ballast"),
    "fork": ([line("weights"), r"fork"], True, "weights"),
}


class Watch(threading.Thread):
    """The most that nvidia-smi saw of each process, and of the device."""

    def __init__(self):
        super().__init__(daemon=True)
        self.processes, self.device, self.over = {}, 0, threading.Event()

    def run(self):
        ask = lambda query, fields: subprocess.run(["nvidia-smi", f"--query-{query}={fields}", "--format=csv,noheader,nounits"], capture_output=True, text=True).stdout
        while not self.over.wait(0.1):
            for row in ask("compute-apps", "pid,used_memory").splitlines():
                pid, used = row.split(", ")
                if used.isdigit():
                    self.processes[int(pid)] = max(self.processes.get(int(pid), 0), int(used) << 20)
            self.device = max([self.device] + [int(used) << 20 for used in ask("gpu", "memory.used").split()])


def figures(memory, watch, processes):
    """What differs between a table of the report and nvidia-smi."""
    wrong = []
    held = sum(row["bytes"] for row in memory["rows"]) + sum(one["bytes"] for one in memory["other_processes"])
    left = memory["free"] + held + (memory["unaccounted"] or 0) - memory["total"]
    if abs(left) > 1 << 20:
        wrong.append(f"the table does not add up: {left} bytes")
    if abs(memory["total"] - memory["free"] - watch.device) > NEAR * memory["total"]:
        wrong.append(f"{memory['total'] - memory['free']} bytes in use, nvidia-smi saw {watch.device}")
    for proc in {row["proc"] for row in memory["rows"]}:
        mine = sum(row["bytes"] for row in memory["rows"] if row["proc"] == proc)
        seen = watch.processes.get(processes[proc])
        if seen and mine > GIB and not -NEAR * seen <= seen - mine <= CONTEXT + NEAR * seen:
            wrong.append(f"process {processes[proc]}: {mine} bytes, nvidia-smi saw {seen}")
    return wrong


def check(name):
    expressions, has_table, largest = JOBS[name]
    plain = subprocess.run([sys.executable, SCRIPT, name], capture_output=True, text=True, timeout=LIMIT)
    with tempfile.TemporaryDirectory() as folder:
        record = os.path.join(folder, "r")
        watch = Watch()
        watch.start()
        ended = subprocess.run([CUPEER, "run", "--color", "never", "-o", record, "--", sys.executable, SCRIPT, name], capture_output=True, text=True, timeout=LIMIT)
        watch.over.set()
        watch.join()
        summary = "\n".join(text for text in ended.stderr.splitlines() if text.startswith(("cupeer:", "  ")))
        report = json.loads(subprocess.run([CUPEER, "report", "--format", "json", record], capture_output=True, text=True).stdout)
        wrong = [] if plain.returncode == ended.returncode == FAILED else [f"ended with {plain.returncode} and {ended.returncode}"]
        wrong += [f"no {one}" for one in expressions if not re.search(one, summary)]
        tables = [one for one in report["memory"] if one["at_ns"] is not None]
        if has_table and not tables:
            wrong.append("no table of memory")
        if has_table and tables:
            processes = {one["proc"]: one["pid"] for one in report["processes"]}
            wrong += figures(tables[-1], watch, processes)
            first = max(tables[-1]["rows"], key=lambda row: row["bytes"])
            places = [f"{os.path.basename(frame['file'] or '')}:{frame['line']}" for frame in first["frames"] if frame.get("file")]
            if not any(re.fullmatch(line(largest), place) for place in places):
                wrong.append(f"the largest row is from {places[:3]}")
        print(f"{'ok' if not wrong else 'WRONG'} {name}: {'; '.join(wrong)}", flush=True)
        if wrong:
            print(summary[:3000], flush=True)
            print(json.dumps(tables)[:2000], flush=True)
    return not wrong


def main():
    names = sys.argv[2:] or list(JOBS)
    raise SystemExit(0 if all([check(name) for name in names]) else 1)


main()
