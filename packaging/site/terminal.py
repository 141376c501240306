"""Recordings of a terminal: asciinema's format (version 2), and an animated SVG of each recording.

The SVG plays wherever a picture is shown, without a script. A reader who has asked the browser for
less motion sees the end of the recording.
"""

import codecs
import html
import json
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from fcntl import ioctl

PROMPT = "$ "
KEY_S = 0.05  # between two keys
READ_S = 1.0  # after the output of a command, before the next one is typed
COMMAND_S = 300.0  # the longest command

# Seconds: pauses of a recording are cut to IDLE_S in the SVG, changes within FRAME_S are one, and
# the end stays for END_S before the SVG starts again.
IDLE_S, FRAME_S, END_S = 2.0, 0.08, 6.0

# Pixels, and colours with a contrast of 7 or more.
CELL_WIDTH, LINE_HEIGHT, MARGIN = 8.4, 18, 14
GROUND, TEXT = "#10151b", "#e6eaef"
COLORS = dict(zip((31, 32, 33, 34, 35, 36), ("#ff8b80", "#5bd6a5", "#f0b429", "#56b4e9", "#e39ccb", "#7fd4d4")))


def record(commands, title, columns, rows, environment):
    """Types the commands into bash on a terminal of this size, and returns the recording: a header
    and events."""
    child, terminal = pty.fork()
    if child == 0:
        shell = ["bash", "--noprofile", "--norc", "--noediting", "-i"]
        os.execvpe("bash", shell, environment | {"PS1": PROMPT, "TERM": "xterm-256color"})
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    decoder = codecs.getincrementaldecoder("utf-8")()
    events, started = [], time.monotonic()

    def read(until, limit_s):
        """Reads until `until` is true of the output since the call, or for `limit_s`."""
        shown, end = "", time.monotonic() + limit_s
        while not until(shown) and (left := end - time.monotonic()) > 0:
            if select.select([terminal], [], [], left)[0]:
                text = decoder.decode(os.read(terminal, 65536))
                events.append([round(time.monotonic() - started, 3), "o", text])
                shown += text
        return until(shown)

    def is_ready(shown):
        # bash is in the foreground again, and has printed its prompt.
        return re.search(r"(^|\n)\$ $", shown) and os.tcgetpgrp(terminal) == child

    try:
        if not read(is_ready, 10):
            raise RuntimeError("bash prints no prompt")
        for command in commands:
            read(lambda _: False, READ_S)
            for key in command:
                os.write(terminal, key.encode())
                read(lambda _: False, KEY_S)
            os.write(terminal, b"\r")
            if not read(is_ready, COMMAND_S):
                raise RuntimeError(f"{command}: no end after {COMMAND_S:.0f} s")
        read(lambda _: False, READ_S)
    finally:
        os.close(terminal)
        os.kill(child, signal.SIGHUP)
        os.waitpid(child, 0)
    header = {"version": 2, "width": columns, "height": rows, "idle_time_limit": IDLE_S, "title": title}
    return header, events


def write_cast(path, header, events):
    with open(path, "w", encoding="utf-8") as file:
        for line in [header, *events]:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def read_cast(path):
    with open(path, encoding="utf-8") as file:
        header, *events = map(json.loads, file)
    return header, events


class Screen:
    """What a terminal shows: rows of characters with their style, which is a color and bold."""

    def __init__(self, columns, rows):
        self.columns, self.height = columns, rows
        self.rows = [[]]
        self.column = 0
        self.style = (None, False)

    def feed(self, text):
        """Shows `text`. Raises ValueError for a control sequence that recordings do not need."""
        for part in re.findall(r"\x1b\[[?\d;]*[A-Za-z]|[\r\n\b]|[^\r\n\b\x1b]+|\x1b", text):
            if part == "\r":
                self.column = 0
            elif part == "\n":
                self.next_row()
            elif part == "\b":
                self.column = max(0, self.column - 1)
            elif part.endswith("m") and part.startswith("\x1b["):
                self.set_style(part[2:-1])
            elif part in ("\x1b[K", "\x1b[0K"):
                del self.rows[-1][self.column:]
            elif part.isprintable():
                self.print(part)
            elif part not in ("\x1b[?2004h", "\x1b[?2004l"):
                raise ValueError(f"control sequence {part!r}")

    def print(self, text):
        for character in text:
            if self.column == self.columns:
                self.column = 0
                self.next_row()
            row = self.rows[-1]
            row.extend([(" ", (None, False))] * (self.column - len(row)))
            row[self.column:self.column + 1] = [(character, self.style)]
            self.column += 1

    def next_row(self):
        self.rows.append([])
        del self.rows[:-self.height]

    def set_style(self, numbers):
        for number in map(int, (numbers or "0").split(";")):
            color, bold = self.style
            if number == 0:
                self.style = (None, False)
            elif number == 1:
                self.style = (color, True)
            elif number in COLORS or number == 39:
                self.style = (number if number in COLORS else None, bold)
            else:
                raise ValueError(f"style {number}")


