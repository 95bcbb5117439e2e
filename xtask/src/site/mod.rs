//! The command `site`: writes the documents as a web site of static files, with navigation and search. With `--check`,
//! it only checks the links.
//!
//! The pages load nothing from other servers, and a browser can open them from a folder without a web server. We wrote
//! this generator because the licence of the usual generator (mdBook) is not allowed in this workspace.

mod page;
mod summary;

use crate::{
    flags::Flags,
    run::{Context, Failure, Outcome, root, target},
};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use page::{Page, up};
use pulldown_cmark::HeadingLevel;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};
use summary::Part;

/// The maximum length of a section's text in the search data, in bytes; longer texts are cut.
const MAX_SEARCHED: usize = 1200;

/// Writes the site to `--out`, or to `target/site`.
pub(crate) fn site(flags: &Flags) -> Outcome {
    let (parts, pages) = read()?;
    let dead = dead_links(&pages);
    for link in &dead {
        println!("{link}");
    }
    if !dead.is_empty() {
        return Err(Failure::new(format!("{} links lead nowhere", dead.len())));
    }
    if flags.has("--check") {
        println!("site: {} pages, no dead link", pages.len());
        return Ok(());
    }
    let out = match flags.value("--out") {
        Some(out) => PathBuf::from(out),
        None => target()?.join("site"),
    };
    write(&out, &parts, &pages)?;
    println!("site: {} pages, open {}", pages.len(), out.join("README.html").display());
    Ok(())
}

/// Reads the table of contents, its pages, and all documents to which they link.
fn read() -> Outcome<(Vec<Part>, BTreeMap<PathBuf, Page>)> {
    let parts = summary::read()?;
    let mut wanted: Vec<_> =
        parts.iter().flat_map(|part| &part.entries).map(|entry| entry.file.clone()).collect();
    let mut pages = BTreeMap::new();
    while let Some(file) = wanted.pop() {
        if pages.contains_key(&file) || !root().join(&file).is_file() {
            continue;
        }
        let page = Page::read(&file)?;
        let links = page.links.iter().map(|link| link.target.clone());
        wanted.extend(links.filter(|file| file.extension().is_some_and(|kind| kind == "md")));
        pages.insert(file, page);
    }
    Ok((parts, pages))
}

/// Returns the links whose targets do not exist, each with its document.
fn dead_links(pages: &BTreeMap<PathBuf, Page>) -> Vec<String> {
    let is_dead = |link: &&page::Link| match (pages.get(&link.target), &link.anchor) {
        (Some(page), Some(anchor)) => {
            !page.sections.iter().any(|section| section.anchor == *anchor)
        }
        (Some(_), None) => false,
        (None, _) => !root().join(&link.target).exists(),
    };
    let dead = pages.values().flat_map(|page| {
        let dead = page.links.iter().filter(is_dead);
        dead.map(|link| format!("{}: dead link `{}`", page.file.display(), link.written))
    });
    dead.collect()
}

fn write(out: &Path, parts: &[Part], pages: &BTreeMap<PathBuf, Page>) -> Outcome {
    let put = |file: &Path, text: &str| -> Outcome {
        let place = out.join(file);
        fs::create_dir_all(place.parent().context("a folder")?)?;
        fs::write(&place, text).context(place.display())
    };
    for (file, page) in pages {
        put(&file.with_extension("html"), &render(parts, page).into_string())?;
        let others = page.links.iter().filter(|link| !pages.contains_key(&link.target));
        for file in others.map(|link| &link.target).collect::<BTreeSet<_>>() {
            if root().join(file).is_file() {
                let place = out.join(file);
                fs::create_dir_all(place.parent().context("a folder")?)?;
                fs::copy(root().join(file), &place).context(place.display())?;
            } else {
                put(&file.join("index.html"), &listing(file)?.into_string())?;
            }
        }
    }
    put(Path::new("style.css"), include_str!("style.css"))?;
    put(Path::new("search.js"), include_str!("search.js"))?;
    put(Path::new("sections.js"), &search_data(pages)?)?;
    let start = html! { (DOCTYPE) meta http-equiv="refresh" content="0; url=README.html"; };
    put(Path::new("index.html"), &start.into_string())
}

