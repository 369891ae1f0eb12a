"""Asks what changed as an agent does, with the client of the package mcp: over HTTP and over
the standard input and output of `chlog mcp`, by both revisions of the protocol."""

import asyncio
import os
import sys

from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

KEY = os.environ["CHLOG_API_KEY"]
URL = os.environ["CHLOG_URL"]


def over_http():
    headers = {"Authorization": f"Bearer {KEY}"}
    http = create_mcp_http_client(headers=headers)
    return streamable_http_client(f"{URL}/mcp", http_client=http)


def over_chlog():
    names = ["CHLOG_URL", "CHLOG_API_KEY", "HOME", "PATH"]
    env = {name: os.environ[name] for name in names}
    return StdioServerParameters(command=sys.argv[1], args=["mcp"], env=env)


async def ask(server, mode):
    async with Client(server, mode=mode, read_timeout_seconds=30) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        question = {"service": "payments", "window": "2h"}
        # It validates the answer by the schema of the tool.
        answer = await client.call_tool("what_changed", question)
        assert not answer.is_error, answer
        suspect = answer.structured_content["suspects"][0]
        wrong = await client.call_tool("what_changed", {"service": "nobody"})
        assert wrong.is_error, wrong
        print(client.protocol_version, len(tools), suspect["untrusted"]["title"])


async def main():
    for server in [over_http, over_chlog]:
        for mode in ["legacy", "2026-07-28", "auto"]:
            await ask(server(), mode)


asyncio.run(main())
