//! Signs of an attack other than phrases: markup that is hidden or imitates system messages, and encoded text.

use super::decode::{Decoded, decoded};
use super::plain::plain_text;
use super::rule::Rule;
use super::text::{ENOUGH, Members, Sign, read};
use super::token::Place;

/// The weight of encoded text that has at least three words, but neither signs of instructions nor a command.
const ENCODED: u32 = 60;

/// The sum of weights from which signs within encoded text count as if they reached [`ENOUGH`], because legitimate text
/// is rarely encoded.
const IN_CODE: u32 = 30;

/// The weight of the tag `<instructions>` around the main section of a description, which is weak: its content is
/// reviewed like any other text.
const SECTION: u32 = 30;

/// Markers that occur only in chat templates.
const TEMPLATES: &[&str] = &[
    "<<sys>>",
    "<</sys>>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<function_calls>",
    "<function_results>",
    "<tool_call>",
    "</tool_call>",
    "<tool_result",
    "<system-reminder",
    "<antml",
    "\n\nhuman:",
    "\n\nassistant:",
    "<s>[",
    "### instruction",
    "### system",
    "### response:",
    "### response :",
    "### response\n",
    "## system prompt",
    "begin system prompt",
    "</tool",
    "</description",
    "<tool_description",
    "</function",
    "[system]",
    "[assistant]",
    "[system:",
    "(system:",
    "{system}",
    "end of tool description",
    "end of description",
];

/// Tags that claim who wrote a text, or that it is important. Most hosts show them as plain text, but models follow
/// them.
const TAGS: &[&str] = &[
    "important",
    "critical",
    "secret",
    "hidden",
    "instructions",
    "instruction",
    "system",
    "assistant",
    "admin",
    "system_prompt",
    "systemprompt",
    "sys",
    "override",
    "urgent",
    "mandatory",
    "confidential",
    "user",
    "developer",
    "policy",
    "rules",
    "prompt",
    "internal",
    "directive",
    "ai",
    "llm",
    "agent",
    "system_instruction",
    "priority",
    "admin_instructions",
    "critical_instructions",
    "hidden_instructions",
    "hidden_note",
    "hidden_prompt",
    "important_instructions",
    "important_note",
    "important_notice",
    "override_instructions",
    "secret_instructions",
    "secret_note",
    "security_notice",
    "system_instructions",
    "system_note",
    "system_notice",
    "system_update",
];

/// The tag that some servers write around the main section of a description, before the sections of [`has_sections`].
const MAIN_SECTION: &str = "instructions";

/// Titles that claim authority, and markers of chat templates; they are matched only in capitals.
const SHOUTED: &[&str] = &[
    "[INST]",
    "[/INST]",
    "SYSTEM OVERRIDE",
    "ADMIN OVERRIDE",
    "SYSTEM NOTICE",
    "SYSTEM MESSAGE",
    "SYSTEM ALERT",
    "SECURITY NOTICE",
    "SYSTEM INSTRUCTION",
    "SYSTEM PROMPT:",
    "NEW INSTRUCTIONS",
    "ADMIN NOTICE",
    "DEVELOPER MESSAGE",
    "SYSTEM:",
];

/// Markup that hides text from the reader.
const UNSEEN: &[&str] = &[
    "display:none",
    "display: none",
    "visibility:hidden",
    "visibility: hidden",
    "font-size:0",
    "font-size: 0",
    "opacity:0",
    "opacity: 0",
    "</script>",
    "<iframe ",
    "<iframe\n",
    "<object",
    "<embed",
    "onerror=",
    "onload=",
    "[//]: #",
    "[comment]:",
    "[//]: <>",
];

/// Colours that hide text in HTML. A diagram can contain them too, e.g. `style A color:#fff` in Mermaid, so they count
/// only in a text with an HTML style.
const COLORS: &[&str] =
    &["color:white", "color: white", "color:#fff", "color: #fff", "color:transparent"];

/// Tags that give HTML its colours; the attribute `style` does so too.
const STYLES: &[&str] = &["<style", "<font"];

