"""Checks the record of a real program: every open is joined to its export, and the callers are the libraries that
are expected, not the CUDA runtime.

usage: check_record.py CUPEER DIR CALLER [FUNCTION...]     CALLER is a pattern for every caller's library
"""
import json
import re
import subprocess
import sys

cupeer, directory, caller, *functions = sys.argv[1:]


def report(form):
    command = [cupeer, "report", directory, "--format", form]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


wrong = []
data = report("json")
calls = {f["function"]: f["calls"] for f in data["functions"]}
wrong += [f"{name} is not in the record" for name in functions if not calls.get(name)]
opens = [(handle, opened) for handle in data["handles"] for opened in handle["opens"]]
for handle, opened in opens:
    if handle["exporter"] is None:
        wrong.append(f"{handle['fingerprint']} was opened by {opened['proc']} and exported by nobody")
    elif handle["exporter"] == opened["proc"]:
        wrong.append(f"{handle['fingerprint']} was exported and opened by {opened['proc']}")
if data["record"]["lost"] or data["record"]["problems"]:
    wrong.append(f"lost {data['record']['lost']}, problems {data['record']['problems']}")

trace = report("trace")
events = trace["traceEvents"] if isinstance(trace, dict) else trace
weighty = ("cuIpcGet", "cuIpcOpen", "cuCtxEnable", "cuMemExport", "cuMemImport")
libraries = {}
for event in events:
    if event.get("ph") == "X" and event["name"].startswith(weighty):
        # Where its line of source is known, that comes first; its symbol comes last.
        place = re.search(r"(?:^|, )([^, ]+\+0x[0-9a-f]+)(?: |$)", str(event["args"].get("caller")))
        library = place[1] if place else "nobody"
        libraries[library.split("+")[0]] = libraries.get(library.split("+")[0], 0) + 1
        if "libcudart" in library or not re.search(caller, library):
            wrong.append(f"{event['name']} was called by {library}")
arrows = sum(event.get("ph") == "s" for event in events)
if opens and not arrows:
    wrong.append("the trace has no arrows")

print(f"  {len(data['processes'])} processes, {sum(calls.values())} calls, {len(opens)} opens joined, {arrows} arrows")
for library, count in sorted(libraries.items()):
    print(f"  {count} from {library}")
for pair in data["peers"]:
    print(f"  {pair['proc']}: {pair['from']} -> {pair['to']}, asked {pair['asked']}, can {pair['can_access']}, enabled {pair['enabled']}")
for sentence in wrong[:10]:
    print("  WRONG:", sentence)
sys.exit(bool(wrong))
