#!/usr/bin/env python3
"""Tries the example with one command: serves it, alerts it, asks it something in a Slack that stands in for the real one, and ends."""

import base64
import hashlib
import hmac
import http.client
import http.server
import json
import os
import queue
import secrets
import subprocess
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
GDN = os.environ.get("GDN", "gdn")
ALERTS, SLACK = secrets.token_hex(16), secrets.token_hex(16)
answers = queue.Queue()


class Slack(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        said = json.loads(self.rfile.read(int(self.headers["content-length"])) or "{}")
        if self.path == "/chat.postMessage":
            answers.put(said)
        body = json.dumps({"ok": True, "channel": said.get("channel"), "ts": "1700000000.000200"}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def sign(key, text, digest):
    return digest(hmac.new(key.encode(), text.encode(), hashlib.sha256))


def post(address, path, body, headers):
    link = http.client.HTTPConnection(address, timeout=30)
    link.request("POST", path, body, headers)
    return link.getresponse().status


def alert(address, text, identity):
    body, now = json.dumps({"text": text, "properties": {"host": "db-1"}}), str(int(time.time()))
    seal = sign(ALERTS, f"{identity}.{now}.{body}", lambda mac: base64.b64encode(mac.digest()).decode())
    headers = {"webhook-id": identity, "webhook-timestamp": now, "webhook-signature": "v1," + seal}
    return post(address, "/connect/alerts", body, headers)


def mention(address, text):
    event = {"type": "app_mention", "channel": "C1", "user": "U1", "ts": "1700000000.000100", "text": text}
    body, now = json.dumps({"type": "event_callback", "team_id": "T1", "event": event}), str(int(time.time()))
    seal = "v0=" + sign(SLACK, f"v0:{now}:{body}", lambda mac: mac.hexdigest())
    return post(address, "/connect/team", body, {"x-slack-request-timestamp": now, "x-slack-signature": seal})


def main():
    slack = http.server.ThreadingHTTPServer(("127.0.0.1", 4748), Slack)
    threading.Thread(target=slack.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as state:
        own = {"ALERTS_SECRET": ALERTS, "SLACK_SIGNING_SECRET": SLACK, "SLACK_BOT_TOKEN": "xoxb-none"}
        env = {**os.environ, **own, "GOONDAN_STATE_ROOT": state, "GOONDAN_TRUST": "1"}
        command = [GDN, "serve", HERE, "--listen", "127.0.0.1:0", "--json"]
        served = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        try:
            address = json.loads(served.stdout.readline())["url"].removeprefix("http://")
            print("an alert:              ", alert(address, "The disk of db-1 is full", "one"))
            print("the same again:        ", alert(address, "The disk of db-1 is full", "one"))
            print("a question in Slack:   ", mention(address, "<@U0> What is open?"))
            print("the answer in its thread:", answers.get(timeout=60)["text"])
            subprocess.run([GDN, "connection", "list", "--project", HERE], env=env, check=True)
            subprocess.run([GDN, "instance", "list", "--project", HERE], env=env, check=True)
        finally:
            served.terminate()
            served.wait()


if __name__ == "__main__":
    main()
