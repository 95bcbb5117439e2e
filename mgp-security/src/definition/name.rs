//! Names of servers and tools: which names are allowed, and which can be confused with others (MGP §4; UTS 39).

use std::collections::{HashMap, HashSet};

use mgp_types::method::{self, Initialize, Request};
use mgp_types::service::ServerId;
use unicode_normalization::UnicodeNormalization;

use super::review::name_words;
use super::skeleton::skeleton;

/// The maximum length of a tool name or server id, in bytes.
const NAME_MAX: usize = 128;

/// The maximum length of a server's id, in bytes, for which a tool's name is searched; all ids are shorter.
const ID_MAX: usize = 512;

/// Server ids that could be mistaken for a part of the protocol, the kernel or the operator.
const RESERVED_SERVERS: [&str; 14] = [
    "mgp",
    "mcp",
    "system",
    "kernel",
    "host",
    "gateway",
    "self",
    "operator",
    "admin",
    "root",
    "internal",
    "builtin",
    "core",
    "dev.cloto",
];

/// The prefixes that are reserved for names of the protocol.
const RESERVED_PREFIXES: [&str; 6] = ["mgp/", "mgp.", "mgp_", "mgp-", "mgp:", "dev.cloto"];

/// Characters that look alike although their skeletons (forms in which UTS 39 makes look-alikes equal) differ.
const LOOKS: [(&str, &str); 3] = [("vv", "w"), ("cl", "d"), ("5", "s")];

/// The minimum length of names that are checked for doubled or swapped letters. Among shorter names, many legitimate
/// names differ only in that way.
const NEAR_MIN: usize = 6;

/// The reason why the name of a tool or the id of a server cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameFlaw {
    /// The name is empty or too long; contains its length in bytes.
    #[error("the name has {0} bytes; it must have 1 to {NAME_MAX}")]
    Length(usize),
    /// The name contains a character that is not allowed.
    #[error("the name holds {0}; use A-Z a-z 0-9 _ . / -, and `/` only between parts")]
    Characters(String),
    /// The name is reserved for the protocol.
    #[error("the name `{0}` belongs to the protocol; choose another")]
    Reserved(String),
    /// The name belongs to another server: a tool of that server has the name, or the name begins with the id of that
    /// server. The name `b.c` on a server `a` also belongs to a server `a.b`, because commands write `a.b.c` for both
    /// tools.
    #[error("the name `{name}` is already that of `{of}`")]
    Taken {
        /// The name of the tool, with invisible characters escaped.
        name: String,
        /// The server to which the name already belongs.
        of: String,
    },
    /// The name looks like another name.
    #[error("the name `{name}` looks like `{like}`; choose another")]
    LooksLike {
        /// The checked tool name or server id, with invisible characters escaped.
        name: String,
        /// The name that it looks like.
        like: String,
    },
}

impl NameFlaw {
    /// Checks the name of a tool without comparing it to other names.
    ///
    /// # Errors
    /// [`NameFlaw`] if the name is empty or too long, contains forbidden characters, or is reserved for the protocol.
    pub fn check_tool(name: &str) -> Result<(), Self> {
        check_length(name)?;
        let wrong = name.chars().find(|c| !(c.is_ascii_alphanumeric() || "_./-".contains(*c)));
        if let Some(wrong) = wrong {
            return Err(Self::Characters(super::review::visible(&format!("`{wrong}`"))));
        }
        if name.split('/').any(|part| matches!(part, "" | "." | "..")) || name.contains("..") {
            return Err(Self::Characters("a path".to_owned()));
        }
        let small = name.to_ascii_lowercase();
        // Many legitimate tools are called `ping`, and some `Initialize`. Therefore only `initialize` in small letters
        // and names with a `/`, which are not used by accident, count as methods.
        let is_method =
            (small.contains('/') || name == Initialize::METHOD) && method::lookup(&small).is_some();
        if is_method
            || small == "mgp"
            || RESERVED_PREFIXES.iter().any(|prefix| small.starts_with(prefix))
        {
            return Err(Self::Reserved(name.to_owned()));
        }
        Ok(())
    }

