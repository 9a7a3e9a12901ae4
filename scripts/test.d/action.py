#!/usr/bin/env python3
"""Runs the steps of action.yml as GitHub's runner does, with programs that are right, wrong, and missing.

usage: action.py PROGRAM, the program of scripts/demo; cupeer must be on PATH. Needs PyYAML. Steps that use another action
are not run: the files that they would upload must be there.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


def run(**given):
    """Returns the status of the action, its outputs, its log, and its summary."""
    inputs = {name: str(about.get("default", "")) for name, about in ACTION["inputs"].items()}
    unknown = given.keys() - inputs.keys()
    assert not unknown, f"action.yml has no input {unknown}"
    inputs |= given
    temp = pathlib.Path(tempfile.mkdtemp(prefix="cupeer-action."))
    files = {name: temp / name for name in ["GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY"]}
    for file in files.values():
        file.touch()
    outputs, log, path = {}, "", os.environ["PATH"]

    def value(text):
        def one(match):
            place = match[1].split(".")
            if place[0] == "inputs":
                return inputs[place[1]]
            assert place[0] == "steps" and place[2] == "outputs", match[0]
            return outputs.get(place[1], {}).get(place[3], "")

        return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", one, str(text))

    status = 0
    for step in ACTION["runs"]["steps"]:
        if "uses" in step:
            uploaded = value(step["with"].get("path", step["with"].get("sarif_file")))
            assert status or not uploaded or os.path.exists(uploaded), f"{step['name']}: there is no {uploaded}"
            continue
        environment = os.environ | {name: value(text) for name, text in step.get("env", {}).items()}
        environment |= {"GITHUB_ACTIONS": "true", "GITHUB_ACTION_PATH": str(ROOT), "RUNNER_TEMP": str(temp), "PATH": path}
        environment |= {name: str(file) for name, file in files.items()}
        (temp / "script").write_text(step["run"])
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", temp / "script"]
        done = subprocess.run(shell, env=environment, cwd=temp, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        log += done.stdout + done.stderr
        lines = files["GITHUB_OUTPUT"].read_text().splitlines()
        outputs[step.get("id")] = dict(line.split("=", 1) for line in lines)
        path = os.pathsep.join([*files["GITHUB_PATH"].read_text().splitlines(), os.environ["PATH"]])
        if done.returncode:
            status = done.returncode
            break
    ends = {name: value(about["value"]) for name, about in ACTION["outputs"].items()}
    return status, ends, log, files["GITHUB_STEP_SUMMARY"].read_text()


def check(condition, *shown):
    if not condition:
        sys.exit("\n".join(["test.d/action.py: this is not as it must be:", *map(str, shown)]))


def main():
    program = os.path.abspath(sys.argv[1])
    reports = {"summary.md", "report.html", "report.sarif", "report.junit.xml", "recording.cupeer.tar.gz"}

    status, ends, log, summary = run(run=program, version="path")
    check(status == 0 and ends["status"] == "0", status, ends, log)
    check({file.name for file in pathlib.Path(ends["reports"]).iterdir()} == reports, ends)
    check("cupeer run: passed" in summary and "No rule was broken" in summary, summary)
    print("action: a right program passes")

    status, ends, log, summary = run(run=f"echo first\n{program} early", version="path", **{"error-exitcode": "9"})
    check(status == 9 and "::error" in log and "ipc-freed-while-open" in summary, status, log, summary)
    sarif = (pathlib.Path(ends["reports"]) / "report.sarif").read_text()
    check("ipc-freed-while-open" in sarif, sarif)
    print("action: a wrong program fails, with an annotation, a summary, and a SARIF file")

    status, _, log, _ = run(run=f"{program} early", version="path", options="--ignore ipc-freed-while-open".replace(" ", "="))
    check(status == 0, status, log)
    print("action: options reach cupeer")

    status, ends, log, _ = run(run="false\necho not reached", version="path")
    check(status == 1 and "not reached" not in log, status, log)
    # An upload fails if there is no file.
    check({file.name for file in pathlib.Path(ends["reports"]).iterdir()} == {"summary.md"}, ends)
    print("action: a command that fails ends the step")

    status, ends, log, summary = run(run=program, mode="sweep", version="path", options="--calls=cuIpcOpenMemHandle_v2\n--codes=one")
    check(status in (0, 1) and "cuIpcOpenMemHandle" in summary, status, log, summary)
    check((pathlib.Path(ends["reports"]) / "sweep").is_dir(), ends)
    print("action: sweep")

    for given, said in [
        ({"mode": "walk"}, "mode is 'run' or 'sweep', not 'walk'"),
        ({"error-exitcode": "many"}, "error-exitcode is a number from 0 to 255, not 'many'"),
        ({"working-directory": "/none"}, "there is no working-directory '/none'"),
        ({"wheel": "/none.whl"}, "there is no wheel '/none.whl'"),
    ]:
        status, _, log, _ = run(**({"run": "true", "version": "path"} | given))
        check(status == 1 and f"::error title=cupeer::{said}" in log, given, status, log)
    print("action: wrong inputs are refused with a reason")


main()
