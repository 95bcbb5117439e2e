//! Variables of other hosts, as ours (MGP §15.2).
//!
//! Applies to: both.

use std::path::Path;

/// Which variables a host knows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// None: a dollar is a dollar.
    Plain,
    /// `${VAR}`, `${VAR:-default}`.
    Shell,
    /// `${env:VAR}`, `${input:id}`, `${workspaceFolder}`, `${userHome}`.
    Editor,
}

/// A text as it is written for us; what cannot be mapped is noted.
pub(super) fn mapped(
    text: &str,
    dialect: Dialect,
    project: Option<&Path>,
    notes: &mut Vec<String>,
) -> String {
    if dialect == Dialect::Plain {
        return text.replace('$', "$$");
    }
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("${") {
        out.push_str(&rest[..at].replace('$', "$$"));
        rest = &rest[at + 2..];
        let Some(end) = rest.find('}') else {
            out.push_str("$${");
            break;
        };
        out.push_str(&variable(&rest[..end], project, notes));
        rest = &rest[end + 1..];
    }
    out + &rest.replace('$', "$$")
}

fn variable(inside: &str, project: Option<&Path>, notes: &mut Vec<String>) -> String {
    if let Some(name) = inside.strip_prefix("env:") {
        return format!("${{{}}}", name_of(name));
    }
    if let Some(id) = inside.strip_prefix("input:") {
        let name = name_of(&id.to_ascii_uppercase());
        notes.push(format!(
            "the input `{id}` is the variable `{name}` here; set it before you start"
        ));
        return format!("${{{name}}}");
    }
    match (inside, project) {
        ("userHome", _) => "${HOME}".to_owned(),
        ("workspaceFolder" | "workspaceRoot", Some(folder)) => {
            folder.to_string_lossy().replace('$', "$$")
        }
        ("pathSeparator" | "/", _) => std::path::MAIN_SEPARATOR.to_string(),
        _ => {
            let name = inside.split(":-").next().unwrap_or(inside);
            if name != name_of(name) || name == "workspaceFolder" {
                let name = name_of(name);
                notes.push(format!("`${{{inside}}}` is not known here; set the variable `{name}`"));
                return format!("${{{name}}}");
            }
            format!("${{{inside}}}")
        }
    }
}

/// A text as the name of a variable.
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

    #[track_caller]
    fn check(text: &str, dialect: Dialect, expected: &str, noted: usize) {
        let mut notes = Vec::new();
        let project = Some(Path::new("/p"));
        assert_eq!(mapped(text, dialect, project, &mut notes), expected);
        assert_eq!(notes.len(), noted, "{notes:?}");
    }

    #[test]
    fn each_host_has_its_variables() {
        check("${A} $5", Dialect::Plain, "$${A} $$5", 0);
        check("${A} $5 ${B:-c}", Dialect::Shell, "${A} $$5 ${B:-c}", 0);
        check("${env:A}/${workspaceFolder}/${userHome}", Dialect::Editor, "${A}//p/${HOME}", 0);
        check("Bearer ${input:api-key}", Dialect::Editor, "Bearer ${API_KEY}", 1);
        check("${config:x.y}", Dialect::Editor, "${config_x_y}", 1);
        check("${A", Dialect::Shell, "$${A", 0);
    }
}