    /// Checks the id of a server by itself and against the known ids.
    ///
    /// # Errors
    /// [`NameFlaw`] if the id cannot be used, is reserved for the protocol, or looks like a different known id.
    pub fn check_server<'a>(
        id: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), Self> {
        check_length(id)?;
        if let Some(wrong) = id.chars().find(|c| c.is_control() || super::review::is_hidden(*c)) {
            return Err(Self::Characters(super::review::visible(&format!("`{wrong}`"))));
        }
        let own = looks(id);
        let is_like = |other: &str| are_alike(&looks(other), &own);
        let reserved = RESERVED_SERVERS.iter().any(|word| is_like(word));
        let begins = |prefix: &&str| id.to_lowercase().starts_with(*prefix);
        if reserved || RESERVED_PREFIXES[..2].iter().any(begins) {
            return Err(Self::Reserved(super::review::visible(id)));
        }
        // An id in another alphabet whose letters all look like Latin letters is certainly meant to deceive, so refuse
        // it.
        let looks: String = skeleton(id).collect();
        if !id.is_ascii() && looks.is_ascii() {
            return Err(Self::LooksLike { name: super::review::visible(id), like: looks });
        }
        match known.into_iter().find(|known| *known != id && is_like(known)) {
            Some(like) => {
                Err(Self::LooksLike { name: super::review::visible(id), like: like.to_owned() })
            }
            None => Ok(()),
        }
    }

    /// Checks that neither a tool's name nor `SERVER.NAME` begins with the id of another server: in commands, `a.b.c`
    /// is both the tool `b.c` of the server `a` and the tool `c` of the server `a.b`. Such a name looks like that of
    /// the other server's tool, even if that server lists no such tool now.
    ///
    /// # Errors
    /// [`NameFlaw::Taken`] if the name begins with such an id.
    pub(super) fn check_owner(
        server: &ServerId,
        tool: &str,
        is_known: impl Fn(&str) -> bool,
    ) -> Result<(), Self> {
        let is_other = |id: &&str| *id != server.as_str() && is_known(id);
        let ends = tool.match_indices(['.', '/']).map(|(end, _)| end);
        let mut ids = ends.take_while(|end| *end <= ID_MAX).map(|end| &tool[..end]);
        let of = ids.find(is_other).map(str::to_owned).or_else(|| {
            let joined = tool.contains('.').then(|| format!("{server}.{tool}"))?;
            let ends = joined.match_indices('.').map(|(end, _)| end);
            let ends = ends.take_while(|end| *end <= ID_MAX);
            let mut ids = ends.filter(|end| *end > server.as_str().len()).map(|end| &joined[..end]);
            ids.find(is_other).map(str::to_owned)
        });
        of.map_or(Ok(()), |of| Err(Self::Taken { name: super::review::visible(tool), of }))
    }

    /// Checks that a tool's name is not equal or similar to the name of a tool of another server. Names also count as
    /// similar here if they consist of the same words in another style (`readFile`, `read_file`). A kernel, which calls
    /// tools by server and name, allows both in the lists of its servers.
    ///
    /// # Errors
    /// [`NameFlaw::Taken`] if another server has a tool with the same name, [`NameFlaw::LooksLike`] if another server
    /// has a tool with a name that can be confused with this one.
    pub fn check_shadow<'a>(
        server: &str,
        tool: &str,
        known: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), Self> {
        let mut taken = None;
        for (other, name) in known.into_iter().filter(|(other, _)| *other != server) {
            let qualified = ['/', '.', '_', ':', '-'].map(|mark| format!("{other}{mark}{name}"));
            if tool == name {
                taken = Some(Self::Taken { name: tool.to_owned(), of: other.to_owned() });
            } else if look_alike(tool, name) || qualified.iter().any(|name| look_alike(tool, name))
            {
                let like = format!("{other}/{name}");
                return Err(Self::LooksLike { name: super::review::visible(tool), like });
            }
        }
        taken.map_or(Ok(()), Err)
    }
}

/// The names of other servers' tools, indexed by their appearance so that similar names can be found.
#[derive(Debug, Default)]
pub(super) struct Shadows {
    looks: HashMap<String, (String, String)>,
    /// The names of other servers' tools in lower case, without names that are ordinary words, e.g. `search`.
    names: HashSet<String>,
}

