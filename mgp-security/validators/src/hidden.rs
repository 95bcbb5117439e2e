//! Characters that hide text from a reader, or imitate other characters.

/// Returns the first control, bidirectional or invisible character. Tabs are allowed, joiners in emojis, and newlines
/// if `multiline` is set.
pub(crate) fn hidden(text: &str, multiline: bool) -> Option<char> {
    if text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return None;
    }
    let is_allowed = |c: char| c == '\t' || multiline && matches!(c, '\n' | '\r');
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        // A joiner is allowed between two pictographs, which it combines into one emoji.
        let joins = c == '\u{200d}'
            && is_pictograph(before)
            && chars.peek().is_some_and(|&next| is_pictograph(next));
        if is_hidden(c) && !is_allowed(c) && !joins {
            return Some(c);
        }
        if c != '\u{fe0f}' {
            before = c;
        }
    }
    None
}

fn is_pictograph(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

fn is_hidden(c: char) -> bool {
    let is_private = matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}');
    mgp_types::is_hidden(c) && c != '\u{fe0f}' || is_private || matches!(c, '\u{fff0}'..='\u{fff8}')
}

/// Returns whether a character looks like an ASCII letter, digit or mark. Such characters are full-width and
/// mathematical forms, dashes, and letters of other scripts that have the shapes of Latin letters.
pub(crate) fn imitates_ascii(c: char) -> bool {
    if c.is_ascii() {
        return false;
    }
    let forms = matches!(c,
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff01}'..='\u{ff5e}'
        | '\u{1d400}'..='\u{1d7ff}' | '\u{2460}'..='\u{24ff}' | '\u{2100}'..='\u{214f}'
        | '\u{2044}' | '\u{2215}' | '\u{29f8}' | '\u{37e}' | '\u{2223}' | '\u{1c0}');
    forms || "аеорсухіјѕһԁԛԝѵкмтвнАВЕКМНОРСТУХІЈЅαοιρυκνχΑΒΕΖΗΙΚΜΝΟΡΤΥΧıɑɡⅼⅰոսցօ".contains(c)
}
