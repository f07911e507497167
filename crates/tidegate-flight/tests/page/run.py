"""The live page of `tidegate serve` in a headless browser.

Usage: run.py PATH_OF_TIDEGATE BROWSER [FOLDER_FOR_SCREENSHOTS]

The browser is Chromium (the package chromium-headless-shell of Debian), driven over its debugging pipe
with nothing but Python's standard library; queries are asked for by the ADBC Flight SQL driver (the
packages adbc-driver-flightsql, adbc-driver-manager and pyarrow). Each test prints one line; the exit status is 1 if any failed.
"""

import base64
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

from adbc_driver_flightsql import dbapi

TIDEGATE, BROWSER = sys.argv[1:3]
SHOTS = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
PATIENCE_S = 60


class Server:
    """A server on free ports, until the block ends."""

    def __init__(self, *options, command=("serve",)):
        words = [TIDEGATE, *command, "--listen", "127.0.0.1:0", "--http-port", "0", "--drain", "1s", *options]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.flight = self.process.stdout.readline().removeprefix("listening on ").strip()
        self.url = self.process.stdout.readline().rsplit(" ", 1)[-1].strip()
        assert self.url.startswith("http"), self.process.stderr.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=30) == 0
        errors = self.process.stderr.read()
        assert "panic" not in errors and "internal error" not in errors, errors


class Browser:
    """One browser with one tab, spoken to over a pipe: JSON messages, each with a zero byte behind."""

    def __init__(self, dark=False):
        to_browser, self.write = os.pipe()
        self.read, from_browser = os.pipe()
        # Its helpers may still write when it has ended.
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)

        def pass_pipes():
            # Chromium reads from 3 and writes to 4, which the pipes may have themselves.
            there, back = os.dup(to_browser), os.dup(from_browser)
            os.dup2(there, 3)
            os.dup2(back, 4)

        words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}", "about:blank"]
        self.process = subprocess.Popen(words, preexec_fn=pass_pipes, close_fds=False, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.buffer, self.session, self.noise = 0, b"", None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Runtime.enable")
        self.call("Log.enable")
        self.call("Page.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setDeviceMetricsOverride", width=1200, height=1100, deviceScaleFactor=1, mobile=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.number += 1
        os.write(self.write, json.dumps({"id": self.number, "method": "Browser.close"}).encode() + b"\0")
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.write)
        os.close(self.read)
        self.profile.cleanup()

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]
            if answer.get("method") == "Runtime.exceptionThrown":
                self.noise.append(answer["params"]["exceptionDetails"])
            if answer.get("method") == "Log.entryAdded" and answer["params"]["entry"]["level"] == "error":
                self.noise.append(answer["params"]["entry"])

    def message(self):
        while b"\0" not in self.buffer:
            part = os.read(self.read, 1 << 16)
            assert part, "the browser has ended"
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def do(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, what, script):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if found := self.do(script):
                return found
            time.sleep(0.1)
        raise AssertionError(f"{what} does not come true; the page says: {self.do('document.body.innerText')}")

    def shot(self, name):
        if SHOTS:
            SHOTS.mkdir(parents=True, exist_ok=True)
            image = self.call("Page.captureScreenshot", format="png")["data"]
            (SHOTS / f"{name}.png").write_bytes(base64.b64decode(image))


def asked(server, sql, **login):
    """Asks for a query over Flight, beside the test; returns what waits for its rows or its error."""
    said = []

    def run():
        try:
            with dbapi.connect(server.flight, db_kwargs=login, autocommit=True) as connection:
                with connection.cursor() as cursor:
                    cursor.execute(sql)
                    said.append(cursor.fetchall())
        except Exception as error:
            said.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def wait():
        thread.join(PATIENCE_S)
        return said[0]

    return wait


def text(selector):
    return f"document.querySelector({json.dumps(selector)})?.textContent ?? ''"


