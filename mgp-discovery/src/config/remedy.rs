//! Remedies for frequent mistakes in the syntax of `mgp.toml`, such as JSON instead of TOML, and paths of Windows.

/// The remedy for a text in double quotes with an invalid or unintended escape, e.g. in a path of Windows.
pub(super) const ESCAPE: &str =
    "`\\` begins an escape in double quotes: write a path of Windows in single quotes";

/// Returns the remedy for a text that is not TOML, or `None` if none is known. `message` is the error of the parser.
pub(super) fn for_syntax(text: &str, message: &str) -> Option<String> {
    let remedy = if text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
        "if it is the JSON of a host, move it to `hosts.json` and run `mgp import ./hosts.json --apply`"
    } else if message.contains("duplicate key") {
        "keep one of the two, or join them; each server begins with a line `[[servers]]` of its own"
    } else if message.contains("escaped value") || message.contains("unicode value") {
        ESCAPE
    } else {
        return None;
    };
    Some(remedy.to_owned())
}

#[cfg(test)]
mod tests {
    use crate::Config;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let findings = match Config::parse("mgp.toml", text) {
            Ok(parsed) => parsed.findings,
            Err(errors) => errors.findings().to_vec(),
        };
        let lines: Vec<_> = findings.iter().map(ToString::to_string).collect();
        assert!(lines.iter().any(|line| line.ends_with(expected)), "{lines:#?}");
    }

    #[test]
    fn usual_mistakes_of_users_of_hosts_have_a_remedy() {
        let json = "run `mgp import ./hosts.json --apply`";
        check(r#"{"mcpServers": {"a": {"command": "x"}}}"#, json);
        check("[mcpServers.a]\ncommand = 'x'", "`id = \"NAME\"` for each server");
        for path in ["C:\\Users\\me", "C:\\srv.exe", "C:\\new"] {
            let server = format!("[[servers]]\nid = 'a'\ncommand = \"{path}\"\n");
            check(&server, "write a path of Windows in single quotes");
        }
        let server = "[[servers]]\nid = 'a'\ncommand = 'x'\n";
        check(&format!("{server}disabled = true"), "write `enabled = false`");
        check(&format!("{server}confirm = 'moderate'"), "write it below `[servers.mgp]`");
        check(&format!("{server}calls_per_minute = 1"), "write it below `[servers.limits]`");
        check(&format!("{server}args = 'x'"), "write a list, e.g. `[\"one\", \"two\"]`");
        check(&format!("{server}args = ['~/x']"), "write `${HOME}/` instead");
        check("approval_timeout = '9s'", "write it below `[kernel]`");
        check("interactive = true", "write it below `[agents.NAME]`");
        check("[kernel]\ntools_request = 'true'", "write it without quotes");
    }
}
