#!/usr/bin/env python3
"""Plays the scenes of tests/programs/rules on real GPUs: the wrong program yields its rule, and those that cannot be kept
beside it, the right one nothing; both print what they print without cupeer. Shows the driver's own words, and where the
driver answers otherwise than the table says.

usage: check_rules.py CUPEER [SCENE...]
"""
import os
import subprocess
import sys

import checked

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs", "rules")
# How many scenes are played at once.
AT_ONCE = 8


def scenes():
    """The lines of the table, each with why it is not for the real GPUs of this machine."""
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout
    devices = listed.count("GPU-")
    for text in open(os.path.join(PROGRAMS, "table.txt")):
        if text.strip() and not text.startswith("#"):
            name, program, _, needed, function, result, also, reason = [field.strip() for field in text.split("|")]
            if not reason and int(needed) > devices:
                reason = f"it needs {needed} devices, and there are {devices}"
            yield name, program, function, result.split(" or "), also, reason


def compile_programs(folder, stems):
    """Compiles the programs that are needed; what the compiler said of those that fail."""
    failures = {}
    libraries = []
    for number, name in enumerate(["FIRST", "SECOND"], 1):
        path = os.path.join(folder, f"lib{number}.so")
        libraries += [f'-D{name}_LIBRARY="{path}"']
        source = os.path.join(PROGRAMS, "library.c")
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", f"-DNUMBER={number}", "-o", path, source], check=True)
    for stem in stems:
        source, out = os.path.join(PROGRAMS, f"{stem}.c"), os.path.join(folder, stem)
        done = subprocess.run(["gcc", "-O1", *libraries, "-o", out, source, "-ldl"], capture_output=True, text=True)
        if done.returncode:
            failures[stem] = done.stderr
    return failures


def result_of(stdout):
    """The line of the call on which a wrong program turns."""
    return stdout.splitlines()[0] if stdout else "nothing"


def play(bench, scene):
    """One scene: its verdict, and the line, with what is wrong below it."""
    name, program, function, results, also, _ = scene
    program = os.path.join(bench.work, program)
    wrong, notes = [], []
    for how in ["bad", "good"]:
        command = [program, name, how]
        alone = bench.alone(command)
        if alone.status == checked.CANNOT:
            return "skipped", f"{name}: cannot be played here: {alone.stderr.strip()}"
        done, findings, trouble = bench.checked(command)
        wrong += [f"{how}: {text}" for text in trouble]
        if alone.status != 0:
            wrong.append(f"{how}, without cupeer: status {alone.status}: {alone.stdout!r} {alone.stderr.strip()}")
        if not done.same(alone):
            wrong.append(f"{how}: status {done.status}, {done.stdout!r} where it is {alone.status}, {alone.stdout!r} "
                         f"without cupeer: {done.rest()}")
        expected = {name.split("/")[0], *also.split()} if how == "bad" else set()
        if {finding["rule"] for finding in findings} != expected:
            wrong.append(f"{how}: expected {sorted(expected) or 'nothing'}, found")
            wrong += [f"  {checked.line(finding)}" for finding in findings] or ["  nothing"]
            wrong += [f"  {line}" for text in done.paragraphs() for line in text.splitlines()]
        if how == "bad":
            answer = result_of(alone.stdout)
            short = answer.split(": ")[-1].removeprefix("CUDA_ERROR_").removeprefix("CUDA_")
            if short not in results:
                notes.append(f"the driver answers {answer}, and the table says {' or '.join(results)}")
            words = " / ".join(alone.driver_words()) or "nothing"
            told = [finding["driver_message"] for finding in findings if finding.get("driver_message")]
            severities = {f"{finding['rule']} ({finding['severity']})" for finding in findings}
    head = f"{name}: {', '.join(sorted(severities)) or 'nothing'}; {answer}; the driver says: {words}"
    if told and not set(" / ".join(told).split()) & set(words.split()):
        notes.append(f"the finding has other words of the driver: {' / '.join(told)}")
    return "FAILED" if wrong else "ok", "\n        ".join([head, *notes, *wrong])


def main():
    options = checked.arguments(__doc__)
    wanted = [scene for scene in scenes() if not options.names or scene[0] in options.names]
    playable = [scene for scene in wanted if not scene[-1]]
    left_out = [scene for scene in wanted if scene[-1]]
    with checked.Bench(options.cupeer) as bench:
        failures = compile_programs(bench.work, {scene[1] for scene in playable})
        for stem, said in failures.items():
            print(f"FAILED  {stem}.c does not build:\n{said}")
        playable = [scene for scene in playable if scene[1] not in failures]
        is_well = checked.tell([(scene[0], lambda scene=scene: play(bench, scene)) for scene in playable], AT_ONCE)
    for reason in sorted({scene[-1] for scene in left_out}):
        print(f"left out: {reason}: {', '.join(scene[0] for scene in left_out if scene[-1] == reason)}")
    print(f"{len(wanted) - len(playable)} of {len(wanted)} scenes were left out" + (", or do not build" if failures else ""))
    return 0 if is_well and not failures else 1


if __name__ == "__main__":
    sys.exit(main())
