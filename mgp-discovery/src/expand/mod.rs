//! Expansion of `${…}` in configurations, and secrets in clear text (MGP §15.2).

mod command;
mod expander;
mod secret_file;
mod secrets;
mod template;
#[cfg(test)]
mod tests;
mod value;

pub use expander::{ExpandError, ExpandedServer, ExpandedTarget, Expander, ProcessRights};
pub use secret_file::{SecretFile, SecretFileError};
pub(crate) use secrets::looks_secret;
pub use secrets::{ClearSecret, clear_secrets, describe_target};
pub(crate) use template::{Piece, closing};
pub use template::{Template, TemplateError};
pub use value::Expanded;
