//! The command `mgp servers update`: compares servers from the registry, packages and bundles with other versions, and
//! updates them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use mgp_discovery::import::{Answers, Entry, PublishedServer};
use mgp_discovery::{Config, ServerConfig, TargetConfig, changes_code};
use mgp_types::method::KernelServersStart;
use mgp_types::mgp::{KernelServer, KernelServerParams};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::POLL_INTERVAL;
use super::bundle_changes::BundleChanges;
use super::bundle_users::BundleUsers;
use super::list::fetch_server;
use super::package::{VersionedPackage, how_to_update, is_older};
use super::registry::Registry;
use super::search::RegistryArg;
use super::unpack::{BundleFile, remove_other_versions};
use crate::args::{ConfigArg, Global};
use crate::commands::tools::{fetch_tools, needs_decision};
use crate::config_file::ConfigFile;
use crate::exit::{CliResult, Failure};
use crate::operator::admit_edit;
use crate::output::{
    Cell, Color, Output, Render, first_line, plural, print, print_note, print_stderr,
};
use crate::{control, prompt};

/// The time that the command waits for an updated server to start and to list its tools.
const START_TIMEOUT: Duration = Duration::from_mins(2);

/// The number of servers whose newest versions are looked up at a time.
const MAX_LOOKUPS: usize = 4;

/// `mgp servers update`.
#[derive(Clone, Debug, Args)]
#[command(
    disable_version_flag = true,
    after_help = "Changed tools wait for `mgp tools approve` after an update, as after any change.\n\nExample:\n  mgp servers update --check\n  mgp servers update weather\n  mgp servers update weather --version 1.0.2   # back to an earlier version\n  mgp servers update files --bundle ./files-2.mcpb"
)]
pub(crate) struct Update {
    /// Servers; the default is all that came from the registry or start a package with a version
    servers: Vec<String>,
    /// Show which servers have newer versions, and change nothing
    #[arg(long)]
    check: bool,
    /// Version to use instead of the latest version; only with exactly one server
    #[arg(long, value_name = "VERSION", requires = "servers")]
    version: Option<String>,
    /// Bundle that replaces the server's files; only with exactly one server
    #[arg(long, value_name = "FILE", requires = "servers", conflicts_with = "version")]
    bundle: Option<PathBuf>,
    /// Update without asking
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    registry: RegistryArg,
    #[command(flatten)]
    config: ConfigArg,
}

/// The result of `mgp servers update`.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct UpdateReport(Vec<ServerUpdate>);

/// One server that was compared.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ServerUpdate {
    /// The id of the server.
    id: String,
    /// The version that the server had before this command.
    from: String,
    /// The version that the server was compared with.
    to: String,
    /// `current`, `newer`, `updated` or `failed`.
    status: &'static str,
    /// The changes that the other version brings, or the reason why the server cannot be updated.
    changes: Vec<String>,
    /// Tools whose definitions changed and wait for a decision.
    waiting: Vec<String>,
    /// `true` if the server came from a bundle, so no registry has its other versions.
    #[serde(skip)]
    is_bundle: bool,
}

impl ServerUpdate {
    fn fail(&mut self, why: String) {
        self.status = "failed";
        self.changes = vec![why];
    }
}

impl Render for UpdateReport {
    fn render(&self, out: &mut Output) {
        if self.0.is_empty() {
            return out.hint(
                "no server came from the registry or starts a package with a version; `mgp servers add NAME` adds one that can be updated",
            );
        }
        for server in &self.0 {
            let color = match server.status {
                "updated" => Color::Green,
                "failed" => Color::Red,
                "newer" => Color::Yellow,
                _ => Color::Dim,
            };
            let versions = if server.from == server.to {
                server.from.clone()
            } else {
                format!("{} → {}", server.from, server.to)
            };
            out.status_line(
                &Cell::from(server.status).color(color),
                &format!("{}  {versions}", server.id),
            );
            for change in &server.changes {
                out.line(format!("  {change}"));
            }
            for tool in &server.waiting {
                out.hint(format!(
                    "  {tool} changed; agents cannot call it until `mgp tools approve {}`",
                    server.id
                ));
            }
            let back = format!("  back: `mgp servers update {}", server.id);
            match server.status {
                "updated" if server.is_bundle => {
                    out.hint(format!("{back} --bundle FILE`, with the earlier file"));
                }
                "updated" => out.hint(format!("{back} --version {}`", server.from)),
                _ => {}
            }
        }
    }
}

