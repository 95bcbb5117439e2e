//! Replaces `${…}` in a server's entry by values from outside the file (MGP §15.2).
//!
//! Expanding blocks: it reads files and runs commands.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Component, MAIN_SEPARATOR_STR, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mgp_types::mgp::Transport;
use mgp_types::service::ServerId;

use super::clear_secrets::{clear_parts, in_url, looks_secret, named};
use super::rights::ProcessRights;
use super::secret_file::SecretFile;
use super::{Expanded, Piece, Template, TemplateError, command};
use crate::config::{AuthConfig, LocalFiles, ServerConfig, TargetConfig, limits, valid_id};
use crate::source::{Origin, ProjectProgram, changed_file, local_files, user_folders};

/// Expander that replaces `${…}` in texts.
///
/// ```
/// use mgp_discovery::{Config, Expander};
///
/// let text = "servers = [{ id = 'a', command = 'a', env = { KEY = '${KEY}' } }]";
/// let config = Config::parse("mgp.toml", text).unwrap().config;
/// let refused = Expander::new(|_| None).server(&config.servers[0]).unwrap_err();
/// assert_eq!(
///     refused.to_string(),
///     "server `a` is not started: `env.KEY`: the variable `KEY` is not set; set it, or write `${KEY:-default}`"
/// );
/// ```
#[derive(Clone)]
pub struct Expander {
    variables: Arc<Variables>,
    home: Option<PathBuf>,
    timeout: Duration,
    secrets: Option<SecretFile>,
}

/// A lookup that returns the value of a variable by its name.
type Variables = dyn Fn(&str) -> Option<String> + Send + Sync;

/// A server with expanded texts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExpandedServer {
    /// The id of the server.
    pub id: ServerId,
    /// The way to reach the server, with expanded texts.
    pub target: ExpandedTarget,
    /// The rights of the server's process; `None` if it is not confined.
    pub rights: Option<ProcessRights>,
}

/// The way to reach a server, with expanded texts: a program to start, a URL, or this process.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ExpandedTarget {
    /// A child process.
    Program {
        /// The program that is started as the server.
        command: Expanded,
        /// The arguments of the program.
        args: Vec<Expanded>,
        /// The working directory as an absolute path.
        cwd: PathBuf,
        /// Environment variables that the program gets in addition to the variables that it inherits.
        env: BTreeMap<String, Expanded>,
    },
    /// A server reached over HTTP.
    Url {
        /// The URL of the server.
        url: Expanded,
        /// The headers sent with every request.
        headers: BTreeMap<String, Expanded>,
        /// The transport: streamable HTTP, or the older event stream.
        transport: Transport,
        /// The settings for logging in at the server.
        auth: Box<AuthConfig<Expanded>>,
    },
    /// A server inside this process.
    InProcess,
}

/// The error for a server whose texts cannot all be expanded, or whose approved files changed. It names the keys of
/// these texts, but contains no expanded values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("server `{server}` is not started: {}", joined(.reasons))]
pub struct ExpandError {
    server: ServerId,
    reasons: Vec<String>,
}

impl ExpandError {
    /// Returns the server that is not started because of this error.
    #[must_use]
    pub fn server(&self) -> &ServerId {
        &self.server
    }

    /// Returns one sentence for each text that could not be expanded, with the remedy.
    #[must_use]
    pub fn reasons(&self) -> &[String] {
        &self.reasons
    }

    /// Returns all reasons as one sentence: first all errors, then, after the last semicolon, the remedies.
    #[must_use]
    pub fn summary(&self) -> String {
        joined(&self.reasons)
    }
}

/// Joins reasons to one sentence: first all errors, then, after the last semicolon, all remedies.
fn joined(reasons: &[String]) -> String {
    let parts: Vec<_> = reasons.iter().map(|reason| reason.rsplit_once("; ")).collect();
    let faults = reasons.iter().zip(&parts);
    let faults = faults.map(|(reason, parts)| parts.map_or(reason.as_str(), |(fault, _)| fault));
    let faults = faults.collect::<Vec<_>>().join(", ");
    let mut remedies: Vec<&str> = Vec::new();
    for (_, remedy) in parts.into_iter().flatten() {
        // Several texts may lack the same variable, so name each remedy only once.
        if !remedies.contains(&remedy) {
            remedies.push(remedy);
        }
    }
    if remedies.is_empty() { faults } else { format!("{faults}; {}", remedies.join(", and ")) }
}

