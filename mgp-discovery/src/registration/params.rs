//! Reads the params of a registration, and makes all checks that do not need to read files (MGP §15.4).

use std::collections::BTreeMap;

use mgp_types::Extras;
use mgp_types::mgp::{
    Permission, RegisterParams, RestartPolicy, ServerMgpConfig, Transport, TrustLevel,
};
use mgp_types::service::Authority;

use super::config::RegistrationConfig;
use super::origin::RegistryOrigin;
use super::refusal::RegistrationError as Refused;
use super::remote::{RegistryTarget, Remote};
use crate::config::{RegistrationAllowList, limits, valid_id};

/// The maximum number of arguments, variables, extensions or permissions of a registration.
const MAX_ENTRIES: usize = 64;
/// The maximum size of a justification, or of a name that a caller claims, in bytes.
const MAX_TEXT_BYTES: usize = 1024;

/// Variables that change which code a program loads. By default, a request of an agent that sets such a variable is
/// refused, while a request of an operator only gets a note. The list cannot be complete, so agents may only set
/// [`PLAIN_VARIABLES`] and the variables in `kernel.registration.env`.
#[rustfmt::skip]
const LOADING: &[&str] = &[
    "APPDATA", "BASH_ENV", "BROWSER", "BUNDLE_GEMFILE", "BUNDLE_PATH", "BUN_OPTIONS", "CARGO_HOME",
    "CC", "CLASSPATH", "CONDA_PREFIX", "CURL_HOME", "CXX", "DENO_DIR", "EDITOR",
    "ELECTRON_RUN_AS_NODE", "EMACSLOADPATH", "ENV", "FPATH", "GCONV_PATH", "GDK_PIXBUF_MODULE_FILE",
    "GEM_HOME", "GEM_PATH", "GIO_EXTRA_MODULES", "GIT_ASKPASS", "GIT_EDITOR", "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_PROXY_COMMAND", "GIT_TEMPLATE_DIR", "GLIBC_TUNABLES",
    "GOENV", "GOFLAGS", "GOPATH", "GOROOT", "GST_PLUGIN_PATH", "GTK_MODULES", "GTK_PATH", "HOME",
    "HOSTALIASES", "IFS", "INPUTRC", "JAVA_HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS",
    "JULIA_LOAD_PATH", "LESSCLOSE", "LESSOPEN", "LOCALAPPDATA", "LOCPATH", "LUA_CPATH", "LUA_INIT",
    "LUA_PATH", "MAKEFLAGS", "MANPAGER", "MYVIMRC", "NIX_PATH", "NODE_ENV_FILE", "NODE_OPTIONS",
    "NODE_PATH", "OPENSSL_CONF", "PAGER", "PATH", "PATHEXT", "PERL5DB", "PERL5LIB", "PERL5OPT",
    "PERLLIB", "PGPASSFILE", "PGSERVICEFILE", "PHPRC", "PHP_INI_SCAN_DIR", "POSH_THEMES_PATH",
    "PROMPT_COMMAND", "PS4", "PSMODULEPATH", "PYTHONBREAKPOINT", "PYTHONCASEOK", "PYTHONEXECUTABLE",
    "PYTHONHOME", "PYTHONINSPECT", "PYTHONPATH", "PYTHONPLATLIBDIR", "PYTHONPYCACHEPREFIX",
    "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONWARNINGS", "RUBYLIB", "RUBYOPT", "RUSTC",
    "RUSTC_WRAPPER", "RUSTFLAGS", "R_ENVIRON", "R_HOME", "R_LIBS", "R_PROFILE", "SHELL",
    "SHELLOPTS", "SYSTEMROOT", "TERMINFO", "USERPROFILE", "VIM", "VIMINIT", "VIMRUNTIME",
    "VIRTUAL_ENV", "VISUAL", "WGETRC", "ZDOTDIR", "_JAVA_OPTIONS",
];
/// Prefixes of the names of variables that can change which code a program loads.
#[rustfmt::skip]
const LOADING_PREFIXES: &[&str] = &[
    "BASH_FUNC_", "DYLD_", "GIT_CONFIG", "GIT_SSH", "LD_", "MGP_CONFINED_", "NPM_CONFIG_",
    "OPENSSL_", "PERL5", "PIP_", "QT_", "R_LIBS_", "R_PROFILE_", "RUBY", "SSL_ENGINE", "SUDO_",
    "UV_", "XDG_",
];

/// Patterns of variables that callers who are not operators may set. Variables in `LOADING`, or with a prefix in
/// `LOADING_PREFIXES`, are excluded even if they match.
const PLAIN_VARIABLES: &[&str] = &[
    "LANG",
    "LOG_LEVEL",
    "NO_COLOR",
    "TZ",
    "MCP_*",
    "*API_KEY",
    "*_TOKEN",
    "*_SECRET",
    "*_USERNAME",
    "*_PASSWORD",
];

