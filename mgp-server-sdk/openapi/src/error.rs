//! The errors that occur when an OpenAPI document is read and converted to a server.

/// The reason why a document cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenApiError {
    /// The text of the document is too long.
    #[error("the document has more than {0} bytes")]
    TooLong(usize),
    /// The text of the document is neither JSON nor YAML.
    #[error("the document is neither JSON nor YAML: {0}")]
    Syntax(String),
    /// The document is not an OpenAPI document, or has a version that is not supported.
    #[error("{0}")]
    Version(String),
    /// The document has no operation that can be offered as a tool.
    #[error("the document has no operation that can be called")]
    Empty,
    /// All operations are left out. Contains the first of these operations, with the reasons.
    #[error("the document has no operation that can be called{0}")]
    AllLeftOut(String),
    /// No operation fits the patterns of the operator, apart from operations that are left out. Contains these
    /// operations, with the reasons.
    #[error("no operation that can be called fits the patterns{0}")]
    NoMatch(String),
    /// The address of the API is missing or unusable.
    #[error("{0}")]
    BaseUrl(String),
}
