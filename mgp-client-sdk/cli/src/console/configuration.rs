//! The configuration files, as the kernel uses them, with their findings; secrets are never shown.

use std::path::Path;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use mgp_types::method::{KernelInfo, KernelReload};
use mgp_types::mgp::{KernelInfoParams, KernelInfoResult, KernelReloadParams, KernelReloadResult};

use super::form::{Form, Posted};
use super::layout::{self, Notice, hint, mark, plain, token, url};
use super::operator::Viewer;
use super::{Shared, shown};
use crate::commands::kernel::ERROR;
use crate::exit::Failure;
use crate::redaction::masked;

pub(super) async fn page(
    State(console): Shared,
    Extension(viewer): Extension<Viewer>,
    query: Form,
) -> Response {
    shown(&console, &viewer, async {
        let info = viewer.operator.client.request::<KernelInfo>(&KernelInfoParams::new()).await?;
        let texts = viewer.texts;
        let body = html! {
            (findings(&viewer, &info))
            form.row method="post" action=(url(&console, "/configuration")) {
                (token(&viewer)) button { (texts.reload) }
            }
            @for file in &info.config {
                h2 { code { (plain(file)) } }
                @match masked(Path::new(file)) {
                    Ok(text) => pre.whole tabindex="0" { (plain(&text)) },
                    Err(failure) => p.failed { (plain(&failure.to_string())) },
                }
            }
            p.dim { (texts.masked) }
        };
        Ok(layout::page(&console, &viewer, "/configuration", &query, &body))
    })
    .await
}

fn findings(viewer: &Viewer, info: &KernelInfoResult) -> Markup {
    html! {
        @if info.findings.is_empty() { p.done { (viewer.texts.no_findings) } }
        @else {
            ul { @for finding in &info.findings {
                li { (mark(&finding.severity)) " "
                    @if let (Some(file), Some(line)) = (&finding.file, finding.line) { code { (plain(file)) ":" (line) } " " }
                    (hint(&finding.message)) }
            } }
        }
    }
}

/// Makes the kernel apply the configuration files in their current state. If a file has an error, the notice shows a
/// failure, because the part with the error keeps its former state.
pub(super) async fn reload(State(console): Shared, Posted(_, viewer): Posted) -> Response {
    let params = KernelReloadParams::new();
    let notice = match viewer.operator.client.request::<KernelReload>(&params).await {
        Ok(result) if result.findings.iter().any(|finding| finding.severity == ERROR) => {
            let changes = changes(&viewer, &result);
            Notice::Failed(format!("{changes}; {}", viewer.texts.has_errors))
        }
        Ok(result) => Notice::Done(changes(&viewer, &result)),
        Err(error) => Notice::Failed(Failure::from(error).to_string()),
    };
    console.done(&viewer, "/configuration", &notice)
}

/// Returns the changes that a reload has made, as one line.
fn changes(viewer: &Viewer, result: &KernelReloadResult) -> String {
    let changes = result.changed.iter().map(|change| {
        let id = change.id.as_deref().map_or_else(String::new, |id| format!(" {id}"));
        format!("{}{id}: {}", change.kind, change.change)
    });
    let changes = changes.collect::<Vec<_>>().join("; ");
    if changes.is_empty() { viewer.texts.nothing_changed.to_owned() } else { changes }
}
