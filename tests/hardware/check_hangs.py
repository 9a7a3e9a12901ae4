"""check_hangs.py CUPEER BACKEND: starts each job of torch_hangs.py, under cupeer and not, and checks what 'cupeer why' answers.

With NCCL, each rank needs a GPU of its own."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

CUPEER, BACKEND = sys.argv[1], sys.argv[2]
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_hangs.py")
LIMIT = float(os.environ.get("HANG_LIMIT", "60"))

# The kinds of the root, and expressions that the answer has. Where all ranks but one wait for the device, each of them is in a call
# that polls.
# A rank that sets RANK itself is a process to whoever looks at it from outside.
RANK = r"(?:rank {}|process \d+(?: of rank {})?)"
zero, one = RANK.replace("{}", "0"), RANK.replace("{}", "1")
LINES = open(SCRIPT).read().split("\n")


def at(rank, mark):
    """An expression for what a rank is in, at the line with a mark. Before the hang, ranks are in other places."""
    line = next(number for number, text in enumerate(LINES, 1) if text.endswith(f"# {mark}"))
    return RANK.replace("{}", rank) + rf" (?:is )?in \w+ \(torch_hangs.py:{line}\)"


APART = [zero + r" is in \w+ \(torch_hangs.py:\d+\)", one + r" in \w+ \(torch_hangs.py:\d+\)"]
ANSWERS = {
    "missing": (["sleeps"], [one + r" sleeps at torch_hangs.py:\d+ in prepare", zero + r" waits for it"]),
    "apart": (["apart"], APART),
    "dead": (["ended"], [r"exited with status 3"]),
    "loader": (["sleeps"], [zero + r" sleeps at torch_hangs.py:\d+ in __getitem__", r"waits? for it"]),
    "groups": (["apart"], [at("0", "group one"), at("1", "group two")]),
}


def lacks(document, kinds, expressions):
    kind = (document.get("root") or {}).get("kind")
    missing = [one for one in expressions if not re.search(one, document["answer"])]
    return missing + ([] if kind in kinds else [f"kind {kind}"])


def check(what, under):
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, SCRIPT, what, BACKEND]
        if under:
            command = [CUPEER, "run", "-q", "-o", os.path.join(folder, "r"), "--", *command]
        # CUDA_LAUNCH_BLOCKING and the watchdog of NCCL would end some of these by themselves.
        environment = dict(os.environ, TORCH_NCCL_ASYNC_ERROR_HANDLING="0", TORCH_NCCL_ENABLE_MONITORING="0", MASTER_PORT=str(29600 + os.getpid() % 1000))
        job = subprocess.Popen(command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            end, missing, document = time.monotonic() + LIMIT, ["no answer"], {}
            while missing and time.monotonic() < end and job.poll() is None:
                time.sleep(1)
                asked = subprocess.run([CUPEER, "why", "--format", "json", str(job.pid)], capture_output=True, text=True)
                if asked.returncode == 0:
                    document = json.loads(asked.stdout)
                    missing = lacks(document, *ANSWERS[what])
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
        name = f"{BACKEND} {what}{', under cupeer' if under else ''}"
        print("FAILED " if missing else "ok     ", name, missing or "", document.get("answer", ""))
        return not missing


results = [check(what, under) for what in ANSWERS for under in (False, True)]
print(f"{sum(results)} of {len(results)} answers are right")
sys.exit(0 if all(results) else 1)
