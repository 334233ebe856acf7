"""A small OpenAI-compatible server with deterministic answers: chat completions and responses, streamed or not.

The server refuses the requests that hosted servers refuse, with their status and their error object: a tool result without its call, a
call without its result, arguments that are not JSON, an incomplete schema, an unknown field. So an accepted conversation is valid.

The last user message selects the answer:
  `count N`        N numbered words, one every 20 ms
  `use NAME ...`   calls of the tools whose names end with NAME, with arguments that fit their schemas; then the results, repeated as text
  anything else    the message, repeated as text
A request with a JSON schema gets an object that fits the schema, and nothing else.

Usage: backend.py PORT [--log FILE] [--loading SECONDS]
Each request is appended to FILE as one line of JSON: {"path", "body", "status", "complete"}. While loading, the server answers 503, as
llama-server does.
"""

import argparse
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from backend_answers import MODEL, chat_events, chat_whole, response_events, response_items, response_object
from backend_requests import Refusal, need, read_chat, read_responses

PIECE_INTERVAL = 0.02


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path.endswith("/models"):
            self.send_json(200, {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "ci"}]})
        else:
            self.send_json(200, {"status": "ok"})

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        entry = {"path": self.path, "body": None, "status": 200, "complete": False}
        try:
            try:
                entry["body"] = json.loads(raw)
            except ValueError:
                raise Refusal("We could not parse the JSON body of your request.") from None
            need(time.monotonic() >= self.server.ready_at, "Loading model", status=503, kind="unavailable_error", code=503)
            need((self.headers.get("authorization") or "").startswith("Bearer "), "You didn't provide an API key.", status=401)
            self.serve(entry["body"])
            entry["complete"] = True
        except Refusal as refusal:
            entry["status"], entry["refusal"] = refusal.status, str(refusal)
            self.send_json(refusal.status, refusal.body)
        except OSError:
            self.close_connection = True
        finally:
            self.server.record(entry)

    def serve(self, body):
        if self.path.endswith("/chat/completions"):
            answer = read_chat(body).answer()
            whole, events, named = chat_whole, chat_events, False
        elif self.path.endswith("/responses"):
            answer = read_responses(body).answer()
            whole, events, named = lambda a: response_object(body, response_items(a), "completed"), response_events, True
        else:
            raise Refusal(f"Invalid URL (POST {self.path})", status=404)
        if not body.get("stream"):
            return self.send_json(200, whole(answer))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for number, event in enumerate(events(body, answer)):
            if named:
                event = {**event, "sequence_number": number}
            self.send_event(event, event["type"] if named else None)
            time.sleep(PIECE_INTERVAL)
        if not named:
            self.send_piece(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def send_event(self, event, name):
        self.send_piece(((f"event: {name}\n" if name else "") + f"data: {json.dumps(event)}\n\n").encode())

    def send_piece(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def send_json(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port, log, loading):
        super().__init__(("127.0.0.1", port), Handler)
        self.log, self.lock, self.ready_at = log, threading.Lock(), time.monotonic() + loading

    def record(self, entry):
        if self.log:
            with self.lock, open(self.log, "a") as file:
                file.write(json.dumps(entry) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--log")
    parser.add_argument("--loading", type=float, default=0)
    options = parser.parse_args()
    Server(options.port, options.log, options.loading).serve_forever()


if __name__ == "__main__":
    main()
