//! Generates `docs/config.md` and the JSON Schema of `mgp.toml` from the table of keys (MGP §15.2).

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::keys::{KEYS, keys_of};
use super::{KeyKind, audit, limits, notify, webhook};

/// Returns the text of `docs/config.md`.
#[must_use]
pub fn config_markdown() -> String {
    let mut out = String::from(HEAD);
    out.push_str(&bounds());
    let mut table = None;
    for key in KEYS {
        if table != Some(key.table) {
            table = Some(key.table);
            let title = match key.table {
                "" => "The file".to_owned(),
                "servers" => "`[[servers]]`".to_owned(),
                other => format!("`[{}]`", other.replace('*', "NAME")),
            };
            // Ignore the result, because writing to a `String` cannot fail.
            let _ = write!(
                out,
                "\n## {title}\n\n| Key | Value | Default | Meaning |\n|---|---|---|---|\n"
            );
        }
        let default = match key.default {
            "" => String::new(),
            default => format!("`{default}`"),
        };
        let value = key.kind.name().replace('|', "\\|");
        let _ = writeln!(out, "| `{}` | {value} | {default} | {} |", key.name, key.about);
    }
    out
}

/// Returns the section of `docs/config.md` about the form of durations and the maximum sizes of a file.
fn bounds() -> String {
    format!(
        "\n## Durations and bounds\n\n\
         A duration is one number and one unit, `ms`, `s`, `m`, `h`, `d` or `w`, e.g. `90s` or `2h`; `1h30m` is an error.\n\n\
         A file may have {} bytes, {} servers, {} agents, {} webhooks, {} places for messages (`kernel.notify`) and {} sinks of the audit log. \
         A list or a table has at most {} entries, a text {} bytes, and an id or a name {} bytes.\n",
        limits::MAX_FILE_BYTES,
        limits::MAX_SERVERS,
        limits::MAX_AGENTS,
        webhook::MAX_WEBHOOKS,
        notify::MAX_PLACES,
        audit::MAX_SINKS,
        limits::MAX_ENTRIES,
        limits::MAX_TEXT_BYTES,
        limits::MAX_ID_BYTES,
    )
}

const HEAD: &str = "\
# Configuration

This page is generated from the table of keys (`cargo xtask schema`), and so is a JSON Schema for editors, [schema/mgp.toml.json](schema/mgp.toml.json).

A configuration is a file `mgp.toml` in the folder of a project, and `~/.config/mgp/servers.toml` of the user.
`$XDG_CONFIG_HOME` takes the place of `~/.config`, unless the folder `~/.config/mgp` exists.
`$MGP_CONFIG_PATH` names a file that replaces both.
Servers are merged by their id: an entry of the project replaces yours, which `mgp trust` shows.

A project's file has no effect until its exact content is approved (`mgp trust`); then it may add servers with at most the trust level `standard`, and nothing else.
Only a kernel that starts in that folder reads the file; subfolders do not count. The kernel that hosts share keeps the files with which it started, and `mgp status` lists them under `config`. So give the project a kernel with a state folder of its own ([A project](project.md)). With the usual state folder, `mgp serve --stdio --standalone` reads it too, but only while no other kernel runs.

An unknown key has no effect; a warning names the key, or the table, that was probably meant. Only a misplaced key for tenants is an error.
An error in a server's entry disables that server; an error anywhere else disables the file. A running kernel keeps the previous entry, or its whole previous configuration.
On Unix, a file other than a project's is refused while every user may write it, and a warning names its folder if every user may write that.

These texts are expanded in each key whose meaning below mentions it, e.g. `command` and `env`; in other keys `${…}` is plain text or an error:

| Written | Expanded to |
|---|---|
| `${VAR}` | the environment variable; if it is not set, the server does not start |
| `${VAR:-default}` | the variable, or the default if it is unset or empty |
| `${file:PATH}` | the content of a file, without the line break at its end |
| `${cmd:COMMAND}` | the output of a command, run in your home folder; only in the user's own files |
| `${keyring:NAME}` | a value of `mgp secrets set NAME`; only in the user's own files |
| `$$` | a dollar sign |

Without a variable `HOME`, as on Windows, `${HOME}` is your home folder. A `~/` at the beginning of `command` and `cwd` is your home folder too; in `args` it is not expanded.
Write a path of Windows in single quotes: in double quotes `\\` begins an escape.

## Folders

Interpreters and runners (`python3 -m`, `npx`, `node`, `make`) load code and settings from the folder they start in.
So a server never starts in the folder in which a host, a command or the kernel was started, which may be a repository of strangers.

| Server of | Default of `cwd` | A relative `command` | A relative path in `args` (`.`, `./x`, `--root=../x`) |
|---|---|---|---|
| a project's file | the folder of the file | starts at `cwd` | starts at `cwd` |
| the user's own file, or a file named by `--config` | the user's home | starts at `cwd` if that is set, else at the folder of the file | needs `cwd`; without it the server is not started |
| a registration | the user's home | starts at `cwd` | starts at `cwd` |

`mgp trust` approves the content of `mgp.toml`, and that of the files with code in the project which `command` and `args` name, expanded with the variables of its shell, also of a program that the `PATH` in `env` finds in the project.
If one of them changes, or the variables of the kernel name another file, its server is not started until `mgp trust` is run again.
Code that these files load in turn, and packages that a runner such as `npm` finds, are not compared.