fn render(parts: &[Part], page: &Page) -> Markup {
    let up = up(&page.file);
    let entries: Vec<_> = parts.iter().flat_map(|part| &part.entries).collect();
    let at = entries.iter().position(|entry| entry.file == page.file);
    let before = at.and_then(|at| entries.get(at.checked_sub(1)?));
    let after = at.and_then(|at| entries.get(at + 1));
    let link = |file: &Path| format!("{up}{}", file.with_extension("html").display());
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (page.title) " · mgp" }
                link rel="stylesheet" href={ (up) "style.css" };
                script defer src={ (up) "sections.js" } {}
                script defer src={ (up) "search.js" } data-up=(up) {}
            }
            body {
                a .skip href="#page" { "Skip to the page" }
                nav aria-label="Contents" {
                    label for="search" { "Search" }
                    input #search type="search" autocomplete="off";
                    ol #found aria-live="polite" {}
                    @for part in parts {
                        @if !part.title.is_empty() { h2 { (part.title) } }
                        ul {
                            @for entry in &part.entries {
                                @let is_here = entry.file == page.file;
                                li { a href=(link(&entry.file)) aria-current=[is_here.then_some("page")] {
                                    (entry.title.replace('`', ""))
                                } }
                            }
                        }
                    }
                }
                main #page {
                    @let below: Vec<_> =
                        page.sections.iter().filter(|one| one.level == HeadingLevel::H2).collect();
                    @if below.len() > 2 {
                        details .here { summary { "On this page" } ul {
                            @for section in below {
                                li { a href={ "#" (section.anchor) } { (section.title) } }
                            }
                        } }
                    }
                    (PreEscaped(&page.html))
                    footer {
                        @if let Some(entry) = before {
                            a href=(link(&entry.file)) rel="prev" { "← " (entry.title.replace('`', "")) }
                        }
                        @if let Some(entry) = after {
                            a href=(link(&entry.file)) rel="next" { (entry.title.replace('`', "")) " →" }
                        }
                    }
                }
            }
        }
    }
}

/// Returns a page for a folder to which a document links. It lists the names of the files, which are not part of the
/// site.
fn listing(folder: &Path) -> Outcome<Markup> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root().join(folder)).context(folder.display())? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(html! {
        (DOCTYPE)
        meta charset="utf-8";
        title { (folder.display()) }
        h1 { (folder.display()) }
        ul { @for name in &names { li { (name) } } }
    })
}

/// Returns a script with the sections that the search of the site uses.
fn search_data(pages: &BTreeMap<PathBuf, Page>) -> Outcome<String> {
    let sections = pages.values().flat_map(|page| {
        let page_file = page.file.with_extension("html").display().to_string();
        page.sections.iter().map(move |section| {
            let text = &section.text[..section.text.floor_char_boundary(MAX_SEARCHED)];
            (format!("{page_file}#{}", section.anchor), &page.title, &section.title, text)
        })
    });
    let data = serde_json::to_string(&sections.collect::<Vec<_>>())?;
    Ok(format!("const SECTIONS = {data};\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_links_to_its_neighbours_and_runs_no_foreign_text() {
        let (parts, pages) = read().unwrap();
        let page = render(&parts, &pages[Path::new("docs/notify.md")]).into_string();
        assert!(page.contains("href=\"../docs/console.html\" rel=\"prev\""), "{page}");
        assert!(!page.contains("src=\"http"));
        let data = search_data(&pages).unwrap();
        assert!(data.contains("docs/notify.html#kinds-of-places"));
    }

    #[test]
    fn words_that_readers_look_for_are_on_the_pages_about_them() {
        let (_, pages) = read().unwrap();
        for (page, word) in [
            ("docs/install.md", "download"),
            ("docs/record.md", "tamper"),
            ("docs/record.md", "yesterday"),
            ("docs/record.md", "Who called"),
            ("docs/limits.md", "spend"),
            ("docs/first-server.md", "Test"),
        ] {
            let sections = &pages[Path::new(page)].sections;
            let has =
                sections.iter().any(|one| one.title.contains(word) || one.text.contains(word));
            assert!(has, "{page} lacks `{word}`");
        }
    }
}
