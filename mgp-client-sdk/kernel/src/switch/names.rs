//! The names of resources and prompts above: their own while these can mean only one, else with their server's.
//!
//! - A prompt is `name`, or `server.name`, as tools are.
//! - A resource or template is its URI, or `mgp+server:URI`. A scheme has no capitals and no `_`, so such a character of
//!   an id is written `+` and two hexadecimal digits.
//!
//! The list and the calls ask the same table, so every name that is listed leads back to what it was listed for.
//!
//! Applies to: inbound.

use std::fmt::Write as _;
use std::sync::Arc;

use mgp_types::service::ServerId;

use crate::fleet::{Kind, List, Node};

/// One list of each server that a caller sees.
pub(super) struct Names {
    kind: Kind,
    shelves: Vec<(Arc<Node>, Arc<List>)>,
}

/// What a name stands for.
pub(super) struct Meant {
    pub(super) node: Arc<Node>,
    /// What its server calls it.
    pub(super) key: String,
}

/// What became of a name.
pub(super) enum Found {
    One(Meant),
    /// It may be any of these.
    Many(Vec<String>),
    None,
}

impl Names {
    pub(super) fn of(kind: Kind, nodes: &[Arc<Node>]) -> Self {
        let shelves: Vec<_> =
            nodes.iter().map(|node| (Arc::clone(node), node.shelf().list(kind))).collect();
        Self { kind, shelves }
    }

    pub(super) fn shelves(&self) -> &[(Arc<Node>, Arc<List>)] {
        &self.shelves
    }

    /// How an entry is called above; none where its own name does.
    pub(super) fn shown(&self, server: &ServerId, key: &str) -> Option<String> {
        // A name that leads to another one, or may mean several, is no name of its own.
        let leads_back = matches!(
            self.find(key),
            Found::One(meant) if meant.node.id() == server && meant.key == key
        );
        (!leads_back).then(|| qualify(self.kind, server, key))
    }

    /// What a name stands for that is listed, or names its server.
    pub(super) fn find(&self, name: &str) -> Found {
        // What names a server is that server's, listed or not: no other one takes it over by listing it.
        if let Some((node, key)) = self.qualified(name) {
            let is_whole = !self.lists(&node, &key) && self.lists(&node, name);
            let key = if is_whole { name.to_owned() } else { key };
            return Found::One(Meant { node, key });
        }
        let mut having = self.shelves.iter().filter(|(_, list)| list.has(name));
        match (having.next(), having.next()) {
            (Some((node, _)), None) => {
                Found::One(Meant { node: Arc::clone(node), key: name.to_owned() })
            }
            (Some(_), Some(_)) => {
                let all = self.shelves.iter().filter(|(_, list)| list.has(name));
                Found::Many(all.map(|(node, _)| qualify(self.kind, node.id(), name)).collect())
            }
            (None, _) => Found::None,
        }
    }

    fn lists(&self, node: &Arc<Node>, key: &str) -> bool {
        self.shelves.iter().any(|(other, list)| Arc::ptr_eq(other, node) && list.has(key))
    }

    /// A name with a server in it, taken apart.
    fn qualified(&self, name: &str) -> Option<(Arc<Node>, String)> {
        match self.kind {
            Kind::Prompts => {
                let of = |node: &Arc<Node>| {
                    let rest = name.strip_prefix(node.id().as_str())?.strip_prefix('.')?;
                    Some((Arc::clone(node), rest.to_owned()))
                };
                // `a.b.c` may be of `a` and of `a.b`: the longer id is meant, whatever they list.
                let found = self.shelves.iter().filter_map(|(node, _)| of(node));
                found.min_by_key(|(_, rest)| rest.len())
            }
            Kind::Resources | Kind::Templates => {
                let (server, uri) = name.strip_prefix(SCHEME)?.split_once(':')?;
                let mut nodes = self.shelves.iter().map(|(node, _)| node);
                let node = nodes.find(|node| word(node.id()) == server)?;
                Some((Arc::clone(node), uri.to_owned()))
            }
        }
    }
}

/// How the scheme of a URI with a server in it begins.
const SCHEME: &str = "mgp+";

/// A name with its server's.
pub(super) fn qualify(kind: Kind, server: &ServerId, key: &str) -> String {
    match kind {
        Kind::Prompts => format!("{server}.{key}"),
        Kind::Resources | Kind::Templates => format!("{SCHEME}{}:{key}", word(server)),
    }
}

/// An id as a part of a scheme.
fn word(server: &ServerId) -> String {
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

/// Whether a template may have made a URI: its fixed texts stand in it, in order.
pub(super) fn fits(template: &str, uri: &str) -> bool {
    let mut pieces = template.split('{');
    let Some(mut left) = pieces.next().and_then(|head| uri.strip_prefix(head)) else {
        return false;
    };
    let mut is_open = false;
    for piece in pieces {
        let Some((expression, text)) = piece.split_once('}') else { return false };
        // `{name}` is one segment; other expressions may be anything, or nothing.
        let is_plain = expression.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_open = text.is_empty();
        if is_open {
            if is_plain && left.is_empty() {
                return false;
            }
            continue;
        }
        let Some(at) = left.find(text) else { return false };
        if is_plain && (at == 0 || left[..at].contains('/')) {
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
    fn an_id_fits_a_scheme_and_no_two_look_alike() {
        let words =
            ["files", "Files", "my_files", "my+5ffiles", "a.b-c"].map(|id| word(&id.into()));
        assert_eq!(words, ["files", "+46iles", "my+5ffiles", "my+2b5ffiles", "a.b-c"]);
        let uri = qualify(Kind::Resources, &"My_1".into(), "file:///a:b");
        assert_eq!(uri, "mgp++4dy+5f1:file:///a:b");
        let scheme = uri.split_once(':').unwrap().0;
        assert!(
            scheme
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b))
        );
    }

    #[track_caller]
    fn check(template: &str, uri: &str, expected: bool) {
        assert_eq!(fits(template, uri), expected, "{template} {uri}");
    }

    #[test]
    fn a_template_fits_what_it_may_have_made() {
        check("test://{id}", "test://1", true);
        check("test://{id}", "test://", false);
        check("test://{id}/x", "test://1/x", true);
        check("test://{id}/x", "test://1/2/x", false);
        check("test://{+path}/x", "test://1/2/x", true);
        check("test://{a}/{b}", "test://1/2", true);
        check("test://{a}/{b}", "other://1/2", false);
        check("test://a{?q}", "test://a?q=1", true);
        check("test://a{?q}", "test://a", true);
        check("test://{a", "test://1", false);
        check("test://a", "test://a", true);
        check("test://a", "test://ab", false);
    }
}