/// Returns the signs of an attack in a text; `small` is the same text in normalized form.
pub(super) fn signs(text: &str, small: &str) -> Vec<Sign> {
    let mut signs = Vec::new();
    let mut add = |rule, weight, evidence: &str| {
        signs.push(Sign { rule, group: 0, weight, evidence: evidence.to_owned(), range: None });
    };
    let template = TEMPLATES.iter().copied().find(|word| small.contains(*word));
    if let Some(found) = template.or_else(|| marker(small)) {
        add(Rule::Role, ENOUGH, found);
    }
    if let Some(found) = SHOUTED.iter().find(|word| has_words(text, word)) {
        add(Rule::Role, ENOUGH, found);
    }
    let sentences = || small.lines().flat_map(|line| line.split(". "));
    if let Some(line) = sentences().find(|line| is_role(line)) {
        add(Rule::Role, 60, line);
    }
    // Skip the first sentence, which may begin with `Assistant:` as a topic. A later sentence of a normal description
    // does not begin like this.
    if let Some(line) = sentences().skip(1).find(|line| is_party(line)) {
        add(Rule::Role, ENOUGH, line);
    }
    let has_sections = has_sections(small);
    if let Some(tag) = tag(small, has_sections) {
        add(Rule::Role, ENOUGH, tag);
    } else if has_sections {
        add(Rule::Role, SECTION, MAIN_SECTION);
    }
    let is_styled = is_styled(small);
    let colors = COLORS.iter().filter(|_| is_styled);
    if let Some(found) = UNSEEN.iter().chain(colors).find(|word| small.contains(**word)) {
        add(Rule::Markup, ENOUGH, found);
    }
    if let Some(hidden) = comment(small).or_else(|| declaration(small)) {
        add(Rule::Markup, ENOUGH, hidden);
    }
    if let Some(image) = image(small) {
        add(Rule::Address, ENOUGH, image);
    }
    if let Some(address) = running(small) {
        add(Rule::Address, ENOUGH, address);
    }
    signs.extend(encoded(text));
    signs
}

/// Decodes the encoded parts of a text, and returns the most suspicious part as a sign of an attack; `None` if no part
/// is suspicious.
fn encoded(text: &str) -> Option<Sign> {
    const COMMANDS: [&str; 8] =
        ["curl ", "wget ", "rm -", "bash ", "powershell", "eval(", "exec(", "/bin/sh"];
    let weigh = |part: &Decoded| {
        let plain = plain_text(&part.text);
        let signs: u32 =
            read(&plain, Place::Elsewhere, &Members::new()).iter().map(|sign| sign.weight).sum();
        if part.is_guess {
            return if signs >= ENOUGH { ENOUGH } else { 0 };
        }
        let is_command = COMMANDS.iter().any(|command| plain.contains(command));
        match signs {
            IN_CODE.. => ENOUGH,
            _ if is_command => ENOUGH,
            _ if plain.split_whitespace().count() >= 3 => ENCODED,
            _ => 0,
        }
    };
    let parts = decoded(text).into_iter().map(|part| (weigh(&part), part));
    let (weight, part) =
        parts.max_by_key(|(weight, _)| *weight).filter(|(weight, _)| *weight > 0)?;
    let Decoded { text: evidence, range, .. } = part;
    Some(Sign { rule: Rule::Encoded, group: 0, weight, evidence, range: Some(range) })
}

/// Returns a bracket that chat templates use in their markers, e.g. in `<|im_start|>`, if a text contains one. Arrows
/// of diagrams, e.g. `A <|-- B`, and pipes of programming languages, e.g. `x |> f`, do not count.
fn marker(text: &str) -> Option<&'static str> {
    const AROUND: [char; 11] = ['"', '\'', '(', ')', '[', ']', '{', '}', '*', '/', ':'];
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let opens = |(at, _): (usize, &str)| {
        text[at + 2..].trim_start().trim_start_matches(AROUND).starts_with(is_word)
    };
    let closes = |(at, _): (usize, &str)| text[..at].ends_with(is_word);
    if text.match_indices("<|").any(opens) {
        return Some("<|");
    }
    text.match_indices("|>").any(closes).then_some("|>")
}

/// Returns whether a text contains these words; the end of a longer word, e.g. of `OPERATING_SYSTEM:`, does not count.
fn has_words(text: &str, words: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let begins =
        |(at, _): (usize, &str)| !(words.starts_with(is_word) && text[..at].ends_with(is_word));
    text.match_indices(words).any(begins)
}

/// Returns whether a text has a tag or an attribute that gives HTML its colours.
fn is_styled(text: &str) -> bool {
    let is_attribute =
        |(at, name): (usize, &str)| text[at + name.len()..].trim_start().starts_with('=');
    STYLES.iter().any(|tag| text.contains(*tag)) || text.match_indices("style").any(is_attribute)
}

/// Returns whether a sentence looks like a turn in a chat transcript.
fn is_party(line: &str) -> bool {
    ["assistant: ", "human: "].iter().any(|party| line.trim_start().starts_with(party))
}

/// Returns whether a line begins like a chat message with a role.
fn is_role(line: &str) -> bool {
    let line = line.trim_start_matches([' ', '#', '*', '-', '>', '[']);
    [
        "system:",
        "assistant:",
        "system prompt:",
        "developer:",
        "human:",
        "system message:",
        "ai:",
        "system note:",
    ]
    .iter()
    .any(|role| line.starts_with(role))
}

