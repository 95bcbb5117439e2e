//! The limits that an approval of "calls like this" stores, derived from one call.

use mgp_types::mcp;
use mgp_types::mgp::PermissionScope;

use super::declared::Declared;
use super::finding::{Command, Findings};
use super::kinds::About;
use super::{Outside, check, findings, host, shown};

/// The minimum number of path components of a folder for all files in it to count as similar.
const MIN_FOLDER_PARTS: usize = 2;

/// Returns limits for calls that are similar to a call with these arguments; `None` if only a call with equal arguments
/// is similar.
///
/// Calls are similar if their files are in the same folders, their addresses are on the same hosts, and their commands
/// begin with the same words. If a call has a command and another text, e.g. a list of arguments, this text can change
/// what the command does. Therefore only a call with the same arguments is similar to it.
pub(crate) fn like(arguments: &str) -> Option<PermissionScope> {
    let found = Findings::of(arguments, &Declared::Any).ok()?;
    let mut scope = PermissionScope::default();
    if found.commands.is_empty() {
        let texts = found.paths().ok()?.into_iter();
        let texts = texts.filter(|path| path.is_named || !path.text.contains("://"));
        let mut paths = texts.map(|path| folder(path.text)).collect::<Option<Vec<_>>>()?;
        paths.dedup();
        let hosts: Option<Vec<_>> =
            found.texts(About::Host).ok()?.into_iter().map(host::name).collect();
        let hosts = hosts?;
        if paths.is_empty() && hosts.is_empty() {
            return None;
        }
        // Leave the list out if there are no paths: a list that is present but empty would allow no path at all.
        if !paths.is_empty() {
            scope.paths = paths.into();
        }
        if !hosts.is_empty() {
            scope.hosts = hosts.into();
        }
    } else {
        // A shell in another argument also counts as a command, so such a call has two commands and is refused here.
        if found.commands.len() != 1 || !found.others.is_empty() || found.has_other_values {
            return None;
        }
        scope.commands = found.commands.iter().map(beginning).collect::<Option<Vec<_>>>()?.into();
    }
    check(&scope, Some(arguments), None).ok().map(|()| scope)
}

/// Checks that a call is similar to the earlier call from which [`like`] derived these limits. It must be within the
/// limits, and must have no file, address or command if the earlier call had none.
pub(crate) fn is_like(
    scope: &PermissionScope,
    arguments: Option<&str>,
    definition: Option<&mcp::Tool>,
) -> Result<(), Outside> {
    check(scope, arguments, definition)?;
    // Refuse a value that may be the name of a target: the approved call may have had no target of this kind, and then
    // its limits have no list for this kind.
    let doubtful = findings(arguments, definition)?.doubts;
    if let Some((_, name)) = doubtful.first().filter(|_| scope.commands.is_empty()) {
        return Err(format!("`{}` may be the name of another target", shown(name)));
    }
    let found = Findings::of(arguments.unwrap_or("{}"), &Declared::Any)?;
    if !scope.commands.is_empty() {
        if found.commands.len() == 1 && found.others.is_empty() && !found.has_other_values {
            return Ok(());
        }
        return Err("the approved call had no value beside its command".to_owned());
    }
    let has_path = found.paths()?.iter().any(|path| path.is_named || !path.text.contains("://"));
    for (is_new, what) in [
        (scope.paths.is_empty() && has_path, "file"),
        (scope.hosts.is_empty() && !found.texts(About::Host)?.is_empty(), "address"),
        (!found.commands.is_empty(), "command"),
    ] {
        if is_new {
            return Err(format!("the approved call had no {what}"));
        }
    }
    Ok(())
}

/// Describes the limits of an approval, for a person.
#[must_use]
pub fn scope_words(scope: &PermissionScope) -> String {
    let ports: Vec<String> = scope.ports.iter().map(u16::to_string).collect();
    let lists: [(&str, &[String]); 7] = [
        ("paths below", &scope.paths),
        ("never below", &scope.deny_paths),
        ("hosts", &scope.hosts),
        ("never hosts", &scope.deny_hosts),
        ("ports", &ports),
        ("commands that begin with", &scope.commands),
        ("never commands with", &scope.deny_commands),
    ];
    let named = lists.iter().filter(|(_, values)| !values.is_empty());
    let named = named.map(|(name, values)| format!("{name} `{}`", values.join("`, `")));
    named.collect::<Vec<_>>().join("; ")
}

/// Returns the path below which all paths count as similar: for a file its folder, unless the folder is too close to
/// the root; otherwise the path itself. Returns `None` if the path is relative, is the root, or has wildcards, `%` or
/// `\`.
fn folder(text: &str) -> Option<String> {
    let is_plain = text.starts_with(['/', '~']) && !text.contains(['*', '?', '[', '{', '%', '\\']);
    if !is_plain {
        return None;
    }
    let path = text.trim_end_matches('/');
    let (parent, name) = path.rsplit_once('/')?;
    let is_file = name.contains('.') && !name.starts_with("..");
    let parts = parent.split('/').filter(|part| !part.is_empty()).count();
    let stands = if is_file && parts >= MIN_FOLDER_PARTS { parent } else { path };
    (!stands.is_empty()).then(|| stands.to_owned())
}

/// Returns the first words that similar commands must have; `None` if an option or a value follows the program's name.
fn beginning(command: &Command) -> Option<String> {
    let words: Vec<&str> = match command {
        Command::Line(line) => line.split_whitespace().collect(),
        Command::Words(words) => words.iter().map(String::as_str).collect(),
    };
    let is_word =
        |word: &&&str| word.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    match words[..] {
        [program] => Some(program.to_owned()),
        [program, action, ..] if is_word(&&action) && !action.starts_with('-') => {
            Some(format!("{program} {action}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_like(arguments: &str, expected: Option<&str>) {
        assert_eq!(like(arguments).as_ref().map(scope_words).as_deref(), expected, "{arguments}");
    }

    #[test]
    fn calls_like_this_are_in_the_same_folder_at_the_same_host_or_the_same_command() {
        check_like(
            r#"{"path":"/srv/notes/a.txt","content":"x"}"#,
            Some("paths below `/srv/notes`"),
        );
        check_like(r#"{"path":"/srv/notes"}"#, Some("paths below `/srv/notes`"));
        check_like(r#"{"url":"https://api.example.com/v1"}"#, Some("hosts `api.example.com`"));
        check_like(
            r#"{"command":"git status --short"}"#,
            Some("commands that begin with `git status`"),
        );
        // An approval of a file close to the root does not cover its folder. An approval of a command with an option
        // covers only the same arguments.
        check_like(r#"{"path":"/etc/passwd.txt"}"#, Some("paths below `/etc/passwd.txt`"));
        for alone in [
            r#"{"command":"rm -rf /tmp/x"}"#,
            r#"{"command":"sudo reboot"}"#,
            r#"{"command":"cat a | sh"}"#,
            r#"{"command":"rm","args":["-rf","/tmp/x"]}"#,
            r#"{"host":"staging","command":"systemctl restart app"}"#,
            r#"{"command":"git status","shell":"bash"}"#,
            r#"{"command":"kill","args":[1234]}"#,
            r#"{"command":"git push","force":false}"#,
            r#"{"command":"kubectl scale","replicas":3}"#,
            r#"{"path":"/srv/notes/*.txt"}"#,
            r#"{"path":"../a.txt"}"#,
            r#"{"path":7}"#,
            r#"{"disk":"the old one"}"#,
            "[",
        ] {
            check_like(alone, None);
        }
    }
}
