//! Environment variables that can make programs execute something.

use super::paths::is_system;
use crate::{argument_values::key_words, words::Words};
use serde_json::Value;
use std::collections::BTreeSet;

/// Keys of arguments that contain environment variables.
static KEYS: Words = Words::new(
    "\
    env envs environ environment envvar envvars environmentvariable environmentvariables extraenv \
    envoverrides",
);

/// Variables whose values are programs, libraries or code. A `*` at the end matches any ending.
static EXECUTING: Words = Words::new(
    "\
    LD_* DYLD_* BASH_ENV PROMPT_COMMAND PS4 SHELLOPTS BASHOPTS BASH_FUNC_* IFS SHELL ZDOTDIR \
    PYTHONSTARTUP PYTHONHOME PYTHONINSPECT PYTHONBREAKPOINT PYTHONEXECUTABLE PERL5OPT PERL5DB \
    RUBYOPT GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_ASKPASS GIT_PROXY_COMMAND GIT_CONFIG* \
    GIT_TEMPLATE_DIR GIT_EXEC_PATH SSH_ASKPASS SUDO_ASKPASS LESSOPEN LESSCLOSE LESSEDIT LESSKEY* \
    TAR_OPTIONS \
    RSYNC_RSH CVS_RSH RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTC RUSTDOC CARGO_BUILD_RUSTC* \
    OPENSSL_CONF OPENSSL_ENGINES OPENSSL_MODULES GCONV_PATH LOCPATH PHPRC PHP_INI_SCAN_DIR \
    LUA_INIT* R_PROFILE* R_ENVIRON* VIMINIT EXINIT GVIMINIT EMACSLOADPATH DOTNET_STARTUP_HOOKS \
    CORECLR_* COR_* NPM_CONFIG_SCRIPT_SHELL NPM_CONFIG_NODE_OPTIONS HOSTALIASES \
    ELECTRON_RUN_AS_NODE JULIA_LOAD_PATH GHC_OPTIONS GEM_HOME DEBUGINFOD_URLS INPUTRC COMSPEC \
    GLIBC_TUNABLES MALLOC_CHECK_ MANROFFOPT FPATH MGP_CONFIG_PATH MGP_STATE",
);
static PAGERS_AND_EDITORS: Words = Words::new(
    "\
    PAGER MANPAGER GIT_PAGER SYSTEMD_PAGER PSQL_PAGER EDITOR VISUAL GIT_EDITOR \
    GIT_SEQUENCE_EDITOR PSQL_EDITOR SYSTEMD_EDITOR FCEDIT AWS_PAGER GH_PAGER BAT_PAGER \
    DELTA_PAGER BROWSER",
);
static LIBRARY_PATHS: Words = Words::new(
    "\
    PYTHONPATH PERL5LIB PERLLIB RUBYLIB NODE_PATH CLASSPATH LUA_PATH LUA_CPATH GOPATH \
    PKG_CONFIG_PATH",
);

/// The programs that a call may set as the value of a variable in [`PAGERS_AND_EDITORS`].
const PLAIN: &[&str] = &[
    "",
    "cat",
    "less",
    "more",
    "head",
    "true",
    "false",
    ":",
    "vi",
    "vim",
    "nano",
    "bat",
    "less -R",
    "less -FRX",
    "code",
    "code --wait",
    "nvim",
    "emacs",
    "none",
];
/// Values of `ENV` that mean a stage of a project. Any other value can be a file, which an interactive shell executes
/// when it starts.
static STAGES: Words =
    Words::new("dev development test testing stage staging prod production ci local qa preview");
/// Folders in which the system keeps programs.
static FOLDERS: Words = Words::new(
    "\
    $PATH /bin /sbin /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin /usr/local/go/bin \
    /opt/homebrew/bin /opt/homebrew/sbin",
);
/// Folders below the home of a user in which package managers keep programs.
static OWN_FOLDERS: Words = Words::new(
    "\
    .cargo/bin .local/bin go/bin .bun/bin .deno/bin .yarn/bin .volta/bin .pyenv/bin .pyenv/shims \
    .rbenv/bin .rbenv/shims .dotnet/tools .npm-global/bin",
);

/// A function that is called with the name and the value of each variable.
type Visit<'a> = dyn FnMut(&str, &str) -> Result<(), String> + 'a;

/// Checks the environment variables under each key in [`KEYS`].
pub(super) fn check_all(arguments: &Value) -> Result<(), String> {
    visit_all(arguments, &mut check)
}

/// Returns the variables under each key in [`KEYS`] whose names are among `used`, with their values.
pub(super) fn values(arguments: &Value, used: &BTreeSet<&str>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    // The function never fails, so all variables are visited.
    let _ = visit_all(arguments, &mut |name, value| {
        if used.contains(name) {
            found.push((name.to_owned(), value.to_owned()));
        }
        Ok(())
    });
    found
}

/// Visits the variables under each key in [`KEYS`], in the forms that servers accept: members of an object, texts such
/// as `NAME=value`, and objects with `name` and `value`.
pub(super) fn visit_all(arguments: &Value, each: &mut Visit<'_>) -> Result<(), String> {
    match arguments {
        Value::Array(items) => items.iter().try_for_each(|item| visit_all(item, each)),
        Value::Object(members) => members.iter().try_for_each(|(key, value)| match value {
            Value::String(text) if is_key(key) => text
                .split(|c: char| c.is_whitespace() || matches!(c, ',' | ';'))
                .try_for_each(|text| assignment(text, each)),
            value if is_key(key) => variables(value, each),
            value => visit_all(value, each),
        }),
        _ => Ok(()),
    }
}

