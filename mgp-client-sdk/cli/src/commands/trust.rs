//! The command `mgp trust`: approves the exact content of a project's configuration (MGP §15.2).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use mgp_discovery::{FindingSeverity, ProjectReview, Sources, Trust, TrustApproval};
use mgp_security::ServerHoldings;
use mgp_types::Timestamp;
use mgp_types::method::KernelInfo;
use mgp_types::mgp::KernelInfoParams;
use serde::Serialize;

use super::kernel::unread_file;
use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::offline_audit::OfflineAudit;
use crate::output::{ActionReport, Cell, Output, Render, print, print_stderr};
use crate::prompt;
use crate::state;
use crate::{backend, control};

/// `mgp trust`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  mgp trust           # shows what ./mgp.toml starts, and asks\n  mgp trust --list"
)]
pub(crate) struct Arguments {
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    /// Revoke the approval of ./mgp.toml or of FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "mgp.toml", conflicts_with_all = ["yes", "list"])]
    revoke: Option<PathBuf>,
    /// List all approvals
    #[arg(long, conflicts_with = "yes")]
    list: bool,
}

/// A configuration, and whether it is approved.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TrustResult {
    /// The canonical path of the file.
    file: PathBuf,
    /// The SHA-256 of its content.
    sha256: String,
    /// The servers of the project.
    servers: Vec<ProjectServer>,
    /// The errors and warnings about the configuration.
    findings: Vec<String>,
    /// `true` if the configuration is approved, and therefore in effect.
    approved: bool,
}

/// A server of a project.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProjectServer {
    /// The id of the server.
    id: String,
    /// The command line or URL.
    runs: String,
    /// The values that the server reads from outside the configuration file.
    needs: Vec<String>,
    /// The environment variables and headers, without secrets in clear text.
    sets: Vec<String>,
    /// The files of the project that the server runs; their content is approved too.
    files: Vec<PathBuf>,
    /// The rules that the server's entry loosens compared to the defaults.
    loosens: Vec<String>,
    /// The existing decisions about a server with the same id, which apply to this server too.
    inherits: Option<String>,
    /// `true` if the server replaces a server of your own configuration.
    replaces_yours: bool,
}

/// The approval of the configuration of a project.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ProjectApproval {
    /// The canonical path of the file.
    file: PathBuf,
    /// The SHA-256 of the approved content.
    sha256: String,
    /// Your own servers that the approved configuration may replace.
    replaces: Vec<String>,
    /// The time of the approval.
    #[serde(rename = "approved_at")]
    #[cfg_attr(test, schemars(with = "String"))]
    at: Timestamp,
}

/// All approvals.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ApprovalList(Vec<ProjectApproval>);