/// The texts to replace in a server's entry in the configuration, each with its replacement.
type Replacements = BTreeMap<String, String>;

pub(super) async fn run(global: &Global, update: &Update) -> CliResult {
    if (update.version.is_some() || update.bundle.is_some()) && update.servers.len() != 1 {
        return Err(Failure::usage("--version and --bundle are about one server; name one"));
    }
    let file = update.config.file_to_edit()?;
    let own = ConfigFile::open(file.clone())?;
    for id in &update.servers {
        own.check_server(id)?;
    }
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let config = Config::parse(&file, &text)?.config;
    let wanted = |server: &&ServerConfig| {
        update.servers.is_empty() || update.servers.iter().any(|id| server.id.as_str() == id)
    };
    let lookups =
        config.servers.iter().filter(wanted).map(|server| plan(global, update, &file, server));
    let plans: Vec<_> = stream::iter(lookups).buffered(MAX_LOOKUPS).try_collect().await?;
    let mut plans: Vec<_> = plans.into_iter().flatten().collect();
    let is_change = plans.iter().any(|plan| plan.report.status == "newer");
    if is_change && !update.check {
        confirm(global, update, &plans)?;
        admit_edit(global, &update.config).await?;
        for plan in &mut plans {
            if let Err(failure) = apply(global, update, &file, plan).await {
                plan.report.fail(failure.to_string());
            }
        }
    }
    finish(global, &UpdateReport(plans.into_iter().map(|plan| plan.report).collect()))
}

/// Prints the result; fails if a server could not be updated.
fn finish(global: &Global, report: &UpdateReport) -> CliResult {
    print(global, report)?;
    match report.0.iter().filter(|server| server.status == "failed").count() {
        0 => Ok(()),
        failed => {
            Err(Failure::failed(format!("{} could not be updated", plural(failed, "server"))))
        }
    }
}

/// Returns whether a server with this published name was installed from a bundle file; only `--bundle` updates such a
/// server. In a registry, names begin with a reversed domain and a `/`, e.g. `io.github.ann/`.
fn is_bundle(server: &ServerConfig, name: &str) -> bool {
    let Some((domain, _)) = name.split_once('/') else { return true };
    let has_folder = matches!(&server.target, TargetConfig::Program { cwd: Some(_), .. });
    has_folder && (domain.starts_with('@') || !domain.contains('.'))
}

/// A comparison of a server with another version, and the changes of the configuration for that version.
struct PlannedUpdate {
    report: ServerUpdate,
    /// The new value of the key `published`, i.e. name and version; `None` if the server did not come from the registry
    /// or a bundle.
    published: Option<String>,
    replacements: Replacements,
    /// The environment variables and headers that the new version needs and the server's entry lacks.
    added: BTreeMap<String, String>,
    unpack: Option<(BundleFile, PathBuf)>,
}

impl PlannedUpdate {
    fn new(server: &ServerConfig, (name, from): (&str, &str), to: &str) -> Self {
        let report = ServerUpdate {
            id: server.id.to_string(),
            from: from.to_owned(),
            to: to.to_owned(),
            status: if from == to { "current" } else { "newer" },
            changes: Vec::new(),
            waiting: Vec::new(),
            is_bundle: is_bundle(server, name),
        };
        let published = Some(format!("{name}@{to}"));
        Self {
            report,
            published,
            replacements: Replacements::new(),
            added: BTreeMap::new(),
            unpack: None,
        }
    }

    /// Plans to start another version of a package that is named in the server's arguments.
    fn of_package(server: &ServerConfig, package: &VersionedPackage, to: &str) -> CliResult<Self> {
        let argument = package.with_version(to)?;
        let mut plan = Self::new(server, (&package.name, &package.version), to);
        (plan.published, plan.report.is_bundle) = (None, false);
        if plan.report.status == "newer" {
            plan.report.changes.push(format!("runs {argument} instead of {}", package.argument));
            plan.replacements.insert(package.argument.clone(), argument);
        }
        Ok(plan)
    }

    fn fail(mut self, why: impl Into<String>) -> Self {
        self.report.fail(why.into());
        self
    }
}