def the_page_shows_what_the_server_does():
    with tempfile.TemporaryDirectory() as folder:
        init = pathlib.Path(folder) / "init.sql"
        init.write_text(
            "SET tidegate.placement = 'device';\nSET tidegate.morsel_rows = 1000;\n"
            "CREATE TABLE t AS SELECT value AS v FROM generate_series(1, 50000);\n"
        )
        with Server("--simulate-device", "64MB", "--init", str(init)) as server, Browser() as browser:
            browser.call("Page.navigate", url=server.url)
            browser.until("the board is shown", "document.getElementById('board')?.hidden === false")
            assert "ready" in browser.do(text("#summary"))
            assert "simulated device" in browser.do(text("#devices")).lower()
            assert "statements" in browser.do(text("#memory"))
            assert asked(server, "SELECT sum(v) FROM t WHERE v > 7")() == [(1250024972,)]
            asked(server, "SELECT '<img src=x onerror=window.broken=1>' AS markup")()
            browser.until("the query is listed", text("#queries") + ".includes('SELECT sum(v)')")
            browser.until("the markup is text", text("#queries") + ".includes('<img src=x')")
            lane = "document.querySelector('#lanes rect[data-lane=\"device 0\"][data-operator=PipelineExec]')"
            browser.until("the device's work is drawn", f"{lane} !== null")
            assert "PipelineExec" in browser.do(text("#lanes .legend"))
            browser.until("memory is drawn", "document.querySelector('#tiers polygon') !== null")
            asked(server, "SELECT nothing FROM t")()
            browser.until("what failed in planning is listed", text("#queries") + ".includes('SELECT nothing')")
            browser.shot("light")
            entry = "[...document.querySelectorAll('#queries .query')].find((entry) => entry.innerText.includes('SELECT sum(v)'))"
            browser.do(f"{entry}.click()")
            browser.until("its plan is shown", "document.querySelector('#query .plan details.device') !== null")
            assert browser.do("document.querySelectorAll('#query svg rect[data-lane]').length") > 0
            browser.do("document.querySelector('#query .plan details.device').open = true")
            assert "device requested" in browser.do("document.querySelector('#query .plan').innerText").replace("_", " ")
            browser.shot("query")
            browser.call("Emulation.setDeviceMetricsOverride", width=420, height=1600, deviceScaleFactor=1, mobile=False)
            browser.until("it fits 420 pixels", "document.documentElement.scrollWidth <= 420")
            browser.until("pictures fit, too", "[...document.querySelectorAll('svg')].every((svg) => svg.getBoundingClientRect().right <= 420)")
            browser.shot("narrow")
            assert browser.do("window.broken") is None
            assert browser.noise == [], browser.noise
    with Server() as server, Browser(dark=True) as browser:
        browser.call("Page.navigate", url=server.url)
        browser.until("the board is shown", "document.getElementById('board')?.hidden === false")
        back = browser.do("getComputedStyle(document.body).backgroundColor")
        assert back == "rgb(17, 22, 29)", back
        browser.shot("dark")


