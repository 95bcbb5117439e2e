"""A host that speaks MGP in plain lines: older_host.py COMMAND..., which starts the kernel.

It uses the tools of `older_server.py` through the kernel, and prints what it observed as one line of JSON.
"""

import json
import subprocess
import sys
import threading

MGP = {"version": "0.6.1", "extensions": ["streaming", "callbacks", "events"]}

kernel = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
threading.Timer(90, kernel.kill).start()
count = 0
questions, events = [], []


def send(**message):
    kernel.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    kernel.stdin.flush()


def receive(chunks):
    line = kernel.stdout.readline()
    if not line:
        sys.exit("the kernel ended")
    message = json.loads(line)
    params = message.get("params") or {}
    if message.get("method") == "notifications/mgp.stream.chunk":
        chunks.append(params)
    elif message.get("method") == "notifications/mgp.callback.request":
        questions.append(params)
        response = {"callback_id": params["callback_id"], "response": "confirm"}
        send(id=f"answer-{len(questions)}", method="mgp/callback/respond", params=response)
    elif message.get("method") == "notifications/mgp.event":
        events.append(params)
    return message


def begin(method, params):
    global count
    count += 1
    send(id=count, method=method, params=params)
    return count


def wait(number, chunks):
    while True:
        message = receive(chunks)
        if message.get("id") == number and "method" not in message:
            return message


def call(tool, **mgp):
    chunks = []
    params = {"name": f"older.{tool}", "arguments": {}}
    if mgp:
        params["_mgp"] = mgp
    answer = wait(begin("tools/call", params), chunks)
    content = answer.get("result", {}).get("content") or [{"text": json.dumps(answer)}]
    return "".join(chunk["content"]["text"] for chunk in chunks), content[0]["text"]


hello = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"mgp": MGP},
    "clientInfo": {"name": "older-host", "version": "1"},
}
offered = wait(begin("initialize", hello), [])["result"]["capabilities"].get("mgp", {})
send(method="notifications/initialized")
seen = {"extensions": offered.get("extensions", [])}
seen["streamed"], seen["result"] = call("stream", stream=True)
seen["confirmed"] = call("delete")[1]
seen["questions"] = [question["message"] for question in questions]

chunks = []
hanging = begin("tools/call", {"name": "older.hang", "arguments": {}, "_mgp": {"stream": True}})
while not chunks:
    receive(chunks)
cancel = wait(begin("mgp/stream/cancel", {"request_id": hanging}), chunks)
seen["cancelled"] = cancel.get("result", cancel)

if "events" in seen["extensions"] or "bidirectional" in seen["extensions"]:
    subscribe = {"channels": ["model.*"]}
    subscribed = wait(begin("mgp/events/subscribe", subscribe), [])
    if "result" in subscribed:
        call("push")
        call("received")
        seen["events"] = len(events)
seen["received"] = call("received")[1]
print(json.dumps(seen))
kernel.stdin.close()
