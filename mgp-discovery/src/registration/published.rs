//! Requests to register a server of a registry: the registry entry, not the caller, determines what runs (MGP §15.4).

use std::collections::BTreeMap;

use mgp_types::clip;
use mgp_types::mgp::RegisterParams;

use super::origin::RegistryOrigin;
use super::params::{check_id, unfit};
use super::refusal::RegistrationError as Refused;
use super::remote::{RegistryTarget, Remote, has_fixed_host, literal};
use crate::config::{limits, nearest};
use crate::expand::Template;
use crate::import::{Answer, Answers, Entry, Need, PublishedServer};

/// The maximum length of a server's name or version in a registry, in bytes, and of a shown variable's name.
const MAX_NAME_BYTES: usize = 200;
const MAX_SHOWN_BYTES: usize = 300;

/// A server that was found in a registry, for [`ServerRunner::published`](super::ServerRunner::published).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PublishedEntry {
    /// The entry of the server in the registry.
    pub server: PublishedServer,
    /// The URL or file of the registry.
    pub registry: String,
    /// The findings of the review of the entry's texts.
    pub findings: Vec<String>,
}

impl PublishedEntry {
    /// Creates a registry entry whose texts have been reviewed.
    pub fn new(
        server: PublishedServer,
        registry: impl Into<String>,
        findings: Vec<String>,
    ) -> Self {
        Self { server, registry: registry.into(), findings }
    }
}

/// Returns the name and the version of the registry's server that a request names; returns an error if they are not
/// valid, or the request also names a program.
pub(super) fn requested<'a>(
    params: &RegisterParams,
    published: &'a str,
) -> Result<(&'a str, Option<&'a str>), Refused> {
    check_id(&params.id)?;
    let is_given = params.command.is_some()
        || !params.args.is_empty()
        || params.source.is_some()
        || params.cwd.is_some();
    if is_given {
        return unfit(
            "`published` names what runs; leave out `command`, `args`, `cwd` and `source`".into(),
        );
    }
    let (name, version) = match published.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (published, None),
    };
    check_name(name, version)?;
    Ok((name, version))
}

fn check_name(name: &str, version: Option<&str>) -> Result<(), Refused> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let is_name = name.contains('/') && name.len() <= MAX_NAME_BYTES && name.chars().all(fits);
    let is_version = version.is_none_or(|version| {
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
        !version.is_empty() && version.len() <= MAX_NAME_BYTES && version.chars().all(fits)
    });
    if is_name && is_version {
        return Ok(());
    }
    unfit(
        "`published` is the full name of a server in the registry, e.g. `io.github.example/files`, with `@VERSION` or without"
            .into(),
    )
}

/// Returns the params with the program that a registry entry describes, or with the server at a URL. All texts in the
/// params are literal; the values of secrets are added at the start of the server.
pub(super) fn resolve(
    mut params: RegisterParams,
    found: PublishedEntry,
) -> Result<(RegisterParams, RegistryTarget), Refused> {
    let PublishedEntry { server, registry, findings } = found;
    let id = params.id.clone();
    let unavailable = |reason: String| unavailable(&id, reason);
    let name = &server.name;
    if server.is_withdrawn {
        return Err(unavailable(format!("`{name}` is withdrawn from its registry")));
    }
    let (needs, most) = (server.needs(), limits::MAX_ENTRIES);
    if needs.len() > most {
        return Err(unavailable(format!("`{name}` asks for more than {most} values")));
    }
    let mut given = params.env.take().unwrap_or_default();
    let mut asks = Vec::new();
    let answers = answers(&params.id, &needs, &mut given, &mut asks)?;
    if let Some(other) = given.keys().next() {
        let near = nearest(other, needs.iter().map(|need| need.variable.as_str()));
        let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        return unfit(format!("`env`: `{name}` does not ask for `{}`{near}", other.escape_debug()));
    }
    let (remote, secrets) = match entry(&server, &answers) {
        Some(entry) if entry.url.is_some() => {
            let template = self::entry(&server, &Answers::new()).and_then(|entry| entry.url);
            let remote = remote_url(&needs, &template.unwrap_or_default(), &entry)
                .and_then(|url| Remote::new(&id, &registry, url, &entry.headers))
                .map_err(|why| unavailable(format!("`{name}` {why}")))?;
            let secrets = remote.secrets(&id);
            (Some(remote), secrets)
        }
        Some(entry) => (None, set_program(&mut params, &server, entry)?),
        None => {
            let what = "is neither a program that can be started here nor at a URL";
            return Err(unavailable(format!("`{name}` {what}")));
        }
    };
    let title = server.title.iter().map(|title| format!("{title}: "));
    let about = title.chain([server.description.clone()]).collect::<String>();
    let origin = RegistryOrigin {
        name: server.name.clone(),
        version: server.version.clone().unwrap_or_default(),
        registry,
        about: clip(&about, MAX_SHOWN_BYTES),
        asks,
        secrets,
        findings: findings.iter().map(|finding| clip(finding, MAX_SHOWN_BYTES)).collect(),
    };
    Ok((params, RegistryTarget { origin, remote }))
}

