"""The links, on real GPUs: usage: check_doctor.py CUPEER [OPTIONS OF doctor --p2p]

Every pair and way is good, ten times alike; copies carry what the link promises, or it is said why not; the machine file
makes the simulated driver answer each question as this machine does; and killing the command at any moment leaves no
process and no device in error. Needs two GPUs that reach each other.
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

cupeer, *options = sys.argv[1:]
work = tempfile.TemporaryDirectory()
machine = Path(work.name) / "machine.toml"
RUNS = int(os.environ.get("RUNS", "10"))
KILLS = int(os.environ.get("KILLS", "20"))
LIMIT = 180
failed = 0


def say(is_good, name, seen):
    global failed
    failed += not is_good
    print(f"{'ok' if is_good else 'FAIL'} {name}: {seen}", flush=True)


def doctor(*more, by=options):
    command = [cupeer, "doctor", "--p2p", "--format", "json", *by, *more]
    start = time.monotonic()
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    took = time.monotonic() - start
    if ended.returncode not in (0, 1):
        say(False, "doctor", f"status {ended.returncode}: {ended.stderr}")
        sys.exit(1)
    return json.loads(ended.stdout), took


def bad(document):
    """Each check that is neither good nor an atomic that nobody claims."""
    for pair in document["pairs"]:
        for way in pair["ways"]:
            for check in way["checks"]:
                left_out = check["verdict"] == "not_tested" and check["check"] == "atomics"
                if check["verdict"] != "good" and not left_out:
                    yield f"{pair['from']} -> {pair['to']}, {way['way']}, {check}"


def processes(word):
    """Processes with a word in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if word.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


first, took = doctor("-o", str(machine))
for run in range(1, RUNS + 1):
    document, took = (first, took) if run == 1 else doctor()
    wrong = list(bad(document))
    say(not wrong, f"run {run}", wrong or f"{document['good']} directions are good, {took:.1f} s")
reaching = [pair for pair in first["pairs"] if pair["can_access"]]
say(bool(reaching), "pairs that reach each other", len(reaching))
for pair in reaching:
    for way in pair["ways"]:
        measured, promise = way["measured"], pair["promise"] or {}
        share = 100 * measured["copy_mb_s"] // promise["mb_s"] if measured and promise.get("mb_s") else None
        print(f"   {pair['from']} -> {pair['to']}, {way['way']}: {measured}, promise {promise}, copies {share}%")
        # The rest is the headers of packets.
        say(share is None or 65 <= share <= 100, "copies carry what the link promises", f"{share}%")

simulated, _ = doctor("--quick", by=[f"--sim={machine}"])


def answers(document):
    """What the driver says of pairs. One that lacks a function says nothing; the simulated one says 0."""
    return [(pair["can_access"], pair["attributes"], [n for n in pair["atomic_capabilities"] if n])
            for pair in document["pairs"]]


say(answers(simulated) == answers(first), "the simulated machine answers alike", answers(first))
say(simulated["devices"] == first["devices"], "and has the same devices", [d["uuid"] for d in first["devices"]])

for kill in range(KILLS):
    word = f"CHECK_DOCTOR={os.getpid()}-{kill}"
    name, value = word.split("=")
    child = subprocess.Popen([cupeer, "doctor", "--p2p", *options], env={**os.environ, name: value},
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(random.random() * min(took, 10))
    child.kill()
    child.wait()
    end = time.monotonic() + 20
    while processes(word) and time.monotonic() < end:
        time.sleep(0.01)
    if processes(word):
        say(False, f"kill {kill}", f"processes stay: {processes(word)}")
say(True, "killed", f"{KILLS} times")
document, took = doctor()
wrong = list(bad(document))
say(not wrong, "afterwards", wrong or f"{document['good']} directions are good, {took:.1f} s")
sys.exit(1 if failed else 0)
