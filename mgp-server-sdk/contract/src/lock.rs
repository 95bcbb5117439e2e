//! `mgp.lock`: the programs, packages and tool definitions that servers had when they were reviewed.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::contract::Contract;
use crate::diff::{ToolDifference, compare_all};

/// The version of the format of lock files.
const FORMAT: u64 = 1;

/// The content of a lock file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockFile {
    lock_version: u64,
    /// The servers by their ids.
    pub servers: BTreeMap<String, LockedServer>,
}

/// A server in a lock file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockedServer {
    /// The hash of the configured command and arguments, or of the URL.
    pub target: String,
    /// The SHA-256 of the program that is started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The path at which the program was found; it is not stored in lock files.
    #[serde(skip)]
    pub program_path: Option<String>,
    /// The package that a runner such as `npx` or `uvx` starts; for any other program, the code files that its
    /// arguments name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<LockedPackage>,
    /// The code files that are named in the arguments of a runner, other than the package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<LockedPackage>,
    /// The definitions of the server's tools, as they were reviewed.
    pub tools: Vec<Value>,
}

/// A package in a lock file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockedPackage {
    /// The kind of package: `npm`, `pypi`, or `file` for code files that are named in the arguments.
    pub kind: String,
    /// The name of the package or, for code, of the first file.
    pub name: String,
    /// The installed version of the package; for code, the number of further files, if any.
    pub version: String,
    /// The SHA-256 over all files of the package or code.
    pub hash: String,
}

/// The differences of a server from the lock file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LockDrift {
    /// The id of the server.
    pub server: String,
    /// The changes of the server's command, URL, program, package or code, one sentence each.
    pub started: Vec<String>,
    /// The tools of the server that differ.
    pub tools: Vec<ToolDifference>,
}

impl LockFile {
    /// Creates a lock file with these servers, by their ids.
    #[must_use]
    pub fn new(servers: BTreeMap<String, LockedServer>) -> Self {
        Self { lock_version: FORMAT, servers }
    }

    /// Reads a lock file.
    ///
    /// # Errors
    /// Returns the reason why the text is not a lock file of a known version.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lock: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if lock.lock_version != FORMAT {
            let found = lock.lock_version;
            return Err(format!("its `lock_version` is {found}, but this program reads {FORMAT}"));
        }
        Ok(lock)
    }

    pub(crate) fn from_value(value: &Value) -> Option<Self> {
        if *value.get("lock_version")? != FORMAT {
            return None;
        }
        serde_json::from_value(value.clone()).ok()
    }

    /// Returns the text of the lock file in JSON.
    #[must_use]
    pub fn to_text(&self) -> String {
        // Writing these types as JSON cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Returns the tools of all servers; each name begins with the id of its server.
    #[must_use]
    pub fn contracts(&self) -> Vec<Contract> {
        let named = |(server, locked): (&String, &LockedServer)| {
            let mut tools = locked.contracts();
            for tool in &mut tools {
                tool.name = format!("{server}.{}", tool.name);
            }
            tools
        };
        self.servers.iter().flat_map(named).collect()
    }
}

impl LockedServer {
    /// Returns the tools of the server with the definitions in the lock file.
    #[must_use]
    pub fn contracts(&self) -> Vec<Contract> {
        self.tools.iter().cloned().filter_map(Contract::from_definition).collect()
    }

    /// Returns the changes of the command, URL, program, package and code from this entry to `now`, one sentence each.
    #[must_use]
    pub fn changes_of_start(&self, now: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        let is_same_target = self.target == now.target;
        if !is_same_target {
            changes.push("its command, arguments or URL changed".to_owned());
        }
        if self.program != now.program {
            let path = now.program_path.as_ref().map(|path| format!(" (`{path}`)"));
            changes.push(format!(
                "its program changed from {} to {}{}",
                short(self.program.as_deref()),
                short(now.program.as_deref()),
                path.unwrap_or_default()
            ));
        }
        let pairs =
            [("package", &self.package, &now.package), ("script", &self.script, &now.script)];
        changes.extend(pairs.into_iter().filter_map(|(what, old, now)| {
            change_of_package(what, old.as_ref(), now.as_ref(), is_same_target)
        }));
        changes
    }

