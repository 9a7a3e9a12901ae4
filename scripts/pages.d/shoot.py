"""Takes pictures of pages in Chromium: NAME.html becomes NAME-WIDTH-THEME.png beside it. Talks to the browser through a pipe."""

import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

WIDTHS = [int(width) for width in os.environ.get("WIDTHS", "400 800 1400").split()]
THEMES = os.environ.get("THEMES", "light dark").split()
TALLEST = int(os.environ.get("TALL", "6000"))


class Browser:
    def __init__(self, profile):
        from_us, to_us = os.pipe(), os.pipe()
        # The browser reads from descriptor 3, and writes to descriptor 4.
        script = f'exec chromium "$@" 3<&{from_us[0]} 4>&{to_us[1]}'
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
        command = ["bash", "-c", script, "bash", *options, f"--user-data-dir={profile}"]
        ends = (from_us[0], to_us[1])
        self.process = subprocess.Popen(command, pass_fds=ends, stderr=subprocess.DEVNULL)
        for end in ends:
            os.close(end)
        self.requests, self.replies = open(from_us[1], "wb", buffering=0), to_us[0]
        self.rest, self.last, self.session = b"", 0, None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def ask(self, method, **params):
        self.last += 1
        request = {"id": self.last, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        self.requests.write(json.dumps(request).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                more = os.read(self.replies, 1 << 20)
                if not more:
                    sys.exit("the browser ended")
                self.rest += more
            reply, self.rest = self.rest.split(b"\0", 1)
            reply = json.loads(reply)
            if reply.get("id") == self.last:
                if "error" in reply:
                    sys.exit(f"{method}: {reply['error']}")
                return reply["result"]

    def value(self, expression):
        return self.ask("Runtime.evaluate", expression=expression)["result"].get("value")


def shoot(browser, page):
    for theme in THEMES:
        browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        for width in WIDTHS:
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            browser.ask("Emulation.setDeviceMetricsOverride", **size)
            browser.ask("Page.navigate", url=page.resolve().as_uri())
            until = time.monotonic() + 60
            while not browser.value("document.documentElement.dataset.drawn"):
                if time.monotonic() > until:
                    sys.exit(f"{page}: {browser.value('document.documentElement.dataset.error')}")
                time.sleep(0.05)
            wrong = browser.value("document.documentElement.dataset.error")
            if wrong:
                sys.exit(f"{page}: {wrong}")
            wide = browser.value("document.documentElement.scrollWidth")
            if wide > width:
                print(f"{page.name}: {wide} pixels wide in a window of {width}")
            tall = min(TALLEST, browser.value("document.documentElement.scrollHeight"))
            clip = {"x": 0, "y": 0, "width": width, "height": tall, "scale": 1}
            picture = browser.ask("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
            page.with_name(f"{page.stem}-{width}-{theme}.png").write_bytes(base64.b64decode(picture["data"]))


with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
    browser = Browser(profile)
    for page in sys.argv[1:]:
        shoot(browser, pathlib.Path(page))
    browser.ask("Browser.close")
    browser.process.wait()
