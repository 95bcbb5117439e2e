//! Starts a server for a moment, to learn what it is and has.
//!
//! Applies to: outbound.

use std::error::Error as _;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use mgp_client_sdk::Client;
use mgp_discovery::{
    Expanded, ExpandedReach, ExpandedServer, Expander, Reach, Server, clear_secrets,
};
use mgp_security::Definitions;
use mgp_transport::ChildCommand;
use mgp_types::Payload;
use mgp_types::mcp::{Era, ListParams, Tool};
use mgp_types::method::ToolsList;
use mgp_types::service::Call;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

mod words;

use words::Words;

/// How many servers are in the first moments of their start at once: all at once would make each of them slow.
const STARTS: usize = 16;

/// How long a start keeps others waiting.
const HOLDS: Duration = Duration::from_secs(2);

/// How long a server may take to leave by itself.
const LEAVES: Duration = Duration::from_millis(500);

/// How long what a server wrote may take to be read once it has failed.
const SPEAKS: Duration = Duration::from_millis(50);

/// How many pages of a list are read.
const PAGES: usize = 100;

/// What a server is and has.
#[derive(Debug)]
pub(super) struct Probed {
    pub(super) era: &'static str,
    pub(super) revision: String,
    /// Whether it speaks MGP.
    pub(super) mgp: bool,
    pub(super) name: Option<String>,
    pub(super) version: Option<String>,
    /// Those that can be called.
    pub(super) tools: Vec<Tool>,
    /// The names of all.
    pub(super) listed: Vec<String>,
    /// All of them as they were written.
    pub(super) raw: Vec<Payload>,
}

/// Why a server cannot be used.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) why: String,
    /// What it wrote about that itself.
    pub(super) said: Option<String>,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.said {
            Some(said) => write!(f, "{}; it said: “{said}”", self.why),
            None => f.write_str(&self.why),
        }
    }
}

/// Starts servers, few at a time.
#[derive(Debug)]
pub(super) struct Prober {
    expander: Expander,
    patience: Duration,
    starts: Semaphore,
}

impl Prober {
    /// With so much time for each server.
    pub(super) fn new(patience: Duration) -> Self {
        Self { expander: Expander::of_process(), patience, starts: Semaphore::new(STARTS) }
    }

    /// Starts a server and asks it for its tools, which the definitions take note of; says why it could not.
    pub(super) async fn probe(
        &self,
        server: &Server,
        definitions: &Definitions,
    ) -> Result<Probed, Broken> {
        let words = Words::default();
        match self.in_turn(server, definitions, &words).await {
            Ok(probed) => Ok(probed),
            Err(why) => {
                if matches!(server.reach, Reach::Program { .. }) {
                    sleep(SPEAKS).await;
                }
                Err(Broken { why: words.veiled(&why), said: words.telling() })
            }
        }
    }

    async fn in_turn(
        &self,
        server: &Server,
        definitions: &Definitions,
        words: &Words,
    ) -> Result<Probed, String> {
        let Ok(permit) = self.starts.acquire().await else { return Err("it was given up".into()) };
        let mut probe = pin!(timeout(self.patience, self.ask(server, definitions, words)));
        let early = tokio::select! {
            probed = &mut probe => Some(probed),
            () = sleep(HOLDS) => None,
        };
        drop(permit);
        let probed = match early {
            Some(probed) => probed,
            None => probe.await,
        };
        probed.unwrap_or_else(|_| {
            Err(format!("it did not answer within {} s", self.patience.as_secs()))
        })
    }

