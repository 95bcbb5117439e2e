//! A document converted to HTML, with its headings and links.

use crate::run::{Context, Outcome, root};
use pulldown_cmark::{
    CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html,
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path, PathBuf},
};

pub(super) struct Page {
    /// The file, relative to the root of the workspace.
    pub(super) file: PathBuf,
    /// The text of the first heading.
    pub(super) title: String,
    pub(super) html: String,
    pub(super) sections: Vec<Section>,
    pub(super) links: Vec<Link>,
}

/// The text from a heading to the next one, used for the search.
pub(super) struct Section {
    pub(super) level: HeadingLevel,
    pub(super) title: String,
    pub(super) anchor: String,
    pub(super) text: String,
}

/// A link to a file in the workspace.
pub(super) struct Link {
    /// The link target as it is written in the document.
    pub(super) written: String,
    /// The file, relative to the root of the workspace.
    pub(super) target: PathBuf,
    pub(super) anchor: Option<String>,
}

impl Page {
    /// Reads a document, and replaces links to other documents by links to their pages.
    pub(super) fn read(file: &Path) -> Outcome<Self> {
        let text = fs::read_to_string(root().join(file)).context(file.display())?;
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
        let mut events: Vec<_> = Parser::new_ext(&text, options).collect();
        remove_hidden_lines(&mut events);
        let sections = sections(&mut events);
        let mut links = Vec::new();
        for event in &mut events {
            if let Event::Start(Tag::Link { dest_url: url, .. } | Tag::Image { dest_url: url, .. }) =
                event
                && let Some(link) = Link::parse(file, url)
            {
                *url = CowStr::from(link.href(file));
                links.push(link);
            }
        }
        let mut page = String::new();
        html::push_html(&mut page, wrap_tables(events.into_iter()));
        let title = sections.first().map(|section| section.title.clone()).unwrap_or_default();
        Ok(Self { file: file.to_owned(), title, html: page, sections, links })
    }
}

impl Link {
    /// Parses a link of a document; returns `None` for a link to another site or an e-mail address.
    fn parse(from: &Path, url: &str) -> Option<Self> {
        if url.contains("://") || url.starts_with("mailto:") {
            return None;
        }
        let (path, anchor) = match url.split_once('#') {
            Some((path, anchor)) => (path, Some(anchor.to_owned())),
            None => (url, None),
        };
        let target = if path.is_empty() {
            from.to_owned()
        } else {
            normal(&from.parent().unwrap_or(Path::new("")).join(path))
        };
        Some(Self { written: url.to_owned(), target, anchor })
    }

    /// Returns the link from one page to another.
    fn href(&self, from: &Path) -> String {
        let page = match self.target.extension() {
            Some(kind) if kind == "md" => self.target.with_extension("html"),
            _ if root().join(&self.target).is_dir() => self.target.join("index.html"),
            _ => self.target.clone(),
        };
        let anchor = self.anchor.as_ref().map(|anchor| format!("#{anchor}")).unwrap_or_default();
        format!("{}{}{anchor}", up(from), page.display())
    }
}

/// Returns the relative path from a page to the root of the site.
pub(super) fn up(from: &Path) -> String {
    "../".repeat(from.components().count().saturating_sub(1))
}

fn normal(path: &Path) -> PathBuf {
    let mut parts: Vec<Component<'_>> = Vec::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if !parts.is_empty() => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.into_iter().collect()
}

/// Removes the lines of Rust programs that rustdoc compiles but does not show: `#` alone, or `# ` and code.
fn remove_hidden_lines(events: &mut [Event<'_>]) {
    let mut is_rust = false;
    for event in events {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                is_rust = info.split([',', ' ']).next() == Some("rust");
            }
            Event::End(TagEnd::CodeBlock) => is_rust = false,
            Event::Text(text) if is_rust => {
                let is_shown = |line: &&str| {
                    let line = line.trim();
                    line != "#" && !line.starts_with("# ")
                };
                let shown: String = text.split_inclusive('\n').filter(is_shown).collect();
                *text = CowStr::from(shown);
            }
            _ => {}
        }
    }
}

