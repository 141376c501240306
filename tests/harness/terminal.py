"""Runs a shell command on a terminal of its own: `terminal.py DEED TEXT COMMAND`.

When the terminal shows TEXT, it is interrupted (Ctrl-C), gets the key q, or is closed, as DEED says: interrupt, quit
or close. The exit status is that of the command; 99 if TEXT never came. After a key, standard output has what the terminal
has shown.
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

keys = {"interrupt": b"\x03", "quit": b"q"}
if deed in keys:
    os.write(terminal, keys[deed])
    try:
        while more := os.read(terminal, 4096):
            shown += more
    except OSError:
        pass  # The command has ended.
    sys.stdout.buffer.write(shown)
    sys.stdout.flush()
os.close(terminal)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