impl TrustResult {
    fn new(review: &ProjectReview, held: &BTreeMap<String, ServerHoldings>) -> Self {
        let servers = review.servers.iter().map(|server| ProjectServer {
            id: server.id.to_string(),
            runs: server.runs.clone(),
            needs: server.needs.clone(),
            sets: server.sets.clone(),
            files: server.files.keys().cloned().collect(),
            loosens: server.loosens.clone(),
            inherits: held.get(server.id.as_str()).map(ToString::to_string),
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

    /// Returns the lines that a person must read before approving the project.
    fn lines(&self, review: &ProjectReview) -> Vec<String> {
        let mut lines = vec![self.file.display().to_string()];
        for (server, reviewed) in self.servers.iter().zip(&review.servers) {
            lines.push(format!("  {reviewed}"));
            let inherits = server.inherits.iter();
            lines.extend(
                inherits.map(|held| format!("    inherits from a server of this id: {held}")),
            );
        }
        lines.extend(self.findings.iter().map(|finding| format!("  {finding}")));
        if review.servers.is_empty() {
            lines.push("  it has no servers".to_owned());
        }
        lines
    }
}

impl Render for TrustResult {
    fn render(&self, out: &mut Output) {
        out.line(format!("approved {}", self.file.display()));
    }
}

impl From<TrustApproval> for ProjectApproval {
    fn from(approval: TrustApproval) -> Self {
        Self {
            file: approval.file,
            sha256: approval.sha256,
            replaces: approval.overrides.into_iter().collect(),
            at: approval.approved_at,
        }
    }
}

impl Render for ApprovalList {
    fn render(&self, out: &mut Output) {
        if self.0.is_empty() {
            return out.line("no approved projects");
        }
        let rows = self.0.iter().map(|approved| {
            [
                Cell::from(&approved.at),
                approved.sha256.chars().take(12).collect::<String>().into(),
                approved.file.display().to_string().into(),
            ]
        });
        out.table(["APPROVED", "SHA-256", "FILE"], rows);
    }
}

/// Returns the store of approvals of project configurations, which records each decision in the audit log.
fn recorded_trust(audit: &OfflineAudit) -> Trust {
    Trust::new(Arc::clone(audit.store())).recorded(audit.sink())
}

/// Returns a warning if a kernel runs that does not read the file.
async fn unread_by_kernel(global: &Global, file: &Path) -> Option<String> {
    let client = control::connect(global).await.ok()?;
    let info = client.request::<KernelInfo>(&KernelInfoParams::new()).await;
    client.close().await;
    let (what, fix) = unread_file(&info.ok()?, file)?;
    Some(format!("{what}; {fix}"))
}

/// Returns the real path of a file. If the file no longer exists, returns the real path of its folder plus the file
/// name, so that its approval can still be revoked.
fn real_path(file: &Path) -> PathBuf {
    let full = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    dunce::canonicalize(&full).unwrap_or_else(|_| {
        let folder = full.parent().and_then(|folder| dunce::canonicalize(folder).ok());
        let real = folder.zip(full.file_name()).map(|(folder, name)| folder.join(name));
        real.unwrap_or_else(|| full.clone())
    })
}

fn nothing_to_approve() -> Failure {
    if std::env::var_os("MGP_CONFIG_PATH").is_some_and(|file| !file.is_empty()) {
        return Failure::failed(
            "`MGP_CONFIG_PATH` is set, so no ./mgp.toml is read; unset it, then run `mgp trust` again",
        );
    }
    Failure::failed(
        "there is no ./mgp.toml to approve; run `mgp trust` in the folder of the project",
    )
}

pub(crate) async fn run(global: &Global, arguments: &Arguments) -> CliResult {
    let db = state::db(global).await?;
    let held = ServerHoldings::read(&db).await?;
    let trust = Trust::new(Arc::new(db));
    let operator = backend::operator();
    if arguments.list {
        let all = trust.list().await?;
        return print(global, &ApprovalList(all.into_iter().map(ProjectApproval::from).collect()));
    }
    if let Some(file) = &arguments.revoke {
        let real = real_path(file);
        if !trust.list().await?.iter().any(|approval| approval.file == real) {
            let file = file.display();
            return Err(Failure::failed(format!(
                "`{file}` is not approved; see `mgp trust --list`"
            )));
        }
        control::admit_change(global).await?;
        let audit = OfflineAudit::open(global).await?;
        let revoked = recorded_trust(&audit).revoke(&real, &operator).await;
        audit.close().await?;
        revoked?;
        return ActionReport::new(real.display().to_string(), "revoked").print(global);
    }
    let Some(review) = Sources::from_env().review()? else { return Err(nothing_to_approve()) };
    let mut result = TrustResult::new(&review, &held);
    result.findings.extend(unread_by_kernel(global, &review.file).await);
    // Print the lines unchanged, because they quote the file.
    for line in result.lines(&review).iter().filter(|_| !global.json) {
        print_stderr(line);
    }
    // Refuse the approval of a file that cannot be read.
    let broken = review.findings.iter().find(|finding| finding.severity == FindingSeverity::Error);
    if let Some(fault) = broken.filter(|_| review.servers.is_empty()) {
        return Err(Failure::failed(fault));
    }
    if !arguments.yes {
        let question = "Start these programs whenever you work here?";
        let no_terminal =
            "there is no terminal for the question; read the file, then run `mgp trust --yes`";
        prompt::require(global, question, "not approved", no_terminal)?;
    }
    control::admit_change(global).await?;
    // Open the log only after the person's answer, because while it is open, no kernel can start in the state folder.
    let audit = OfflineAudit::open(global).await?;
    let approved = recorded_trust(&audit).approve(&review, &operator).await;
    audit.close().await?;
    approved?;
    result.approved = true;
    print(global, &result)
}
