//! `mgp permissions`: what each server may do (MGP §3).
//!
//! Applies to: both.

use std::time::SystemTime;

use clap::{Args, Subcommand};
use mgp_types::mgp::{KernelPermission, Permission};
use serde::Serialize;

use super::doubt::doubts;
use crate::books::{Books, Word};
use crate::cli::Global;
use crate::exit::{Ended, Failure};
use crate::output::{Cell, Done, Page, Shown, Tone, show};
use crate::span;

/// `mgp permissions`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Permissions {
    /// List what was decided
    Ls {
        /// Of this server only
        server: Option<String>,
    },
    /// Let a server do something
    #[command(
        after_help = "Example:\n  mgp permissions approve files filesystem.read filesystem.write\n  mgp permissions approve files filesystem.write --tool write_file --expires 8h"
    )]
    Approve(Change),
    /// Forbid a server something; nobody is asked again
    #[command(after_help = "Example:\n  mgp permissions deny files network.outbound")]
    Deny(Change),
    /// Take a decision back; whoever may be asked is asked again
    #[command(after_help = "Example:\n  mgp permissions revoke files filesystem.write")]
    Revoke(Change),
}

/// A server and permissions.
#[derive(Clone, Debug, Args)]
pub(crate) struct Change {
    /// The server
    server: String,
    /// The permissions, as filesystem.read or network.outbound
    #[arg(required = true, value_name = "PERMISSION")]
    permissions: Vec<String>,
    /// For this tool only; may be given several times
    #[arg(long, value_name = "NAME")]
    tool: Vec<String>,
    /// When it ends: 30m, 8h, 90d, or a time
    #[arg(long, value_name = "TIME", value_parser = span::end)]
    expires: Option<SystemTime>,
    /// Why; it is recorded
    #[arg(long, value_name = "TEXT")]
    because: Option<String>,
}

/// What was decided.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Decided(Vec<KernelPermission>);

impl Shown for Decided {
    fn show(&self, page: &mut Page) {
        if self.0.is_empty() {
            return page.line(
                "nothing was decided yet; servers are asked about when their tools are called",
            );
        }
        let rows = self.0.iter().map(|one| {
            let tone = if one.decision == "approved" { Tone::Good } else { Tone::Bad };
            let tools: Vec<String> = one.tools.iter().cloned().collect();
            [
                one.server_id.as_deref().into(),
                one.permission.as_str().into(),
                Cell::from(one.decision.as_str()).tone(tone),
                (!tools.is_empty()).then(|| tools.join(" ")).into(),
                one.expires_at.as_ref().map(ToString::to_string).into(),
                one.approved_by.as_str().into(),
                one.justification.as_deref().into(),
            ]
        });
        page.table(["SERVER", "PERMISSION", "DECISION", "TOOLS", "EXPIRES", "BY", "BECAUSE"], rows);
    }
}

pub(crate) async fn run(global: &Global, permissions: &Permissions) -> Ended {
    let books = Books::open(global).await?;
    let ended = on(global, permissions, &books).await;
    // Only what is on the disk is done.
    books.close().await?;
    ended?.map_or(Ok(()), |done| done.tell(global))
}

async fn on(global: &Global, permissions: &Permissions, books: &Books) -> Ended<Option<Done>> {
    match permissions {
        Permissions::Ls { server } => {
            show(global, &Decided(books.permissions(server.as_deref()).await?))?;
            Ok(None)
        }
        Permissions::Approve(change) => make(global, books, Word::Approve, change).await.map(Some),
        Permissions::Deny(change) => make(global, books, Word::Deny, change).await.map(Some),
        Permissions::Revoke(change) => make(global, books, Word::Revoke, change).await.map(Some),
    }
}

async fn make(global: &Global, books: &Books, word: Word, change: &Change) -> Ended<Done> {
    let Change { server, permissions, tool, expires, because } = change;
    for permission in permissions {
        let known = Permission::from(permission.as_str());
        if !known.is_known() && !permission.contains('.') {
            let all: Vec<_> = Permission::KNOWN.iter().map(Permission::as_str).collect();
            let all = all.join(", ");
            return Err(Failure::usage(format!("`{permission}` is no permission; known: {all}")));
        }
    }
    let permissions: Vec<Permission> =
        permissions.iter().map(|name| name.as_str().into()).collect();
    let made = books.decide(word, server, permissions, tool, *expires, because.as_deref()).await?;
    let status = match word {
        Word::Approve => "approved",
        Word::Deny => "denied",
        Word::Revoke if made == 0 => {
            return Err(Failure::failed(format!(
                "there is nothing to take back; see `mgp permissions ls {server}`"
            )));
        }
        Word::Revoke => "revoked",
    };
    let doubts = doubts(global, books, server, tool).await;
    Ok(Done::new(&**server, status).notes(doubts))
}
