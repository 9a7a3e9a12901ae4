"""Denied peers, on real GPUs: usage: check_deny.py CUPEER

Libraries choose another way and reach the right result, a pair that is denied changes alone, and no bytes go over NVLink.
Needs two GPUs with NVLink between them and PyTorch with NCCL; for one pair alone, four GPUs.
"""
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

cupeer = sys.argv[1]
here = Path(__file__).parent
work = tempfile.TemporaryDirectory()
LIMIT = 180
failed = 0


def say(is_good, name, seen):
    global failed
    failed += not is_good
    print(f"{'ok' if is_good else 'FAIL'} {name}: {seen}", flush=True)


def skip(name, why):
    print(f"skipped {name}: {why}", flush=True)


def run(program, deny=None, options=(), **environment):
    """Runs a program, under cupeer where something is denied."""
    command = [str(word) for word in program]
    if deny:
        command = [cupeer, "run", "--record", "off", "--deny-peer", deny, *options, "--", *command]
    environment = {**os.environ, "RESULTS": work.name, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=environment)
    except subprocess.TimeoutExpired as late:
        text = (late.stdout or b"").decode(errors="replace")
        return subprocess.CompletedProcess(command, -1, text, f"it hangs for {LIMIT} s")


def last(text):
    """What a failing program said last."""
    return " / ".join(line.strip() for line in text.splitlines()[-4:])


def gpus():
    return subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.count("GPU-")


def has_torch():
    return subprocess.run([sys.executable, "-c", "import torch; assert torch.distributed.is_nccl_available()"], capture_output=True).returncode == 0


