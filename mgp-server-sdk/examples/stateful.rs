//! A server that remembers: a block of tools with a state of its own, and a tool that takes state of the server.
//!
//! They take microseconds, so they run `inline`: without a task of their own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mgp_server_sdk::prelude::*;

/// Notes by title; tools run at the same time, so what changes stands in a mutex.
#[derive(Default)]
struct Notes(Mutex<BTreeMap<String, String>>);

#[tools(prefix = "notes.")]
impl Notes {
    /// Keeps a note, in place of an older one of the same title.
    #[tool(inline, idempotent, security(risk = "safe", reversible))]
    fn keep(
        &self,
        /// What the note is found by.
        title: String,
        /// The note.
        text: String,
        State(changes): State<Changes>,
    ) -> String {
        changes.0.fetch_add(1, Ordering::Relaxed);
        let older = self.notes().insert(title, text);
        older.map_or_else(|| "kept".to_owned(), |older| format!("kept, in place of: {older}"))
    }

    /// Reads a note.
    #[tool(inline, read_only)]
    fn read(&self, title: &str) -> Result<String, ToolError> {
        let note = self.notes().get(title).cloned();
        note.ok_or_else(|| ToolError(format!("there is no note `{title}`")))
    }

    /// Lists the titles that begin with something.
    #[tool(inline, read_only)]
    fn list(&self, #[arg(default, description = "All without it.")] prefix: &str) -> Json<Titles> {
        let notes = self.notes();
        let titles = notes.keys().filter(|title| title.starts_with(prefix));
        Json(Titles { titles: titles.cloned().collect() })
    }

    fn notes(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The titles of notes.
#[derive(Serialize, JsonSchema)]
struct Titles {
    titles: Vec<String>,
}

/// How often something changed: state of the server, for every tool that takes it.
#[derive(Default)]
struct Changes(AtomicU64);

/// Says how often something was kept.
#[tool(inline, read_only)]
fn changes(State(changes): State<Changes>) -> String {
    changes.0.load(Ordering::Relaxed).to_string()
}

/// The server.
pub(crate) fn server() -> Server {
    Server::new("notes", env!("CARGO_PKG_VERSION"))
        .state(Changes::default())
        .tool(Notes::default())
        .tool(changes())
}

#[tokio::main]
async fn main() -> Result<(), ServeError> {
    server().serve_stdio().await
}