## Environment

A program gets the variables that programs need to find files and the network: `HOME`, `LANG`, `LC_*`, `LOGNAME`, `PATH`, `SHELL`, `TERM`, `TMPDIR`, `TZ`, `USER`, proxies such as `HTTPS_PROXY`, and certificates such as `NODE_EXTRA_CA_CERTS` and `SSL_CERT_FILE`.
It also gets the variables of `env`, and those that `pass_env` names; no others, so no tokens, `AWS_PROFILE`, `KUBECONFIG`, `DOCKER_HOST` or `SSH_AUTH_SOCK`.
`mgp doctor` names the common ones that its shell has and servers do not get.

A host with a window, or Codex, often starts the kernel with a short `PATH`. So a server's `PATH`, in which `command` is searched too, is the one of the kernel, followed by those of the usual folders that exist and that it lacks (not on Windows):
`~/.local/bin`, `~/bin`, the folders of cargo, bun, deno, volta, asdf, mise, fnm, pnpm, nodenv, pyenv, rbenv, go, .NET, Nix and nvm (its default version, else the newest) in the home folder, `~/.npm-global/bin`, and those of Homebrew, MacPorts, Nix and snap, and `/usr/local/bin`.
A folder that other users could change, or that is inside such a folder, is left out; `mgp doctor` names it. `PATH` in `env` replaces all of this.
A kernel that a host or a command starts has these folders in its own `PATH`, so `${cmd:…}` and servers that agents register find programs there. With `--standalone`, with `mgp serve --http` and in a service, they get the `PATH` of that process only.

The kernel takes its variables, also those in `${VAR}`, from the program that started it: `mgp serve`, or the first host.
`mgp import` and `mgp doctor` take them from their shell, and `mgp doctor` names those that only its shell or only the running kernel has.
A host with a window often has none of your shell's variables; `mgp secrets set NAME` stores a value, which `${keyring:NAME}` names.
";

/// Returns the JSON Schema of `mgp.toml` for editors.
#[must_use]
pub fn config_schema() -> Value {
    let mut schema = table("");
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
        schema.insert("title".into(), json!("mgp.toml"));
        schema.insert(
            "description".into(),
            json!("Configuration of Model General Protocol servers."),
        );
    }
    schema
}

fn table(path: &str) -> Value {
    let members: Map<String, Value> = keys_of(path)
        .map(|key| {
            let mut value = value(key.kind, &key.path());
            if let Some(value) = value.as_object_mut() {
                value.insert("description".into(), json!(key.about));
                if let Some(default) = default(key.kind, key.default) {
                    value.insert("default".into(), default);
                }
            }
            (key.name.to_owned(), value)
        })
        .collect();
    let mut table = json!({ "type": "object", "properties": members });
    if path == "servers" {
        table["required"] = json!(["id"]);
    }
    table
}

fn value(kind: KeyKind, path: &str) -> Value {
    let text = || json!({ "type": "string", "maxLength": limits::MAX_TEXT_BYTES });
    let duration = || json!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d|w)$" });
    let word = |words: &[&str]| json!({ "type": "string", "enum": words });
    let most = limits::MAX_ENTRIES;
    match kind {
        KeyKind::Text => text(),
        KeyKind::Texts => json!({ "type": "array", "items": text(), "maxItems": most }),
        KeyKind::TextMap => {
            json!({ "type": "object", "additionalProperties": text(), "maxProperties": most })
        }
        KeyKind::Number(least, most) => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        KeyKind::Duration => duration(),
        KeyKind::DurationMap => {
            json!({ "type": "object", "additionalProperties": duration(), "maxProperties": most })
        }
        KeyKind::NumberMap(least, most_value) => json!({
            "type": "object",
            "additionalProperties": value(KeyKind::Number(least, most_value), path),
            "maxProperties": most,
        }),
        KeyKind::Switch => json!({ "type": "boolean" }),
        KeyKind::Word(words) => word(words),
        KeyKind::Words(words) => json!({
            "type": "array",
            "items": { "anyOf": [word(words), text()] },
            "maxItems": most,
        }),
        KeyKind::WordMap(words) => {
            json!({ "type": "object", "additionalProperties": word(words), "maxProperties": most })
        }
        KeyKind::Table => table(path),
        KeyKind::TableOrFalse => json!({ "anyOf": [table(path), { "const": false }] }),
        KeyKind::Tables => {
            json!({ "type": "array", "items": table(path), "maxItems": limits::MAX_SERVERS })
        }
        KeyKind::TableMap => {
            json!({ "type": "object", "additionalProperties": table(&format!("{path}.*")) })
        }
    }
}

/// Returns the default of a key as JSON; `None` if the key has no default. `written` is the default as the table of
/// keys has it, where strings have no quotes.
fn default(kind: KeyKind, written: &str) -> Option<Value> {
    match kind {
        _ if written.is_empty() => None,
        KeyKind::Text | KeyKind::Word(_) | KeyKind::Duration => Some(json!(written)),
        _ => serde_json::from_str(written).ok(),
    }
}
