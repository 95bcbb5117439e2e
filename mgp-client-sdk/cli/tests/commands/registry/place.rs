//! A test registry on this machine, with version 0.1 of the registry's protocol.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::get;
use serde_json::{Value, json};

const PAGE: usize = 100;

/// The value of `mode` for pages that never end; with the value 0, the registry answers correctly.
const ENDLESS: u8 = 1;
/// The value of `mode` for answers that are redirects.
const MOVED: u8 = 2;

#[derive(Default)]
struct Shared {
    entries: Mutex<Vec<Value>>,
    /// The files that the registry serves at `/files/NAME`; it redirects `/files/moved-NAME` to `NAME`.
    files: Mutex<HashMap<String, Vec<u8>>>,
    log: Mutex<Vec<String>>,
    mode: AtomicU8,
}

/// A registry that is served until this value is dropped.
pub(crate) struct Place {
    pub(crate) url: String,
    shared: Arc<Shared>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Drop for Place {
    fn drop(&mut self) {
        // End the runtime in the background, because a plain drop would panic within another runtime.
        self.runtime.take().unwrap().shutdown_background();
    }
}

impl Place {
    pub(crate) fn with(entries: Vec<Value>) -> Self {
        let shared = Arc::new(Shared { entries: Mutex::new(entries), ..Shared::default() });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new()
            .route("/v0.1/servers", get(list))
            .route("/v0.1/servers/{name}/versions/{version}", get(one))
            .route("/files/{name}", get(file))
            .with_state(Arc::clone(&shared));
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, router).await
        });
        Self { url, shared, runtime: Some(runtime) }
    }

    pub(crate) fn replace(&self, entries: Vec<Value>) {
        *self.shared.entries.lock().unwrap() = entries;
    }

    /// Serves a file, and returns its URL.
    pub(crate) fn serve(&self, name: &str, content: Vec<u8>) -> String {
        self.shared.files.lock().unwrap().insert(name.to_owned(), content);
        format!("{}/files/{name}", self.url)
    }

    pub(crate) fn loop_for_ever(&self) {
        self.shared.mode.store(ENDLESS, Ordering::Relaxed);
    }

    pub(crate) fn redirect(&self) {
        self.shared.mode.store(MOVED, Ordering::Relaxed);
    }

    pub(crate) fn answer_again(&self) {
        self.shared.mode.store(0, Ordering::Relaxed);
    }

    /// Returns the number of requests whose path begins with `begin`.
    pub(crate) fn requests(&self, begin: &str) -> usize {
        self.shared.log.lock().unwrap().iter().filter(|path| path.starts_with(begin)).count()
    }
}

async fn list(State(shared): State<Arc<Shared>>, uri: Uri) -> Response {
    shared.log.lock().unwrap().push(uri.to_string());
    let entries = shared.entries.lock().unwrap().clone();
    match shared.mode.load(Ordering::Relaxed) {
        MOVED => return Redirect::to("http://169.254.169.254/").into_response(),
        ENDLESS => {
            let count = shared.log.lock().unwrap().len();
            let next = json!({ "nextCursor": format!("c{count}") });
            return document(&json!({ "servers": entries, "metadata": next }));
        }
        _ => {}
    }
    let cursor =
        uri.query().unwrap_or_default().split('&').find_map(|one| one.strip_prefix("cursor="));
    let begin: usize = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
    let page: Vec<_> = entries.iter().skip(begin).take(PAGE).cloned().collect();
    let next = begin + page.len();
    let mut metadata = json!({ "count": page.len() });
    if next < entries.len() {
        metadata["nextCursor"] = next.to_string().into();
    }
    document(&json!({ "servers": page, "metadata": metadata }))
}

async fn one(
    State(shared): State<Arc<Shared>>,
    uri: Uri,
    Path((name, version)): Path<(String, String)>,
) -> Response {
    shared.log.lock().unwrap().push(uri.to_string());
    let entries = shared.entries.lock().unwrap().clone();
    let mut named = entries.into_iter().filter(|entry| entry["server"]["name"] == *name);
    let found = match version.as_str() {
        "latest" => named.next_back(),
        version => named.find(|entry| entry["server"]["version"] == *version),
    };
    match found {
        Some(entry) => document(&entry),
        None => (StatusCode::NOT_FOUND, document(&json!({ "error": "not found" }))).into_response(),
    }
}

async fn file(
    State(shared): State<Arc<Shared>>,
    uri: Uri,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    shared.log.lock().unwrap().push(uri.to_string());
    if let Some(name) = name.strip_prefix("moved-") {
        let host = headers["host"].to_str().unwrap();
        return Redirect::to(&format!("http://{host}/files/{name}")).into_response();
    }
    if name == "inside" {
        return Redirect::to("http://169.254.169.254/latest").into_response();
    }
    match shared.files.lock().unwrap().get(&name) {
        Some(content) => content.clone().into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn document(document: &Value) -> Response {
    ([("content-type", "application/json")], document.to_string()).into_response()
}