/// A registration request that passed all checks that do not need to read files.
#[derive(Clone)]
pub(super) struct RegisterRequest {
    pub(super) id: String,
    pub(super) command: String,
    pub(super) args: Vec<String>,
    pub(super) cwd: Option<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) source: Option<String>,
    pub(super) mgp: ServerMgpConfig,
    pub(super) trust: TrustLevel,
    pub(super) claimed_by: Option<String>,
    pub(super) justification: Option<String>,
    pub(super) notes: Vec<String>,
    /// The registry entry that determines what runs; `None` if the request names the program itself.
    pub(super) published: Option<RegistryOrigin>,
    /// The server at a URL that the registry entry describes, in place of a program.
    pub(super) remote: Option<Remote>,
    /// The programs that the caller may name in addition to the default programs; `None` for an operator, who may name
    /// any program.
    pub(super) programs: Option<Vec<String>>,
}

impl RegisterRequest {
    /// Reads the params. The server gets the trust level `sandboxed`, unless an operator requests another.
    pub(super) fn read(
        params: RegisterParams,
        by: Authority,
        config: &RegistrationConfig,
        allowed: RegistrationAllowList,
        target: Option<RegistryTarget>,
    ) -> Result<Self, Refused> {
        check_id(&params.id)?;
        let (published, remote) = target.map(|it| (it.origin, it.remote)).unzip();
        let remote = remote.flatten();
        let command = match &remote {
            Some(remote) => {
                fits("the URL", remote.url.len(), config.max_argv_bytes)?;
                bounded("headers", remote.headers().len(), MAX_ENTRIES)?;
                fits("the headers", remote.header_bytes(), config.max_env_bytes)?;
                String::new()
            }
            None => program(&params)?.to_owned(),
        };
        let RegisterParams { id, args, mgp, env, cwd, source, .. } = params;
        let (args, env) = (args.into_vec(), env.unwrap_or_default());
        let argv = || [&command].into_iter().chain(&args).chain(&cwd);
        bounded("args", args.len(), MAX_ENTRIES)?;
        bounded("env", env.len(), MAX_ENTRIES)?;
        fits("`command`, `args` and `cwd`", argv().map(String::len).sum(), config.max_argv_bytes)?;
        let env_bytes = env.iter().map(|(name, value)| name.len() + value.len()).sum();
        fits("`env`", env_bytes, config.max_env_bytes)?;
        fits("`source`", source.as_ref().map_or(0, String::len), config.max_script_bytes)?;
        for text in argv().chain(env.values()) {
            literal(text)?;
        }
        if source.as_ref().is_some_and(|source| source.contains('\0')) {
            return unfit("`source` contains a NUL".into());
        }
        let mut notes = Vec::new();
        for name in env.keys() {
            // Allow the variables that a registry entry declares, unless they can change which code runs.
            let declared = published.is_some().then(|| name.clone());
            let allowed =
                allowed.env.iter().chain(declared.iter().filter(|name| !changes_code(name)));
            variable(name, by, allowed, &mut notes)?;
        }
        let (mgp, trust) = govern(mgp.unwrap_or_default(), by)?;
        Ok(Self {
            id,
            command,
            args,
            cwd,
            env,
            source,
            mgp,
            trust,
            claimed_by: words("created_by", params.created_by)?,
            justification: words("justification", params.justification)?,
            notes,
            published,
            remote,
            programs: (by != Authority::Operator).then_some(allowed.programs),
        })
    }
}

/// Returns the program that a request names; returns an error if the request names a URL, or no program.
fn program(params: &RegisterParams) -> Result<&str, Refused> {
    let command = params.command.as_deref().unwrap_or_default();
    let is_url = command.starts_with("https://") || command.starts_with("http://");
    let is_program = matches!(params.transport, None | Some(Transport::Stdio));
    if is_url || !is_program || params.extra.get("url").is_some() {
        return unfit(
            "`transport` is `stdio` for servers that are not in a registry: name a server of the registry in `published`, or ask an operator to add the URL with `mgp servers add ID --url URL`"
                .into(),
        );
    }
    if command.trim().is_empty() {
        return unfit("`command` is missing; name the program to run".into());
    }
    Ok(command)
}

/// Returns an error if a text is not valid as a server id.
pub(super) fn check_id(id: &str) -> Result<(), Refused> {
    if valid_id(id) {
        return Ok(());
    }
    let most = limits::MAX_ID_BYTES;
    unfit(format!(
        "`id` begins with a letter or digit, and has only letters, digits, `.`, `_` and `-`, at most {most}"
    ))
}

