//! The command `mgp servers add`, for servers of a registry and for bundles.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mgp_discovery::import::{Answer, Answers, Import, ImportOutcome, Need, Plan, PublishedServer};
use mgp_discovery::{Config, SecretFile, TargetConfig, changes_code, describe_target};
use mgp_security::review_text;

use super::add::{Add, AddResult, finish_add, valid_id};
use super::registry::Registry;
use super::search::short_name;
use super::unpack::{BundleFile, is_bundle};
use crate::args::Global;
use crate::commands::import::planned_config;
use crate::commands::known_names::did_you_mean;
use crate::exit::{CliResult, Failure};
use crate::operator::admit_edit;
use crate::output::{Output, first_line, print_note, print_stderr};
use crate::{prompt, state};

/// The maximum number of values that one setting of a server can have.
const MAX_VALUES: usize = 100;

/// A server, from a registry or a bundle file, that was chosen but not added yet.
enum Offer {
    Published(PublishedServer),
    Bundle { file: BundleFile, folder: PathBuf },
}

impl Offer {
    fn bundle(global: &Global, file: BundleFile, new_id: Option<&str>) -> CliResult<Self> {
        let id = new_id.map_or_else(|| id_of(&file.bundle.name), str::to_owned);
        let folder = file.folder(&BundleFile::folder_of_all(global)?, &id);
        Ok(Self::Bundle { file, folder })
    }

    /// Creates the offer for an entry of the registry. If the server can be started only from a bundle, downloads the
    /// bundle.
    async fn published(
        global: &Global,
        registry: &Registry,
        server: PublishedServer,
        new_id: Option<&str>,
    ) -> CliResult<Self> {
        let failed = |why| Failure::failed(format!("`{}` cannot be added: {why}", server.name));
        if server.is_deleted {
            let version = first_line(server.version.as_deref().unwrap_or_default(), 40);
            return Err(failed(format!(
                "its registry has deleted version `{version}`; `mgp servers add ID -- COMMAND` adds a program anyway"
            )));
        }
        if server.is_withdrawn {
            let name = first_line(&server.name, 100);
            print_note(global, &format!("warning: its registry marks `{name}` as deprecated"));
        }
        match server.bundle().map_err(failed)? {
            Some(bundle) => {
                let file = BundleFile::download(global, registry, &server, &bundle).await?;
                Self::bundle(global, file, new_id)
            }
            None => Ok(Self::Published(server)),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Published(server) => &server.name,
            Self::Bundle { file, .. } => &file.bundle.name,
        }
    }

    fn needs(&self) -> Vec<Need> {
        match self {
            Self::Published(server) => server.needs(),
            Self::Bundle { file, .. } => file.bundle.needs(),
        }
    }

    fn import(&self, id: &str, answers: &Answers) -> Import {
        let mut import = match self {
            Self::Published(server) => server.import(answers),
            Self::Bundle { file, folder } => file.bundle.import(folder, answers),
        };
        for server in &mut import.servers {
            id.clone_into(&mut server.name);
        }
        import
    }

    /// Returns the title, version and description of the server.
    fn about(&self) -> (Option<&str>, &str, &str) {
        match self {
            Self::Published(server) => {
                let version = server.version.as_deref().unwrap_or_default();
                (server.title.as_deref(), version, &server.description)
            }
            Self::Bundle { file, .. } => {
                let bundle = &file.bundle;
                (bundle.title.as_deref(), &bundle.version, &bundle.description)
            }
        }
    }
}

/// Adds a server that was found in the registry or in a bundle file.
pub(super) async fn add(global: &Global, add: &Add) -> CliResult {
    let mut offer = find(global, add).await?;
    let id = match &add.new_id {
        Some(id) => id.clone(),
        None => id_of(offer.name()),
    };
    let file = add.config.file_to_edit()?;
    valid_id(&file, add, &id)?;
    let needs = offer.needs();
    check_settings(add, &needs)?;
    if let Offer::Published(server) = &offer {
        check_variables(server)?;
    }
    // First show the person what would run; only afterwards ask questions and write files.
    let planned = plan(&file, &offer.import(&id, &given(add, &needs)))?;
    let mut out = Output::default();
    card(&mut out, &offer, &id, &needs, &planned_config(&file, &planned)?);
    // Do not add the option `--state` to commands in this text, because the registry wrote it.
    if !global.json {
        print_stderr(out.text().trim_end());
    }
    if add.dry_run {
        print_note(global, "mgp: nothing was written (--dry-run)");
        return Ok(());
    }
    if !add.yes {
        let question = format!("Add `{id}` and start it once to read its tools?");
        let no_terminal =
            "nothing was added: there is no terminal for the question; --yes adds it as shown";
        prompt::require(global, &question, "nothing was added", no_terminal)?;
    }
    admit_edit(global, &add.config).await?;
    let mut notes = Vec::new();
    let answers = answers(global, add, &id, &needs, &mut notes)?;
    if let Offer::Bundle { file: bundle, folder } = &mut offer {
        bundle.unpack(folder, &file)?;
    }
    let planned = plan(&file, &offer.import(&id, &answers))?;
    let [line] = planned.lines() else { return Err(Failure::failed("nothing was added")) };
    notes.extend(line.notes.clone());
    let result = AddResult { id, file, notes, granted: Vec::new() };
    finish_add(global, add, &planned, result).await
}