impl ExpandedServer {
    /// Returns the parts of the texts that must not be shown: values from outside the file, and values that look like
    /// secrets.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let (texts, map): (Vec<&Expanded>, _) = match &self.target {
            ExpandedTarget::Program { command, args, env, .. } => {
                (std::iter::once(command).chain(args).collect(), Some(env))
            }
            ExpandedTarget::Url { url, headers, auth, .. } => {
                (auth.texts().map(|(_, text)| text).chain([url]).collect(), Some(headers))
            }
            ExpandedTarget::InProcess => (Vec::new(), None),
        };
        let all = texts.into_iter().chain(map.into_iter().flat_map(BTreeMap::values));
        all.flat_map(Expanded::secrets)
    }
}

impl Expander {
    /// Creates an expander that gets the values of variables from a function.
    pub fn new(variables: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self {
            variables: Arc::new(variables),
            home: None,
            timeout: Duration::from_secs(10),
            secrets: None,
        }
    }

    /// Creates an expander that gets the values of variables from the environment of this process.
    #[must_use]
    pub fn from_env() -> Self {
        let expander = Self::new(|name| std::env::var(name).ok());
        match std::env::home_dir() {
            Some(home) => expander.home(home),
            None => expander,
        }
    }

    /// Sets the home folder, which replaces `~` at the beginning of paths, and `${HOME}` if that variable is not set.
    #[must_use]
    pub fn home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }

    /// Sets the file with the user's secrets.
    #[must_use]
    pub fn secrets(mut self, secrets: SecretFile) -> Self {
        self.secrets = Some(secrets);
        self
    }

    /// Sets the time limit of commands run by `${cmd:…}`; 10 s by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Expands all texts of a server.
    ///
    /// # Errors
    /// [`ExpandError`] that names each text that cannot be expanded, or an approved file that was changed since its
    /// approval.
    pub fn server(&self, server: &ServerConfig) -> Result<ExpandedServer, Box<ExpandError>> {
        let folder = &folder_of(server);
        let mut filling = Filling { expander: self, server, folder, reasons: Vec::new() };
        let reach = match &server.target {
            TargetConfig::Program { command, args, cwd, env } => {
                filling.program(command, args, cwd.as_deref(), env)
            }
            TargetConfig::Url { url, headers, transport, auth } => ExpandedTarget::Url {
                url: filling.text("url", url, &in_url(url)),
                headers: filling.map("headers", headers),
                transport: transport.clone(),
                auth: Box::new(auth.map(|name, text| {
                    filling.text(&format!("auth.{name}"), text, &[(name, text)])
                })),
            },
            TargetConfig::InProcess => ExpandedTarget::InProcess,
        };
        if filling.reasons.is_empty()
            && let ExpandedTarget::Program { command, args, cwd, env } = &reach
        {
            let program = ProjectProgram {
                command: command.as_str(),
                args: args.iter().map(Expanded::as_str).collect(),
                path: path_variable(env).map(Expanded::as_str),
                folder: cwd,
            };
            filling.reasons.extend(changed_file(server, &program));
        }
        let rights = filling.rights(&reach);
        if filling.reasons.is_empty() {
            let id = server.id.clone();
            return Ok(ExpandedServer { id, target: reach, rights });
        }
        let reasons = filling.reasons;
        Err(Box::new(ExpandError { server: server.id.clone(), reasons }))
    }

    /// Returns the code files of the project with which a project's server would start, as [`local_files`] does.
    ///
    /// A text that cannot be expanded is taken as written: in this case the server cannot start, so the text has no
    /// effect.
    pub(crate) fn project_files(&self, server: &ServerConfig) -> Result<LocalFiles, String> {
        let TargetConfig::Program { command, args, cwd, env } = &server.target else {
            return Ok(LocalFiles::new());
        };
        let folder = folder_of(server);
        let filled = |text: &String| {
            let template = Template::parse(text).ok();
            let filled =
                template.and_then(|text| self.expand(&text, Origin::Project, &folder).ok());
            filled.map_or_else(|| text.clone(), |filled| filled.as_str().to_owned())
        };
        let cwd = cwd.as_ref().map(|cwd| folder.join(self.with_home(&filled(cwd))));
        let command = filled(&self.with_program_at_home(command));
        let args: Vec<_> = args.iter().map(filled).collect();
        let path = path_variable(env).map(filled);
        let program = ProjectProgram {
            command: &command,
            args: args.iter().map(String::as_str).collect(),
            path: path.as_deref(),
            folder: cwd.as_deref().unwrap_or(&folder),
        };
        local_files(&server.file, &program)
    }

    /// Expands one text of a configuration file; `folder` is the folder of that file.
    ///
    /// # Errors
    /// Returns the reason why the text cannot be expanded, with the remedy.
    pub fn expand(
        &self,
        template: &Template,
        origin: Origin,
        folder: &Path,
    ) -> Result<Expanded, String> {
        let mut out = Expanded::new();
        for piece in template.pieces() {
            match piece {
                Piece::Text(text) => out.push(text),
                Piece::Variable { name, default } => {
                    // As in a shell, the default after `:-` applies if the variable is unset or empty.
                    match (self.variable(name), default) {
                        (Some(value), None) => out.push_secret(&value),
                        (Some(value), Some(_)) if !value.is_empty() => out.push_secret(&value),
                        (_, Some(default)) => {
                            let filled = self.expand(default, origin, folder)?;
                            match looks_secret(name, filled.as_str()) {
                                Some(_) => out.push_secret(filled.as_str()),
                                None => out.append(&filled),
                            }
                        }
                        (None, None) => {
                            return Err(unset(name, origin));
                        }
                    }
                }
                Piece::File(path) => out.push_secret(&self.file(path, origin, folder)?),
                Piece::Command(_) if origin == Origin::Project => {
                    return Err(
                        "only your own file may run a command; move this server to it, or use `${NAME}`"
                            .to_owned(),
                    );
                }
                Piece::Secret(_) if origin == Origin::Project => {
                    return Err(
                        "only your own file may name a secret; move this server to it, or use `${NAME}`"
                            .to_owned(),
                    );
                }
                Piece::Secret(name) => out.push_secret(&self.secret(name)?),
                Piece::Command(command) => {
                    let output = command::run(command, self.home_folder(), self.timeout)?;
                    out.push_secret(without_end(&output));
                }
            }
            if out.as_str().len() > limits::MAX_VALUE_BYTES {
                return Err(format!("it becomes longer than {} bytes", limits::MAX_VALUE_BYTES));
            }
        }
        if out.as_str().contains('\0') {
            return Err("the expanded text contains a NUL".to_owned());
        }
        Ok(out)
    }

    /// Returns the value of a variable. If `HOME` is missing, as on Windows and in some services, its value is the home
    /// folder.
    fn variable(&self, name: &str) -> Option<String> {
        let home = || self.home.as_ref()?.to_str().map(str::to_owned);
        (self.variables)(name).or_else(|| (name == "HOME").then(home).flatten())
    }

    fn secret(&self, name: &str) -> Result<String, String> {
        let file = self.secrets.as_ref().ok_or("there is no state folder with secrets")?;
        file.get(name)
            .map_err(|error| error.to_string())?
            .ok_or_else(|| format!("there is no secret `{name}`; run `mgp secrets set {name}`"))
    }

    /// Returns the state folder, which has the user's secrets; `None` if there is none.
    pub(super) fn state_folder(&self) -> Option<&Path> {
        self.secrets.as_ref()?.folder()
    }

    /// Returns the real paths of the folders that can have the user's own configuration, whether or not they exist.
    pub(super) fn config_folders(&self) -> Vec<PathBuf> {
        user_folders(self.home.clone(), |name| self.variable(name))
    }

    /// Returns the working directory of the user's commands and servers: the home folder, or the root if the home
    /// folder is unknown.
    ///
    /// The working directory of this process is not used: hosts start this process in the open project, and
    /// interpreters and package runners load code from their working directory.
    pub(super) fn home_folder(&self) -> &Path {
        self.home.as_deref().unwrap_or(Path::new(MAIN_SEPARATOR_STR))
    }

    pub(super) fn with_home(&self, path: &str) -> PathBuf {
        match (path.strip_prefix("~"), &self.home) {
            (Some(""), Some(home)) => home.clone(),
            (Some(rest), Some(home)) if rest.starts_with('/') => home.join(&rest[1..]),
            _ => PathBuf::from(path),
        }
    }

    /// Returns the path of a program, in which the home folder replaces the `~` of a `~/` at the beginning.
    fn with_program_at_home(&self, command: &str) -> String {
        let home = self.home.as_ref().and_then(|home| home.to_str());
        match (command.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => format!("{}/{rest}", home.replace('$', "$$")),
            _ => command.to_owned(),
        }
    }

    fn file(&self, path: &str, origin: Origin, folder: &Path) -> Result<String, String> {
        let place = folder.join(self.with_home(path));
        let refused = |error: std::io::Error| format!("the file `{path}` cannot be read: {error}");
        if origin == Origin::Project {
            // Compare real paths, because a link could point to a file outside of the folder.
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            let (root, real) = (dunce::canonicalize(folder), dunce::canonicalize(&place));
            if !real.map_err(refused)?.starts_with(root.map_err(refused)?) {
                return Err(format!(
                    "the file `{path}` is not in the project's folder; only your own file may name it"
                ));
            }
        }
        // Check this before opening the file: opening a named pipe would block until it has a writer.
        if !fs::metadata(&place).map_err(refused)?.is_file() {
            return Err(format!("`{path}` is not a plain file"));
        }
        let mut bytes = Vec::new();
        let file = fs::File::open(&place).map_err(refused)?;
        file.take(limits::MAX_VALUE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(refused)?;
        if bytes.len() > limits::MAX_VALUE_BYTES {
            return Err(format!(
                "the file `{path}` is longer than {} bytes",
                limits::MAX_VALUE_BYTES
            ));
        }
        let text =
            String::from_utf8(bytes).map_err(|_| format!("the file `{path}` is not UTF-8 text"))?;
        // Remove the byte order mark, which editors on Windows write at the beginning of files.
        Ok(without_end(text.strip_prefix('\u{feff}').unwrap_or(&text)).to_owned())
    }
}

