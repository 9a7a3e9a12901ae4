"""check_memory.py CUPEER: starts each job of memory.py, under cupeer and not, and checks how it ends, what the summary says,
and that the figures of the report are those that nvidia-smi saw meanwhile.

Needs one GPU that nobody else uses, and PyTorch."""
import ctypes
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


# How the job ends, what the summary has, and the line of the largest row of the table of who holds the device's memory.
JOBS = {
    "colocated": (FAILED, [line("activations"), r"empty_cache"], "activations"),
    "sleep": (FAILED, [line("taken")], "taken"),
    "partial": (FAILED, [line("unmap"), line("use"), r"mapped again"], None),
    "loader": (FAILED, [line("ballast"), line("made")], "ballast"),
    "freed": (0, [], None),
    "fork": (FAILED, [line("weights"), r"fork"], None),
}


class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("instances", ctypes.c_uint * 2)]


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Watch(threading.Thread):
    """The most that NVML, which nvidia-smi shows, saw of each process, and of the device."""

    def __init__(self):
        super().__init__(daemon=True)
        self.processes, self.device, self.over = {}, 0, threading.Event()
        self.nvml, self.handle = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
        assert self.nvml.nvmlInit_v2() == 0 and self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.handle)) == 0

    def run(self):
        while not self.over.wait(0.002):
            count, all, memory = ctypes.c_uint(64), (Process * 64)(), Memory()
            if self.nvml.nvmlDeviceGetComputeRunningProcesses_v3(self.handle, ctypes.byref(count), all) == 0:
                for one in all[: count.value]:
                    self.processes[one.pid] = max(self.processes.get(one.pid, 0), one.used)
            if self.nvml.nvmlDeviceGetMemoryInfo(self.handle, ctypes.byref(memory)) == 0:
                self.device = max(self.device, memory.used)


def figures(name, memory, watch, processes):
    """What differs between a table of the report and nvidia-smi."""
    wrong = []
    held = sum(row["bytes"] for row in memory["rows"]) + sum(one["bytes"] for one in memory["other_processes"])
    left = memory["free"] + held + (memory["unaccounted"] or 0) - memory["total"]
    if abs(left) > 1 << 20:
        wrong.append(f"the table does not add up: {left} bytes")
    if abs(memory["total"] - memory["free"] - watch.device) > NEAR * memory["total"]:
        wrong.append(f"{memory['total'] - memory['free']} bytes in use, NVML saw {watch.device}")
    # What an owner that has ended leaves to an importer counts for that one, later than here.
    for proc in {row["proc"] for row in memory["rows"]} if name != "loader" else ():
        mine = sum(row["bytes"] for row in memory["rows"] if row["proc"] == proc)
        seen = watch.processes.get(processes[proc])
        if seen and mine > GIB and not -NEAR * seen <= seen - mine <= CONTEXT + NEAR * seen:
            wrong.append(f"process {processes[proc]}: {mine} bytes, NVML saw {seen}")
    return wrong


def check(name):
    status, expressions, largest = JOBS[name]
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
        wrong = [] if plain.returncode == ended.returncode == status else [f"ended with {plain.returncode} and {ended.returncode}"]
        wrong += [f"no {one}" for one in expressions if not re.search(one, summary)]
        tables = [one for one in report.get("memory", []) if one["at_ns"] is not None]
        if status == 0:
            wrong += [f"{one['severity']} {one['rule']}" for one in report["findings"] if one["severity"] != "note"]
        if largest and not tables:
            wrong.append("no table of memory")
        if largest and tables:
            processes = {one["proc"]: one["pid"] for one in report["processes"]}
            wrong += figures(name, tables[-1], watch, processes)
            first = max(tables[-1]["rows"], key=lambda row: row["bytes"])
            lines = [frame["python"] for frame in first["frames"] if frame.get("python")]
            places = [f"{os.path.basename(one['file'])}:{one['line']}" for one in lines]
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