    async fn ask(
        &self,
        server: &Server,
        definitions: &Definitions,
        words: &Words,
    ) -> Result<Probed, String> {
        let client = self.connect(server, words).await?;
        let raw = match client.capabilities().tools {
            Some(_) => list(&client).await,
            None => Ok(Vec::new()),
        };
        let raw = match raw {
            Ok(raw) => definitions
                .observe(&server.id, &raw)
                .await
                .map(|()| raw)
                .map_err(|error| error.to_string()),
            Err(why) => Err(why),
        };
        let facts = client.server();
        let info = client.server_info();
        let probed = raw.map(|raw| {
            // What is no tool is told by nobody and called by nobody.
            let listed: Vec<Tool> =
                raw.iter().filter_map(|tool| serde_json::from_str(tool.as_str()).ok()).collect();
            let names = listed.iter().map(|tool| tool.name.clone()).collect();
            let stands = |tool: &Tool| definitions.standing(Some(&server.id), &tool.name);
            Probed {
                era: match facts.era {
                    Era::Modern => "modern",
                    Era::Legacy => "legacy",
                },
                revision: facts.revision.to_string(),
                mgp: facts.mgp.is_some(),
                name: info.as_ref().map(|info| info.name.clone()),
                version: info.map(|info| info.version),
                tools: listed.into_iter().filter(|tool| stands(tool).is_callable()).collect(),
                listed: names,
                raw,
            }
        });
        // What does not leave is killed when the client is dropped.
        let _ = timeout(LEAVES, client.close()).await;
        probed
    }

    async fn connect(&self, server: &Server, words: &Words) -> Result<Client, String> {
        let (expander, own) = (self.expander.clone(), server.clone());
        // Files are read and commands run.
        let filled = tokio::task::spawn_blocking(move || expander.server(&own)).await;
        let filled = filled.map_err(|error| error.to_string())?;
        let filled = filled.map_err(|not| not.reasons().join(", "))?;
        words.keep_secret(&filled);
        let mut builder = Client::builder("mgp", env!("CARGO_PKG_VERSION"))
            .init_timeout(self.patience)
            .era(server.era.into());
        if server.mgp.is_none() {
            builder = builder.plain();
        }
        let ExpandedServer { id, reach, .. } = filled;
        let connected = match reach {
            ExpandedReach::Program { command, args, cwd, env } => {
                let path = env.get("PATH").map(Expanded::as_str);
                found(command.as_str(), cwd.as_deref(), path.map(OsStr::new))?;
                let words = words.clone();
                let mut program = ChildCommand::new(command.as_str())
                    .args(args.iter().map(Expanded::as_str))
                    .envs(env.iter().map(|(name, value)| (name, value.as_str())))
                    .server(id.as_str())
                    .on_stderr(move |line| words.hear(line))
                    .close_grace(LEAVES)
                    .term_grace(LEAVES);
                if let Some(cwd) = cwd {
                    program = program.cwd(cwd);
                }
                builder.spawn(program).await
            }
            ExpandedReach::Url { url, headers, .. } => {
                let headers = headers.iter().map(header).collect::<Result<HeaderMap, _>>()?;
                let builder = builder.http(|config| config.headers.extend(headers));
                builder.connect_url(url.as_str()).await
            }
            _ => return Err("it is reached in a way this program does not know".into()),
        };
        connected.map_err(|error| chain(&error))
    }
}

/// A header of every request; its value may be secret and is in no message.
fn header((name, value): (&String, &Expanded)) -> Result<(HeaderName, HeaderValue), String> {
    let bad = |what: &str| format!("`headers.{name}`: {what}");
    let header = HeaderName::try_from(name.as_str()).map_err(|_| bad("no name of a header"))?;
    let mut value =
        HeaderValue::try_from(value.as_str()).map_err(|_| bad("no value of a header"))?;
    value.set_sensitive(true);
    Ok((header, value))
}

/// A page of a list, each tool as it was written: what is pinned is exactly that.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    tools: Vec<Payload>,
    #[serde(default, rename = "nextCursor")]
    next: Option<String>,
}

/// All tools.
async fn list(client: &Client) -> Result<Vec<Payload>, String> {
    let (mut tools, mut params) = (Vec::new(), ListParams::new());
    for _ in 0..PAGES {
        let said = |error| format!("its tools cannot be listed: {error}");
        let call = Call::ask::<ToolsList>(&params, client.context()).map_err(said)?;
        let page: Page = client.stack().send(call).await.map_err(said)?.get().map_err(said)?;
        tools.extend(page.tools);
        match page.next {
            Some(cursor) => params.cursor = Some(cursor),
            None => return Ok(tools),
        }
    }
    Err(format!("it lists more than {PAGES} pages of tools"))
}

