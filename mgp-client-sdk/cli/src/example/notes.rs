//! An example server that stores notes. Its tools share the notes, and count changes in the state of the server.
//!
//! The tools take microseconds, so they run `inline`, i.e. without a task for each call.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use mgp_server_sdk::prelude::*;
use mgp_types::sync::Mutex;

/// Notes by title; in a mutex, because tools run concurrently.
#[derive(Default)]
struct Notes(Mutex<BTreeMap<String, String>>);

#[tools(prefix = "notes.")]
impl Notes {
    /// Stores a note; an older one of the same title is replaced.
    #[tool(inline, idempotent, security(risk = "safe", reversible))]
    fn keep(
        &self,
        /// The title that identifies the note.
        title: String,
        /// The text of the note.
        text: String,
        State(changes): State<Changes>,
    ) -> String {
        changes.0.fetch_add(1, Ordering::Relaxed);
        let older = self.0.lock().insert(title, text);
        older.map_or_else(|| "kept".to_owned(), |older| format!("kept, in place of: {older}"))
    }

    /// Reads a note.
    #[tool(inline, read_only)]
    fn read(&self, title: &str) -> Result<String, ToolError> {
        let note = self.0.lock().get(title).cloned();
        note.ok_or_else(|| ToolError(format!("there is no note `{title}`")))
    }

    /// Lists the titles that begin with something.
    #[tool(inline, read_only)]
    fn list(&self, #[arg(default, description = "All without it.")] prefix: &str) -> Json<Titles> {
        let notes = self.0.lock();
        let titles = notes.keys().filter(|title| title.starts_with(prefix));
        Json(Titles { titles: titles.cloned().collect() })
    }
}

/// The titles of notes.
#[derive(Serialize, JsonSchema)]
struct Titles {
    titles: Vec<String>,
}

/// The number of times that a note was stored: server state that any tool can request with `State`.
#[derive(Default)]
struct Changes(AtomicU64);

/// Returns how often a note was stored.
#[tool(inline, read_only)]
fn changes(State(changes): State<Changes>) -> String {
    changes.0.load(Ordering::Relaxed).to_string()
}

pub(crate) fn server() -> Server {
    Server::new("notes", env!("CARGO_PKG_VERSION"))
        .state(Changes::default())
        .tool(Notes::default())
        .tool(changes())
}
