"""Runs a shell command on a terminal of its own: `terminal.py DEED TEXT COMMAND`.

When the terminal shows TEXT, it is interrupted (Ctrl-C) or closed, as DEED says. The exit status is that of the
command; 99 if TEXT never came.
"""

import os
import pty
import sys

deed, text, command = sys.argv[1:]
child, terminal = pty.fork()
if child == 0:
    os.execvp("sh", ["sh", "-c", command])

shown = b""
while text.encode() not in shown:
    try:
        more = os.read(terminal, 4096)
    except OSError:
        more = b""
    if not more:
        sys.exit(99)
    shown += more

if deed == "interrupt":
    os.write(terminal, b"\x03")
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:
        pass  # The command has ended.
os.close(terminal)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
