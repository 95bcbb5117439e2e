"""Drives a server with the Python SDK 2.x: python2.py MODE CMD… or MODE URL, one line of JSON a step."""

import json
import sys

import anyio
from mcp import Client, StdioServerParameters


def say(step, **facts):
    print(json.dumps({"step": step, **facts}), flush=True)


def text_of(result):
    return "".join(getattr(block, "text", "") for block in result.content)


async def call(client, step, name, arguments):
    try:
        result = await client.call_tool(name, arguments)
        say(step, kind="error" if result.is_error else "result", text=text_of(result))
    except Exception as error:
        say(step, kind="error", text=str(error))


async def main(mode, command):
    if command[0].startswith("http://"):
        server = command[0]
    else:
        server = StdioServerParameters(command=command[0], args=command[1:])
    async with Client(server, mode=mode, read_timeout_seconds=20) as client:
        say("connect")
        tools = await client.list_tools()
        say("list", names=[tool.name for tool in tools.tools])
        for step, name, arguments in json.load(sys.stdin):
            await call(client, step, name, arguments)
    say("close")


anyio.run(main, sys.argv[1], sys.argv[2:])
