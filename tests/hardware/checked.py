"""Runs programs with `cupeer run --check=notes` and without, for the scripts of this folder.

What belongs here: starting them, and reading what was found. What is expected of it is said by who calls.
usage of the scripts: SCRIPT CUPEER [NAME...]
To try a script without a GPU, give it the simulated driver: LD_LIBRARY_PATH=.../lib/cupeer/cupeer-sim CUPEER_SIM=nvlink:2.
"""
import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import tempfile

# A process that needs longer hangs.
LIMIT = 100
# How a program ends that cannot be played on this machine.
CANNOT = 77
# How bad a finding is, the least first.
SEVERITIES = ["note", "warning", "error"]
CUPEER = "cupeer: "
HEAD = re.compile(rf"{CUPEER}({'|'.join(SEVERITIES)}) ([a-z0-9-]+): ")
# The driver's log: [time][thread][CUDA][E] what it says, and then what it returns.
DRIVER = re.compile(r"\[\d\d:\d\d:\d\d\.\d+\](\[[^]]*\])+ (.*)")


class Done:
    """How a program ended."""

    def __init__(self, status, stdout, stderr):
        self.status, self.stdout, self.stderr = status, stdout, stderr

    def same(self, other):
        return (self.status, self.stdout) == (other.status, other.stdout)

    def driver_words(self):
        """What the driver said under CUDA_LOG_FILE=stderr, but for the result, which programs print themselves."""
        found = [match[2] for line in self.stderr.splitlines() if (match := DRIVER.search(line))]
        return [text for text in dict.fromkeys(found) if not text.startswith("Returning ")]

    def paragraphs(self):
        """What cupeer said of each finding."""
        found, inside = [], False
        for line in self.stderr.splitlines():
            if HEAD.match(line):
                found.append([])
                inside = True
            elif not line.startswith("    "):
                inside = False
            if inside:
                found[-1].append(line)
        return ["\n".join(lines) for lines in found]

    def rest(self):
        """What else stands on stderr, but for cupeer's summary."""
        ours = {line for text in self.paragraphs() for line in text.splitlines()}
        lines = [line for line in self.stderr.splitlines() if line not in ours and not line.startswith(CUPEER)]
        return "\n".join(lines)


def run(command, variables):
    """Runs it with these variables, and none of an outer cupeer's; ends it, and all that it started, after LIMIT."""
    is_outer = lambda name: name.startswith("CUPEER_") and name != "CUPEER_SIM" or name == "LD_PRELOAD"
    clean = {name: value for name, value in os.environ.items() if not is_outer(name)}
    process = subprocess.Popen(command, env={**clean, **variables}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = process.communicate(timeout=LIMIT)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        out, err = process.communicate()
        err, status = err + b"\nit had not ended after %d seconds" % LIMIT, "hangs"
    return Done(status, out.decode(errors="replace"), err.decode(errors="replace"))


class Bench:
    """Where programs are run, with the folder for what they leave behind."""

    def __init__(self, cupeer):
        self.cupeer = cupeer
        self.work = tempfile.mkdtemp(prefix="cupeer-hardware-")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.work, ignore_errors=True)

    def alone(self, command, variables=None):
        """The program without cupeer, and the driver's own words."""
        return run(command, {"CUDA_LOG_FILE": "stderr", **(variables or {})})

    def checked(self, command, variables=None):
        """The program under cupeer, what was found, and what does not agree about that."""
        record = tempfile.mkdtemp(dir=self.work)
        os.rmdir(record)
        done = run([self.cupeer, "run", "--check=notes", "--out", record, "--", *command], variables or {})
        findings, trouble = report(self.cupeer, record)
        said = {match[2] for line in done.stderr.splitlines() if (match := HEAD.match(line))}
        missing = said - {finding["rule"] for finding in findings}
        # What nothing explained at the call, the recording of all processes may explain.
        if any(finding["result"] != "CUDA_SUCCESS" for finding in findings):
            missing.discard("call-failed")
        if missing:
            trouble.append(f"said, and not in the report: {', '.join(sorted(missing))}")
        shutil.rmtree(record, ignore_errors=True)
        return done, findings, trouble


def report(cupeer, record):
    """The findings of a record, and what is wrong with it."""
    done = run([cupeer, "report", record, "--format", "json"], {})
    if done.status != 0:
        return [], [f"cupeer report: status {done.status}: {done.stderr.strip()}"]
    data = json.loads(done.stdout)
    lost = data["record"]
    trouble = [f"lost {lost['lost']}, problems {lost['problems']}"] if lost["lost"] or lost["problems"] else []
    return data["findings"], trouble


def line(finding):
    """A finding in one line."""
    count = f" ({finding['count']} times)" if finding["count"] > 1 else ""
    confidence = "" if finding["confidence"] == "certain" else f" ({finding['confidence']})"
    return (f"{finding['rule']} {finding['severity']}{confidence}, {finding['function']}{count}, "
            f"by {finding['caller']['library']}: {finding['message']}")


def arguments(description):
    """The arguments of a script."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("cupeer", type=os.path.realpath)
    parser.add_argument("names", nargs="*")
    return parser.parse_args()


def tell(results, at_once):
    """Calls `results` of each (name, work), some at once; prints their lines in order, and sums up the words they begin
    with: ok, FAILED, skipped. Whether none failed."""
    sums = dict.fromkeys(["ok", "FAILED", "skipped"], 0)
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        waiting = [(name, pool.submit(work)) for name, work in results]
        for name, future in waiting:
            try:
                verdict, text = future.result()
            except Exception as error:  # One that cannot be judged must not keep the others from it.
                verdict, text = "FAILED", f"{name}: {error!r}"
            sums[verdict] += 1
            print(f"{verdict:7} {text}", flush=True)
    print(f"{sums['ok']} ok, {sums['FAILED']} failed, {sums['skipped']} skipped", flush=True)
    return not sums["FAILED"]
