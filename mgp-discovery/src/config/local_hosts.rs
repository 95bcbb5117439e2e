//! The key `local_hosts` of `[servers.mgp]`: the hosts outside of the public internet that calls of a server may reach.

use mgp_types::{LocalHost, LocalHostError};

use super::table_reader::Reader;

/// The maximum length of an entry that a message shows, in bytes.
const MAX_SHOWN: usize = 64;

/// Reads the local hosts of a server, and reports an error for each text that is not a permitted host.
pub(super) fn local_hosts(reader: &mut Reader<'_, '_, '_>) -> Vec<LocalHost> {
    let mut hosts = Vec::new();
    for text in reader.texts("local_hosts") {
        let (what, remedy) = match text.parse::<LocalHost>() {
            Ok(host) => {
                hosts.push(host);
                continue;
            }
            Err(LocalHostError::Metadata(_)) => (
                "which can be the metadata service of a cloud",
                "leave it out: such a service returns credentials to every program",
            ),
            Err(_) => (
                "which is not a host",
                "write e.g. \"localhost:3000\", \"10.1.2.3\", \"[fd00::1]:443\" or \"wiki.corp.example\"",
            ),
        };
        let what = format!("has `{}`, {what}", shown(&text));
        reader.error("local_hosts", what, Some(remedy.to_owned()));
    }
    hosts
}

/// Returns a text as messages show it. `…` replaces a long text, and one with other characters than a host has, because
/// it can contain a password.
fn shown(text: &str) -> &str {
    let plain = |c: char| c.is_ascii_alphanumeric() || " ._-/:[]*".contains(c);
    if text.len() <= MAX_SHOWN && text.chars().all(plain) { text } else { "…" }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, ParsedConfig};

    fn parsed(hosts: &str) -> ParsedConfig {
        let text = format!(
            "[[servers]]\nid = 'a'\ncommand = 'a'\n[servers.mgp]\nlocal_hosts = [{hosts}]\n"
        );
        Config::parse("mgp.toml", &text).unwrap()
    }

    #[test]
    fn the_local_hosts_of_a_server_are_read() {
        let parsed = parsed("'LocalHost:3000', '10.1.2.3', '[::1]:80', 'wiki.corp.example:443'");
        let mgp = parsed.config.servers[0].mgp.as_ref().unwrap();
        let hosts: Vec<_> = mgp.local_hosts.iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["localhost:3000", "10.1.2.3", "[::1]:80", "wiki.corp.example:443"]);
    }

    #[test]
    fn a_metadata_service_or_another_text_disables_the_server() {
        for (hosts, reason) in [
            ("'localhost', '169.254.169.254'", "`169.254.169.254`, which can be the metadata"),
            ("'metadata.google.internal:80'", "the metadata service of a cloud"),
            ("'[fd00:ec2::254]'", "the metadata service of a cloud"),
            ("'http://localhost:3000'", "which is not a host"),
            ("'*.corp.example'", "which is not a host"),
            ("'10.0.0.0/8'", "which is not a host"),
            ("'localhost:99999'", "`localhost:99999`, which is not a host"),
            ("' localhost '", "` localhost `, which is not a host"),
            ("'::1'", "`::1`, which is not a host"),
            ("'0xA9FEA9FE'", "which is not a host"),
            ("''", "which is not a host"),
            ("'me:s3cret@localhost'", "which is not a host"),
        ] {
            let parsed = parsed(hosts);
            assert!(parsed.config.servers.is_empty() && parsed.broken == ["a"], "{hosts}");
            let found = parsed.findings[0].to_string();
            assert!(found.contains("`servers.mgp.local_hosts` has") && found.contains(reason));
            assert!(!found.contains("s3cret"), "{found}");
        }
    }
}
