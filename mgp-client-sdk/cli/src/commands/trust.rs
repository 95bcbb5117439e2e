//! `mgp trust`: approves the configuration of a project, exactly as it is (MGP §15.2).
//!
//! Applies to: both.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use mgp_discovery::{Approval, Review, Severity, Sources, Trust};
use mgp_types::Timestamp;
use mgp_types::service::Principal;
use serde::Serialize;

use crate::ask;
use crate::cli::Global;
use crate::exit::{Ended, Failure};
use crate::output::{Done, Page, Shown, note, show};
use crate::record::{self, Record};
use crate::state;

/// `mgp trust`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  mgp trust           # shows what ./mgp.toml would start, and asks\n  mgp trust --list"
)]
pub(crate) struct Arguments {
    /// Approve without asking
    #[arg(long, short)]
    yes: bool,
    /// Take the approval back, of ./mgp.toml or of FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "mgp.toml", conflicts_with_all = ["yes", "list"])]
    revoke: Option<PathBuf>,
    /// Show all approvals
    #[arg(long, conflicts_with = "yes")]
    list: bool,
}

/// What is to be approved, and whether it was.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Judged {
    /// The file, by where it really is.
    file: PathBuf,
    /// The SHA-256 of its content.
    sha256: String,
    /// Its servers.
    servers: Vec<Judgement>,
    /// What is wrong or doubtful in it.
    findings: Vec<String>,
    /// Whether it counts now.
    approved: bool,
}

/// A server of a project, as a person judges it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Judgement {
    /// Its id.
    id: String,
    /// What it starts, or where it is.
    runs: String,
    /// What it is given from outside the file.
    needs: Vec<String>,
    /// Its variables and headers; secrets in clear text are left out.
    sets: Vec<String>,
    /// Which rules it loosens.
    loosens: Vec<String>,
    /// Whether it takes the place of a server of your own.
    replaces_yours: bool,
}

/// An approval.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Approved {
    /// The file, by where it really is.
    file: PathBuf,
    /// The SHA-256 of the content that was approved.
    sha256: String,
    /// Which of your own servers it may replace.
    replaces: Vec<String>,
    /// When.
    #[serde(rename = "approved_at")]
    #[cfg_attr(test, schemars(with = "String"))]
    at: Timestamp,
}

/// All approvals.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Approvals(Vec<Approved>);

impl Judged {
    fn of(review: &Review) -> Self {
        let servers = review.servers.iter().map(|server| Judgement {
            id: server.id.to_string(),
            runs: server.runs.clone(),
            needs: server.needs.clone(),
            sets: server.sets.clone(),
            loosens: server.loosens.clone(),
            replaces_yours: server.overrides,
        });
        Self {
            file: review.file.clone(),
            sha256: review.sha256.clone(),
            servers: servers.collect(),
            findings: review.findings.iter().map(ToString::to_string).collect(),
            approved: false,
        }
    }

    /// What a person must see first, a line each.
    fn lines(&self, review: &Review) -> Vec<String> {
        let mut lines = vec![self.file.display().to_string()];
        lines.extend(review.servers.iter().map(|server| format!("  {server}")));
        lines.extend(self.findings.iter().map(|finding| format!("  {finding}")));
        if review.servers.is_empty() {
            lines.push("  it names no servers".to_owned());
        }
        lines
    }
}

impl Shown for Judged {
    fn show(&self, page: &mut Page) {
        page.line(format!("approved {}", self.file.display()));
    }
}

impl From<Approval> for Approved {
    fn from(approval: Approval) -> Self {
        Self {
            file: approval.file,
            sha256: approval.sha256,
            replaces: approval.overrides.into_iter().collect(),
            at: approval.approved_at,
        }
    }
}

impl Shown for Approvals {
    fn show(&self, page: &mut Page) {
        if self.0.is_empty() {
            return page.line("no project's configuration is approved");
        }
        let rows = self.0.iter().map(|approved| {
            [
                approved.at.to_string().into(),
                approved.sha256.chars().take(12).collect::<String>().into(),
                approved.file.display().to_string().into(),
            ]
        });
        page.table(["APPROVED", "SHA-256", "FILE"], rows);
    }
}

/// The approvals, with what is decided on the record.
fn decides(record: &Record) -> Trust {
    Trust::new(Arc::clone(record.store())).recorded(record.sink())
}

pub(crate) async fn run(global: &Global, arguments: &Arguments) -> Ended {
    let trust = Trust::new(Arc::new(state::db(global).await?));
    let operator = Principal::local().operator();
    if arguments.list {
        let all = trust.list().await?;
        return show(global, &Approvals(all.into_iter().map(Approved::from).collect()));
    }
    if let Some(file) = &arguments.revoke {
        let real = file.canonicalize().unwrap_or_else(|_| file.clone());
        if !trust.list().await?.iter().any(|approval| approval.file == real) {
            let file = file.display();
            return Err(Failure::failed(format!(
                "`{file}` is not approved; see `mgp trust --list`"
            )));
        }
        let record = record::open(global).await?;
        let revoked = decides(&record).revoke(file, &operator).await;
        record.close().await?;
        revoked?;
        return Done::new(real.display().to_string(), "revoked").tell(global);
    }
    let Some(review) = Sources::of_process().review()? else {
        return Err(Failure::failed(
            "there is no ./mgp.toml to approve; run `mgp trust` in the folder of the project",
        ));
    };
    let mut judged = Judged::of(&review);
    for line in judged.lines(&review) {
        note(global, &line);
    }
    // What cannot be read would be approved blindly.
    let broken = review.findings.iter().find(|finding| finding.severity == Severity::Error);
    if let Some(fault) = broken.filter(|_| review.servers.is_empty()) {
        return Err(Failure::failed(fault));
    }
    if !arguments.yes {
        match ask::yes(global, "Start these programs whenever you work here?")? {
            Some(true) => {}
            Some(false) => return Err(Failure::failed("not approved")),
            None => {
                return Err(Failure::usage(
                    "nobody can be asked here; read the file, then run `mgp trust --yes`",
                ));
            }
        }
    }
    // Only now: a kernel that begins does not wait for an answer.
    let record = record::open(global).await?;
    let approved = decides(&record).approve(&review, &operator).await;
    record.close().await?;
    approved?;
    judged.approved = true;
    show(global, &judged)
}
