//! The errors of reading a document.

/// A document that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenApiError {
    /// The text is too long.
    #[error("the document has more than {0} bytes")]
    TooLong(usize),
    /// The text is neither JSON nor YAML.
    #[error("the document is neither JSON nor YAML: {0}")]
    Syntax(String),
    /// The document is of another kind or version.
    #[error("{0}")]
    Version(String),
    /// No operation can be offered.
    #[error("the document has no operation that can be called")]
    Empty,
    /// The address of the API is missing or unusable.
    #[error("{0}")]
    BaseUrl(String),
}