impl Shadows {
    /// Creates the index from pairs of server and tool names.
    pub(super) fn of<'a>(known: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let (mut shadows, mut names) = (HashMap::new(), HashSet::new());
        for (server, name) in known {
            if name.contains(['_', '-', '.']) || name.chars().skip(1).any(char::is_uppercase) {
                names.insert(name.to_lowercase());
            }
            for looks in looks(name).into_iter().chain(looks(&format!("{server}{name}"))) {
                shadows.insert(looks, (server.to_owned(), name.to_owned()));
            }
        }
        Self { looks: shadows, names }
    }

    /// Returns whether a word is the name of another server's tool; an ordinary word never counts as such a name.
    pub(super) fn has(&self, word: &str) -> bool {
        self.names.contains(word)
    }

    /// Returns a flaw if a tool name can be confused with a different name of another server's tool.
    ///
    /// An identical name is not a flaw here: tools are called by server and name, and the router decides to which
    /// server a bare name belongs. The same words joined in another way, e.g. `readFile` for `read_file`, are not a
    /// flaw either, unless the names differ only in capitals or marks, which some hosts change.
    pub(super) fn find(&self, tool: &str) -> Option<NameFlaw> {
        let (server, name) = looks(tool).iter().find_map(|looks| self.looks.get(looks))?;
        let is_other_style =
            name_words(name) == name_words(tool) && without_style(name) != without_style(tool);
        let is_distinct = is_other_style || name == tool || differ_in_numbers(name, tool);
        let like = format!("{server}/{name}");
        (!is_distinct).then(|| NameFlaw::LooksLike { name: super::review::visible(tool), like })
    }
}

fn check_length(name: &str) -> Result<(), NameFlaw> {
    match name.len() {
        1..=NAME_MAX => Ok(()),
        length => Err(NameFlaw::Length(length)),
    }
}

/// Returns whether two names could be confused.
fn look_alike(one: &str, other: &str) -> bool {
    are_alike(&looks(one), &looks(other))
}

/// Returns whether two names could be confused, given their forms of [`looks`].
fn are_alike(ones: &[String; 2], others: &[String; 2]) -> bool {
    ones.iter().any(|one| others.contains(one)) || is_near(&ones[1], &others[1])
}

/// Returns two forms of a name, without separators, in which letters that look alike are replaced by the same letter:
/// one form of the name as written, and one form of the name in lower case. Both are needed, because a capital can look
/// like other letters than its small letter does.
fn looks(name: &str) -> [String; 2] {
    [plain(name), plain(&name.to_lowercase())]
}

fn plain(name: &str) -> String {
    let name: String = name.nfkc().collect();
    let mut looks: String =
        skeleton(&name).flat_map(char::to_lowercase).filter(|c| c.is_alphanumeric()).collect();
    for (pair, letter) in LOOKS {
        looks = looks.replace(pair, letter);
    }
    looks
}

/// Returns the name in lower case, with one `_` in place of all marks between two parts.
fn without_style(name: &str) -> String {
    let parts = name.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("_").to_lowercase()
}

/// Returns whether two names differ only in their marks (e.g. `_`), and these marks divide the same digits into
/// different numbers: `page_1_12` and `page_11_2` do not look alike.
fn differ_in_numbers(one: &str, other: &str) -> bool {
    let letters = |name: &str| without_style(name).replace('_', "");
    let numbers = |name: &str| -> Vec<String> {
        let parts = name.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    };
    letters(one) == letters(other) && numbers(one) != numbers(other)
}

