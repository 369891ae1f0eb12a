#!/usr/bin/env python3
"""Plays the incident of `changelog-server demo` with scripted tool calls, and shows how many
calls and bytes an agent needs until it knows the cause.

    changelog-server demo           # in another terminal; it prints the two exports
    export CHLOG_URL=… CHLOG_API_KEY=…
    python3 examples/agents/incident.py

It fails unless one call of at most 4 KB answers. Only Python's own library is used.
"""

import argparse
import datetime
import json
import os
import sys
import urllib.request

CAUSE = "Deploy payments 4.18.0"
MAX_BYTES = 4096
REVISION = "2026-07-28"


class Agent:
    """Calls tools, and counts calls and the bytes of their answers."""

    def __init__(self):
        self.url = os.environ["CHLOG_URL"].rstrip("/") + "/mcp"
        self.key = os.environ["CHLOG_API_KEY"]
        self.calls = 0
        self.bytes = 0
        self.largest = 0

    def call(self, tool, **arguments):
        self.calls += 1
        protocol = "io.modelcontextprotocol/"
        meta = {
            protocol + "protocolVersion": REVISION,
            protocol + "clientInfo": {"name": "incident.py", "version": "1"},
            protocol + "clientCapabilities": {},
        }
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        body = {"jsonrpc": "2.0", "id": self.calls, "method": "tools/call", "params": params}
        headers = {
            "authorization": f"Bearer {self.key}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": REVISION,
            "mcp-method": "tools/call",
            "mcp-name": tool,
        }
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
        self.bytes += len(text)
        self.largest = max(self.largest, len(text))
        result = json.loads(text)["result"]
        if result.get("isError"):
            sys.exit(f"{tool}: {result['content'][0]['text']}")
        return result["structuredContent"]


def title(change):
    return change["untrusted"]["title"]


def ask_what_changed(agent, at):
    """Asks for suspects: the first one is the cause."""
    question = {"at": at, "service": "payments", "environment": "prod", "symptom": "payments fail"}
    suspects = agent.call("what_changed", **question)["suspects"]
    return suspects and title(suspects[0]) == CAUSE


def ask_for_incidents(agent, at):
    """Asks for the incident that was opened: its first suspect is the cause."""
    for incident in agent.call("list_incidents", service="payments")["incidents"]:
        for suspect in incident.get("suspects", [])[:1]:
            if title(suspect) == CAUSE:
                return True
    return False


def read_the_list(agent, at):
    """Reads the changes of the last day, newest first, and opens those of the service."""
    day = datetime.timedelta(days=1)
    start = datetime.datetime.fromisoformat(at.replace("Z", "+00:00")) - day
    cursor, found = None, []
    while True:
        page = {"since": start.isoformat(), "until": at}
        if cursor:
            page["cursor"] = cursor
        answer = agent.call("search_changes", **page)
        found += answer["changes"]
        cursor = answer["next_cursor"]
        if not cursor:
            break
    for change in [one for one in found if "payments" in one.get("services", [])]:
        agent.call("get_change", id=change["id"])
        if title(change) == CAUSE:
            return True
    return False


def last_incident():
    """Returns when the last incident of the service began: what an agent is woken with."""
    incidents = Agent().call("list_incidents", service="payments")["incidents"]
    if not incidents:
        sys.exit("no incident of payments is recorded; say with --at when it broke")
    return incidents[0]["started_at"]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("--at", help="when it broke (RFC 3339)")
    at = arguments.parse_args().at or last_incident()
    print(f"{'plan':<18} {'calls':>5} {'bytes':>7} {'largest':>7}  cause")
    answered = False
    for plan in [ask_what_changed, ask_for_incidents, read_the_list]:
        agent = Agent()
        found = plan(agent, at)
        name = plan.__name__.replace("_", " ")
        counts = f"{agent.calls:>5} {agent.bytes:>7} {agent.largest:>7}"
        print(f"{name:<18} {counts}  {'found' if found else 'not found'}")
        if plan is ask_what_changed:
            answered = found and agent.calls == 1 and agent.bytes <= MAX_BYTES
    if not answered:
        sys.exit(f"one call of at most {MAX_BYTES} bytes did not answer")


if __name__ == "__main__":
    main()