/// Checks the requested governance settings, and returns them with the trust level. Only an operator can request less
/// strict rules.
fn govern(
    mut mgp: ServerMgpConfig,
    by: Authority,
) -> Result<(ServerMgpConfig, TrustLevel), Refused> {
    bounded("mgp.extensions", mgp.extensions.len(), MAX_ENTRIES)?;
    bounded("mgp.permissions_required", mgp.permissions_required.len(), MAX_ENTRIES)?;
    if let Some(long) = mgp.extensions.iter().find(|name| name.len() > limits::MAX_ID_BYTES) {
        return unfit(format!("an extension has {} bytes, more than any extension", long.len()));
    }
    let needs = Permission::canonical(mgp.permissions_required.iter());
    let is_odd = |permission: &&Permission| {
        !permission.is_valid() || permission.as_str().len() > limits::MAX_ID_BYTES
    };
    if needs.iter().any(|permission| is_odd(&permission)) {
        return unfit(
            "`mgp.permissions_required` has a name that is neither standard nor in reverse-domain notation"
                .into(),
        );
    }
    mgp.permissions_required = needs.into();
    // Unknown members have no effect, so they are not stored.
    mgp.extra = Extras::default();
    if let Some(RestartPolicy::Other(_)) = mgp.restart_policy {
        return unfit("`mgp.restart_policy` is `never`, `on_failure` or `always`".into());
    }
    let request = mgp.trust_level.take();
    let trust = match (by, request) {
        (Authority::Operator, Some(TrustLevel::Other(_))) => {
            return unfit("`mgp.trust_level` is `trusted`, `standard` or `sandboxed`".into());
        }
        (Authority::Operator, Some(trust)) => trust,
        _ => {
            mgp.default_policy = None;
            TrustLevel::Sandboxed
        }
    };
    Ok((mgp, trust))
}

fn variable<'a>(
    name: &str,
    by: Authority,
    mut allowed: impl Iterator<Item = &'a String>,
    notes: &mut Vec<String>,
) -> Result<(), Refused> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || !name.bytes().all(plain) || name.as_bytes()[0].is_ascii_digit() {
        return unfit(
            "a name in `env` has only letters, digits and `_`, and does not begin with a digit"
                .into(),
        );
    }
    let loads = changes_code(name);
    if by == Authority::Operator {
        notes.extend(loads.then(|| format!("`{name}` may change which code runs")));
        return Ok(());
    }
    let is_plain = !loads && PLAIN_VARIABLES.iter().any(|pattern| is_match(pattern, name));
    if is_plain || allowed.any(|pattern| is_match(pattern, name)) {
        return Ok(());
    }
    let why =
        if loads { "may change which code runs" } else { "is not a variable that agents may set" };
    unfit(format!(
        "`{name}` {why}: leave it out, or ask an operator to add it to `kernel.registration.env`"
    ))
}

/// Returns whether a pattern matches a name; the pattern can have a `*` at one end.
fn is_match(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (_, Some(begin)) => name.starts_with(begin),
        _ => pattern == name,
    }
}

/// Returns whether a variable of this name can change which code a program loads.
#[must_use]
pub fn changes_code(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    LOADING.contains(&upper.as_str())
        || LOADING_PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
}

/// Returns an error for a text with a NUL or with `${…}`: a registration must neither read the variables or files of
/// the kernel's user nor run commands.
fn literal(text: &str) -> Result<(), Refused> {
    if text.contains('\0') {
        return unfit("the command contains a NUL".into());
    }
    if text.contains("${") {
        return unfit(
            "`${…}` is not expanded for registered servers; write the value itself, or ask an operator to add the server to `mgp.toml`"
                .into(),
        );
    }
    Ok(())
}

fn words(name: &str, words: Option<String>) -> Result<Option<String>, Refused> {
    fits(&format!("`{name}`"), words.as_ref().map_or(0, String::len), MAX_TEXT_BYTES)?;
    Ok(words.filter(|words| !words.trim().is_empty()))
}

fn bounded(name: &str, count: usize, most: usize) -> Result<(), Refused> {
    if count <= most {
        Ok(())
    } else {
        unfit(format!("`{name}` has {count} entries; {most} are possible"))
    }
}

fn fits(what: &str, bytes: usize, most: usize) -> Result<(), Refused> {
    if bytes <= most {
        Ok(())
    } else {
        unfit(format!("{what} has {bytes} bytes; {most} are possible"))
    }
}

pub(super) fn unfit<T>(what: String) -> Result<T, Refused> {
    Err(Refused::InvalidParams(what))
}
