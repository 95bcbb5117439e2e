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

/// Returns the remedy for an unknown key with which an operator most likely means to limit servers to tenants; `None`
/// for any other key.
pub(super) fn remedy_for_misplaced(table: &str, name: &str) -> Option<String> {
    let is_meant = match table {
        // In this table, `tenant` and `tenant_id` most likely mean the tenant at the authorization server, so only
        // `tenants` counts.
        "servers.auth" => name.eq_ignore_ascii_case("tenants"),
        // The keys for tenants of access tokens belong in another table, so they are an error here. If they were
        // ignored, callers with access tokens would belong to the tenant of the configured agents.
        "kernel.http" => is_similar(name) || name == "tenant_claim",
        "" | "kernel" | "servers" => is_similar(name),
        table if table.starts_with("servers.") => is_similar(name),
        _ => name.eq_ignore_ascii_case("tenants"),
    };
    let of_server = "write `tenants = [\"NAME\"]` below `[[servers]]`, above its tables";
    is_meant.then(|| match table {
        "kernel.http" => {
            format!("{of_server}; `tenant` and `tenant_claim` belong below `[kernel.http.tokens]`")
        }
        _ => of_server.to_owned(),
    })
}

fn is_similar(name: &str) -> bool {
    nearest(&name.to_ascii_lowercase(), ["tenants"]).is_some()
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
            "auth = { tenants = ['acme'] }",
        ] {
            let text = format!("[[servers]]\nid = 'a'\ncommand = 'a'\n{keys}\n");
            let parsed = Config::parse("mgp.toml", &text).unwrap();
            assert!(parsed.config.servers.is_empty() && parsed.broken == ["a"], "{keys}");
        }
    }

    #[test]
    fn tenants_that_belong_to_no_server_refuse_the_file() {
        for keys in [
            "tenants = ['acme']",
            "[kernel]\ntenants = ['acme']",
            "[agents.ada]\ntenants = ['acme']",
            "[limits]\ntenants = ['acme']",
            "kernel.http.tenant = 'a'",
            "kernel.http.tenant_claim = 'org'",
        ] {
            let text = format!("{keys}\n[[servers]]\nid = 'a'\ncommand = 'a'\n");
            let refused = Config::parse("mgp.toml", &text).unwrap_err().to_string();
            assert!(refused.contains("below `[[servers]]`, above its tables"), "{refused}");
        }
    }

    #[test]
    fn the_tenant_of_a_login_is_only_a_warning_that_names_the_key_for_it() {
        for key in ["tenant", "tenant_id"] {
            let server = "[[servers]]\nid = 'a'\nurl = 'https://a.example'";
            let text = format!("{server}\n[servers.auth]\n{key} = 'acme'\n");
            let parsed = Config::parse("mgp.toml", &text).unwrap();
            assert_eq!(parsed.config.servers.len(), 1, "{key}: {:?}", parsed.findings);
            let remedy = parsed.findings[0].remedy.as_deref().unwrap_or_default();
            assert!(remedy.contains("`issuer`"), "{key}: {remedy}");
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