/// Returns whether two names differ only in doubled letters or two swapped letters, which a reader can overlook.
/// Returns `false` if one of them is shorter than [`NEAR_MIN`].
fn is_near(one: &str, other: &str) -> bool {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    if one.len().min(other.len()) < NEAR_MIN {
        return false;
    }
    let once = |name: &[char]| {
        let mut name = name.to_vec();
        name.dedup();
        name
    };
    if once(&one) == once(&other) {
        return true;
    }
    let Some(at) = one.iter().zip(&other).position(|(a, b)| a != b) else { return false };
    one.len() == other.len()
        && at + 1 < one.len()
        && one[at] == other[at + 1]
        && one[at + 1] == other[at]
        && one[at + 2..] == other[at + 2..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tools_are_plain() {
        for name in ["add", "read_file", "files.read", "a/b", "getUser2", "x-y", &"a".repeat(128)] {
            assert_eq!(NameFlaw::check_tool(name), Ok(()), "{name}");
        }
        assert_eq!(NameFlaw::check_tool("Initialize"), Ok(()));
        for name in [
            "",
            "../add",
            "/add",
            "a//b",
            "a/../b",
            "add;rm",
            "add\u{0}",
            "add\u{200b}",
            "\u{430}dd",
            "a b",
            "mgp",
            "mgp/tools/discover",
            "MGP.x",
            "mgp_access_grant",
            "tools/call",
            "initialize",
            "Tools/List",
            &"a".repeat(129),
        ] {
            assert!(NameFlaw::check_tool(name).is_err(), "{name}");
        }
    }

    #[track_caller]
    fn server(id: &str, fits: bool) {
        let known = ["tool.fs", "tool.mail", "github", "billing"];
        assert_eq!(NameFlaw::check_server(id, known).is_ok(), fits, "{id}");
    }

    #[test]
    fn ids_of_servers_do_not_look_like_others() {
        for id in
            ["tool.fs", "tool.fs2", "tool.img", "files", "gitlab", "日本語", "Größe", "my server"]
        {
            server(id, true);
        }
        for id in [
            "t\u{43e}\u{43e}l.fs",
            "tool-fs",
            "Tool.FS",
            "too1.fs",
            "t00l.mail",
            "tool.fs\u{200b}",
            "githu\u{7}b",
            "gihtub",
            "bi11ing",
            "biling",
            "tool_rnail",
            "mgp",
            "MGP",
            "kernel",
            "mgp.audit",
            "\u{455}ystem",
        ] {
            server(id, false);
        }
    }

    #[test]
    fn tools_do_not_shadow_those_of_others() {
        let known = [("tool.fs", "read_file"), ("tool.mail", "send_email")];
        for (name, fits) in [
            ("read_file_metadata", true),
            ("list_files", true),
            ("read_files", true),
            ("send_sms", true),
            ("read_fi1e", false),
            ("send_emai1", false),
            ("Read_File", false),
            ("readFile", false),
            ("raed_file", false),
            ("sennd_email", false),
            ("tool.fs/read_file", false),
            ("read_file", false),
        ] {
            assert_eq!(NameFlaw::check_shadow("new", name, known).is_ok(), fits, "{name}");
        }
        assert_eq!(NameFlaw::check_shadow("tool.fs", "read_file", known), Ok(()));
    }

    #[test]
    fn another_style_of_the_same_words_is_not_a_look_alike() {
        let shadows = Shadows::of([("files", "read_file"), ("book", "page_1_12")]);
        for (name, fits) in [
            ("read_file", true),
            ("readFile", true),
            ("page_11_2", true),
            ("page_1_l2", false),
            ("page_l_12", false),
            ("Read_File", false),
            ("read-file", false),
            ("read__file", false),
            ("read_fi1e", false),
            ("readfiIe", false),
            ("files_read_file", false),
        ] {
            assert_eq!(shadows.find(name).is_none(), fits, "{name}");
        }
    }

    #[test]
    fn a_tool_may_not_be_called_like_one_of_another_server_that_lists_none() {
        let new = ServerId::from("new");
        for (name, fits) in [
            ("files.write_file", false),
            ("files/write_file", false),
            ("files_write", true),
            ("filesystem.read", true),
            ("list.files", true),
            ("new.files", true),
        ] {
            let checked = NameFlaw::check_owner(&new, name, |id| id == "files" || id == "new");
            assert_eq!(checked.is_ok(), fits, "{name}");
        }
        for (known, fits) in [("new.b", false), ("b.c", true), ("new.c", true)] {
            let checked = NameFlaw::check_owner(&new, "b.c", |id| id == known);
            assert_eq!(checked.is_ok(), fits, "{known}");
        }
    }

    /// Regression test: each part of a name of 250 KB up to a dot was looked up, which took quadratic time.
    #[test]
    fn the_lookups_for_a_long_name_are_limited() {
        let looked_up = std::cell::Cell::new(0);
        let is_known = |id: &str| {
            looked_up.set(looked_up.get() + id.len());
            false
        };
        let name = "a.".repeat(100_000);
        assert_eq!(NameFlaw::check_owner(&"new".into(), &name, is_known), Ok(()));
        assert!(looked_up.get() <= ID_MAX * ID_MAX, "{}", looked_up.get());
    }
}
