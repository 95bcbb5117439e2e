//! The rules for URLs and hosts, with the local hosts that an operator permits.

use super::target;
use mgp_types::LocalHost;
use std::{fmt::Debug, net::IpAddr};
use url::Host;

/// A resolver of host names.
pub trait Resolver: Debug + Send + Sync {
    /// Returns the addresses of a host name. The validator refuses a name that has none.
    fn resolve(&self, name: &str) -> Vec<IpAddr>;
}

/// The rules for URLs and hosts. Programs that open connections themselves can call them directly.
#[derive(Debug, Clone, Copy, Default)]
pub struct NetworkRules<'a> {
    pub(super) resolver: Option<&'a dyn Resolver>,
    /// The hosts outside of the public internet that pass.
    local: &'a [LocalHost],
    /// `true` if all hosts pass that an operator can permit as local hosts.
    any_local: bool,
    /// `true` if URLs of files in arguments pass.
    pub(super) allows_files: bool,
}

impl<'a> NetworkRules<'a> {
    /// Creates rules that judge names only by their text; before connecting, call
    /// [`check_connect`](Self::check_connect), too.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the resolver. With it, a name is refused unless all its addresses are public.
    #[must_use]
    pub fn resolver(mut self, resolver: &'a dyn Resolver) -> Self {
        self.resolver = Some(resolver);
        self
    }

    /// Sets hosts outside of the public internet that pass.
    ///
    /// ```
    /// use mgp_types::LocalHost;
    /// use mgp_validators::NetworkRules;
    ///
    /// let local: [LocalHost; 1] = ["localhost:3000".parse().unwrap()];
    /// let rules = NetworkRules::new().local_hosts(&local);
    /// assert_eq!(rules.check_url("http://127.0.0.1:3000/"), Ok(()));
    /// assert!(rules.check_url("http://localhost:5000/").is_err());
    /// ```
    #[must_use]
    pub fn local_hosts(mut self, hosts: &'a [LocalHost]) -> Self {
        self.local = hosts;
        self
    }

    /// Lets arguments pass that are the URL of a file on this machine, because another check limits their paths.
    pub(crate) fn allow_files(mut self) -> Self {
        self.allows_files = true;
        self
    }

    /// Returns the rules by which each host passes that an operator can permit as a local host.
    pub(crate) fn any_local_host(self) -> Self {
        Self { any_local: true, ..self }
    }

    /// Returns the rules by which no local host passes.
    pub(crate) fn without_local_hosts(self) -> Self {
        Self { local: &[], any_local: false, ..self }
    }

    /// Returns whether a name is that of a local host that passes.
    pub(super) fn permits_name(&self, name: &str, port: Option<u16>) -> bool {
        self.local.iter().any(|local| local.permits_name(name, port))
            || self.any_local && name.parse::<LocalHost>().is_ok()
    }

    /// Returns whether an address is that of a local host that passes.
    pub(super) fn permits_address(&self, address: IpAddr, port: Option<u16>) -> bool {
        self.local.iter().any(|local| local.permits_address(address, port))
            || self.any_local && !LocalHost::is_metadata(address)
    }

    /// Returns the rules for a host that a path can follow. A network such as `10.1.2.3/8` is not a local host, even if
    /// the address in it is one.
    pub(crate) fn for_place(self, text: &str) -> Self {
        let (place, rest) = text.split_once('/').unwrap_or((text, ""));
        let is_length = rest.chars().all(|c| c.is_ascii_digit() || c == '.');
        let is_network = !rest.is_empty() && is_length && port_of(place).is_none();
        if is_network { self.without_local_hosts() } else { self }
    }

    /// Returns the rules for a URL without a scheme. With a user, or a port that browsers refuse, it leads to no local
    /// host.
    pub(crate) fn for_bare_url(self, text: &str) -> Self {
        let place = text.split(['/', '?', '#']).next().unwrap_or(text);
        if place.contains('@') || port_of(place).is_some_and(target::is_bad_port) {
            return self.without_local_hosts();
        }
        self.for_place(text)
    }

    /// Returns the rules for a place beside a parameter with another port. Clients can use that port, so a place with a
    /// port is not a local host.
    pub(crate) fn beside_port(self, place: &str) -> Self {
        if port_of(place).is_some() { self.without_local_hosts() } else { self }
    }

    /// Checks a URL.
    ///
    /// # Errors
    /// The reason why the URL is refused.
    pub fn check_url(&self, url: &str) -> Result<(), String> {
        target::url(url, *self).map(drop)
    }

    /// Checks a URL and the `Location` of each redirection that followed.
    ///
    /// # Errors
    /// The reason why the URL or one of the locations is refused.
    pub fn check_redirects(&self, url: &str, locations: &[&str]) -> Result<(), String> {
        target::chain(url, locations, *self)
    }

    /// Checks a host with or without a port.
    ///
    /// # Errors
    /// The reason why the host is refused.
    pub fn check_host(&self, host: &str) -> Result<(), String> {
        self.check_host_at(host, None)
    }

    /// Checks a host with or without a port; `port` is the port of a host without one.
    pub(crate) fn check_host_at(&self, host: &str, port: Option<u16>) -> Result<(), String> {
        target::host(host, port, *self)
    }

    /// Checks a parsed host.
    pub(crate) fn check_parsed(
        &self,
        host: &Host<String>,
        port: Option<u16>,
    ) -> Result<(), String> {
        target::check_host(host, port, *self)
    }

    /// Checks an address right before a connection to it, because a name may by then resolve to another address than at
    /// the earlier check. [Local hosts](Self::local_hosts) are refused, because a public name can lead to their
    /// addresses; do not call this for a host that one of them permits.
    ///
    /// # Errors
    /// The reason why the address is refused.
    pub fn check_connect(&self, address: IpAddr) -> Result<(), String> {
        target::public(address)
    }
}

/// Returns the port behind a host, e.g. 80 for `localhost:80` and `[::1]:80`.
pub(crate) fn port_of(place: &str) -> Option<u16> {
    let (host, port) = place.rsplit_once(':')?;
    let has_port = !host.contains(':') || host.ends_with(']');
    port.parse().ok().filter(|_| has_port)
}
