//! The configuration files, as the kernel uses them, with their findings; secrets are never shown.

use std::path::Path;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use mgp_types::method::{KernelInfo, KernelReload};
use mgp_types::mgp::{KernelInfoParams, KernelInfoResult, KernelReloadParams};

use super::form::{Form, Posted};
use super::layout::{self, hint, mark, plain, token, url};
use super::operator::Viewer;
use super::{Shared, shown};
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

/// Makes the kernel apply the configuration files in their current state.
pub(super) async fn reload(State(console): Shared, Posted(_, viewer): Posted) -> Response {
    let result = viewer.operator.client.request::<KernelReload>(&KernelReloadParams::new()).await;
    let changes = result.as_ref().map(|result| {
        let changes = result.changed.iter().map(|change| {
            format!(
                "{} {}: {}",
                change.kind,
                change.id.as_deref().unwrap_or_default(),
                change.change
            )
        });
        changes.collect::<Vec<_>>().join("; ")
    });
    let done = changes
        .ok()
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| "nothing has changed".to_owned());
    console.ended(&viewer, "/configuration", done, result.map(|_| ()).map_err(Into::into))
}