/// Plans the update of a server; `None` if the command does not update it.
async fn plan(
    global: &Global,
    update: &Update,
    file: &Path,
    server: &ServerConfig,
) -> CliResult<Option<PlannedUpdate>> {
    let Some((name, version)) = server.published.as_deref().and_then(|one| one.rsplit_once('@'))
    else {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        return plan_package(global, update, server, folder.unwrap_or(Path::new("."))).await;
    };
    match &update.bundle {
        Some(bundle) => {
            plan_bundle(global, server, (name, version), BundleFile::open(bundle)?).map(Some)
        }
        None if is_bundle(server, name) && update.servers.is_empty() => Ok(None),
        None if is_bundle(server, name) => {
            let why = "came from a bundle; give the new one with --bundle FILE";
            Err(Failure::failed(format!("`{}` {why}", server.id)))
        }
        None => plan_published(global, update, server, (name, version)).await.map(Some),
    }
}

/// Plans the update of a server that did not come from the registry, to the version that the user names or else to the
/// newest version. If the arguments of the server name no package with a version, or the newest version cannot be
/// found, reports how the user can update the server: as an error if the user named the server, otherwise as a note.
async fn plan_package(
    global: &Global,
    update: &Update,
    server: &ServerConfig,
    folder: &Path,
) -> CliResult<Option<PlannedUpdate>> {
    let id = &server.id;
    let how = match VersionedPackage::of(server).filter(|_| update.bundle.is_none()) {
        Some(package) if update.version.is_some() || package.version != "latest" => {
            let version = match &update.version {
                Some(version) => Ok(version.clone()),
                None => package.newest(server, folder).await,
            };
            match version {
                Ok(version) => {
                    return PlannedUpdate::of_package(server, &package, &version).map(Some);
                }
                Err(why) => Some(format!(
                    "the newest version for `{id}` was not found, because {why}; name a version: `mgp servers update {id} --version VERSION`"
                )),
            }
        }
        _ => how_to_update(server),
    };
    if !update.servers.is_empty() {
        return Err(Failure::failed(how.unwrap_or_else(|| {
            format!(
                "`{id}` has no `published` in its entry, so its newer versions are not known; write another version into the entry"
            )
        })));
    }
    if let Some(how) = how {
        print_note(global, &format!("mgp: {how}"));
    }
    Ok(None)
}

async fn plan_published(
    global: &Global,
    update: &Update,
    server: &ServerConfig,
    (name, version): (&str, &str),
) -> CliResult<PlannedUpdate> {
    let registry =
        Registry::open(global, &update.config, update.registry.registry.as_deref()).await?;
    let new = registry.server(name, update.version.as_deref()).await?;
    let Some(new) = new else {
        let what = match &update.version {
            Some(version) => format!("the registry has no version `{version}` of `{name}`"),
            None => format!("the registry has no server `{name}` any more"),
        };
        return Ok(PlannedUpdate::new(server, (name, version), version).fail(what));
    };
    let to = new.version.clone().unwrap_or_default();
    let mut plan = PlannedUpdate::new(server, (name, version), &to);
    if new.is_deleted {
        let id = &server.id;
        return Ok(plan.fail(format!(
            "its registry has deleted version `{}`; `mgp servers rm {id}` removes the server",
            first_line(&to, 40)
        )));
    }
    if new.is_withdrawn {
        plan.report.changes.push(format!("its registry marks version {to} as deprecated"));
    }
    if plan.report.status == "current" {
        return Ok(plan);
    }
    let old = registry.server(name, Some(version)).await?;
    if old.as_ref().is_some_and(|old| old.is_deleted) {
        plan.report.changes.push("its registry has deleted the installed version".to_owned());
    }
    if update.version.is_none() && is_older(&to, version) {
        let older = first_line(&to, 40);
        let change = format!("its registry has the older version {older}; --version installs it");
        plan.report.changes.push(change);
        (plan.report.status, plan.report.to) = ("current", version.to_owned());
        return Ok(plan);
    }
    if matches!(&server.target, TargetConfig::Program { cwd: Some(_), .. }) {
        match new.bundle() {
            Ok(Some(bundle)) => {
                let file = BundleFile::download(global, &registry, &new, &bundle).await?;
                let mut of_bundle = plan_bundle(global, server, (name, version), file)?;
                of_bundle.report.changes.append(&mut plan.report.changes);
                return Ok(of_bundle);
            }
            Ok(None) => {}
            Err(why) => return Ok(plan.fail(why)),
        }
    }
    Ok(plan_entry(plan, server, (old.as_ref(), &new)))
}

