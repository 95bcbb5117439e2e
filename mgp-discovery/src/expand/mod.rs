//! Expansion of `${…}` in configurations, and secrets in clear text (MGP §15.2).

mod clear_secrets;
mod command;
mod expander;
mod secret_file;
mod template;
#[cfg(test)]
mod tests;
mod value;
mod variables;

pub use clear_secrets::{ClearSecret, clear_secrets, describe_target, looks_secret};
pub use expander::{ExpandError, ExpandedServer, ExpandedTarget, Expander, ProcessRights};
pub use secret_file::{SecretFile, SecretFileError};
pub(crate) use template::{Piece, closing};
pub use template::{Template, TemplateError};
pub use value::Expanded;
pub use variables::named_variables;
