//! The names that clients use for resources and prompts: the server's own name if no other server uses it, otherwise a
//! name that includes the server's id.
//!
//! - A prompt is `name`, or `server.name`, like a tool.
//! - A resource, template or skill is its URI, or `mgp+server:URI`. A scheme cannot contain capitals or `_`, so such
//!   characters of an id are written as `+` and two hexadecimal digits.
//! - Hosts expect pages and skills under schemes of their own, so `ui://a` becomes `ui://mgp+server/a`.
//!
//! Lists and calls use the same table. So a call with a name from a list finds the entry, as long as the lists do not
//! change.

use std::fmt::Write as _;
use std::sync::Arc;

use mgp_types::service::ServerId;

use crate::fleet::{CachedList, ListKind, ManagedServer};

/// The names of all entries of one kind, e.g. prompts, in the lists of some servers.
pub(super) struct NameTable {
    kind: ListKind,
    lists: Vec<(Arc<ManagedServer>, Arc<CachedList>)>,
}

/// An entry of a server, which the server's list need not contain. The server's own name for the entry identifies it.
pub(super) struct ServerEntry {
    pub(super) server: Arc<ManagedServer>,
    pub(super) key: String,
}

/// The result of looking up a name.
pub(super) enum Lookup {
    Unique(ServerEntry),
    /// The qualified names of the candidates, which include the servers' ids.
    Ambiguous(Vec<String>),
    Unknown,
}

impl NameTable {
    pub(super) fn new(kind: ListKind, servers: &[Arc<ManagedServer>]) -> Self {
        let lists = servers.iter().map(|server| (Arc::clone(server), server.lists().list(kind)));
        Self { kind, lists: lists.collect() }
    }

    pub(super) fn lists(&self) -> &[(Arc<ManagedServer>, Arc<CachedList>)] {
        &self.lists
    }

    /// Returns the name of an entry that includes the server's id, if clients see this name; `None` if they see the
    /// server's own name.
    pub(super) fn shown_name(&self, server: &ServerId, key: &str) -> Option<String> {
        let leads_back = matches!(
            self.find(key),
            Lookup::Unique(entry) if entry.server.id() == server && entry.key == key
        );
        (!leads_back).then(|| qualify(self.kind, server, key))
    }

    /// Finds the entry that a name means: the entry with this name in the lists of clients, or the entry that a name
    /// with a server's id identifies.
    pub(super) fn find(&self, name: &str) -> Lookup {
        // A name that includes a server's id always belongs to that server, even if the server does not list it. So no
        // other server can capture the name by listing it.
        if let Some((server, key)) = self.split_qualified(name) {
            let is_own_name = !self.contains(&server, &key) && self.contains(&server, name);
            let key = if is_own_name { name.to_owned() } else { key };
            return Lookup::Unique(ServerEntry { server, key });
        }
        let mut matches = self.lists.iter().filter(|(_, list)| list.contains(name));
        match (matches.next(), matches.next()) {
            (Some((server, _)), None) => {
                Lookup::Unique(ServerEntry { server: Arc::clone(server), key: name.to_owned() })
            }
            (Some(_), Some(_)) => {
                let matches = self.lists.iter().filter(|(_, list)| list.contains(name));
                let names = matches.map(|(server, _)| qualify(self.kind, server.id(), name));
                Lookup::Ambiguous(names.collect())
            }
            (None, _) => Lookup::Unknown,
        }
    }

    fn contains(&self, server: &Arc<ManagedServer>, key: &str) -> bool {
        self.lists.iter().any(|(other, list)| Arc::ptr_eq(other, server) && list.contains(key))
    }

    /// Splits a name that includes a server's id into the server and the server's own name.
    fn split_qualified(&self, name: &str) -> Option<(Arc<ManagedServer>, String)> {
        match self.kind {
            ListKind::Prompts => {
                let split = |server: &Arc<ManagedServer>| {
                    let key = name.strip_prefix(server.id().as_str())?.strip_prefix('.')?;
                    Some((Arc::clone(server), key.to_owned()))
                };
                // `a.b.c` could mean `b.c` of the server `a`, or `c` of the server `a.b`: choose the server with the
                // longer id.
                let found = self.lists.iter().filter_map(|(server, _)| split(server));
                found.min_by_key(|(_, key)| key.len())
            }
            ListKind::Resources | ListKind::Templates | ListKind::Skills => {
                let (id, uri) = split_uri(name)?;
                let mut servers = self.lists.iter().map(|(server, _)| server);
                let server = servers.find(|server| scheme_part(server.id()) == id)?;
                Some((Arc::clone(server), uri))
            }
        }
    }
}

/// The prefix before a server's id in a URI.
const SERVER_PREFIX: &str = "mgp+";

/// The URI schemes by which hosts recognize pages and skills. In such a URI, the server's id does not precede the
/// scheme but follows it, so that hosts still recognize the scheme.
const KEPT_SCHEMES: [&str; 2] = ["ui://", "skill://"];

/// Splits a URI that includes a server's id into the id and the server's own URI.
pub(super) fn split_uri(uri: &str) -> Option<(&str, String)> {
    let kept =
        KEPT_SCHEMES.into_iter().find_map(|scheme| Some((scheme, uri.strip_prefix(scheme)?)));
    if let Some((scheme, rest)) = kept {
        let (id, rest) = rest.strip_prefix(SERVER_PREFIX)?.split_once('/')?;
        return Some((id, format!("{scheme}{rest}")));
    }
    let (id, uri) = uri.strip_prefix(SERVER_PREFIX)?.split_once(':')?;
    Some((id, uri.to_owned()))
}