/// Sets the anchors of headings as GitHub does, and returns the sections.
fn sections(events: &mut [Event<'_>]) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut taken = BTreeMap::new();
    let mut heading: Option<(usize, HeadingLevel, String)> = None;
    for at in 0..events.len() {
        match &events[at] {
            Event::Start(Tag::Heading { level, .. }) => heading = Some((at, *level, String::new())),
            Event::End(TagEnd::Heading(_)) => {
                let Some((start, level, title)) = heading.take() else { continue };
                let anchor = anchor(&title, &mut taken);
                if let Event::Start(Tag::Heading { id, .. }) = &mut events[start] {
                    *id = Some(CowStr::from(anchor.clone()));
                }
                sections.push(Section { level, title, anchor, text: String::new() });
            }
            Event::Text(text) | Event::Code(text) => match (&mut heading, sections.last_mut()) {
                (Some((.., title)), _) => title.push_str(text),
                (None, Some(section)) => section.text.extend([&**text, " "]),
                (None, None) => {}
            },
            Event::SoftBreak | Event::HardBreak => {
                if let (None, Some(section)) = (&heading, sections.last_mut()) {
                    section.text.push(' ');
                }
            }
            _ => {}
        }
    }
    sections
}

fn anchor(title: &str, taken: &mut BTreeMap<String, usize>) -> String {
    let kept = title.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
    let again = taken.entry(anchor.clone()).or_insert(0);
    *again += 1;
    if *again == 1 { anchor } else { format!("{anchor}-{}", *again - 1) }
}

/// Encloses each table in an element that scrolls on narrow screens.
fn wrap_tables<'a>(events: impl Iterator<Item = Event<'a>>) -> impl Iterator<Item = Event<'a>> {
    events.flat_map(|event| match event {
        Event::Start(Tag::Table(_)) => {
            vec![Event::Html("<div class=\"wide\">".into()), event]
        }
        Event::End(TagEnd::Table) => vec![event, Event::Html("</div>".into())],
        event => vec![event],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_of_github() {
        let mut taken = BTreeMap::new();
        assert_eq!(anchor("`[kernel.notify.NAME]`", &mut taken), "kernelnotifyname");
        assert_eq!(anchor("Who can talk to whom", &mut taken), "who-can-talk-to-whom");
        assert_eq!(anchor("Who can talk to whom", &mut taken), "who-can-talk-to-whom-1");
    }

    #[test]
    fn lines_that_rustdoc_hides_are_left_out_of_rust_programs_only() {
        let shown = |text: &str| {
            let mut events: Vec<_> = Parser::new(text).collect();
            remove_hidden_lines(&mut events);
            let texts = events.iter().filter_map(|event| match event {
                Event::Text(text) => Some(&**text),
                _ => None,
            });
            texts.collect::<String>()
        };
        let program = "# use a::b;\n#[test]\nfn f() {}\n#\n  # drop(f());\n";
        assert_eq!(shown(&format!("```rust\n{program}```\n")), "#[test]\nfn f() {}\n");
        assert_eq!(shown(&format!("```rust,no_run\n{program}```\n")), "#[test]\nfn f() {}\n");
        assert_eq!(shown("```toml\n# a comment\n```\n"), "# a comment\n");
    }

    #[test]
    fn links_lead_from_page_to_page() {
        let link = Link::parse(Path::new("docs/a.md"), "../README.md#try-it").unwrap();
        assert_eq!(link.target, Path::new("README.md"));
        assert_eq!(link.href(Path::new("docs/a.md")), "../README.html#try-it");
        assert!(Link::parse(Path::new("docs/a.md"), "https://example.com").is_none());
        let folder = Link::parse(Path::new("docs/a.md"), "schema").unwrap();
        assert_eq!(folder.href(Path::new("docs/a.md")), "../docs/schema/index.html");
    }
}
