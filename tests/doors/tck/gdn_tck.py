"""A plugin for pytest that lets A2A's conformance kit test `gdn serve` with the swarm beside this file.

It adds the token and the version that is spoken, gives each message an id of its own (those of the kit are the same again and again,
and a message that is sent again is no other one), says in its text what the kit says in its id, and answers questions of the swarm in
a word that it takes. It knows which tests are expected to fail, and why. It fails when another one fails, when one of those passes, and when
a test is skipped that should run.
"""

import itertools
import os

import httpx
import pytest

# The swarm speaks JSON-RPC. What is skipped for other reasons than these is not tested, and that must not go unseen.
BINDING = "jsonrpc"
SKIPPED = {
    "Transport 'http_json' not configured": "another binding",
    "No requirements at this level": "there is nothing to test",
    "Agent supports streaming": "only for agents that do not",
    "Agent card does not declare capabilities for": "push notifications and extended cards are not offered",
    "Agent does not support push notifications": "they are not offered",
    "does not declare urn:a2a:tck:required-extension": "the card requires no extension",
}

EXPECTED = {
    "test_artifacts.py::TestFileArtifact": "the answer of this swarm is text; an agent need not answer with a file",
    "test_artifacts.py::TestFileUrlArtifact": "files of answers come with their bytes, never as an address",
    "test_artifacts.py::TestDataArtifact": "data of answers is text with JSON; an agent need not answer with a data part",
    "test_artifacts.py::TestMessageResponse": "every message gets a task; an agent may choose",
    "test_agent_card_caching.py::TestAgentCardLastModified": "MAY: a card has a tag, and no time of its last change",
}


def _expected(nodeid):
    return next((why for name, why in EXPECTED.items() if name in nodeid), None)


def _binding(item):
    callspec = getattr(item, "callspec", None)
    named = callspec.params.get("transport") if callspec else None
    marked = next((name for name in ("grpc", "http_json") if item.get_closest_marker(name)), None)
    return named or marked or BINDING


NUMBERS = itertools.count(1)


def _said(message):
    """The message as it is sent."""
    wanted, parts = message["messageId"], message["parts"]
    if not message.get("taskId"):
        parts = [{**part, "text": f"{part['text']} [{wanted}]"} if "text" in part else part for part in parts]
    elif wanted.startswith("tck-complete-task"):
        parts = [{"text": "once"}]
    return {**message, "messageId": f"{wanted}-{next(NUMBERS)}", "parts": parts}


def pytest_configure(config):
    from tck.transport.jsonrpc_client import JsonRpcClient

    send = httpx.Client.send

    def with_token(client, request, **more):
        request.headers["Authorization"] = f"Bearer {os.environ['GOONDAN_TOKEN']}"
        request.headers.setdefault("A2A-Version", "1.0")
        return send(client, request, **more)

    httpx.Client.send = with_token
    for name in ("send_message", "send_streaming_message"):
        method = getattr(JsonRpcClient, name)
        setattr(JsonRpcClient, name, lambda client, message, method=method, **more: method(client, _said(message), **more))


def pytest_collection_modifyitems(config, items):
    others = [item for item in items if _binding(item) != BINDING]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if _binding(item) == BINDING]
    for item in items:
        if why := _expected(item.nodeid):
            item.add_marker(pytest.mark.xfail(strict=True, reason=why))


def pytest_terminal_summary(terminalreporter):
    for report in terminalreporter.stats.get("skipped", []):
        if not _is_fine(report):
            terminalreporter.write_line(f"not tested: {report.nodeid}: {report.longrepr[2]}")


def _is_fine(report):
    return any(known in report.longrepr[2] for known in SKIPPED)


def pytest_sessionfinish(session):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not all(_is_fine(report) for report in reporter.stats.get("skipped", [])):
        session.exitstatus = 1