/// Returns the name of an entry with the server's id included.
pub(super) fn qualify(kind: ListKind, server: &ServerId, key: &str) -> String {
    match kind {
        ListKind::Prompts => format!("{server}.{key}"),
        ListKind::Resources | ListKind::Templates | ListKind::Skills => {
            let id = scheme_part(server);
            let kept = |scheme| Some((scheme, key.strip_prefix(scheme)?));
            match KEPT_SCHEMES.into_iter().find_map(kept) {
                Some((scheme, rest)) => format!("{scheme}{SERVER_PREFIX}{id}/{rest}"),
                None => format!("{SERVER_PREFIX}{id}:{key}"),
            }
        }
    }
}

/// Encodes a server's id as a part of a URI scheme.
fn scheme_part(server: &ServerId) -> String {
    let mut out = String::with_capacity(server.as_str().len());
    for byte in server.as_str().bytes() {
        if byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'.' || byte == b'-' {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "+{byte:02x}");
        }
    }
    out
}

/// Returns whether a URI matches a template, i.e. contains the literal parts of the template in order. `{name}` matches
/// a non-empty part of one path segment; any other expression matches any text, including an empty one.
///
/// At the end of a template, `{name}` also matches several segments, because many servers declare `file:///{path}`. If
/// another server has a longer template that matches the same URI, the caller gets an error from which it can choose
/// the server.
pub(super) fn matches_template(template: &str, uri: &str) -> bool {
    let mut pieces = template.split('{').peekable();
    let Some(mut left) = pieces.next().and_then(|head| uri.strip_prefix(head)) else {
        return false;
    };
    // `is_open` is `true` if the template so far ends with an expression; `has_slashes` is `true` if one of the last
    // expressions matches slashes.
    let (mut is_open, mut has_slashes) = (false, false);
    while let Some(piece) = pieces.next() {
        let Some((expression, text)) = piece.split_once('}') else { return false };
        let is_plain = expression.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        has_slashes = !is_plain || is_open && has_slashes;
        is_open = text.is_empty();
        if is_open {
            if is_plain && left.is_empty() {
                return false;
            }
            continue;
        }
        // Compare the last literal part with the end of the URI, even if the same text also occurs earlier.
        let is_last = pieces.peek().is_none();
        let at = if is_last { left.strip_suffix(text).map(str::len) } else { left.find(text) };
        let Some(at) = at else { return false };
        if is_plain && at == 0 || !has_slashes && left[..at].contains('/') {
            return false;
        }
        left = &left[at + text.len()..];
    }
    is_open || left.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_has_a_scheme_of_its_own() {
        let words =
            ["files", "Files", "my_files", "my+5ffiles", "a.b-c"].map(|id| scheme_part(&id.into()));
        assert_eq!(words, ["files", "+46iles", "my+5ffiles", "my+2b5ffiles", "a.b-c"]);
        let uri = qualify(ListKind::Resources, &"My_1".into(), "file:///a:b");
        assert_eq!(uri, "mgp++4dy+5f1:file:///a:b");
        let scheme = uri.split_once(':').unwrap().0;
        assert!(
            scheme
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b))
        );
    }

    #[test]
    fn pages_and_skills_keep_their_scheme() {
        for (uri, qualified) in [
            ("ui://chart/page.html", "ui://mgp+a.b/chart/page.html"),
            ("skill://tea/SKILL.md", "skill://mgp+a.b/tea/SKILL.md"),
            ("file:///ui://x", "mgp+a.b:file:///ui://x"),
            ("ui://mgp+inner/page", "ui://mgp+a.b/mgp+inner/page"),
        ] {
            assert_eq!(qualify(ListKind::Skills, &"a.b".into(), uri), qualified);
            assert_eq!(split_uri(qualified), Some(("a.b", uri.to_owned())));
        }
    }

    #[track_caller]
    fn check(template: &str, uri: &str, expected: bool) {
        assert_eq!(matches_template(template, uri), expected, "{template} {uri}");
    }

    #[test]
    fn a_template_matches_the_uris_it_may_have_made() {
        check("test://{id}", "test://1", true);
        check("test://{id}", "test://", false);
        check("test://{id}/x", "test://1/x", true);
        check("test://{id}/x", "test://1/2/x", false);
        check("test://{+path}/x", "test://1/2/x", true);
        check("test://{+path}/x", "test://1/x/2/x", true);
        check("test://{id}.txt", "test://1.txt.txt", true);
        check("test://{id}.txt", "test://1.txt/2", false);
        check("test://{path}", "test://1/2", true);
        check("test://{+path}", "test://1/2", true);
        check("test://{id}{?q}", "test://1?q=2/3", true);
        check("test://{+path}{name}.txt", "test://1/2.txt", true);
        check("test://{a}/{b}", "test://1/2", true);
        check("test://{a}/{b}", "other://1/2", false);
        check("test://a{?q}", "test://a?q=1", true);
        check("test://a{?q}", "test://a", true);
        check("test://{a", "test://1", false);
        check("test://a", "test://a", true);
        check("test://a", "test://ab", false);
    }
}