/// Finds the server that the argument names: a bundle file, or a server of the registry. A server is found by its full
/// name, or by its short name if no other server has that.
async fn find(global: &Global, add: &Add) -> CliResult<Offer> {
    let new_id = add.new_id.as_deref();
    if is_bundle(&add.id) {
        let file = BundleFile::open(Path::new(&add.id))?;
        return Offer::bundle(global, file, new_id);
    }
    let registry = Registry::open(global, &add.config, add.registry.registry.as_deref()).await?;
    let version = add.version.as_deref();
    if add.id.contains('/')
        && let Some(server) = registry.server(&add.id, version).await?
    {
        return Offer::published(global, &registry, server, new_id).await;
    }
    // Look a short name up in the local list, and do not send it to the registry, because it may be mistyped.
    let all = registry.known()?;
    let mut named = all.iter().filter(|server| short_name(&server.name) == add.id);
    match (named.next(), named.next()) {
        (Some(one), None) => match registry.server(&one.name, version).await? {
            Some(server) => Offer::published(global, &registry, server, new_id).await,
            None => Err(unknown_version(&one.name, version)),
        },
        (Some(_), Some(_)) => {
            let names = all.iter().filter(|server| short_name(&server.name) == add.id);
            let names: Vec<&str> = names.take(8).map(|server| server.name.as_str()).collect();
            let id = &add.id;
            Err(Failure::usage(format!(
                "several servers of the registry are called `{id}`; name one in full: {}",
                names.join(", ")
            )))
        }
        _ if all.iter().any(|server| server.name == add.id) => {
            Err(unknown_version(&add.id, version))
        }
        _ => {
            let known = all.iter().map(|server| server.name.as_str());
            let near = did_you_mean(&add.id, known).unwrap_or_default();
            let id = first_line(&add.id, 60);
            Err(Failure::failed(format!(
                "no server of the registry is known as `{id}`{near}; find one with `mgp servers search WORDS`, or give `-- COMMAND` or `--url URL`"
            )))
        }
    }
}

fn unknown_version(name: &str, version: Option<&str>) -> Failure {
    let version = version.unwrap_or("latest");
    Failure::failed(format!("the registry has no version `{version}` of `{name}`"))
}

