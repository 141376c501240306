"""Headless Chromium, driven through its protocol for developers over a pair of pipes."""

import base64
import json
import os
import select
import subprocess
import tempfile
import time
from fcntl import F_DUPFD, fcntl

# Without the flags about the background, Chromium looks up hosts at every start.
OPTIONS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--force-color-profile=srgb", "--remote-debugging-pipe",
]  # fmt: skip
ANSWER_S = 60.0


class Browser:
    """One page in a browser of its own. `requests` and `errors` hold what the page has asked for,
    and the errors that it has logged."""

    def __init__(self, width, height, scale=1.0, is_dark=False):
        self.directory = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        # Chromium reads commands from descriptor 3 and writes answers to 4.
        theirs, self.commands = os.pipe()
        self.answers, theirs_too = os.pipe()
        theirs, theirs_too = (fcntl(end, F_DUPFD, 10) for end in (theirs, theirs_too))

        def prepare():
            os.dup2(theirs, 3)
            os.dup2(theirs_too, 4)

        self.process = subprocess.Popen(
            ["chromium", *OPTIONS, f"--user-data-dir={self.directory.name}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=(3, 4), preexec_fn=prepare,
        )  # fmt: skip
        os.close(theirs)
        os.close(theirs_too)
        self.read = b""
        self.count = 0
        self.session = None
        self.events = []
        self.requests, self.errors = [], []
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(target["targetId"] for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=scale, mobile=False,
        )  # fmt: skip
        self.set_dark(is_dark)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.commands)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.answers)
        self.directory.cleanup()

    def message(self, limit_s):
        """Returns the next message of Chromium."""
        end = time.monotonic() + limit_s
        while b"\0" not in self.read:
            if not select.select([self.answers], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"Chromium does not answer within {limit_s:.0f} s")
            more = os.read(self.answers, 1 << 20)
            if not more:
                raise RuntimeError("Chromium has ended")
            self.read += more
        message, _, self.read = self.read.partition(b"\0")
        message = json.loads(message)
        method, parameters = message.get("method"), message.get("params")
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(parameters["exceptionDetails"]["text"])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] == "error":
            self.errors.append(str(parameters["args"]))
        if method:
            self.events.append(method)
        return message

    def call(self, method, **parameters):
        self.count += 1
        command = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        while (message := self.message(ANSWER_S)).get("id") != self.count:
            pass
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']['message']}")
        return message["result"]

    def set_dark(self, is_dark):
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.call("Emulation.setEmulatedMedia", features=features)

    def open(self, url):
        self.events.clear()
        result = self.call("Page.navigate", url=url)
        if "errorText" in result:
            raise RuntimeError(f"{url}: {result['errorText']}")
        while "Page.loadEventFired" not in self.events:
            self.message(ANSWER_S)

    def evaluate(self, script):
        """Returns the value of a JavaScript expression, also of a promise."""
        result = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    def wait(self, script, limit_s=20.0):
        """Waits until the value of a JavaScript expression is true, or an element."""
        end = time.monotonic() + limit_s
        while not self.evaluate(f"!!({script})"):
            if time.monotonic() > end:
                raise TimeoutError(f"not true within {limit_s:.0f} s: {script}")
            time.sleep(0.1)

    def screenshot(self, path, first, last=None, margin=8):
        """Writes a PNG of the page from the top of the element that the selector `first` finds to
        the bottom of the one that `last` finds, as wide as both."""
        corners = """(selector => {
            const found = document.querySelector(selector).getBoundingClientRect();
            return [found.left + scrollX, found.top + scrollY, found.right + scrollX, found.bottom + scrollY];
        })"""
        boxes = [self.evaluate(f"{corners}({json.dumps(selector)})") for selector in (first, last or first)]
        left, right = min(box[0] for box in boxes) - margin, max(box[2] for box in boxes) + margin
        top, bottom = boxes[0][1] - margin, boxes[-1][3] + margin
        clip = {"x": max(0, left), "y": max(0, top), "width": right - left, "height": bottom - top, "scale": 1}
        result = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(result["data"]))
