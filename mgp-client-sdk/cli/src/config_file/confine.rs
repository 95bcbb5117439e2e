//! Edits `[servers.confine]` in the entry of a server.

use toml_edit::{Array, InlineTable, Item, Table, TableLike, value};

use super::{ConfigFile, server_entry, set_value};
use crate::exit::CliResult;

/// The values of `[servers.confine]`.
#[derive(Debug)]
pub(crate) struct ConfineValues<'a> {
    pub(crate) lists: [(&'static str, &'a [String]); 4],
    pub(crate) local_sockets: bool,
}

impl ConfigFile {
    /// Confines a server to these rights, which replace earlier ones; with `None`, removes its confinement.
    pub(crate) fn set_confine(&self, id: &str, values: Option<&ConfineValues<'_>>) -> CliResult {
        self.change(|document| {
            let (server, is_inline) = server_entry(document, id)?;
            let Some(values) = values else {
                server.remove("confine");
                return Some(());
            };
            // A table without keys confines the server most, so it must be written; an implicit one would not be.
            let new = if is_inline { value(InlineTable::new()) } else { Item::Table(Table::new()) };
            let table = server.entry("confine").or_insert(new).as_table_like_mut()?;
            for (name, texts) in values.lists {
                set_or_remove(table, name, (!texts.is_empty()).then(|| Array::from_iter(texts)));
            }
            set_or_remove(table, "local_sockets", values.local_sockets.then_some(true));
            Some(())
        })
    }
}

fn set_or_remove(table: &mut dyn TableLike, name: &str, new: Option<impl Into<toml_edit::Value>>) {
    match new {
        Some(new) => set_value(table, name, new),
        None => drop(table.remove(name)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use mgp_discovery::Config;

    use super::*;

    #[test]
    fn a_confinement_without_rights_is_written() {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("mgp.toml");
        let server = "[[servers]]\nid = \"a\"\ncommand = \"true\"\n";
        let policy = "\n[servers.mgp]\ndefault_policy = \"opt-out\"\n";
        let inline = "servers = [{ id = \"a\", command = \"true\" }]\n";
        for text in [server, &format!("{server}{policy}"), inline] {
            fs::write(&path, text).unwrap();
            let none: &[String] = &[];
            let lists = ["read", "write", "connect", "listen"].map(|name| (name, none));
            let values = ConfineValues { lists, local_sockets: false };
            ConfigFile::open(path.clone()).unwrap().set_confine("a", Some(&values)).unwrap();
            let text = fs::read_to_string(&path).unwrap();
            let config = Config::parse(&path, &text).unwrap().config;
            assert!(config.servers[0].confine.is_some(), "{text}");
        }
    }
}
