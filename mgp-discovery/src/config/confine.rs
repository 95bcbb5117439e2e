//! `[servers.confine]`: the rights of a confined program (MGP §15.2).

use std::fmt;

use super::table_reader::Reader;

/// The table `[servers.confine]`; its texts still contain `${…}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfineConfig {
    /// The files and folders that the program may read.
    pub read: Vec<String>,
    /// The files and folders that the program may also write.
    pub write: Vec<String>,
    /// The TCP ports to which the program may connect.
    pub connect: PortRights,
    /// The TCP ports on which the program may listen.
    pub listen: PortRights,
    /// If set, the program may connect to Unix sockets of other programs.
    pub local_sockets: bool,
}

/// Shows the rights in words, with the texts as they are written.
impl fmt::Display for ConfineConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports = |ports: &PortRights| match ports {
            PortRights::None => Vec::new(),
            PortRights::Only(ports) => ports.iter().map(u16::to_string).collect(),
            PortRights::All => vec!["all ports".to_owned()],
        };
        let sockets = self.local_sockets.then(|| "local sockets".to_owned());
        let connects = ports(&self.connect).into_iter().chain(sockets).collect();
        let rights = [
            ("reads", self.read.clone()),
            ("writes", self.write.clone()),
            ("connects to", connects),
            ("listens on", ports(&self.listen)),
        ];
        let rights = rights.iter().filter(|(_, what)| !what.is_empty());
        let rights: Vec<_> =
            rights.map(|(verb, what)| format!("{verb} {}", what.join(", "))).collect();
        f.write_str(if rights.is_empty() { "no further rights" } else { "" })?;
        f.write_str(&rights.join("; "))
    }
}

/// A set of TCP ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortRights {
    /// No port.
    #[default]
    None,
    /// These ports.
    Only(Vec<u16>),
    /// All ports.
    All,
}

impl From<bool> for PortRights {
    /// Returns all ports for `true`, none for `false`.
    fn from(all: bool) -> Self {
        if all { Self::All } else { Self::None }
    }
}

/// Reads `[servers.confine]` of a server; returns `None` if the server has no such table.
pub(super) fn confine(server: &mut Reader<'_, '_, '_>) -> Option<ConfineConfig> {
    let mut reader = server.below("confine", "servers.confine")?;
    Some(ConfineConfig {
        read: reader.texts("read"),
        write: reader.texts("write"),
        connect: ports(&mut reader, "connect"),
        listen: ports(&mut reader, "listen"),
        local_sockets: reader.switch("local_sockets").unwrap_or_default(),
    })
}

fn ports(reader: &mut Reader<'_, '_, '_>, name: &str) -> PortRights {
    let texts = reader.texts(name);
    if texts.iter().any(|text| text == "*") {
        return PortRights::All;
    }
    match texts.iter().map(|text| text.parse()).collect::<Result<Vec<u16>, _>>() {
        Ok(ports) if ports.is_empty() => PortRights::None,
        Ok(ports) => PortRights::Only(ports),
        Err(_) => {
            let remedy = "write numbers from 0 to 65535, e.g. [\"443\"], or [\"*\"] for all ports";
            reader.error(name, "has a port that is not a number", Some(remedy.to_owned()));
            PortRights::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn parsed(table: &str) -> Result<ConfineConfig, String> {
        let text = format!("[[servers]]\nid = 'a'\ncommand = 'a'\n[servers.confine]\n{table}");
        let parsed = Config::parse("mgp.toml", &text).unwrap();
        let server = parsed.config.servers.first().ok_or_else(|| format!("{:?}", parsed.findings));
        Ok(server?.confine.clone().unwrap())
    }

    #[test]
    fn an_empty_table_confines_without_further_rights() {
        assert_eq!(parsed("").unwrap(), ConfineConfig::default());
        assert_eq!(parsed("").unwrap().to_string(), "no further rights");
    }

    #[test]
    fn ports_are_numbers_or_all() {
        let confine = parsed("connect = ['443', '80']\nlisten = ['*']\nread = ['/srv']").unwrap();
        assert_eq!(confine.connect, PortRights::Only(vec![443, 80]));
        assert_eq!(confine.listen, PortRights::All);
        assert_eq!(confine.to_string(), "reads /srv; connects to 443, 80; listens on all ports");
        let error = parsed("connect = ['https']").unwrap_err();
        assert!(error.contains("servers.confine.connect") && error.contains("443"), "{error}");
        assert!(parsed("listen = ['65536']").is_err());
    }

    #[test]
    fn a_server_at_a_url_cannot_be_confined() {
        let text =
            "[[servers]]\nid = 'a'\nurl = 'https://a.example'\n[servers.confine]\nread = ['/srv']";
        let parsed = Config::parse("mgp.toml", text).unwrap();
        let warning = parsed.findings.iter().map(ToString::to_string);
        assert!(warning.collect::<String>().contains("`confine` does nothing without `command`"));
    }
}