fn is_key(key: &str) -> bool {
    KEYS.has(&key_words(key).concat())
}

fn assignment(text: &str, each: &mut Visit<'_>) -> Result<(), String> {
    text.split_once('=').map_or(Ok(()), |(name, value)| each(name.trim(), value))
}

fn variables(value: &Value, each: &mut Visit<'_>) -> Result<(), String> {
    match value {
        Value::String(text) => assignment(text, each),
        Value::Array(items) => items.iter().try_for_each(|item| variables(item, each)),
        Value::Object(members) => {
            let member =
                |names: &[&str]| names.iter().find_map(|name| members.get(*name)?.as_str());
            if let Some(name) = member(&["name", "key", "Name", "Key"]) {
                each(name, member(&["value", "Value"]).unwrap_or_default())?;
            }
            members.iter().try_for_each(|(name, value)| match value {
                Value::Null => Ok(()),
                Value::String(text) => each(name, text),
                Value::Bool(_) | Value::Number(_) => each(name, &value.to_string()),
                Value::Array(_) | Value::Object(_) => {
                    each(name, "")?;
                    variables(value, each)
                }
            })
        }
        _ => Ok(()),
    }
}

/// Returns whether a text is the name of one of the usual editors and pagers.
pub(super) fn is_plain_program(program: &str) -> bool {
    !program.is_empty() && PLAIN.contains(&program)
}

/// Checks an assignment to an environment variable in front of a command.
pub(super) fn check(name: &str, value: &str) -> Result<(), String> {
    let upper = name.to_ascii_uppercase();
    let fits = |known: &str| match known.strip_suffix('*') {
        Some(start) => upper.starts_with(start),
        None => upper == known,
    };
    let listed = |names: &[&str]| names.contains(&upper.as_str());
    let harmless = match () {
        () if EXECUTING.iter().any(fits) => false,
        () if PAGERS_AND_EDITORS.has(&upper) => PLAIN.contains(&value),
        () if LIBRARY_PATHS.has(&upper) => !value
            .split(':')
            .any(|part| is_system(part) || part.starts_with("/tmp") || part.starts_with("/dev")),
        () if upper.starts_with("CARGO_TARGET_") => {
            !["RUNNER", "LINKER", "RUSTFLAGS"].iter().any(|end| upper.ends_with(end))
        }
        () if listed(&["MAKEFLAGS", "GNUMAKEFLAGS", "MFLAGS"]) => {
            !value.contains("eval") && !value.contains('=')
        }
        () if listed(&[
            "JAVA_TOOL_OPTIONS",
            "_JAVA_OPTIONS",
            "JDK_JAVA_OPTIONS",
            "MAVEN_OPTS",
            "GRADLE_OPTS",
            "JAVA_OPTS",
        ]) =>
        {
            !["agent", "OnOutOfMemory", "OnError", "@"].iter().any(|part| value.contains(part))
        }
        () if upper == "ENV" => STAGES.has(value),
        () if upper == "PATH" => value.split(':').all(has_programs),
        () => options_are_harmless(&upper, value),
    };
    if harmless {
        Ok(())
    } else {
        Err(format!("the variable `{name}` can make a program execute something"))
    }
}

/// Returns whether `folder` is one of the usual folders of programs, e.g. `/usr/bin` or `~/.cargo/bin`. `PATH` may name
/// only these folders.
fn has_programs(folder: &str) -> bool {
    let own = folder.strip_prefix("$HOME/").or_else(|| folder.strip_prefix("~/"));
    own.map_or_else(|| FOLDERS.has(folder), |own| OWN_FOLDERS.has(own))
}

/// Returns whether a variable with options for compilers or runtimes contains only options that execute nothing.
fn options_are_harmless(upper: &str, value: &str) -> bool {
    match () {
        () if upper == "NODE_OPTIONS" => !value.split_whitespace().any(loads_code),
        () if matches!(upper, "CC" | "CXX" | "LD" | "AR" | "CPP" | "AS") => {
            !value.contains([' ', ';']) && !value.contains("/tmp")
        }
        () if matches!(upper, "RUSTFLAGS" | "RUSTDOCFLAGS" | "CARGO_ENCODED_RUSTFLAGS") => {
            !value.contains("linker") && !value.contains("codegen-backend")
        }
        () if matches!(upper, "GOFLAGS" | "CGO_CFLAGS" | "CGO_LDFLAGS" | "CFLAGS" | "LDFLAGS") => {
            !["toolexec", "-exec", "-wrapper", "-fplugin", "-B"]
                .iter()
                .any(|flag| value.contains(flag))
        }
        () => true,
    }
}

/// Returns whether an option of Node.js loads code, or opens the program to debuggers.
fn loads_code(option: &str) -> bool {
    let name = option.split('=').next().unwrap_or(option).replace('_', "-");
    let loads = ["--require", "--import", "--eval", "--inspect", "--openssl-config"];
    let value = option.split_once('=').map_or(option, |(_, value)| value);
    // Quotes and backslashes can hide an option, and an option with a system file as its value might write that file.
    // So both count as loading code.
    option.contains(['"', '\\'])
        || is_system(value)
        || name.starts_with("-r")
        || name.contains("loader")
        || loads.iter().any(|start| name.starts_with(start))
}
