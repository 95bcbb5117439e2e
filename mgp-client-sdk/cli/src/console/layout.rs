//! The frame of every page: head, navigation and notices, and other parts that several pages use.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use super::Console;
use super::form::Form;
use super::operator::Viewer;
use super::texts::Texts;
use crate::output::escape_lines;

/// The maximum length of a notice, which is part of the address of the page that shows it.
const MAX_NOTICE: usize = 600;

/// The result of an action, shown on the page that follows it.
pub(super) enum Notice {
    Done(String),
    Failed(String),
}

impl Notice {
    pub(super) fn to_query(&self) -> String {
        let (name, text) = match self {
            Self::Done(text) => ("done", text),
            Self::Failed(text) => ("failed", text),
        };
        let text = mgp_types::clip(text, MAX_NOTICE);
        form_urlencoded::Serializer::new(String::new()).append_pair(name, &text).finish()
    }
}

/// Returns the URL of a path of the console.
pub(super) fn url(console: &Console, path: &str) -> String {
    format!("{}{}", console.gate.base(), if path == "/" { "" } else { path })
}

/// Returns a text from a server or an agent with its invisible characters made visible. The caller's markup escapes
/// HTML.
pub(super) fn plain(text: &str) -> String {
    escape_lines(text)
}

/// Returns a page with the navigation.
pub(super) fn page(
    console: &Console,
    viewer: &Viewer,
    path: &str,
    query: &Form,
    body: &Markup,
) -> Response {
    let texts = viewer.texts;
    let pages = [
        ("/", texts.inbox),
        ("/servers", texts.servers),
        ("/record", texts.record),
        ("/access", texts.access),
        ("/search", texts.search),
        ("/configuration", texts.configuration),
    ];
    let title = pages.iter().find(|(own, _)| *own == path).map_or("mgp", |(_, name)| name);
    let inner = html! {
        a.skip href="#main" { (texts.skip) }
        header {
            div {
                b { "mgp" }
                nav aria-label=(texts.pages) {
                    @for (own, name) in pages {
                        a href=(url(console, own)) aria-current=[(own == path).then_some("page")] {
                            (name)
                            @if own == "/" { span #waiting data-live="count" { (viewer.operator.live.waiting_mark()) } }
                        }
                    }
                }
                form method="post" action=(url(console, "/logout")) {
                    (token(viewer))
                    button.quiet { (texts.log_out) }
                }
            }
        }
        main #main tabindex="-1" data-events=(url(console, "/events")) {
            h1 { (title) }
            div role="status" {
                @if let Some(done) = query.get("done") { p.done { (plain(done)) } }
                @if let Some(failed) = query.get("failed") { p.failed { (plain(failed)) } }
            }
            div #content { (body) }
        }
        script src=(url(console, "/live.js")) defer {}
    };
    document(console, viewer.texts, title, None, &inner)
}

/// Returns a page without the navigation, for people who have not logged in.
pub(super) fn bare(console: &Console, texts: &Texts, body: &Markup) -> Response {
    document(console, texts, "mgp", None, &html! { main #main.bare { h1 { "mgp" } (body) } })
}

/// Returns a page that makes the browser request the path again. That second request comes from a page of this site, so
/// the browser sends the login cookie with it.
pub(super) fn again(console: &Console, texts: &Texts, path: &str) -> Response {
    let address = url(console, path);
    let body = html! { main #main.bare { p { a href=(address) { (texts.go_on) } } } };
    document(console, texts, "mgp", Some(&address), &body)
}

fn document(
    console: &Console,
    texts: &Texts,
    title: &str,
    next: Option<&str>,
    inner: &Markup,
) -> Response {
    html! {
        (DOCTYPE)
        html lang=(texts.language) {
            head {
                @if let Some(next) = next { meta http-equiv="refresh" content=(format!("0;url={next}")); }
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " – mgp" }
                link rel="stylesheet" href=(url(console, "/style.css"));
            }
            body { (inner) }
        }
    }
    .into_response()
}

/// Returns the hidden field with the token that every form must contain.
pub(super) fn token(viewer: &Viewer) -> Markup {
    html! { input type="hidden" name="token" value=(viewer.token()); }
}

/// Returns a hidden field.
pub(super) fn hidden(name: &str, value: &str) -> Markup {
    html! { input type="hidden" name=(name) value=(value); }
}

pub(super) fn failure(viewer: &Viewer, reason: &str) -> Markup {
    html! { p.failed role="alert" { (viewer.texts.failed) " " (plain(reason)) } }
}

/// Returns a table with a head. On a narrow screen, the table can be scrolled separately.
pub(super) fn table(name: &str, heads: &[&str], rows: &Markup) -> Markup {
    html! {
        div.scroll role="region" aria-label=(name) tabindex="0" {
            table {
                caption.hidden { (name) }
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody { (rows) }
            }
        }
    }
}

/// Returns a status word as a coloured mark; the colour depends on the word.
pub(super) fn mark(word: &str) -> Markup {
    let class = match word {
        "connected" | "valid" | "allow" | "allowed" | "passed" | "SUCCESS" | "safe"
        | "approved" | "yes" => "good",
        "error" | "refuse" | "refused" | "deny" | "denied" | "DENIED" | "FAILURE" | "BLOCKED"
        | "dangerous" | "no" => "bad",
        "disconnected" | "idle" | "disabled" | "default" | "revoked" | "expired" => "dim",
        _ => "warn",
    };
    html! { span class={ "mark " (class) } { (plain(word)) } }
}

/// Returns a labelled field of one line.
pub(super) fn field(label: &str, name: &str, value: &str, is_required: bool) -> Markup {
    html! {
        label { span { (label) }
            input name=(name) value=(value) required[is_required] autocomplete="off" spellcheck="false";
        }
    }
}

pub(super) async fn style() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("style.css"))
}

pub(super) async fn script() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], include_str!("live.js"))
}