/// Returns whether a description consists of sections: `<instructions>`, then its parameters, examples or results.
fn has_sections(text: &str) -> bool {
    const NEXT: [&str; 3] = ["<parameters>", "<examples>", "returns "];
    let rest = text.split_once("</instructions>").map_or("", |(_, rest)| rest.trim_start());
    NEXT.iter().any(|section| rest.starts_with(section))
}

/// Returns the first of the [`TAGS`] that a text contains in brackets, e.g. `<system>` or `{{secret}}`. In a
/// description with sections, the tag of its main section does not count.
fn tag(text: &str, has_sections: bool) -> Option<&'static str> {
    const FORMS: [(&str, &[&str]); 6] = [
        ("<", &[">", " "]),
        ("</", &[">"]),
        ("<!", &[">"]),
        ("[", &["]!"]),
        ("[[", &["]]"]),
        ("{{", &["}}"]),
    ];
    text.match_indices(['<', '[', '{']).find_map(|(at, _)| {
        FORMS.iter().find_map(|(open, closings)| {
            let inside = text[at..].strip_prefix(open)?;
            TAGS.iter().copied().filter(|tag| !has_sections || *tag != MAIN_SECTION).find(|tag| {
                let rest = inside.strip_prefix(tag);
                rest.is_some_and(|rest| closings.iter().any(|close| rest.starts_with(close)))
                    && !is_placeholder(&text[..at], tag)
            })
        })
    })
}

/// Returns whether a tag is the placeholder of the option before it, e.g. in `--secret <secret>`.
fn is_placeholder(before: &str, tag: &str) -> bool {
    before.trim_end().strip_suffix(tag).is_some_and(|option| option.ends_with("--"))
}

/// Returns the text of the first HTML comment that has at least three words.
fn comment(mut text: &str) -> Option<&str> {
    loop {
        let (_, rest) = text.split_once("<!--")?;
        let (inside, after) = rest.split_once("-->").unwrap_or((rest, ""));
        if inside.split_whitespace().count() >= 3 {
            return Some(inside.trim());
        }
        text = after;
    }
}

/// Returns the content of the first declaration of a document type that is not just `<!doctype html>`. Such a
/// declaration can hide text like a comment.
fn declaration(text: &str) -> Option<&str> {
    let rests = text.split("<!doctype").skip(1);
    let mut contents = rests.map(|rest| rest.split_once('>').map_or(rest, |(content, _)| content));
    contents.find(|content| content.trim() != "html")
}

/// Returns the first URL of a Markdown image that has a query, with which a model could leak data.
fn image(mut text: &str) -> Option<&str> {
    loop {
        let (_, rest) = text.split_once("![")?;
        let (_, rest) = rest.split_once("](")?;
        // A URL may contain parentheses in pairs, so it ends at the first closing parenthesis that has no opening one.
        let mut open = 1_usize;
        let end = rest.find(|c: char| {
            match c {
                '(' => open += 1,
                ')' => open -= 1,
                _ => {}
            }
            open == 0
        });
        let (address, after) = rest.split_at(end.unwrap_or(rest.len()));
        if address.contains("://") && address.contains('?') {
            return Some(address);
        }
        text = after;
    }
}

/// Returns the first URL that executes code (`javascript:`) or contains a whole document (`data:text/`).
fn running(text: &str) -> Option<&str> {
    let code = |scheme: &str| {
        let begins = |c: char| c.is_alphanumeric() || c == '/' || c == '(';
        let mut urls = text.match_indices(scheme).map(|(at, _)| &text[at..]);
        urls.find(|url| url[scheme.len()..].starts_with(begins))
    };
    let document = |scheme: &str| {
        let urls = text.match_indices(scheme).map(|(at, _)| &text[at..]);
        // A URL without content, e.g. `data:text/plain;base64,...`, only shows the form of such URLs, so it does not
        // count.
        urls.map_while(|url| Some((url, url.split_once(',')?.1))).find_map(|(url, content)| {
            let begins = |c: char| c.is_alphanumeric() || "<%+/".contains(c);
            let content = content.trim_start().trim_start_matches(['.', '…']);
            content.starts_with(begins).then_some(url)
        })
    };
    let schemes = ["data:text/", "data:application/"];
    ["javascript:", "vbscript:"]
        .into_iter()
        .find_map(code)
        .or_else(|| schemes.into_iter().find_map(document))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_found_in_the_url_of_any_image_but_not_in_that_of_a_link_around_an_image() {
        for text in [
            "![a](https://a.example/a.png) ![b](https://b.example/b.png?d=x)",
            "![a](https://a.example/(a)/a.png?d=x)",
        ] {
            assert!(image(text).is_some_and(|address| address.ends_with("?d=x")), "{text}");
        }
        assert_eq!(image("[![a](https://a.example/a.png)](https://b.example/?q)"), None);
    }
}