def frames(header, events):
    """Returns the end of the recording, and what the screen shows from when on: pairs of a time and
    rows. Pauses are cut."""
    screen = Screen(header["width"], header["height"])
    found, now, before = [], 0.0, 0.0
    for at, _, text in events:
        now += min(at - before, header["idle_time_limit"])
        before = at
        screen.feed(text)
        shown = [tuple(row) for row in screen.rows]
        if found and now - found[-1][0] < FRAME_S:
            found[-1] = (found[-1][0], shown)
        else:
            found.append((now, shown))
    return now, found


def spans(row):
    """Returns the text of a row as SVG: one <tspan> for each style."""
    text = "".join(character for character, _ in row).rstrip()
    runs = []
    for character, style in row[:len(text)]:
        if not runs or runs[-1][0] != style:
            runs.append((style, ""))
        runs[-1] = (style, runs[-1][1] + character)
    drawn = ""
    for (color, bold), run in runs:
        style = (f' fill="{COLORS[color]}"' if color else "") + (' font-weight="bold"' if bold else "")
        drawn += f"<tspan{style}>{html.escape(run)}</tspan>" if style else html.escape(run, quote=False)
    return text, drawn


def svg(header, events):
    """Returns the recording as an animated SVG: each state of each row is a text that is visible for
    its time."""
    end, states = frames(header, events)
    height = max(len(rows) for _, rows in states)
    periods = {}
    for number in range(height):
        since, shown = 0.0, None
        for at, rows in [*states, (None, [])]:
            row = spans(rows[number]) if number < len(rows) else None
            if at is not None and row == shown:
                continue
            if shown and shown[0]:
                periods.setdefault((since, at), []).append((number, *shown))
            since, shown = at, row

    whole = end + END_S
    style = [
        "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        f"fill:{TEXT};white-space:pre}}",
        f"g{{animation:{whole:.2f}s step-end infinite}}",
        # Without animation, the end.
        ".h{visibility:hidden}",
        "@media(prefers-reduced-motion:reduce){g{animation:none}}",
    ]
    drawn = []
    for number, ((since, until), texts) in enumerate(sorted(periods.items(), key=lambda item: item[0][0])):
        steps = f"{100 * since / whole:.2f}%{{visibility:visible}}"
        if since > 0:
            steps = "0%{visibility:hidden}" + steps
        if until is not None:
            steps += f"{100 * until / whole:.2f}%{{visibility:hidden}}"
        style.append(f"@keyframes k{number}{{{steps}}}")
        hidden = ' class="h"' if until is not None else ""
        drawn.append(f'<g{hidden} style="animation-name:k{number}">')
        for row, text, markup in texts:
            y = MARGIN + LINE_HEIGHT * row + 13
            length = CELL_WIDTH * len(text)
            drawn.append(
                f'<text x="{MARGIN}" y="{y}" textLength="{length:.1f}" xml:space="preserve">{markup}</text>'
            )
        drawn.append("</g>")
    width = round(CELL_WIDTH * header["width"]) + 2 * MARGIN
    pixels = LINE_HEIGHT * height + 2 * MARGIN
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {pixels}" width="{width}" height="{pixels}">',
        f'<title>{html.escape(header["title"])}</title>',
        "<style>", *style, "</style>",
        f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>',
        *drawn, "</svg>",
    ]) + "\n"
