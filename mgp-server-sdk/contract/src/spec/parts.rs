//! The eight parts of a specification, and the headings that begin them.

/// A part of the specification of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Purpose,
    Name,
    Input,
    Output,
    Errors,
    Idempotency,
    Examples,
    Security,
}

impl Part {
    /// All parts in order, each with the heading that is written for it, and with lower-case words by which a heading
    /// of another author is recognized.
    pub(super) const ALL: [(Self, &'static str, &'static [&'static str]); 8] = [
        (Self::Purpose, "Tool Purpose and Description", &["purpose", "description", "overview"]),
        (Self::Name, "Invocation Name", &["invocation name", "invocation"]),
        (Self::Input, "Input Schema (Parameters)", &["input", "parameters", "arguments"]),
        (Self::Output, "Output Schema (Return Value)", &["output", "return", "result"]),
        (Self::Errors, "Error Handling", &["error"]),
        (Self::Idempotency, "Idempotency", &["idempoten"]),
        (Self::Examples, "Usage Examples", &["usage", "example"]),
        (Self::Security, "Security Considerations", &["security"]),
    ];

    /// Returns the part that a heading begins; `None` for any other heading.
    pub(super) fn of_heading(heading: &str) -> Option<Self> {
        let heading = heading.to_ascii_lowercase();
        Self::ALL
            .iter()
            .find(|(.., words)| words.iter().any(|word| heading.contains(word)))
            .map(|(part, ..)| *part)
    }

    pub(super) fn heading(self) -> &'static str {
        Self::ALL[self.index()].1
    }

    /// Returns the position of the part, from 0.
    pub(super) fn index(self) -> usize {
        self as usize
    }
}
