"""Compares cupeer's counts with CUPTI's, by process and function.

usage: compare_counts.py CUPEER LOG COUNTS-FOLDER EXPECTED-FUNCTION...
Only the driver's functions of cupeer's table are compared, which CUPTI counts (NVML's it does not), only calls from cuInit until
the driver has shut down (the CUDA runtime releases its contexts after that), and not those that the CUPTI library makes itself. Each expected function must have been called. Exits with 1 on any difference.
"""
import collections
import json
import os
import struct
import subprocess
import sys

cupeer, log, folder, *expected = sys.argv[1:]
table = {f["function"] for f in json.loads(subprocess.check_output([cupeer, "list", "functions", "--format", "json"]))
         if f["library"] == "libcuda.so.1"}

cupti, started = {}, {}
for pid in os.listdir(folder):
    data = open(os.path.join(folder, pid), "rb").read()
    if len(data) < 8:
        continue
    started[int(pid)] = struct.unpack_from("<Q", data)[0]
    counts = cupti.setdefault(int(pid), collections.Counter())
    for name, count in struct.iter_unpack("<56sQ", data[8:]):
        name = name.split(b"\0")[0].decode()
        if count and name in table:
            counts[name] += count

ours = {pid: collections.Counter() for pid in cupti}
outside = collections.Counter()
for line in open(log):
    row = json.loads(line)
    if row.get("function") not in table:
        continue
    pid = row["pid"]
    if pid not in ours:
        outside["processes that never reached cuInit"] += 1
    elif row["ts_ns"] < started[pid]:
        outside["before cuInit"] += 1
    elif row["result"] == "CUDA_ERROR_DEINITIALIZED":
        outside["after the driver"] += 1
    elif "libcupti" in row["caller"]:
        outside["from libcupti"] += 1
    else:
        ours[pid][row["function"]] += 1

failed = not cupti
total = collections.Counter()
for pid in cupti:
    for name in sorted(cupti[pid].keys() | ours[pid].keys()):
        total[name] += ours[pid][name]
        if cupti[pid][name] != ours[pid][name]:
            failed = True
            print(f"  DIFFERENT {name} in {pid}: cupeer {ours[pid][name]}, CUPTI {cupti[pid][name]}")
for name in expected:
    if not total[name]:
        failed = True
        print(f"  MISSING {name}: no call was seen")
print("  equal:" if not failed else "  total:", ", ".join(f"{n} {c}" for n, c in sorted(total.items())))
print("  outside:", dict(outside), "processes:", len(cupti))
sys.exit(failed)
