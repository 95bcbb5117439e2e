//! A client of the local socket that sends and receives single lines.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

const READ_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) const OPERATOR: &str = "{\"mgp\":1,\"as\":\"operator\"}\n";

/// A connection to the local socket.
pub(crate) struct Wire {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
    next: u64,
}

impl Wire {
    /// Connects and sends a first line; returns the kernel's reply as an error if it refuses.
    pub(crate) fn connect(socket: &Path, hello: &str) -> Result<Self, Value> {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        // The write may fail: a kernel that refuses a connection closes without reading; its reply has the reason.
        let _ = stream.write_all(hello.as_bytes());
        let reader = BufReader::new(stream.try_clone().unwrap());
        let mut wire = Self { stream, reader, next: 0 };
        let mut line = String::new();
        wire.reader.read_line(&mut line).unwrap();
        let reply: Value = serde_json::from_str(&line).unwrap_or(Value::Null);
        if reply["ok"] == true { Ok(wire) } else { Err(reply) }
    }

    /// Connects, and performs the MCP handshake.
    pub(crate) fn open(socket: &Path, hello: &str) -> Self {
        let mut wire = Self::connect(socket, hello).unwrap();
        wire.ask("initialize", &initialize_params()).unwrap();
        assert!(wire.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})));
        wire
    }

    /// Sends a message; returns `false` if the kernel cannot have received it.
    pub(crate) fn send(&mut self, message: &Value) -> bool {
        self.stream.write_all(format!("{message}\n").as_bytes()).is_ok()
    }

    /// Sends a request; returns its result or its error, which is null if the kernel is gone.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        self.next += 1;
        let line = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        if !self.send(&line) {
            return Err(Value::Null);
        }
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).unwrap_or(0) == 0 {
                return Err(Value::Null);
            }
            let mut answer: Value = serde_json::from_str(&line).unwrap_or(Value::Null);
            if answer["id"] == self.next && answer.get("method").is_none() {
                return if answer["error"].is_null() {
                    Ok(answer["result"].take())
                } else {
                    Err(answer["error"].take())
                };
            }
        }
    }
}

/// Returns the first line that an agent sends.
pub(crate) fn agent(name: &str) -> String {
    format!("{{\"mgp\":1,\"as\":\"agent\",\"agent\":\"{name}\"}}\n")
}

pub(crate) fn initialize_params() -> Value {
    json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {
            "mgp": {"version": "0.6.0", "extensions": ["access_control", "discovery", "lifecycle"]},
        },
        "clientInfo": {"name": "test", "version": "1"},
    })
}
