#!/usr/bin/env python3
"""Plays the cases of cases/: what users met, with the software they met it with. Shows for each what cupeer says, and
beside it what the driver says under CUDA_LOG_FILE=stderr of the same program without cupeer. The finding has to be the
one that the case's head names, and ours to have its words, of which the driver has none.

usage: check_cases.py CUPEER [CASE...]
"""
import ast
import glob
import importlib.util
import os
import re
import sys

import checked

CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases")
# How many cases are played at once: PyTorch takes a while to start.
AT_ONCE = 4
FIELD = re.compile(r"^(needs|variables|finds|says): (.*)$", re.M)
# What a case says on stderr about this run, for the words that are expected: NAME = VALUE.
VALUE = re.compile(r"^(\w+) = (.*)$", re.M)


def words(text):
    """Text with every run of white space as one blank."""
    return " ".join(text.split())


def is_there(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def wrong_findings(expected, findings):
    """Problems with what was found. Notes of the software itself are no matter."""
    wrong = []
    found = {f"{finding['rule']} {finding['severity']}" for finding in findings}
    if expected not in found:
        wrong.append(f"expected {expected}, and it was not found")
    others = [f for f in findings if f["severity"] != "note" and f"{f['rule']} {f['severity']}" != expected]
    return wrong + [f"beside it: {checked.line(finding)}" for finding in others]


def wrong_words(wanted, done, alone):
    """Which words are missing in ours, or stand in the driver's, too."""
    values = dict(VALUE.findall(done.stderr))
    ours, theirs = words(done.stderr), words(alone.stderr)
    wrong = []
    for text in wanted.split(" | "):
        for name, value in values.items():
            text = text.replace("{" + name + "}", value)
        if text not in ours:
            wrong.append(f"cupeer does not say {text!r}")
        if text in theirs:
            wrong.append(f"the driver says {text!r}, too")
    return wrong


def play(bench, path):
    """One case: its verdict, and what is shown of it."""
    name, head = os.path.basename(path)[:-3], ast.get_docstring(ast.parse(open(path).read()))
    fields = dict(FIELD.findall(head))
    title = f"{name}: {head.splitlines()[0]}"
    if fields["needs"] != "cudart" and not is_there(fields["needs"]):
        return "skipped", f"{title} {fields['needs']} is not installed"
    variables = {"PYTHONDONTWRITEBYTECODE": "1"}
    variables |= dict(text.split("=", 1) for text in fields.get("variables", "").split())
    alone = bench.alone([sys.executable, path], variables)
    if alone.status == checked.CANNOT:
        return "skipped", f"{title} cannot be played here: {alone.stderr.strip()}"
    done, findings, wrong = bench.checked([sys.executable, path], variables)
    if alone.status != 0:
        wrong.append(f"without cupeer: status {alone.status}: {alone.stderr.strip()}")
    if not done.same(alone):
        wrong.append(f"status {done.status} where it is {alone.status} without cupeer: {done.rest()}")
        wrong.append(f"{done.stdout!r} where it is {alone.stdout!r} without cupeer")
    wrong += wrong_findings(fields["finds"], findings)
    wrong += wrong_words(fields["says"], done, alone)
    shown = [f"the program | {text}" for text in alone.stdout.splitlines()]
    shown += [f"the driver  | {text}" for text in alone.driver_words() or ["(nothing)"]]
    shown += [f"cupeer      | {text}" for one in done.paragraphs() for text in one.splitlines()]
    said = {match[2] for text in done.paragraphs() if (match := checked.HEAD.match(text))}
    shown += [f"the report  | {checked.line(finding)}" for finding in findings if finding["rule"] not in said]
    return "FAILED" if wrong else "ok", "\n        ".join([title, *shown, *wrong]) + "\n"


def main():
    options = checked.arguments(__doc__)
    paths = [path for path in sorted(glob.glob(os.path.join(CASES, "*.py"))) if not path.endswith("/shared.py")]
    wanted = [path for path in paths if not options.names or os.path.basename(path)[:-3] in options.names]
    with checked.Bench(options.cupeer) as bench:
        works = [(os.path.basename(path), lambda path=path: play(bench, path)) for path in wanted]
        return 0 if checked.tell(works, AT_ONCE) else 1


if __name__ == "__main__":
    sys.exit(main())
