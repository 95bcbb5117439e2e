//! The frame of every page: head, navigation and notices, and other parts that several pages use.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::Console;
use super::form::Form;
use super::operator::Viewer;
use super::texts::Texts;
use crate::escape::escape_lines;
use crate::state_option;

/// The maximum length of a notice, which is part of the address of the page that shows it.
const MAX_NOTICE: usize = 600;

/// The icon of the pages. Without it, a browser would request an icon from a path outside of the console.
const ICON: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 16 16\">\
     <rect width=\"16\" height=\"16\" rx=\"4\" fill=\"#0550ae\"/>\
     <path d=\"M4 12V5l4 5 4-5v7\" fill=\"none\" stroke=\"#fff\" stroke-width=\"2\"/></svg>";

/// The maximum number of isolated sequences of right-to-left letters in a text; such letters in the rest of the text
/// are shown as their codes. The time of a browser grows with the square of the number of changes of direction.
const MAX_RUNS: usize = 5_000;

/// The value of `answer` in the hidden first button of a form, which Enter in a field presses; this value changes
/// nothing.
pub(super) const NO_ANSWER: &str = "none";

/// The result of an action, shown on the page that follows it.
pub(super) enum Notice {
    Done(String),
    /// The result of a decision that also holds for later calls.
    Lasting(String),
    Failed(String),
}

impl Notice {
    /// Returns the notice as a query. A link of another site can contain any text, so a signature proves that this
    /// session made the notice.
    pub(super) fn to_query(&self, viewer: &Viewer) -> String {
        let (name, text) = match self {
            Self::Done(text) | Self::Lasting(text) => ("done", text),
            Self::Failed(text) => ("failed", text),
        };
        let text = mgp_types::clip(text, MAX_NOTICE);
        let text = text.trim();
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair(name, text).append_pair("sign", &viewer.sign(name, text));
        if matches!(self, Self::Lasting(_)) {
            query.append_pair("see", "decisions");
        }
        query.finish()
    }
}

/// Returns the notice in the query of a page, if this session made it.
fn notice(console: &Console, viewer: &Viewer, query: &Form) -> Markup {
    let found = ["done", "failed"].into_iter().find_map(|name| Some((name, query.get(name)?)));
    let Some((name, text)) = found else { return html! {} };
    if !viewer.has_signed(name, text, query.text("sign")) {
        return html! {};
    }
    html! {
        // The focus lets a screen reader read the notice. The key Tab then continues after the notice.
        p class=(name) tabindex="-1" autofocus {
            (hint(text))
            @if query.get("see") == Some("decisions") {
                " " a href=(url(console, "/access#decisions")) { (viewer.texts.decisions) }
            }
        }
    }
}

/// Returns a hidden, disabled button, which must be the first one of a form. If a person presses Enter in a field, the
/// browser presses the first button of the form, and this must not allow anything. As the button is disabled, the
/// browser does not send the form at all, and the typed text stays in the field.
pub(super) fn enter_guard(viewer: &Viewer) -> Markup {
    html! {
        button.hidden disabled name="answer" value=(NO_ANSWER) tabindex="-1" aria-hidden="true" { (viewer.texts.press_button) }
    }
}

pub(super) fn url(console: &Console, path: &str) -> String {
    format!("{}{}", console.gate.base(), if path == "/" { "" } else { path })
}

/// Returns a text from a server or an agent with its invisible characters made visible. The caller's markup escapes
/// HTML.
pub(super) fn plain(text: &str) -> String {
    escape_lines(text)
}

/// Returns a text as [`plain`] does, and keeps its parts in their order. For this, it isolates each sequence of letters
/// that are written from right to left; after [`MAX_RUNS`] sequences, it escapes such letters. Otherwise a browser
/// would also reverse the text between two such sequences, e.g. show the value of an argument in the place of its name.
pub(super) fn in_order(text: &str) -> Markup {
    let text = plain(text);
    let (mut parts, mut rest) = (Vec::new(), text.as_str());
    while parts.len() < MAX_RUNS
        && let Some(start) = rest.find(is_right_to_left)
    {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c: char| c != ' ' && !is_right_to_left(c)).unwrap_or(from.len());
        let run = from[..end].trim_end_matches(' ');
        parts.push((before, run));
        rest = &from[run.len()..];
    }
    let rest = rest.chars().fold(String::new(), |mut shown, c| {
        if is_right_to_left(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
        shown
    });
    html! { @for (before, run) in parts { (before) bdi { (run) } } (rest) }
}

/// Returns whether a character belongs to a script that is written from right to left, e.g. Hebrew or Arabic.
fn is_right_to_left(c: char) -> bool {
    matches!(
        c,
        '\u{590}'..='\u{8ff}'
            | '\u{fb1d}'..='\u{fdff}'
            | '\u{fe70}'..='\u{fefe}'
            | '\u{10800}'..='\u{10fff}'
            | '\u{1e800}'..='\u{1efff}'
    )
}