fn plan_entry(
    mut plan: PlannedUpdate,
    server: &ServerConfig,
    (old, new): (Option<&PublishedServer>, &PublishedServer),
) -> PlannedUpdate {
    let Some(entry) = entry_of(new) else {
        return plan.fail("its new version cannot be started or reached");
    };
    let old_entry = old.and_then(entry_of);
    if let Err(why) = compare(&mut plan, server, (old_entry.as_ref(), &entry), new) {
        return plan.fail(why);
    }
    plan.report.changes.extend(old.into_iter().flat_map(|old| differences(old, new)));
    plan
}

/// Returns the differences between the descriptions of two versions.
fn differences(old: &PublishedServer, new: &PublishedServer) -> Vec<String> {
    let (old, new) = (described(old), described(new));
    let gone = old.iter().filter(|line| !new.contains(line)).map(|line| format!("- {line}"));
    let come = new.iter().filter(|line| !old.contains(line)).map(|line| format!("+ {line}"));
    gone.chain(come).collect()
}

fn entry_of(server: &PublishedServer) -> Option<Entry> {
    let import = server.import(&Answers::new());
    import.servers.into_iter().next().map(|server| server.entry)
}

/// Returns the lines that describe a version: the values that the user can give it, and its description. The command
/// compares two versions line by line.
fn described(server: &PublishedServer) -> Vec<String> {
    let needs = server.needs().into_iter();
    let mut lines: Vec<String> = needs
        .map(|need| {
            let required = if need.is_required { "required" } else { "optional" };
            format!("asks {} ({required}) {}", need.variable, need.description)
        })
        .collect();
    lines.push(format!("about: {}", server.description));
    lines
}

/// Compares the server's entry with the entries of its current and its new version. Records in the plan which texts to
/// replace in the entry, and which values to add to it.
fn compare(
    plan: &mut PlannedUpdate,
    server: &ServerConfig,
    (old, entry): (Option<&Entry>, &Entry),
    new: &PublishedServer,
) -> Result<(), String> {
    let known = match (&server.target, &entry.command, &entry.url) {
        (TargetConfig::Program { command, args, env, .. }, Some(program), _) => {
            if command != program {
                return Err(format!(
                    "it is started by `{program}` now, and by `{command}` here; remove it and add it again"
                ));
            }
            let Some((from, to)) = package_change(args, old, entry) else {
                return Err("its arguments do not name its package; edit them by hand".to_owned());
            };
            if from != to {
                plan.report.changes.push(format!("runs {to} instead of {from}"));
                plan.replacements.insert(from.clone(), to.clone());
            }
            env
        }
        (TargetConfig::Url { url, headers, .. }, _, Some(address)) => {
            // Keep a URL that differs from the one in the registry, because the user has set it.
            let is_own = old.is_some_and(|old| old.url.as_ref() != Some(url));
            if url != address && !address.contains("${") && !is_own {
                plan.report.changes.push(format!("is at {address} instead of {url}"));
                plan.replacements.insert(url.clone(), address.clone());
            }
            headers
        }
        _ => return Err("it is run in another way now; remove it and add it again".to_owned()),
    };
    let values = entry.env.iter().chain(&entry.headers);
    for (name, value) in values.filter(|(name, _)| !known.contains_key(*name)) {
        if changes_code(name) {
            return Err(format!(
                "it sets `{name}` now, which can change the code that runs; remove it and add it again"
            ));
        }
        plan.report.changes.push(format!("sets {name} = {}", first_line(value, 200)));
        plan.added.insert(name.clone(), value.clone());
    }
    let needs = new.needs().into_iter().filter(|need| need.is_required && need.default.is_none());
    for need in needs.filter(|need| plan.added.contains_key(&need.variable)) {
        let name = &need.variable;
        plan.report.changes.push(format!("needs the variable `{name}`; set it before it starts"));
    }
    Ok(())
}

/// Returns two arguments: the server's current argument that names its package, and the argument that names the package
/// in the new version. All other arguments are the user's own, or values that the user has chosen.
fn package_change<'a>(
    args: &'a [String],
    old: Option<&Entry>,
    new: &'a Entry,
) -> Option<(&'a String, &'a String)> {
    let to = new.package.as_ref()?;
    let name = |argument: &str| {
        let end = ["==", "@", ":"].iter().filter_map(|mark| argument.rfind(mark)).max();
        let end = end.filter(|end| *end > 0).unwrap_or(argument.len());
        argument[..end].trim_end_matches('=').to_owned()
    };
    let package = old.and_then(|old| old.package.as_ref());
    let from = args.iter().find(|argument| Some(*argument) == package);
    // Compare the names without the version, which the user may have changed.
    let from = from.or_else(|| args.iter().find(|argument| name(argument) == name(to)))?;
    Some((from, to))
}

