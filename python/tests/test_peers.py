"""Programs that break a rule, or do not, as peers of a test: run by `tests/check/verdict.rs`, which names them in a file."""

import json
import os
import subprocess

import pytest

CANNOT = 77

with open(os.environ["PLAYS"]) as _file:
    PLAYS = [(f"{play['name']} {how}", play[how]) for play in json.load(_file) for how in ("bad", "good")]


@pytest.mark.parametrize("play", [play for _, play in PLAYS], ids=[name for name, _ in PLAYS])
def test_plays(play):
    done = subprocess.run(play["arguments"], env={**os.environ, **play["variables"]}, stdout=subprocess.PIPE)
    if done.returncode == CANNOT:
        pytest.skip("it cannot be played here")
