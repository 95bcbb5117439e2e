//! A parsed text with `${…}` (MGP §15.2).

use crate::config::limits;

/// A text that may contain `${…}`: references to variables, files, commands and secrets.
///
/// ```
/// use mgp_discovery::Template;
///
/// let template = Template::parse("${HOME}/bin/${TOOL:-files}").unwrap();
/// assert_eq!(template.variables().collect::<Vec<_>>(), ["HOME", "TOOL"]);
/// assert!(Template::parse("a price of 5$ or $$5").unwrap().is_literal());
/// assert_eq!(
///     Template::parse("${HOME").unwrap_err().to_string(),
///     "`${` is never closed; write `$${` for the characters themselves"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    Variable {
        name: String,
        default: Option<Template>,
    },
    File(String),
    Command(String),
    /// The name of a secret of the user, from `${keyring:NAME}`.
    Secret(String),
}

/// The reason why a text cannot be parsed as a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// A closing brace is missing.
    #[error("`${{` is never closed; write `$${{` for the characters themselves")]
    Open,
    /// The text in braces has no known form.
    #[error(
        "`${{…}}` does not name a variable; write `${{NAME}}`, `${{NAME:-default}}`, `${{file:PATH}}`, `${{cmd:COMMAND}}` or `${{keyring:NAME}}`"
    )]
    NoName,
    /// `${file:}`, `${cmd:}` or `${keyring:}` without a path, a command or a name.
    #[error("`${{{0}:…}}` names nothing")]
    Empty(&'static str),
    /// Defaults are nested too deeply.
    #[error("`${{…}}` is nested deeper than {}", limits::MAX_DEPTH)]
    Deep,
}

impl Template {
    /// Parses a text.
    ///
    /// # Errors
    /// [`TemplateError`] if a `${…}` in the text is not valid.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        parse(text, 0)
    }

    /// Returns whether the text contains no `${…}`.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        self.0.iter().all(|piece| matches!(piece, Piece::Text(_)))
    }

    /// Returns the names of all variables, including variables in defaults.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let mut names = Vec::new();
        self.visit(&mut |piece| {
            if let Piece::Variable { name, .. } = piece {
                names.push(name.as_str());
            }
        });
        names.into_iter()
    }

    /// Returns the references to values outside the file, as they are written but without defaults: `${TOKEN}`,
    /// `${file:key}`.
    #[must_use]
    pub fn needs(&self) -> Vec<String> {
        let mut needs = Vec::new();
        self.visit(&mut |piece| match piece {
            Piece::Text(_) => {}
            Piece::Variable { name, .. } => needs.push(format!("${{{name}}}")),
            Piece::File(path) => needs.push(format!("${{file:{path}}}")),
            Piece::Command(command) => needs.push(format!("${{cmd:{command}}}")),
            Piece::Secret(name) => needs.push(format!("${{keyring:{name}}}")),
        });
        needs
    }

    /// Returns each variable whose default is plain text, with that default.
    pub(crate) fn defaults(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut defaults = Vec::new();
        self.visit(&mut |piece| {
            if let Piece::Variable { name, default: Some(Self(pieces)) } = piece
                && let [Piece::Text(text)] = &pieces[..]
            {
                defaults.push((name.as_str(), text.as_str()));
            }
        });
        defaults.into_iter()
    }

    fn visit<'a>(&'a self, look: &mut dyn FnMut(&'a Piece)) {
        for piece in &self.0 {
            look(piece);
            if let Piece::Variable { default: Some(default), .. } = piece {
                default.visit(look);
            }
        }
    }

    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.0
    }
}

fn parse(text: &str, depth: usize) -> Result<Template, TemplateError> {
    if depth > limits::MAX_DEPTH {
        return Err(TemplateError::Deep);
    }
    let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find('$') {
        plain.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            plain.push('$');
            rest = after;
        } else if let Some(after) = rest.strip_prefix('{') {
            let end = closing(after).ok_or(TemplateError::Open)?;
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(piece(&after[..end], depth)?);
            rest = &after[end + 1..];
        } else {
            // A `$` without a brace is plain text, because passwords and prices contain it.
            plain.push('$');
        }
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    Ok(Template(pieces))
}

/// Returns the position of the brace that closes a reference; the text begins directly after its `${`. Returns `None`
/// if the brace is missing.
pub(crate) fn closing(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => open += 1,
            b'}' if open == 0 => return Some(at),
            b'}' => open -= 1,
            _ => {}
        }
    }
    None
}

fn piece(inside: &str, depth: usize) -> Result<Piece, TemplateError> {
    let named = |text: &str, word| match text.trim() {
        "" => Err(TemplateError::Empty(word)),
        text => Ok(text.to_owned()),
    };
    if let Some(path) = inside.strip_prefix("file:") {
        return named(path, "file").map(Piece::File);
    }
    if let Some(command) = inside.strip_prefix("cmd:") {
        return named(command, "cmd").map(Piece::Command);
    }
    if let Some(name) = inside.strip_prefix("keyring:") {
        return named(name, "keyring").map(Piece::Secret);
    }
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(parse(default, depth + 1)?)),
        None => (inside, None),
    };
    if !is_variable(name) {
        return Err(TemplateError::NoName);
    }
    Ok(Piece::Variable { name: name.to_owned(), default })
}

/// Returns whether shells accept a text as a variable name.
fn is_variable(name: &str) -> bool {
    name.bytes().next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
