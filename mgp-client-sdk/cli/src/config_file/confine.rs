//! Edits `[servers.confine]` in the entry of a server.

use toml_edit::{Array, TableLike};

use super::{ConfigFile, child_table, server_entry, set_value};
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
            let (table, _) = child_table(server, "confine", is_inline)?;
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