mgp_types::opaque_debug!(Expander { home });

/// The expansion of the texts of one server, with the reasons why some cannot be expanded.
pub(super) struct Filling<'a> {
    pub(super) expander: &'a Expander,
    pub(super) server: &'a ServerConfig,
    pub(super) folder: &'a Path,
    pub(super) reasons: Vec<String>,
}

impl Filling<'_> {
    /// Expands a program, and determines its working directory. Without `cwd`, a server of the user's own file starts
    /// in the home folder, so a relative path in its arguments is an error.
    fn program(
        &mut self,
        command: &str,
        args: &[String],
        cwd: Option<&str>,
        env: &BTreeMap<String, String>,
    ) -> ExpandedTarget {
        let filled = cwd.map(|cwd| {
            let filled = self.text("cwd", cwd, &[("", cwd)]);
            self.folder.join(self.expander.with_home(filled.as_str()))
        });
        let is_neutral = filled.is_none() && self.server.origin != Origin::Project;
        let command = &self.expander.with_program_at_home(command);
        let command = self.text("command", command, &[("", command)]);
        let command = self.located(command, filled.as_deref().unwrap_or(self.folder));
        let args = (0_usize..).zip(args.iter().zip(named(args))).map(|(at, (arg, named))| {
            let place = format!("args[{at}]");
            let filled = self.text(&place, arg, &[named]);
            if is_neutral && is_relative_path(filled.as_str()) {
                self.reasons.push(format!(
                    "`{place}`: a relative path needs a folder; set `cwd`, or write the full path"
                ));
            }
            filled
        });
        let args = args.collect();
        let cwd = filled.unwrap_or_else(|| match self.private_folder() {
            _ if !is_neutral => self.folder.to_owned(),
            // A confined program could not read the home folder, and runners would fail there.
            Some(private) => private,
            None => self.expander.home_folder().to_owned(),
        });
        ExpandedTarget::Program { command, args, cwd, env: self.map("env", env) }
    }

    /// Makes the relative path of a program absolute. A name without a path stays unchanged, because the start of the
    /// server searches it in `PATH`.
    fn located(&mut self, command: Expanded, folder: &Path) -> Expanded {
        let path = Path::new(command.as_str());
        if path.is_absolute()
            || path.components().nth(1).is_none() && !is_relative_path(command.as_str())
        {
            return command;
        }
        let Some(folder) = folder.to_str() else {
            self.reasons.push("`command`: its folder is not UTF-8; write the full path".to_owned());
            return command;
        };
        let mut located = Expanded::new();
        located.push(folder);
        located.push(MAIN_SEPARATOR_STR);
        located.append(&command);
        located
    }

    /// Expands one text; `parts` are the named values inside it that are checked for secrets.
    pub(super) fn text(&mut self, place: &str, text: &str, parts: &[(&str, &str)]) -> Expanded {
        let filled = Template::parse(text)
            .map_err(|bad: TemplateError| bad.to_string())
            .and_then(|template| self.expander.expand(&template, self.server.origin, self.folder));
        match filled {
            Ok(mut filled) => {
                // Also hide secrets that the file contains in clear text. They contain no `${…}`, but a dollar sign in
                // them may be written as `$$`.
                let secrets = parts.iter().flat_map(|(name, part)| clear_parts(name, part));
                secrets.for_each(|secret| filled.hide(&secret.replace("$$", "$")));
                filled
            }
            Err(reason) => {
                self.reasons.push(format!("`{place}`: {reason}"));
                Expanded::new()
            }
        }
    }

    fn map(&mut self, place: &str, map: &BTreeMap<String, String>) -> BTreeMap<String, Expanded> {
        let filled = map.iter().map(|(name, text)| {
            let value = self.text(&format!("{place}.{name}"), text, &[(name, text)]);
            (name.clone(), value)
        });
        filled.collect()
    }
}