def people_log_in_and_admins_stop_queries():
    with tempfile.TemporaryDirectory() as folder:
        users = pathlib.Path(folder) / "users.toml"
        lines = []
        for name, password, admin in [("ada", "one", "true"), ("bob", "two", "false")]:
            done = subprocess.run([TIDEGATE, "serve", "hash-password"], input=password, capture_output=True, text=True, check=True)
            lines.append(f'[[users]]\nname = "{name}"\npassword = "{done.stdout.strip()}"\nadmin = {admin}\n')
        users.write_text("".join(lines))
        with Server("--users", str(users)) as server, Browser() as browser:
            browser.call("Page.navigate", url=server.url)
            browser.until("the login is shown", "document.getElementById('login')?.hidden === false")
            log_in = """
                document.getElementById('name').value = %s;
                document.getElementById('password').value = %s;
                document.querySelector('#login-form button').click();
            """
            browser.do(log_in % ("'ada'", "'wrong'"))
            browser.until("the mistake is told", text("#trouble") + ".includes('wrong')")
            browser.do(log_in % ("'ada'", "'one'"))
            browser.until("the board is shown", "document.getElementById('board').hidden === false")
            browser.until("who it is", text("#who") + " === 'ada (admin)'")
            endless = "SELECT count(*) FROM generate_series(1, 1000000000000) WHERE value % 7 = 3"
            query = asked(server, endless, username="bob", password="two")
            row = "[...document.querySelectorAll('#queries .query')].find((row) => row.innerText.includes('1000000000000'))"
            browser.until("the query is listed", f"{row}?.innerText.includes('running')")
            browser.shot("running")
            browser.do(f"{row}.querySelector('button.kill').click()")
            browser.until("the query is stopped", f"{row}.innerText.includes('cancelled')")
            assert "cancelled" in str(query()).lower(), query()
            browser.do("document.getElementById('logout').click()")
            browser.until("the login is shown", "document.getElementById('login').hidden === false")
            assert browser.do("sessionStorage.length") == 0


def executors_are_listed_and_drained():
    cluster = Server("--set", "tidegate.spread=always", command=("cluster", "local", "--executors", "2"))
    with cluster as server, Browser() as browser:
        browser.call("Page.navigate", url=server.url)
        browser.until("both executors are listed", "document.querySelectorAll('#executors tr').length === 2")
        row = "document.querySelector('#executors tr[data-executor=e1]')"
        assert "ready" in browser.do(f"{row}.innerText")
        assert "host" in browser.do(f"{row}.innerText")
        assert "None ran" in browser.do(text("#no-tasks"))
        rows = asked(server, "SELECT id1, sum(v1) FROM h2o_g1(2000000, 10) GROUP BY id1")()
        assert len(rows) == 10, rows
        for executor in ("e1", "e2"):
            bars = f"document.querySelectorAll('#tasks rect[data-lane^=\"{executor} \"]')"
            browser.until(f"the tasks of {executor} are drawn", f"{bars}.length >= 2")
            assert "stage" in browser.do(f"{bars}[0].querySelector('title').textContent")
        assert browser.do("document.getElementById('no-tasks').hidden")
        received = "document.querySelector('#executors tr[data-executor=e1] td:nth-child(8)')?.innerText"
        browser.until("e1 has received rows", f"/[1-9].* [KM]?B/.test({received})")
        browser.shot("executors")
        browser.do(f"{row}.querySelector('button.drain').click()")
        browser.until("the executor is gone", f"{row} === null")
        assert "e2" in browser.do(text("#executors"))
        assert browser.noise == [], browser.noise


def a_report_is_drawn_from_one_file():
    with tempfile.TemporaryDirectory() as folder, Browser(dark=True) as browser:
        page = pathlib.Path(folder) / "report.html"
        query = "SELECT v1, count(*) FROM h2o_g1(1e5, 10) WHERE '</script>' <> '' GROUP BY v1"
        subprocess.run([TIDEGATE, "report", query, "-o", page, "--simulate-device", "1GB"], check=True, capture_output=True)
        browser.call("Page.navigate", url=page.as_uri())
        browser.until("the plan is drawn", "document.querySelector('#query .plan details') !== null")
        assert browser.do("document.querySelectorAll('#query svg rect[data-lane]').length") > 0
        assert "</script>" in browser.do(text("#query pre"))
        browser.shot("report")
        assert browser.noise == [], browser.noise


def main():
    failed = 0
    for test in (the_page_shows_what_the_server_does, people_log_in_and_admins_stop_queries,
                 executors_are_listed_and_drained, a_report_is_drawn_from_one_file):
        try:
            test()
            print(f"ok      {test.__name__}")
        except Exception:
            failed += 1
            print(f"FAILED  {test.__name__}\n{traceback.format_exc()}")
    sys.exit(failed > 0)


main()
