//! Rules of a host that deny tools by their full names, e.g. `mcp__files__write_file`. They do not match the names that
//! the same tools have behind mgp, so the tools are withheld by a [`ToolLimit`] instead.

use serde_json::Value;

use super::entry::renew_tools_note;
use super::json::parse_json;
use super::{Host, Import, ImportError, ToolLimit};

/// A rule that denies the tools whose full names match its pattern.
struct Rule {
    /// The member of the settings that has the rule.
    member: &'static str,
    pattern: String,
}

/// The tools of one server that a rule denies.
enum Denied<'a> {
    Nothing,
    Tool(&'a str),
    /// Tools that cannot be listed, because the pattern has wildcards.
    Some,
    All,
}

impl Import {
    /// Withholds the tools that rules in settings of the host deny: of all servers, or only of those that `project`
    /// declares. A server stays in its host if a rule denies all of its tools, or some that only the host can find.
    pub fn withhold(&mut self, project: Option<&str>, settings: &str) {
        if let Ok(settings) = parse_json(settings) {
            self.withhold_by(project, &settings);
        }
    }

    pub(super) fn withhold_by(&mut self, project: Option<&str>, settings: &Value) {
        let rules = rules(self.host, settings);
        if rules.is_empty() {
            return;
        }
        for mut server in std::mem::take(&mut self.servers) {
            let is_meant = project.is_none() || server.project.as_deref() == project;
            // The rules for mgp itself stay in force in the host.
            let is_mgp = server.name == "mgp" && server.entry.args.iter().any(|arg| arg == "serve");
            let limit = if is_mgp || !is_meant {
                Ok(server.entry.tools.clone())
            } else {
                limit(self.host, &server.name, server.entry.tools.clone(), &rules)
            };
            match limit {
                Ok(tools) => {
                    if tools != server.entry.tools {
                        server.entry.tools = tools;
                        renew_tools_note(&server.entry, &mut server.notes);
                    }
                    self.servers.push(server);
                }
                Err(why) => {
                    let (name, project) = (server.name, server.project);
                    self.refused.push(ImportError { name, project, why });
                }
            }
        }
    }
}

/// Returns the limit of a server's tools without those that rules deny, or the reason why mgp cannot apply a rule.
fn limit(
    host: Host,
    server: &str,
    mut limit: ToolLimit,
    rules: &[Rule],
) -> Result<ToolLimit, String> {
    for Rule { member, pattern } in rules {
        // Gemini CLI also accepts the short name, for all servers.
        let short = Some(&**pattern).filter(|name| host == Host::GeminiCli && is_short(name));
        let prefixes = prefixes(host, server);
        let denied = prefixes.iter().map(|prefix| denied(pattern, prefix));
        for denied in denied.chain(short.map(Denied::Tool)) {
            match denied {
                Denied::Nothing => {}
                Denied::Tool(tool) => match &mut limit {
                    ToolLimit::Only(tools) => {
                        tools.remove(tool);
                    }
                    ToolLimit::Except(tools) => {
                        tools.insert(tool.to_owned());
                    }
                },
                Denied::Some => {
                    return Err(format!(
                        "`{member}` there has a pattern that denies tools of it, which only its host can apply"
                    ));
                }
                Denied::All => return Err(format!("`{member}` there denies all of its tools")),
            }
        }
    }
    let is_empty = matches!(&limit, ToolLimit::Only(tools) if tools.is_empty());
    if is_empty { Err("its host denies all of its tools".to_owned()) } else { Ok(limit) }
}

/// Returns the rules in a host's settings.
fn rules(host: Host, settings: &Value) -> Vec<Rule> {
    let listed = |member: &'static str, list: &Value| {
        let patterns = list.as_array().into_iter().flatten().filter_map(Value::as_str);
        patterns.map(|pattern| Rule { member, pattern: pattern.to_owned() }).collect::<Vec<_>>()
    };
    let keyed = |member: &'static str, is_denied: fn(&Value) -> bool| {
        let members = settings[member].as_object().into_iter().flatten();
        let denied = members.filter(|(_, value)| is_denied(value));
        denied.map(|(key, _)| Rule { member, pattern: key.clone() }).collect::<Vec<_>>()
    };
    match host {
        Host::ClaudeCode => listed("permissions.deny", &settings["permissions"]["deny"]),
        Host::GeminiCli => {
            let mut rules = listed("tools.exclude", &settings["tools"]["exclude"]);
            // Older files have the list at the top level.
            rules.extend(listed("excludeTools", &settings["excludeTools"]));
            rules
        }
        Host::OpenCode => {
            let mut rules = keyed("tools", |value| *value == false);
            rules.extend(keyed("permission", |value| *value == "deny" || value["*"] == "deny"));
            rules
        }
        _ => Vec::new(),
    }
}

/// Returns the beginnings of the full names that a host gives the tools of a server.
fn prefixes(host: Host, server: &str) -> Vec<String> {
    // Gemini CLI keeps dots.
    let others = if host == Host::GeminiCli { "_-." } else { "_-" };
    let fits = |char: &char| char.is_ascii_alphanumeric() || others.contains(*char);
    let server: String = server.chars().map(|char| if fits(&char) { char } else { '_' }).collect();
    match host {
        Host::ClaudeCode => vec![format!("mcp__{server}__")],
        Host::GeminiCli => vec![format!("mcp_{server}_"), format!("{server}__")],
        Host::OpenCode => vec![format!("{server}_")],
        _ => Vec::new(),
    }
}