def all_reduce(deny=None, ranks=2, mib=4, **environment):
    """An all-reduce: whether it was right, how its channels were connected, and how it ended."""
    port = str(29511 + os.getpid() % 1000)
    done = run([sys.executable, here / "nccl_allreduce.py"], deny, RANKS=str(ranks), MIB=str(mib), MASTER_PORT=port,
               NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,GRAPH,P2P,NVLS,ENV", **environment)
    total = float(ranks * (ranks + 1) // 2)
    right = [f"rank {number} sum {total} {total}" for number in range(ranks)]
    is_right = done.returncode == 0 and all(line in done.stdout.splitlines() for line in right)
    # PyTorch hands NCCL's lines on to one of the two.
    text = done.stdout + done.stderr
    ways = sorted(set(re.findall(r"via ([A-Z0-9]+(?:/\w+)*)", text)))
    return is_right, ways, text, f"status {done.returncode}, via {', '.join(ways) or 'nothing that it names'}" + (
        "" if is_right else f"; {last(done.stdout)} / {last(done.stderr)}")


def transports():
    for name, environment in [
        ("NCCL", {}),
        ("NCCL without cuMem", {"NCCL_CUMEM_ENABLE": "0"}),
        ("NCCL, one GPU a rank", {"ONE_GPU": "1"}),
        ("NCCL without cuMem, one GPU a rank", {"NCCL_CUMEM_ENABLE": "0", "ONE_GPU": "1"}),
    ]:
        is_right, ways, _, seen = all_reduce(**environment)
        say(is_right and any(way.startswith("P2P") for way in ways), f"{name}, nothing denied: over P2P", seen)
        is_right, ways, text, seen = all_reduce("all", **environment)
        is_other = bool(ways) and not any(way.startswith("P2P") for way in ways)
        say(is_right and is_other, f"{name}, all denied: another way, right result", seen)
        over_switch = [line.strip() for line in text.splitlines() if "NVLS" in line and "Connected" in line]
        say(not over_switch, f"{name}, all denied: nothing is reduced in the switch", over_switch or "no NVLS")
        counted = re.search(r"deny-peer/1 \(all\): denied (\S+) calls?", text)
        say(counted is not None, f"{name}, all denied: it is counted", counted[0] if counted else last(text))


COPY = """
import torch
a = torch.arange(1 << 22, device="cuda:0", dtype=torch.float64)
b = a.to("cuda:1") * 2
c = b.to("cuda:0")
print(torch.equal(c, a * 2), torch.cuda.can_device_access_peer(0, 1))
"""


def torch_copies():
    done = run([sys.executable, "-c", COPY])
    say(done.stdout.split() == ["True", "True"], "PyTorch's copy between GPUs, nothing denied", done.stdout.strip() or last(done.stderr))
    done = run([sys.executable, "-c", COPY], "all")
    say(done.returncode == 0 and done.stdout.split() == ["True", "False"], "PyTorch's copy between GPUs, all denied: right data",
        done.stdout.strip() or last(done.stderr))
    plain = run([sys.executable, here / "torch_share.py"])
    done = run([sys.executable, here / "torch_share.py"], "all")
    say(done.returncode == 0 and done.stdout == plain.stdout, "PyTorch's tensor of another process, all denied",
        done.stdout.strip() or last(done.stderr))


def attempts():
    """What programs try: enabling, and opening what another process has exported on the other GPU."""
    program = f"{work.name}/denied"
    subprocess.run(["cc", "-O1", "-o", program, here.parent / "programs/denied.c", "-ldl", "-lpthread"], check=True)
    done = run([program, "cuda"], "all")
    pairs = re.findall(r"^\d \d: (.*)$", done.stdout, re.M)
    wanted = re.compile(r"can=0 attributes=0,0,0,0,0 atomics=0,0 enable=217 disable=705")
    say(done.returncode == 0 and pairs and all(wanted.fullmatch(pair) for pair in pairs), "every question and enabling", set(pairs))
    multicast = set(re.findall(r"multicast=(\d+)", done.stdout))
    say(multicast == {"0"}, "no multicast", f"denied {multicast}, not denied {set(re.findall(r'multicast=([0-9]+)', run([program, 'cuda']).stdout))}")
    usual = re.findall(r"null=.*", run([program, "cuda"]).stdout)
    say(re.findall(r"null=.*", done.stdout) == usual, "wrong calls fail as always", usual)
    plain = run([program, "ipc", "0", "1"])
    say("memory=0 output=mapped again=0 close=0,0 event=0 output=opened" in plain.stdout, "a handle of the other GPU, nothing denied",
        last(plain.stdout) or last(plain.stderr))
    options = ["--record", "full", "--out", f"{work.name}/job"]
    for name, arguments, options, wanted in [
        ("its exporter is known", ["0", "1"], options, "memory=217 output=untouched event=217 output=untouched"),
        ("its exporter is a stranger", ["0", "1", "alone"], [], "memory=217 output=untouched"),
    ]:
        command = [program, "ipc", *arguments]
        if options:
            denied = [cupeer, "run", *options, "--deny-peer", "all", "--", *command]
            done = subprocess.run(denied, capture_output=True, text=True, timeout=LIMIT)
        else:
            done = run(command, "all")
        say(wanted in done.stdout, f"a handle of the other GPU, all denied, and {name}", last(done.stdout) or last(done.stderr))
    alone = run([program, "ipc", "1", "1"], "all")
    say("memory=0 output=mapped" in alone.stdout, "a handle of the own GPU, all denied", last(alone.stdout) or last(alone.stderr))


def virtual_memory():
    """Symmetric memory has no other way: its rendezvous fails with the driver's error, in both ranks, and nothing crosses."""
    program = [sys.executable, here / "torch_symmetric.py"]
    for deny in [None, "all"]:
        before = nvlink_bytes(2)
        begun = time.monotonic()
        done = run(program, deny, MIB="4", ROUNDS="100")
        took = time.monotonic() - begun
        over = nvlink_bytes(2) - before if before is not None else None
        grown = f", {over / (1 << 20):.3f} MiB over NVLink" if over is not None else ""
        if deny:
            is_good = done.returncode not in (0, -1) and "CUDA driver error" in done.stderr and (over is None or over < 1 << 20)
            error = re.findall(r".*CUDA driver error.*", done.stderr)[-1:] or last(done.stderr)
            say(is_good, "symmetric memory, all denied: its error, and no hang", f"{error} after {took:.0f} s{grown}")
        else:
            is_good = done.returncode == 0 and (over is None or over > 100 << 20)
            say(is_good, "symmetric memory, nothing denied", f"{done.stdout.split(chr(10))[0] or last(done.stderr)}{grown}")
    expandable = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    plain = run([sys.executable, here / "torch_share.py"], **expandable)
    done = run([sys.executable, here / "torch_share.py"], "all", **expandable)
    say(done.returncode == 0 and done.stdout == plain.stdout, "expandable segments of another process, all denied",
        done.stdout.strip() or last(done.stderr))
    done = run([sys.executable, "-c", COPY], "all", **expandable)
    say(done.returncode == 0 and done.stdout.split() == ["True", "False"], "expandable segments copied between GPUs, all denied: right data",
        done.stdout.strip() or last(done.stderr))


class FieldValue(ctypes.Structure):
    """nvmlFieldValue_t."""

    _fields_ = [("field", ctypes.c_uint), ("scope", ctypes.c_uint), ("timestamp", ctypes.c_longlong), ("latency", ctypes.c_longlong),
                ("type", ctypes.c_uint), ("result", ctypes.c_int), ("value", ctypes.c_ulonglong)]


def nvlink_bytes(count):
    """The bytes that the first GPUs have sent and received over NVLink so far; None where NVML does not count them."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    if nvml.nvmlInit_v2() != 0:
        return None
    total, known = 0, False
    for index in range(count):
        device = ctypes.c_void_p()
        if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) != 0:
            return None
        # THROUGHPUT_DATA_TX and _RX of each link in KiB; else COUNT_XMIT_BYTES and _RCV_BYTES.
        for fields, unit in [((138, 139), 1024), ((202, 204), 1)]:
            values = (FieldValue * 36)(*[FieldValue(field=field, scope=link) for link in range(18) for field in fields])
            if nvml.nvmlDeviceGetFieldValues(device, len(values), values) != 0:
                continue
            good = [value.value for value in values if value.result == 0]
            if good:
                total += sum(good) * unit
                known = True
                break
    return total if known else None


def counters():
    name = "NVLink while 1 GiB is reduced"
    before = nvlink_bytes(2)
    if before is None:
        skip(name, "NVML has no counters of bytes here")
        return
    for deny in [None, "all"]:
        before = nvlink_bytes(2)
        is_right, _, _, seen = all_reduce(deny, mib=1024)
        grown = nvlink_bytes(2) - before
        is_good = grown < 1 << 20 if deny else grown > 1 << 30
        say(is_right and is_good, f"{name}, {deny or 'nothing'} denied", f"{grown / (1 << 20):.3f} MiB, {seen}")


def one_pair():
    plain = run([sys.executable, here / "peers.py"])
    denied = run([sys.executable, here / "peers.py"], "0/1")
    if plain.returncode or denied.returncode:
        say(False, "one pair of four", f"{last(plain.stderr)} / {last(denied.stderr)}")
        return
    plain, denied = json.loads(plain.stdout), json.loads(denied.stdout)
    for who in plain:
        changed = sorted(pair for pair in plain[who] if plain[who][pair] != denied[who].get(pair))
        say(changed == ["0/1", "1/0"], f"one pair of four, {who}: it changes alone", {pair: denied[who][pair] for pair in changed})
    direction = run([sys.executable, here / "peers.py"], "0/1:oneway")
    answers = json.loads(direction.stdout or "{}")
    changed = {who: sorted(pair for pair in plain[who] if plain[who][pair] != answers.get(who, {}).get(pair)) for who in plain}
    say(all(pairs == ["0/1"] for pairs in changed.values()), "one direction alone", changed)
    for name, environment in [("NCCL", {}), ("NCCL without cuMem", {"NCCL_CUMEM_ENABLE": "0"})]:
        is_right, _, _, seen = all_reduce("0/1", ranks=4, **environment)
        say(is_right, f"{name} over four ranks, 0/1 denied: right result", seen)


if gpus() < 2:
    print(f"FAIL check_deny.py needs two GPUs, and nvidia-smi sees {gpus()}")
    sys.exit(2)
attempts()
if has_torch():
    transports()
    torch_copies()
    virtual_memory()
    counters()
else:
    skip("NCCL and PyTorch", "not installed")
if gpus() >= 4 and has_torch():
    one_pair()
else:
    skip("one pair of four", f"this machine has {gpus()} GPUs")
sys.exit(1 if failed else 0)