fn unavailable(id: &str, reason: String) -> Refused {
    let remedy = "ask an operator to add it with `mgp servers add`";
    Refused::Unavailable { server: id.into(), reason, remedy }
}

/// Returns the server of a registry entry in the form of a configuration entry, with these values.
fn entry(server: &PublishedServer, answers: &Answers) -> Option<Entry> {
    server.import(answers).servers.into_iter().next().map(|server| server.entry)
}

/// Returns the URL of a registry entry with the values of the request. `template` is the URL without these values.
/// Returns an error, as the rest of a sentence about the server, if the URL cannot be registered.
fn remote_url(needs: &[Need], template: &str, entry: &Entry) -> Result<String, &'static str> {
    if entry.transport.is_some() {
        return Err("is reached over HTTP+SSE and not over streamable HTTP");
    }
    let template = Template::parse(template).map_err(|_| "has a URL that is not valid")?;
    if !has_fixed_host(&template) {
        return Err("has a URL whose host depends on a value");
    }
    let is_secret = |name: &str| needs.iter().any(|need| need.is_secret && need.variable == name);
    if template.variables().any(is_secret) {
        return Err("has a secret in its URL");
    }
    let url = entry.url.as_deref().and_then(literal);
    url.ok_or("has a value in its URL that is not given")
}

/// Writes the program of a registry entry into the params. Returns the names of the user's secrets that the program
/// gets, by environment variable.
fn set_program(
    params: &mut RegisterParams,
    server: &PublishedServer,
    entry: Entry,
) -> Result<Texts, Refused> {
    let name = &server.name;
    if !server.is_exact() {
        let what = "does not name an exact version of its package, or its arguments can add another package";
        return Err(unavailable(&params.id, format!("`{name}` {what}")));
    }
    let program = |entry: Entry| {
        let args = entry.args.iter().map(|arg| literal(arg)).collect::<Option<Vec<_>>>()?;
        let (env, secrets) = environment(&params.id, entry.env)?;
        Some((entry.command, args, env, secrets))
    };
    let Some((command, args, env, secrets)) = program(entry) else {
        let what = "takes a secret in another way than as a variable";
        return Err(unavailable(&params.id, format!("`{name}` {what}")));
    };
    (params.command, params.args, params.env) = (command, args.into(), Some(env));
    Ok(secrets)
}

/// Returns the values that a registry entry needs: the caller's value, else the default, else, for a required secret, a
/// reference to the user's stored secret. Returns an error if another required value is missing, or a value is not one
/// of the choices. Adds all variables to `asks`.
fn answers(
    id: &str,
    needs: &[Need],
    given: &mut BTreeMap<String, String>,
    asks: &mut Vec<String>,
) -> Result<Answers, Refused> {
    let mut answers = Answers::new();
    for need in needs {
        let name = &need.variable;
        let is_secret = if need.is_secret { ", secret" } else { "" };
        let required = if need.is_required { "required" } else { "optional" };
        let about = clip(&need.description, MAX_SHOWN_BYTES);
        asks.push(format!("{} ({required}{is_secret}) {about}", clip(name, MAX_NAME_BYTES)));
        let answer = match (given.remove(name), &need.default) {
            (Some(value), _) if !need.choices.is_empty() && !need.choices.contains(&value) => {
                let choices = clip(&need.choices.join(", "), MAX_SHOWN_BYTES);
                return unfit(format!("`env`: `{name}` is one of {}", choices.escape_debug()));
            }
            (Some(value), _) => Answer::text(&value),
            (None, Some(default)) => Answer::text(default),
            (None, None) if need.is_required && need.is_secret => {
                Answer::secret(&secret_name(id, name))
            }
            (None, None) if need.is_required => {
                let about = about.escape_debug();
                return unfit(format!("`env`: the server asks for `{name}`: {about}"));
            }
            (None, None) => continue,
        };
        answers.insert(name.clone(), vec![answer]);
    }
    Ok(answers)
}

/// Returns the name of the user's stored secret for a variable of a server.
fn secret_name(id: &str, variable: &str) -> String {
    format!("{id}.{variable}")
}

/// A map of texts, e.g. an environment.
type Texts = BTreeMap<String, String>;

/// Divides an environment into literal values and the names of stored secrets. Returns `None` if a value is neither
/// literal nor a reference to a secret of this server.
fn environment(id: &str, env: Texts) -> Option<(Texts, Texts)> {
    let (mut values, mut secrets) = (Texts::new(), Texts::new());
    for (name, text) in env {
        let secret = text.strip_prefix("${keyring:").and_then(|rest| rest.strip_suffix('}'));
        match (literal(&text), secret) {
            (Some(value), _) => drop(values.insert(name, value)),
            (None, Some(secret)) if secret.starts_with(&format!("{id}.")) => {
                secrets.insert(name, secret.to_owned());
            }
            // Omit an optional value that the caller did not give.
            (None, _) if text.ends_with(":-}") && text.rfind("${") == Some(0) => {}
            (None, _) => return None,
        }
    }
    Some((values, secrets))
}