    /// Returns the differences between the locked tools and the current tools `now`; only tools that differ are
    /// included.
    #[must_use]
    pub fn changed_tools(&self, now: &[Contract]) -> Vec<ToolDifference> {
        // If a tool is the same as the locked tool, compare its current form with itself, so that no change is found:
        // the written form of a tool can differ between the eras of MCP.
        let current = |old: Contract| {
            now.iter().find(|new| old.name == new.name && old.is_same(new)).cloned().unwrap_or(old)
        };
        let locked: Vec<_> = self.contracts().into_iter().map(current).collect();
        let mut found = compare_all(&locked, now);
        // Also report a tool if the only changed members are some that `compare_all` does not know.
        for tool in now {
            let is_same = |old: &&Contract| old.name == tool.name && old.hash() != tool.hash();
            let is_told = found.iter().any(|difference| difference.tool == tool.name);
            if let Some(old) = locked.iter().find(is_same).filter(|_| !is_told) {
                let mut difference = crate::diff::compare(old, tool);
                difference.bump = crate::diff::Bump::Patch;
                found.push(difference);
            }
        }
        found
    }
}

/// Returns the change of a package or of code, in one sentence.
fn change_of_package(
    what: &str,
    old: Option<&LockedPackage>,
    now: Option<&LockedPackage>,
    is_same_target: bool,
) -> Option<String> {
    if let (true, Some((old, now))) = (is_same_target, other_files(old, now)) {
        return Some(format!(
            "mgp.lock has the hash of {old}, and its code is {now}: a file was added or removed, or an older version \
             wrote mgp.lock"
        ));
    }
    // The entry of a server that no package runner starts has its script in place of a package.
    let what = if old.or(now).is_some_and(|one| one.kind == "file") { "script" } else { what };
    match (old, now) {
        (old, now) if old == now => None,
        (Some(old), Some(now)) => Some(format!("its {what} changed from {old} to {now}")),
        (Some(old), None) => Some(format!("its {what} {old} is not installed")),
        (None, Some(now)) => Some(format!("its {what} {now} is not locked")),
        (None, None) => None,
    }
}

/// Returns descriptions of the code files of two entries if their lists of files differ, because a file was added or
/// removed. The descriptions also differ if one entry was written by an older version of this program, which did not
/// count the files.
fn other_files(
    old: Option<&LockedPackage>,
    now: Option<&LockedPackage>,
) -> Option<(String, String)> {
    let is_code = |one: Option<&LockedPackage>| one.is_none_or(|one| one.kind == "file");
    let files = |one: Option<&LockedPackage>| {
        one.map_or_else(|| "no file".to_owned(), |one| format!("`{}` {}", one.name, one.version))
    };
    let (is_both, old, now) = (is_code(old) && is_code(now), files(old), files(now));
    (is_both && old != now).then(|| (old.trim_end().to_owned(), now.trim_end().to_owned()))
}

fn short(hash: Option<&str>) -> &str {
    hash.map_or("none", |hash| hash.get(..12).unwrap_or(hash))
}

impl fmt::Display for LockedPackage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The version is empty for code that consists of a single file, so omit the space then.
        let space = if self.version.is_empty() { "" } else { " " };
        write!(f, "{}{space}{} ({})", self.name, self.version, short(Some(&self.hash)))
    }
}

impl LockDrift {
    /// Returns whether there are no differences.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.started.is_empty() && self.tools.is_empty()
    }
}

