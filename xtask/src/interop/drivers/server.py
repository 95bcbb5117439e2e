"""A server with one tool on the Python SDK 2.x: server.py PORT, at http://127.0.0.1:PORT/mcp."""

import sys

from mcp.server import MCPServer

server = MCPServer("python-2-server")


@server.tool()
def echo(message: str) -> str:
    """Repeats the message."""
    return message


server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