/// Returns whether a pattern is the name of a tool without its server.
fn is_short(pattern: &str) -> bool {
    let is_part = |char: char| char.is_ascii_alphanumeric() || "_-.".contains(char);
    pattern.chars().all(is_part) && !pattern.starts_with("mcp_") && !pattern.contains("__")
}

/// Returns the tools that a pattern denies, of the server whose full names begin with `prefix`.
fn denied<'a>(pattern: &'a str, prefix: &str) -> Denied<'a> {
    let (literal, wild) =
        pattern.split_at(pattern.find(['*', '?', '[', '{']).unwrap_or(pattern.len()));
    if wild.is_empty() {
        // A rule for some arguments of a tool, in brackets, denies the whole tool.
        let name = literal.split('(').next().unwrap_or_default();
        return match name.strip_prefix(prefix) {
            Some("") => Denied::All,
            Some(tool) => Denied::Tool(tool),
            // In Claude Code, `mcp__files` means all tools of the server.
            None if prefix.strip_suffix("__") == Some(name) => Denied::All,
            None => Denied::Nothing,
        };
    }
    if prefix.starts_with(literal) {
        if wild == "*" { Denied::All } else { Denied::Some }
    } else if literal.starts_with(prefix) {
        Denied::Some
    } else {
        Denied::Nothing
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::read;
    use super::*;

    fn found(import: &Import) -> Vec<String> {
        let servers = import.servers.iter();
        let taken = servers.map(|server| format!("{}: {}", server.name, server.entry.tools));
        let refused = import.refused.iter().map(|refused| format!("{} stays", refused.name));
        let mut all: Vec<_> = taken.chain(refused).collect();
        all.sort();
        all
    }

    #[test]
    fn a_tool_that_claude_code_denies_by_its_full_name_is_withheld() {
        let servers = ["files", "my time", "git", "db", "web", "mgp"];
        let entry = r#"{"command": "a", "args": ["serve"]}"#;
        let servers = servers.map(|name| format!(r#""{name}": {entry}"#)).join(",");
        let text = format!(r#"{{"mcpServers": {{{servers}}}}}"#);
        let mut import = read(Host::ClaudeCode, Path::new("/h/.claude.json"), &text).unwrap();
        import.withhold(
            None,
            r#"{"permissions": {"deny": ["Read(./.env)", "Bash", "mcp__files__write_file", "mcp__my_time__set",
                "mcp__git", "mcp__db__*", "mcp__web__post_*", "mcp__mgp__mgp_tools_call", 7]}}"#,
        );
        let expected = [
            "db stays",
            "files: all but write_file",
            "git stays",
            "mgp: all",
            "my time: all but set",
            "web stays",
        ];
        assert_eq!(found(&import), expected);
        let files = import.servers.iter().find(|server| server.name == "files").unwrap();
        assert_eq!(files.notes, ["its tools are granted as there: all but write_file"]);
        import.withhold(None, "no settings");
        assert_eq!(import.servers.len(), 3);
    }

    #[test]
    fn rules_of_a_project_hold_for_its_own_servers() {
        let text = r#"{"mcpServers": {"a": {"command": "a"}}, "projects": {
            "/p": {"mcpServers": {"b": {"command": "b"}}}, "/q": {"mcpServers": {"b": {"command": "c"}}}}}"#;
        let mut import = read(Host::ClaudeCode, Path::new("/h/.claude.json"), text).unwrap();
        import.withhold(Some("/p"), r#"{"permissions": {"deny": ["mcp__a__x", "mcp__b__x"]}}"#);
        assert_eq!(found(&import), ["a: all", "b: all", "b: all but x"]);
    }

    #[test]
    fn tools_that_the_file_itself_denies_by_full_names_are_withheld() {
        let opencode = r#"{"mcp": {"files": {"type": "local", "command": ["a"]}, "git": {"type": "local", "command": ["b"]}},
            "tools": {"files_write_file": false, "files_read_file": true, "bash": false},
            "permission": {"files_move_file": "deny", "files_list": "ask", "files_wipe": {"*": "deny"}, "git_*": "deny"}}"#;
        let file = Path::new("/h/.config/opencode/opencode.json");
        let import = read(Host::OpenCode, file, opencode).unwrap();
        assert_eq!(found(&import), ["files: all but move_file, wipe, write_file", "git stays"]);
        let gemini = r#"{"mcpServers": {"mem": {"command": "a", "includeTools": ["add", "drop"]}, "b": {"command": "b"},
            "c.d": {"command": "c"}}, "excludeTools": ["c.d__wipe"],
            "tools": {"exclude": ["mcp_mem_drop", "run_shell_command(rm)", "b__wipe", "list", "mcp_c.d_set(now)"]}}"#;
        let import = read(Host::GeminiCli, Path::new("/h/.gemini/settings.json"), gemini).unwrap();
        assert_eq!(
            found(&import),
            ["b: all but list, wipe", "c.d: all but list, set, wipe", "mem: only add"]
        );
    }
}
