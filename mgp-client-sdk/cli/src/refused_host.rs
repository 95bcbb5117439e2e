//! Answers the host whose kernel cannot start: most hosts show the error of the first request, and hide standard error.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use mgp_types::ErrorCode;
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::output::write_stdout;
use crate::state_option;

/// The maximum time to wait for the host's first request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of bytes that are read to find the first request.
const MAX_BYTES: u64 = 1 << 20;

/// Answers the host's first request with the reason why the kernel does not start.
pub(crate) fn answer(failure: &Failure) {
    // Do nothing at a terminal: a person sends no request, and reads the reason on standard error.
    if io::stdin().is_terminal() {
        return;
    }
    let (sender, receiver) = mpsc::channel();
    // Read the input in a separate thread, because a host may never send anything.
    let reading = thread::Builder::new().name("mgp-refused".to_owned()).spawn(move || {
        let lines = io::stdin().lock().take(MAX_BYTES).lines();
        let first = lines.map_while(Result::ok).find_map(|line| request_id(&line));
        let _ = sender.send(first);
    });
    let Ok(Some(id)) = reading.map(|_| receiver.recv_timeout(REQUEST_TIMEOUT).ok().flatten())
    else {
        return;
    };
    let message = format!(
        "mgp does not start: {failure}; correct that and restart the host; `mgp doctor` checks it"
    );
    let error =
        json!({ "code": ErrorCode::INTERNAL_ERROR.0, "message": state_option::add_to(&message) });
    let response = json!({ "jsonrpc": "2.0", "id": id, "error": error });
    // Ignore an error, because the host may have ended.
    let _ = write_stdout(&(response.to_string() + "\n"));
}

/// Returns the id of a request; `None` for other messages.
fn request_id(line: &str) -> Option<Value> {
    let message: Value = serde_json::from_str(line).ok()?;
    message.get("method")?;
    message.get("id").filter(|id| id.is_string() || id.is_number()).cloned()
}
