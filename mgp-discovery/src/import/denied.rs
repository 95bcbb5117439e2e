//! Rules of a host that deny tools by their full names, e.g. `mcp__files__write_file`. In a host that uses mgp, the
//! same tool has another name, which the rule does not match; a [`ToolLimit`] withholds the tool instead.

use mgp_types::clip;
use serde_json::Value;

use super::entry::renew_tools_note;
use super::json::{from_toml, parse_json};
use super::{Host, Import, ImportError, ToolLimit};

/// The maximum number of agents that a note names.
const MAX_AGENTS: usize = 8;

/// The maximum number of bytes of an agent's name in a note.
const MAX_AGENT_BYTES: usize = 64;

/// A rule that denies the tools whose full names match its pattern.
struct Rule {
    /// The name of the member of the settings that contains the rule.
    member: &'static str,
    pattern: String,
    /// `true` if the pattern is the name of a tool without its server, and so applies to all servers.
    is_short: bool,
}

/// The tools of one server that a rule denies.
enum Denied<'a> {
    Nothing,
    Tool(&'a str),
    /// Some tools, which are unknown because the pattern has wildcards.
    Some,
    All,
}

impl Import {
    /// Withholds the tools that rules in the host's settings deny, from all servers or only from the servers that
    /// `project` declares. A server is not imported in three cases: the settings keep the host from starting it, a rule
    /// denies all of its tools, or only the host can find out which tools a rule denies.
    pub fn withhold(&mut self, project: Option<&str>, settings: &str) {
        if let Ok(settings) = parse_json(settings) {
            match self.host {
                Host::GeminiCli | Host::QwenCode => self.leave_out_unlisted(&settings["mcp"]),
                Host::CopilotCli => self.leave_out_disabled(&settings),
                _ => {}
            }
            self.withhold_by(project, &settings);
        }
    }

    /// Withholds the tools that a policy file of Gemini CLI denies. A rule with further conditions, e.g. about
    /// arguments, is treated as a rule that denies the whole tool.
    pub fn withhold_policy(&mut self, policy: &str) {
        if let Ok(policy) = from_toml(policy) {
            self.withhold_rules(None, &policy_rules(&policy));
        }
    }

    pub(super) fn withhold_by(&mut self, project: Option<&str>, settings: &Value) {
        self.note_agents(settings);
        self.withhold_rules(project, &rules(self.host, settings));
    }

    /// Adds a note to each server of `OpenCode` if `OpenCode` denies one of its tools to some agents only. Such a rule
    /// cannot be imported, because mgp treats all agents of a host as one agent.
    fn note_agents(&mut self, settings: &Value) {
        if self.host != Host::OpenCode {
            return;
        }
        let agents = ["agent", "mode"].map(|member| settings[member].as_object());
        let agents = agents.into_iter().flatten().flatten();
        let agents: Vec<(&String, Vec<Rule>)> =
            agents.map(|(agent, settings)| (agent, rules(self.host, settings))).collect();
        for server in &mut self.servers {
            let prefixes = prefixes(self.host, &server.name);
            let denies_some = |rules: &[Rule]| {
                // Ignore a rule for all tools: the host still applies it, also to the tools of mgp.
                let mut single = rules.iter().filter(|rule| rule.pattern != "*");
                single.any(|rule| {
                    let mut denied = prefixes.iter().map(|prefix| denied(&rule.pattern, prefix));
                    denied.any(|denied| !matches!(denied, Denied::Nothing))
                })
            };
            let mut denying = agents.iter().filter(|(_, rules)| denies_some(rules));
            let named = denying
                .by_ref()
                .take(MAX_AGENTS)
                .map(|(agent, _)| format!("`{}`", clip(agent, MAX_AGENT_BYTES).escape_debug()));
            let named: Vec<String> = named.collect();
            if !named.is_empty() {
                let more = if denying.next().is_some() { " and others" } else { "" };
                let noun = if named.len() > 1 { "agents" } else { "agent" };
                let named = named.join(", ");
                server.notes.push(format!(
                    "rules there for the {noun} {named}{more} deny tools of it, and do not hold here"
                ));
            }
        }
    }