impl fmt::Display for LockDrift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` differs from mgp.lock", self.server)?;
        for change in &self.started {
            write!(f, "\n  {change}")?;
        }
        for difference in &self.tools {
            write!(f, "\n  {} ({})", difference.tool, difference.bump)?;
            for change in &difference.changes {
                write!(f, "\n    {change}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn server(description: &str) -> LockedServer {
        let tool =
            json!({ "name": "t", "description": description, "inputSchema": { "type": "object" } });
        LockedServer { target: "a".to_owned(), tools: vec![tool], ..LockedServer::default() }
    }

    #[test]
    fn a_lock_file_is_read_as_written() {
        let lock = LockFile::new([("s".to_owned(), server("T."))].into());
        assert_eq!(LockFile::parse(&lock.to_text()).unwrap(), lock);
        assert_eq!(lock.contracts()[0].name, "s.t");
        assert!(LockFile::parse("{\"lock_version\":9,\"servers\":{}}").unwrap_err().contains('9'));
        let mut later = json!(lock);
        later["lock_version"] = json!(9);
        assert_eq!(LockFile::from_value(&later), None);
    }

    #[test]
    fn the_form_of_an_output_schema_in_the_other_era_is_not_a_difference() {
        let listed = |schema: Value| {
            let mut server = server("T.");
            server.tools[0]["outputSchema"] = schema;
            server
        };
        let inner = json!({ "type": "array", "items": { "type": "string" } });
        let wrapped = |inner: &Value| json!({ "type": "object", "properties": { "result": inner }, "required": ["result"] });
        let (modern, legacy) = (listed(inner.clone()), listed(wrapped(&inner)));
        assert_eq!(modern.changed_tools(&legacy.contracts()), []);
        assert_eq!(legacy.changed_tools(&modern.contracts()), []);
        let other = listed(wrapped(&json!({ "type": "string" })));
        assert_eq!(modern.changed_tools(&other.contracts()).len(), 1);
    }

    #[test]
    fn a_tool_whose_schema_is_an_empty_list_is_locked() {
        let mut server = server("T.");
        server.tools[0]["inputSchema"] = json!([]);
        assert_eq!(server.contracts()[0].input, json!({}));
    }

    #[test]
    fn another_order_of_words_from_a_set_is_not_a_difference() {
        let locked = server("Formats:\n`ANSIC`, `Kitchen`");
        assert_eq!(locked.changed_tools(&server("Formats:\n`Kitchen`, `ANSIC`").contracts()), []);
        let other = server("Formats:\n`Kitchen`, `Stamp`");
        assert_eq!(locked.changed_tools(&other.contracts()).len(), 1);
    }

    #[test]
    fn every_change_of_a_server_is_a_difference() {
        let locked = server("T.");
        assert_eq!(locked.changed_tools(&server("T.").contracts()), []);
        assert_eq!(locked.changed_tools(&server("U.").contracts())[0].changes.len(), 1);
        let mut unknown = server("T.");
        unknown.tools[0]["unknown"] = true.into();
        assert_eq!(locked.changed_tools(&unknown.contracts()).len(), 1);
        let package = |hash: &str| LockedPackage {
            kind: "npm".to_owned(),
            name: "p".to_owned(),
            version: "1.0.0".to_owned(),
            hash: hash.to_owned(),
        };
        let now = LockedServer { package: Some(package("b")), ..server("T.") };
        let before = LockedServer { package: Some(package("a")), ..server("T.") };
        assert_eq!(
            before.changes_of_start(&now),
            ["its package changed from p 1.0.0 (a) to p 1.0.0 (b)"]
        );
        assert_eq!(before.changes_of_start(&before), Vec::<String>::new());
        let file = |hash: &str| LockedServer {
            package: Some(LockedPackage { kind: "file".to_owned(), ..package(hash) }),
            ..server("T.")
        };
        let changes = file("a").changes_of_start(&file("b"));
        assert_eq!(changes, ["its script changed from p 1.0.0 (a) to p 1.0.0 (b)"]);
        let unversioned = LockedPackage { version: String::new(), ..package("a") };
        assert_eq!(unversioned.to_string(), "p (a)");
        let scripted = |hash: &str| LockedServer {
            script: Some(LockedPackage { kind: "file".to_owned(), ..package(hash) }),
            ..before.clone()
        };
        assert_eq!(
            scripted("a").changes_of_start(&scripted("b")),
            ["its script changed from p 1.0.0 (a) to p 1.0.0 (b)"]
        );
    }

    #[test]
    fn the_path_of_a_changed_program_is_shown_and_not_stored() {
        let locked = |program: &str, path: Option<&str>| LockedServer {
            program: Some(program.to_owned()),
            program_path: path.map(str::to_owned),
            ..server("T.")
        };
        let (before, now) = (locked("a", None), locked("b", Some("/bin/b")));
        let expected = ["its program changed from a to b (`/bin/b`)"];
        assert_eq!(before.changes_of_start(&now), expected);
        let text = LockFile::new([("s".to_owned(), now)].into()).to_text();
        assert!(!text.contains("/bin/b"), "{text}");
    }

    #[test]
    fn an_entry_by_older_rules_is_no_changed_code() {
        let file = |name: &str, version: &str| LockedPackage {
            kind: "file".to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
            hash: name.to_owned(),
        };
        let locked = |package| LockedServer { package, ..server("T.") };
        let check = |old: Option<LockedPackage>, now: Option<LockedPackage>, expected: &str| {
            let changes = locked(old).changes_of_start(&locked(now));
            assert!(changes.len() == 1 && changes[0].contains(expected), "{changes:?}");
            assert!(changes[0].ends_with("or an older version wrote mgp.lock"), "{changes:?}");
        };
        let (data, code) = (file("data.db", ""), file("prog.sh", ""));
        check(Some(data.clone()), None, "has the hash of `data.db`, and its code is no file:");
        check(Some(data), Some(code.clone()), "of `data.db`, and its code is `prog.sh`:");
        check(None, Some(code.clone()), "of no file, and its code is `prog.sh`:");
        let both = file("prog.sh", "and 1 more");
        check(Some(code), Some(both), "of `prog.sh`, and its code is `prog.sh` and 1 more:");
    }
}