/// Returns the id that a server gets from its name: the distinguishing part, with `-` for characters that do not fit.
fn id_of(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let id: String = short_name(name).chars().map(|c| if fits(c) { c } else { '-' }).collect();
    id.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

fn plan(file: &Path, import: &Import) -> CliResult<Plan> {
    if let Some(refused) = import.refused.first() {
        return Err(Failure::failed(format!(
            "`{}` cannot be added: {}",
            refused.name, refused.why
        )));
    }
    let plan = Plan::new(file, std::slice::from_ref(import))?;
    let name = import.servers.first().map(|server| server.name.as_str()).unwrap_or_default();
    match plan.lines().first().map(|line| &line.outcome) {
        Some(ImportOutcome::Added(id)) if id == name => Ok(plan),
        Some(ImportOutcome::Present(id)) => Err(Failure::failed(format!(
            "`{id}` is this server already; `mgp servers update {id}` looks for a newer version, and `mgp access grant AGENT {id}` gives an agent access"
        ))),
        Some(ImportOutcome::Skipped(why)) => {
            Err(Failure::failed(format!("`{name}` was not added: {why}")))
        }
        _ => Err(Failure::failed(format!(
            "there is a server `{name}` already; choose another id with --id"
        ))),
    }
}

/// Writes a description of the server: its name, its program or URL, and the values that it asks for.
fn card(out: &mut Output, offer: &Offer, id: &str, needs: &[Need], config: &Config) {
    let (title, version, description) = offer.about();
    let title = title.unwrap_or_default();
    let (name, version) = (first_line(offer.name(), 100), first_line(version, 40));
    out.line(format!("{name} {version}  {}", first_line(title, 60)).trim_end());
    if !description.is_empty() {
        out.line(format!("  {}", first_line(description, 300)));
    }
    if let Some(server) = config.server(id) {
        out.line(format!("  runs     {}", describe_target(server)));
        let settings = match &server.target {
            TargetConfig::Program { env, .. } => Some(env),
            TargetConfig::Url { headers, .. } => Some(headers),
            _ => None,
        };
        for (name, value) in settings.into_iter().flatten() {
            out.line(format!("  sets     {name} = {}", first_line(value, 200)));
        }
    }
    for need in needs {
        let mut words = Vec::new();
        words.push(if need.is_required { "required" } else { "optional" }.to_owned());
        if need.is_secret {
            words.push("secret".to_owned());
        }
        if let Some(default) = &need.default {
            words.push(format!("default {}", first_line(default, 40)));
        }
        if !need.choices.is_empty() {
            words.push(format!("one of {}", first_line(&need.choices.join(", "), 60)));
        }
        let description = first_line(&need.description, 120);
        out.line(format!("  asks     {} ({}) {description}", need.variable, words.join(", ")));
    }
    let asked = needs.iter().map(|need| need.description.as_str());
    for text in [title, description].into_iter().chain(asked) {
        for finding in review_text(text) {
            out.line(format!("  warning  {finding}"));
        }
    }
}

/// Refuses an entry of a registry if it sets a variable with which a program loads other code.
fn check_variables(server: &PublishedServer) -> CliResult {
    let import = server.import(&Answers::new());
    let mut names = import.servers.iter().flat_map(|server| server.entry.env.keys());
    match names.find(|name| changes_code(name)) {
        Some(name) => Err(Failure::failed(format!(
            "`{}` was not added: its entry sets `{}`, which can change the code that runs; if you want that, add the server with its command",
            server.name,
            first_line(name, 60)
        ))),
        None => Ok(()),
    }
}

/// Refuses settings that the server does not have, values that it does not permit, and settings that were given too
/// often.
fn check_settings(add: &Add, needs: &[Need]) -> CliResult {
    for (name, value) in &add.set {
        let Some(need) = needs.iter().find(|need| need.variable == *name) else {
            let names = needs.iter().map(|need| need.variable.as_str());
            let near = did_you_mean(name, names).unwrap_or_default();
            return Err(Failure::usage(format!("the server has no setting `{name}`{near}")));
        };
        if !need.choices.is_empty() && !need.choices.contains(value) && !value.contains("${") {
            let choices = need.choices.join(", ");
            return Err(Failure::usage(format!("`{name}` is one of {choices}")));
        }
        let count = add.set.iter().filter(|(other, _)| other == name).count();
        if count > if need.is_list { MAX_VALUES } else { 1 } {
            return Err(Failure::usage(format!("`{name}` is given {count} times")));
        }
    }
    Ok(())
}

/// Returns the values of the command line, without secrets in clear text.
fn given(add: &Add, needs: &[Need]) -> Answers {
    let mut answers = Answers::new();
    for (name, value) in &add.set {
        let is_secret = needs.iter().any(|need| need.variable == *name && need.is_secret);
        if !is_secret || value.contains("${") {
            answers.entry(name.clone()).or_default().push(Answer::template(value));
        }
    }
    answers
}

/// Asks the person for the missing values, and stores the secret values.
fn answers(
    global: &Global,
    add: &Add,
    id: &str,
    needs: &[Need],
    notes: &mut Vec<String>,
) -> CliResult<Answers> {
    let mut answers = given(add, needs);
    let mut secrets = BTreeMap::new();
    for need in needs {
        let name = &need.variable;
        if answers.contains_key(name) {
            continue;
        }
        let value = add.set.iter().find(|(set, _)| set == name).map(|(_, value)| value.clone());
        let value = match value {
            Some(value) => value,
            None if need.is_required && need.default.is_none() => ask(global, need)?,
            None => continue,
        };
        if value.is_empty() {
            continue;
        }
        if need.is_secret {
            secrets.insert(format!("{id}.{name}"), value);
            answers.insert(name.clone(), vec![Answer::secret(&format!("{id}.{name}"))]);
        } else {
            answers.insert(name.clone(), vec![Answer::text(&value)]);
        }
    }
    if !secrets.is_empty() {
        let file = SecretFile::in_folder(&state::create_folder(global)?);
        for (name, value) in &secrets {
            file.set(name, value).map_err(Failure::failed)?;
        }
        let names: Vec<&str> = secrets.keys().map(String::as_str).collect();
        notes.push(format!("stored as secrets (`mgp secrets ls`): {}", names.join(", ")));
    }
    Ok(answers)
}

/// Asks the person for a value; returns an empty text without a terminal.
fn ask(global: &Global, need: &Need) -> CliResult<String> {
    if !prompt::is_interactive(global) {
        return Ok(String::new());
    }
    let about = first_line(&need.description, 100);
    let about = if about.is_empty() { String::new() } else { format!(" ({about})") };
    let question = format!("{}{about}: ", need.variable);
    loop {
        let value =
            if need.is_secret { prompt::passphrase(&question)? } else { prompt::line(&question)? };
        if need.choices.is_empty() || need.choices.contains(&value) {
            return Ok(value);
        }
        print_note(global, &format!("one of {}", need.choices.join(", ")));
    }
}