/// Finds a program as the system would; says what to do where there is none.
pub(super) fn found(
    command: &str,
    cwd: Option<&Path>,
    path: Option<&OsStr>,
) -> Result<PathBuf, String> {
    if let Some(cwd) = cwd.filter(|cwd| !cwd.is_dir()) {
        return Err(format!("its folder `{}` is not there", cwd.display()));
    }
    if command.contains(std::path::is_separator) {
        let file = cwd.unwrap_or(Path::new("")).join(command);
        return match (file.is_file(), is_program(&file)) {
            (true, true) => Ok(file),
            (true, false) => Err(format!("`{command}` is no program; run `chmod +x` on it")),
            _ => Err(format!("there is no program `{command}`")),
        };
    }
    let inherited = std::env::var_os("PATH");
    let folders = path.or(inherited.as_deref()).unwrap_or_default();
    let files = std::env::split_paths(folders).map(|folder| folder.join(command));
    let files = files.flat_map(|file| {
        let windows = ["exe", "cmd", "bat"].map(|end| file.with_extension(end));
        std::iter::once(file).chain(windows.into_iter().filter(|_| cfg!(windows)))
    });
    files.into_iter().find(|file| is_program(file)).ok_or_else(|| {
        format!("the program `{command}` is not on the PATH; install it, or write its full path")
    })
}

#[cfg(unix)]
fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(file: &Path) -> bool {
    file.is_file()
}

/// An error with what is behind it, each sentence once.
pub(super) fn chain(error: &mgp_client_sdk::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let sentence = error.to_string();
        if !text.contains(&sentence) {
            text = format!("{text}: {sentence}");
        }
        source = error.source();
    }
    text
}

/// What a server runs or where it is, without what looks like a secret.
pub(super) fn shown(server: &Server) -> String {
    let secret: Vec<String> = clear_secrets(server).into_iter().map(|found| found.place).collect();
    match &server.reach {
        Reach::Program { command, args, .. } => {
            let args = args.iter().enumerate().map(|(at, arg)| {
                let is_secret = secret.contains(&format!("args[{at}]"));
                match arg.split_once('=').filter(|_| is_secret) {
                    Some((name, _)) if name.starts_with('-') => format!("{name}=…"),
                    _ if is_secret => "…".to_owned(),
                    _ => arg.clone(),
                }
            });
            std::iter::once(command.clone()).chain(args).collect::<Vec<_>>().join(" ")
        }
        Reach::Url { url, .. } => {
            let end = url.find(['?', '#']).unwrap_or(url.len());
            let (scheme, rest) = url[..end].split_once("://").unwrap_or(("", &url[..end]));
            let rest = match rest.split_once('@') {
                Some((login, place)) if !login.contains('/') => place,
                _ => rest,
            };
            if scheme.is_empty() { rest.to_owned() } else { format!("{scheme}://{rest}") }
        }
        _ => "in a way this program does not know".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use mgp_discovery::Config;

    use super::*;

    #[track_caller]
    fn check(entry: &str, expected: &str) {
        let config = Config::parse("mgp.toml", &format!("servers = [{{ id = 'a', {entry} }}]"));
        assert_eq!(shown(&config.unwrap().config.servers[0]), expected);
    }

    #[test]
    fn what_looks_like_a_secret_is_not_shown() {
        check(
            "command = 'x', args = ['--token=ghp_abcdefghijklmnopqrstuvwxyz0123456789', 'b']",
            "x --token=… b",
        );
        check(
            "command = 'x', args = ['--api-key', 'hunter2-hunter2-hunter2', '--port', '1']",
            "x --api-key … --port 1",
        );
        check(
            "url = 'https://me:secret-secret@h.example/mcp?key=hunter2hunter2'",
            "https://h.example/mcp",
        );
        check("command = 'x', args = ['${TOKEN}']", "x ${TOKEN}");
    }

    #[test]
    fn programs_are_found_or_the_remedy_is() {
        assert!(found("sh", None, None).is_ok());
        assert!(found("no-such-program", None, None).unwrap_err().contains("not on the PATH"));
        assert!(found("sh", None, Some(OsStr::new("/nowhere"))).is_err());
        assert!(
            found("./no-such-program", None, None).unwrap_err().contains("there is no program")
        );
        assert!(found("sh", Some(Path::new("/nowhere")), None).unwrap_err().contains("folder"));
    }
}
