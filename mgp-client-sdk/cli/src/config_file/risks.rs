//! Edits the risks of tools in the entries of their servers.

use std::collections::BTreeMap;

use mgp_types::mgp::RiskLevel;
use toml_edit::{Item, Table, TableLike};

use super::{ConfigFile, child_table, comments_above, move_comments, server_entry, set_value};
use crate::exit::CliResult;

pub(crate) type ToolRisks = BTreeMap<String, BTreeMap<String, RiskLevel>>;

impl ConfigFile {
    pub(crate) fn set_risks(&self, all: &ToolRisks) -> CliResult {
        self.change(|document| {
            for (id, risks) in all {
                let (server, is_inline) = server_entry(document, id)?;
                let (mgp, is_inline) = child_table(server, "mgp", is_inline)?;
                let (table, _) = child_table(mgp, "risk", is_inline)?;
                for (tool, risk) in risks {
                    set_value(table, tool, risk.as_str());
                }
            }
            Some(())
        })
    }

    pub(crate) fn remove_risk(&self, id: &str, tool: &str) -> CliResult<bool> {
        let mut is_removed = false;
        self.change(|document| {
            let (server, _) = server_entry(document, id)?;
            let Some(mgp) = server.get_mut("mgp").and_then(Item::as_table_like_mut) else {
                return Some(());
            };
            let Some(risks) = mgp.get_mut("risk").and_then(Item::as_table_like_mut) else {
                return Some(());
            };
            is_removed = risks.remove(tool).is_some();
            let comments = if is_removed && risks.is_empty() { remove_risks(server) } else { None };
            if let Some((at, comments)) = comments {
                move_comments(document, at, &comments);
            }
            Some(())
        })?;
        Ok(is_removed)
    }
}

/// Removes the table of risks from a server's entry, and the table `mgp` if it is then empty and has no header. Returns
/// the position of the table of risks, and the comments above it that a blank line separates from it.
fn remove_risks(server: &mut dyn TableLike) -> Option<(isize, String)> {
    let mgp = server.get_mut("mgp")?.as_table_like_mut()?;
    let risks = mgp.remove("risk")?;
    // Keep a table with a header of its own, because comments can follow the header.
    let has_header = |mgp: &Table| !mgp.is_implicit() && !mgp.is_dotted();
    if mgp.is_empty() && !server.get("mgp").and_then(Item::as_table).is_some_and(has_header) {
        server.remove("mgp");
    }
    let table = risks.as_table()?;
    Some((table.position()?, comments_above(table)?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_last_removed_risk_leaves_no_empty_table() {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("mgp.toml");
        let without = |text: &str| {
            fs::write(&path, text).unwrap();
            let file = ConfigFile::open(path.clone()).unwrap();
            assert!(file.remove_risk("a", "t").unwrap(), "{text}");
            fs::read_to_string(&path).unwrap()
        };
        let server = "[[servers]]\nid = \"a\"\ncommand = \"true\"\n";
        let policy = "\n[servers.mgp]\ndefault_policy = \"opt-out\"\n";
        let risk = "\n[servers.mgp.risk]\nt = \"safe\"\n";
        let rest = "[agents.x]\ninteractive = true\n";
        for before in [server.to_owned(), format!("{server}{policy}")] {
            assert_eq!(without(&format!("{before}{risk}")), before);
            let comments = "\n# Mine.\n\n# About the risks";
            assert_eq!(
                without(&format!("{before}{comments}{risk}\n{rest}")),
                format!("{before}\n# Mine.\n\n{rest}")
            );
            assert_eq!(
                without(&format!("{before}{risk}u = \"safe\"\n")),
                format!("{before}\n[servers.mgp.risk]\nu = \"safe\"\n")
            );
        }
        let inline =
            "servers = [{ id = \"a\", command = \"true\", mgp = { risk = { t = \"safe\" } } }]\n";
        assert!(!without(inline).contains("mgp"));
        let header = format!("{server}\n[servers.mgp]\n");
        assert_eq!(without(&format!("{header}{risk}")), header);
        assert_eq!(without(&format!("{header}risk.t = \"safe\"\n")), header);
    }
}
