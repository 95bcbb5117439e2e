//! The completion functions of a prompt or a resource template.

use std::collections::BTreeMap;

use mgp_types::mcp::Completion;
use mgp_types::service::Extensions;

use crate::error::BuildError;
use crate::request::Function;

/// The completion functions of a prompt or a template, each by the name of its argument or variable.
#[derive(Clone, Debug, Default)]
pub(crate) struct Completers(BTreeMap<String, Function<Completion>>);

impl Completers {
    pub(crate) fn add(&mut self, argument: String, function: Function<Completion>) {
        self.0.insert(argument, function);
    }

    pub(crate) fn get(&self, argument: &str) -> Option<&Function<Completion>> {
        self.0.get(argument)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns an error for each function whose argument is not among `arguments`, or whose state the server lacks.
    /// `what` names the prompt or template in the errors.
    pub(crate) fn errors(
        &self,
        what: &str,
        arguments: &[&str],
        state: &Extensions,
    ) -> Vec<BuildError> {
        let error = |(argument, function): (&String, &Function<Completion>)| {
            if !arguments.contains(&argument.as_str()) {
                let (what, argument) = (what.to_owned(), argument.clone());
                return Some(BuildError::UnknownArgument { what, argument });
            }
            function.missing_state(what, state)
        };
        self.0.iter().filter_map(error).collect()
    }
}

/// The prompt or template of a completion request, with its completion functions and arguments.
#[derive(Debug)]
pub(crate) struct CompletionTarget {
    pub(crate) completers: Completers,
    /// The names of the arguments; `None` for a template of a resource set, whose variables are not known here.
    pub(crate) arguments: Option<Vec<String>>,
}