/// Returns the folder of the file that declares a server, as an absolute path.
fn folder_of(server: &ServerConfig) -> PathBuf {
    let file = std::path::absolute(&server.file).unwrap_or_default();
    file.parent().unwrap_or(Path::new(MAIN_SEPARATOR_STR)).to_owned()
}

/// Returns the variable `PATH` among the variables of a server. On Windows, the case of its name does not matter.
#[must_use]
pub fn path_variable<T>(env: &BTreeMap<String, T>) -> Option<&T> {
    let is_path =
        |name: &str| if cfg!(windows) { name.eq_ignore_ascii_case("PATH") } else { name == "PATH" };
    // Return the last of several values, because the started program uses it too.
    env.iter().rfind(|(name, _)| is_path(name)).map(|(_, path)| path)
}

/// Returns the text of the error for a variable that is not set, with the remedies.
fn unset(name: &str, origin: Origin) -> String {
    // Propose a stored secret only where it is possible: only the user's own file may name a secret, and the name of a
    // secret cannot begin with `_`.
    let remedy = match origin {
        Origin::User | Origin::Named if valid_id(name) => {
            format!("run `mgp secrets set {name}` and write `${{keyring:{name}}}`")
        }
        _ => "set it".to_owned(),
    };
    format!("the variable `{name}` is not set; {remedy}, or write `${{{name}:-default}}`")
}

/// Returns whether an argument, or the value of an option, is a relative path, e.g. `.`, `./x` or `--root=../x`.
fn is_relative_path(arg: &str) -> bool {
    let value = match arg.split_once('=') {
        Some((option, value)) if option.starts_with('-') => value,
        _ => arg,
    };
    let first = Path::new(value).components().next();
    matches!(first, Some(Component::CurDir | Component::ParentDir))
}

/// Returns a text without the line break at its end, which editors and `echo` add.
fn without_end(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}
