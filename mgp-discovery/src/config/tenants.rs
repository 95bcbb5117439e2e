//! The key `tenants` of a server: the tenants whose callers may use the server.

use toml_edit::Array;

use super::nearest;
use super::table_reader::Reader;

/// Reads the tenants that may use a server. A mistake in the key is an error and not a warning: if the key were
/// ignored, all tenants could use the server.
pub(super) fn tenants(reader: &mut Reader<'_, '_, '_>) -> Option<Vec<String>> {
    if reader.item("tenants")?.as_array().is_some_and(Array::is_empty) {
        let remedy = "name a tenant, or write `enabled = false`".to_owned();
        reader.error("tenants", "names no tenant", Some(remedy));
    }
    Some(reader.texts("tenants"))
}

/// Returns the remedy for an unknown key of a server's tables that is most likely meant as `tenants`; `None` for any
/// other key.
pub(super) fn remedy_for_misplaced(table: &str, name: &str) -> Option<String> {
    let is_of_server = table == "servers" || table.starts_with("servers.");
    let is_meant = nearest(&name.to_ascii_lowercase(), ["tenants"]).is_some();
    (is_of_server && is_meant)
        .then(|| "write `tenants = [\"NAME\"]` below `[[servers]]`, above its tables".to_owned())
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn the_tenants_of_a_server_are_read() {
        let server = |keys: &str| {
            let text = format!("[[servers]]\nid = 'a'\ncommand = 'a'\n{keys}\n");
            Config::parse("mgp.toml", &text).unwrap().config.servers.remove(0)
        };
        assert_eq!(server("").tenants, None);
        let both = server("tenants = ['acme', 'local']\nmgp = false").tenants;
        assert_eq!(both, Some(vec!["acme".to_owned(), "local".to_owned()]));
    }

    #[test]
    fn a_mistake_in_the_tenants_disables_the_server() {
        for keys in [
            "tenants = []",
            "tenants = 'acme'",
            "tenants = [1]",
            "tenant = 'acme'",
            "tennants = ['acme']",
            "tenant_ids = ['acme']",
            "[servers.mgp]\ntenants = ['acme']",
            "mgp = { tenants = ['acme'] }",
            "Tenants = ['acme']",
            "[servers.mgp]\ntenant = 'acme'",
            "[servers.limits]\ntenants = ['acme']",
            "[servers.mgp.retry]\ntenants = ['acme']",
            "[servers.env]\ntenants = ['acme']",
        ] {
            let text = format!("[[servers]]\nid = 'a'\ncommand = 'a'\n{keys}\n");
            let parsed = Config::parse("mgp.toml", &text).unwrap();
            assert!(parsed.config.servers.is_empty() && parsed.broken == ["a"], "{keys}");
        }
    }

    #[test]
    fn a_tool_or_a_variable_can_be_called_tenants() {
        for keys in
            ["env = { tenant = 'a', TENANTS = 'b' }", "mgp = { risk = { tenants = 'safe' } }"]
        {
            let text = format!("[[servers]]\nid = 'a'\ncommand = 'a'\n{keys}\n");
            let parsed = Config::parse("mgp.toml", &text).unwrap();
            assert_eq!(parsed.config.servers.len(), 1, "{keys}: {:?}", parsed.findings);
        }
    }
}
