"""``python -m cupeer``: the command, with the same arguments."""

import sys

from cupeer import _command

_path = _command.find()
if _path is None:
    print(f"cupeer: {_command.MISSING}", file=sys.stderr)
    sys.exit(125)
_command.become(_path, sys.argv[1:])