fn plan_bundle(
    global: &Global,
    server: &ServerConfig,
    (name, version): (&str, &str),
    file: BundleFile,
) -> CliResult<PlannedUpdate> {
    if file.bundle.name != name {
        let (id, other) = (&server.id, &file.bundle.name);
        return Err(Failure::failed(format!(
            "`{id}` is the bundle `{name}`, and the file is `{other}`"
        )));
    }
    let mut plan = PlannedUpdate::new(server, (name, version), &file.bundle.version);
    let folder = file.folder(&BundleFile::folder_of_all(global)?, server.id.as_str());
    if plan.report.status == "current" {
        return Ok(plan);
    }
    match BundleChanges::new(server, &file.bundle, &folder) {
        Err(why) => return Ok(plan.fail(why)),
        Ok(changes) => {
            plan.report.changes.extend(changes.lines);
            (plan.replacements, plan.added) = (changes.replacements, changes.added);
        }
    }
    plan.unpack = Some((file, folder));
    Ok(plan)
}

fn confirm(global: &Global, update: &Update, plans: &[PlannedUpdate]) -> CliResult {
    if update.yes {
        return Ok(());
    }
    let newer = || plans.iter().filter(|plan| plan.report.status == "newer");
    for plan in newer() {
        let report = &plan.report;
        print_note(global, &format!("{}  {} → {}", report.id, report.from, report.to));
        for change in report.changes.iter().filter(|_| !global.json) {
            print_stderr(&format!("  {change}"));
        }
    }
    let question = format!("Update {}?", plural(newer().count(), "server"));
    let no_terminal =
        "nothing was changed: there is no terminal for the question; add --yes or --check";
    prompt::require(global, &question, "nothing was changed", no_terminal)
}

/// Writes one update if there is a newer version, and waits until the running kernel has read the new tools. If the
/// tools cannot be read, adds a note to the report.
async fn apply(
    global: &Global,
    update: &Update,
    file: &Path,
    plan: &mut PlannedUpdate,
) -> CliResult {
    if plan.report.status != "newer" {
        return Ok(());
    }
    if let Some((bundle, folder)) = &mut plan.unpack {
        bundle.unpack(folder, file)?;
    }
    let id = plan.report.id.clone();
    let before = match control::connect(global).await {
        Ok(client) => fetch_server(&client, &id).await?,
        Err(_) => None,
    };
    // Read the users before the change, so that the earlier version counts as used: it may still be running.
    let users = plan.unpack.as_ref().and_then(|(_, folder)| {
        Some((folder, BundleUsers::read(folder.parent()?, update.config.sources().files())))
    });
    let own = ConfigFile::open(file.to_owned())?;
    own.update_server(&plan.report.id, plan.published.as_deref(), &plan.replacements, &plan.added)?;
    if let Some((folder, users)) = users {
        remove_other_versions(folder, &users);
    }
    plan.report.status = "updated";
    control::reload(global).await;
    let Some(before) = before.filter(|_| !plan.replacements.is_empty()) else { return Ok(()) };
    plan.report.waiting = match waiting(global, &before).await {
        Ok(waiting) => waiting,
        Err(failure) => {
            plan.report.changes.push(format!("its tools were not read: {failure}"));
            Vec::new()
        }
    };
    Ok(())
}

/// Waits up to [`START_TIMEOUT`] until the kernel lists an updated server, starts the server, and returns its tools
/// that wait for a decision.
async fn waiting(global: &Global, before: &KernelServer) -> CliResult<Vec<String>> {
    let client = control::connect_with_timeout(global, START_TIMEOUT).await?;
    let (id, end) = (before.id.as_str(), Instant::now() + START_TIMEOUT);
    // Wait until the kernel lists the changed server: while it replaces the server, it does not list it.
    while fetch_server(&client, id).await?.is_none_or(|server| server.reach == before.reach) {
        if Instant::now() > end {
            return Err(Failure::failed(format!(
                "the kernel did not start the new version within {}; see `mgp servers ls`",
                mgp_types::duration_words(START_TIMEOUT)
            )));
        }
        sleep(POLL_INTERVAL).await;
    }
    // Request a start, because the kernel answers this request only once it has listed the server's tools.
    client.request::<KernelServersStart>(&KernelServerParams::new(id)).await?;
    let tools = fetch_tools(&client, Some(id), None).await?;
    Ok(tools.into_iter().filter(needs_decision).map(|tool| tool.tool_id).collect())
}