/// Returns a text of mgp as [`plain`] does. Commands of `mgp` in it get the option `--state` of this process.
pub(super) fn hint(text: &str) -> String {
    plain(&state_option::add_to(text))
}

/// Returns a command of `mgp` with the option `--state` of this process.
pub(super) fn command(text: &str) -> Markup {
    let text = hint(&format!("`{text}`"));
    html! { code { (text.trim_matches('`')) } }
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
            div role="status" { (notice(console, viewer, query)) }
            p #lost.failed.lost role="alert" hidden { (texts.lost) }
            p #news.hidden role="status" data-text=(texts.waits_for_you) {}
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
                title { (title) @if title != "mgp" { " – mgp" } }
                link rel="icon" type="image/svg+xml" href=(url(console, "/icon.svg"));
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

pub(super) fn hidden(name: &str, value: &str) -> Markup {
    html! { input type="hidden" name=(name) value=(value); }
}

pub(super) fn failure(viewer: &Viewer, reason: &str) -> Markup {
    html! { p.failed role="alert" { (viewer.texts.failed) " " (hint(reason)) } }
}

/// Returns a table with a head. On a narrow screen, each row is a card, and each of its cells has the head of its
/// column.
pub(super) fn table(name: &str, heads: &[&str], rows: &Markup) -> Markup {
    html! {
        div.scroll role="region" aria-label=(name) tabindex="0" {
            table {
                caption.hidden { (name) }
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody { (labelled(&rows.0, heads)) }
            }
        }
    }
}

/// Returns the rows of a table, each cell with its head as a label. Texts in the rows contain no `<`, because they are
/// escaped.
fn labelled(rows: &str, heads: &[&str]) -> Markup {
    let mut labelled = String::new();
    for (number, row) in rows.split("<tr").enumerate() {
        labelled.push_str(if number == 0 { "" } else { "<tr" });
        let mut heads = heads.iter();
        let mut rest = row;
        while let Some(at) = [rest.find("<td"), rest.find("<th")].into_iter().flatten().min() {
            let (before, cell) = rest.split_at(at);
            let (tag, after) = cell.split_at("<td".len());
            labelled.extend([before, tag]);
            if let Some(head) = heads.next() {
                labelled.extend([" data-label=\"", &html! { (head) }.0, "\""]);
            }
            rest = after;
        }
        labelled.push_str(rest);
    }
    PreEscaped(labelled)
}

/// Returns a status word as a coloured mark; the colour depends on the word.
pub(super) fn mark(word: &str) -> Markup {
    let class = match word {
        "connected" | "valid" | "allow" | "allowed" | "passed" | "SUCCESS" | "safe" | "pinned"
        | "approved" | "yes" => "good",
        "error" | "refuse" | "refused" | "deny" | "denied" | "DENIED" | "FAILURE" | "BLOCKED"
        | "rejected" | "dangerous" | "no" => "bad",
        "disconnected" | "idle" | "disabled" | "default" | "revoked" | "expired" => "dim",
        _ => "warn",
    };
    html! { span class={ "mark " (class) } { (plain(word)) } }
}

/// Returns a form field for one line of text, with its label.
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

pub(super) async fn icon() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "image/svg+xml")], ICON)
}

pub(super) async fn script() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], include_str!("live.js"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_to_left_letters_do_not_move_the_text_between_them() {
        for (text, expected) in [
            ("a <b>", "a &lt;b&gt;"),
            ("{\"אב\":\"גד\"}", "{&quot;<bdi>אב</bdi>&quot;:&quot;<bdi>גד</bdi>&quot;}"),
            ("/אב גד/100 ", "/<bdi>אב גד</bdi>/100 "),
            ("نص ", "<bdi>نص</bdi> "),
            ("א\u{202e}", "<bdi>א</bdi>\\u{202e}"),
        ] {
            assert_eq!(in_order(text).into_string(), expected, "{text}");
        }
    }

    #[test]
    fn a_text_that_changes_its_direction_too_often_ends_with_codes() {
        let shown = in_order(&"aא".repeat(MAX_RUNS + 2)).into_string();
        assert_eq!(shown.matches("<bdi>").count(), MAX_RUNS);
        assert!(shown.ends_with("a<bdi>א</bdi>a\\u{5d0}a\\u{5d0}"));
    }

    #[test]
    fn each_cell_of_a_table_has_the_head_of_its_column() {
        let rows =
            html! { tr { th scope="row" { "<td" } td.time { "b" } td { "c" } } tr { td {} } };
        let table = table("t", &["One", "T\"wo"], &rows).into_string();
        let body = table.split("<tbody>").nth(1).unwrap().split("</tbody>").next().unwrap();
        assert_eq!(
            body,
            "<tr><th data-label=\"One\" scope=\"row\">&lt;td</th><td data-label=\"T&quot;wo\" class=\"time\">b</td><td>c</td></tr><tr><td data-label=\"One\"></td></tr>"
        );
    }
}