    fn withhold_rules(&mut self, project: Option<&str>, rules: &[Rule]) {
        if rules.is_empty() {
            return;
        }
        for mut server in std::mem::take(&mut self.servers) {
            let is_meant = project.is_none() || server.project.as_deref() == project;
            // Ignore rules about mgp itself, because the host still applies them.
            let is_mgp = server.name == "mgp" && server.entry.args.iter().any(|arg| arg == "serve");
            let limit = if is_mgp || !is_meant {
                Ok(server.entry.tools.clone())
            } else {
                limit(self.host, &server.name, server.entry.tools.clone(), rules)
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

/// Removes the tools that rules deny from the limit of a server's tools, and returns the new limit. Returns the reason
/// if mgp cannot apply a rule.
fn limit(
    host: Host,
    server: &str,
    mut limit: ToolLimit,
    rules: &[Rule],
) -> Result<ToolLimit, String> {
    let prefixes = prefixes(host, server);
    for Rule { member, pattern, is_short } in rules {
        let short = is_short.then_some(&**pattern);
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

fn rules(host: Host, settings: &Value) -> Vec<Rule> {
    let listed = |member: &'static str, list: &Value| {
        let patterns = list.as_array().into_iter().flatten().filter_map(Value::as_str);
        let rules = patterns.map(|pattern| {
            // In Gemini CLI, a rule can also be the name of a tool without its server; it then denies this tool of all
            // servers.
            let is_short = host == Host::GeminiCli && is_short(pattern);
            Rule { member, pattern: pattern.to_owned(), is_short }
        });
        rules.collect::<Vec<_>>()
    };
    let keyed = |member: &'static str, is_denied: fn(&Value) -> bool| {
        let members = settings[member].as_object().into_iter().flatten();
        let denied = members.filter(|(_, value)| is_denied(value));
        denied
            .map(|(key, _)| Rule { member, pattern: key.clone(), is_short: false })
            .collect::<Vec<_>>()
    };
    match host {
        Host::ClaudeCode => listed("permissions.deny", &settings["permissions"]["deny"]),
        Host::GeminiCli | Host::QwenCode => {
            let mut rules = listed("tools.exclude", &settings["tools"]["exclude"]);
            // Also read the list `excludeTools`, which older files have at the top level.
            rules.extend(listed("excludeTools", &settings["excludeTools"]));
            if host == Host::QwenCode {
                rules.extend(listed("permissions.deny", &settings["permissions"]["deny"]));
            }
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

/// Returns the rules of a policy file of Gemini CLI that deny tools of servers. Omits a rule whose `mcpName` and
/// `toolName` name no server, because it is about a tool of the host. Also omits a rule for all tools, because the host
/// applies it to the tools of mgp too. The exception is a rule with `toolAnnotations`, because mgp's tools have
/// different annotations.
fn policy_rules(policy: &Value) -> Vec<Rule> {
    let texts = |value: &Value| match value {
        Value::Array(list) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        value => value.as_str().map(str::to_owned).into_iter().collect::<Vec<_>>(),
    };
    let mut rules = Vec::new();
    for rule in policy["rule"].as_array().into_iter().flatten() {
        if rule["decision"] != "deny" {
            continue;
        }
        let (servers, mut tools) = (texts(&rule["mcpName"]), texts(&rule["toolName"]));
        if tools.is_empty() {
            tools.push("*".to_owned());
        }
        let mut patterns: Vec<(String, bool)> = Vec::new();
        for server in &servers {
            patterns.extend(tools.iter().map(|tool| match server.as_str() {
                "*" => (tool.clone(), true),
                server => (format!("mcp_{}_{tool}", plain_name(Host::GeminiCli, server)), false),
            }));
        }
        if servers.is_empty() {
            patterns.extend(tools.iter().filter_map(|tool| full_pattern(tool)));
        }
        let is_kept = |pattern: &str| pattern != "*" || !rule["toolAnnotations"].is_null();
        let kept = patterns.into_iter().filter(|(pattern, _)| is_kept(pattern));
        rules.extend(kept.map(|(pattern, is_short)| Rule {
            member: "policies",
            pattern,
            is_short,
        }));
    }
    rules
}

/// Returns the pattern of a policy's `toolName`, and whether it applies to the tools of all servers; `None` if it names
/// a tool of the host.
fn full_pattern(tool: &str) -> Option<(String, bool)> {
    if matches!(tool, "*" | "mcp_*") {
        return Some(("*".to_owned(), true));
    }
    if let Some(short) = tool.strip_prefix("mcp_*_") {
        return Some((short.to_owned(), true));
    }
    // Older versions write two underscores after the name of the server, so such a name is a full name, too.
    let is_full = tool.starts_with("mcp_") || tool.contains("__");
    is_full.then(|| (tool.to_owned(), false))
}

/// Returns the form that the name of a server has in the full names of its tools.
fn plain_name(host: Host, server: &str) -> String {
    // Gemini CLI and Qwen Code keep the dots in the name.
    let keeps_dots = matches!(host, Host::GeminiCli | Host::QwenCode);
    let others = if keeps_dots { "_-." } else { "_-" };
    let fits = |char: &char| char.is_ascii_alphanumeric() || others.contains(*char);
    server.chars().map(|char| if fits(&char) { char } else { '_' }).collect()
}

/// Returns the prefixes of the full names that a host gives the tools of a server.
fn prefixes(host: Host, server: &str) -> Vec<String> {
    let server = plain_name(host, server);
    match host {
        Host::ClaudeCode | Host::QwenCode => vec![format!("mcp__{server}__")],
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

/// Returns the tools that a pattern denies, among the tools of the server whose full names begin with `prefix`.
fn denied<'a>(pattern: &'a str, prefix: &str) -> Denied<'a> {
    let (literal, wild) =
        pattern.split_at(pattern.find(['*', '?', '[', '{']).unwrap_or(pattern.len()));
    if wild.is_empty() {
        // A rule can name arguments in brackets; here it is treated as a rule that denies the whole tool.
        let name = literal.split('(').next().unwrap_or_default();
        return match name.strip_prefix(prefix) {
            Some("") => Denied::All,
            Some(tool) => Denied::Tool(tool),
            // In Claude Code and Qwen Code, `mcp__files` means all tools of the server.
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
        let mut limited = import;
        limited.withhold(None, r#"{"mcp": {"excluded": ["b"]}, "tools": {"exclude": ["add"]}}"#);
        assert_eq!(found(&limited), ["b stays", "c.d: all but add, list, set, wipe", "mem stays"]);
        let qwen = r#"{"mcpServers": {"files": {"command": "a"}, "c.d": {"command": "c"}, "git": {"command": "g"}},
            "permissions": {"deny": ["mcp__files__wipe", "write_file", "mcp__git", "Bash(rm *)"]},
            "tools": {"exclude": ["mcp__c.d__set"]}}"#;
        let import = read(Host::QwenCode, Path::new("/h/.qwen/settings.json"), qwen).unwrap();
        assert_eq!(found(&import), ["c.d: all but set", "files: all but wipe", "git stays"]);
    }

    #[test]
    fn tools_that_a_policy_of_gemini_denies_are_withheld() {
        let servers = ["files", "my db", "git", "web", "mem", "mgp"];
        let entry = r#"{"command": "a", "args": ["serve"]}"#;
        let servers = servers.map(|name| format!(r#""{name}": {entry}"#)).join(",");
        let text = format!(r#"{{"mcpServers": {{{servers}}}}}"#);
        let file = Path::new("/h/.gemini/settings.json");
        let mut import = read(Host::GeminiCli, file, &text).unwrap();
        import.withhold_policy(
            r#"
            rule = [
                { toolName = ["write_file", "run_shell_command"], decision = "deny", priority = 1 },
                { mcpName = "files", toolName = ["move", "wipe"], decision = "deny", argsPattern = "x" },
                { mcpName = "my db", toolName = "drop", decision = "deny" },
                { mcpName = "git", decision = "deny" },
                { toolName = "mcp_web_post", decision = "deny" },
                { toolName = "mcp_*_purge", decision = "deny" },
                { mcpName = "mem", toolName = "add", decision = "ask_user" },
                { mcpName = "*", decision = "deny", modes = ["plan"] },
                { toolName = ["*", "mcp_*"], decision = "deny", modes = ["plan"] },
            ]
            "#,
        );
        let expected = [
            "files: all but move, purge, wipe",
            "git stays",
            "mem: all but purge",
            "mgp: all",
            "my db: all but drop, purge",
            "web: all but post, purge",
        ];
        assert_eq!(found(&import), expected);
        import.withhold_policy("no policy");
        assert_eq!(import.servers.len(), 5);
        import.withhold_policy(
            r#"
            rule = [
                { toolName = "mem__erase", decision = "deny" },
                { mcpName = "*", toolName = "get__all", decision = "deny" },
            ]
            "#,
        );
        assert_eq!(found(&import)[2], "mem: all but erase, get__all, purge");
        import.withhold_policy(
            r#"rule = [{ mcpName = "*", toolAnnotations = { destructiveHint = true }, decision = "deny" }]"#,
        );
        assert_eq!(found(&import)[3], "mgp: all");
        assert_eq!(import.servers.len(), 1);
    }

    #[test]
    fn rules_of_single_agents_of_opencode_are_noted() {
        let text = r#"{"mcp": {"files": {"command": ["a"]}, "git": {"command": ["b"]}},
            "agent": {"plan": {"tools": {"files_*": false, "bash": false}}, "all": {"tools": {"*": false}},
                "build": {"permission": {"git_push": "ask"}}}}"#;
        let import = read(Host::OpenCode, Path::new("/p/opencode.json"), text).unwrap();
        assert_eq!(found(&import), ["files: all", "git: all"]);
        let note = "rules there for the agent `plan` deny tools of it, and do not hold here";
        assert_eq!(import.servers[0].notes, [note]);
        assert_eq!(import.servers[1].notes, [""; 0]);

        let agent = |at: usize| format!(r#""a{at}": {{"tools": {{"files_x": false}}}}"#);
        let agents = (0..9).map(agent).collect::<Vec<_>>().join(",");
        let text =
            format!(r#"{{"mcp": {{"files": {{"command": ["a"]}}}}, "agent": {{{agents}}}}}"#);
        let import = read(Host::OpenCode, Path::new("/p/opencode.json"), &text).unwrap();
        let [note] = &*import.servers[0].notes else { panic!("{:?}", import.servers[0].notes) };
        let agents =
            "the agents `a0`, `a1`, `a2`, `a3`, `a4`, `a5`, `a6`, `a7` and others deny tools of it";
        assert!(note.contains(agents), "{note}");
    }
}
