//! The declarations in a tool's definition that make a call acceptable which its arguments alone do not. Claims of a
//! sandboxed server are not used.

use crate::{argument_values::Leaf, argument_values::key_words, words::Words};
use serde_json::Value;

/// Words in the names of tools that create or change something which has a command of its own, e.g. a container.
static OWNERS: Words = Words::new(
    "\
    create update add edit patch deploy container containers pod pods job jobs cronjob cronjobs deployment \
    deployments service services instance instances vm vms",
);
/// Words in the names of tools that execute a command at once.
static EXECUTORS: Words = Words::new(
    "exec execute shell terminal bash sh powershell command commands cmd process processes script scripts",
);

/// Returns whether a text is one of the values that the definition lists for its argument (`enum`), and is a plain name.
/// The server's developer chose such a value, not the agent.
pub(crate) fn is_choice(definition: &Value, leaf: &Leaf<'_>, text: &str) -> bool {
    let [key] = leaf.keys[..] else { return false };
    let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let Some(property) = properties(definition).and_then(|all| all.get(key)) else { return false };
    let places = [Some(property), property.get("items")];
    let mut choices =
        places.into_iter().flatten().filter_map(|place| place.get("enum")?.as_array());
    is_name && choices.any(|choices| choices.iter().any(|choice| choice == text))
}

/// Returns whether a call of this tool without a command is complete: the definition declares an optional argument for
/// which `is_command` returns `true`, and the tool does not only execute commands, e.g. creates a container.
pub(crate) fn can_lack_command(
    tool: &str,
    definition: &Value,
    is_command: impl Fn(&str) -> bool,
) -> bool {
    let words = key_words(tool);
    let is_required = |name: &str| {
        let required = definition["inputSchema"]["required"].as_array();
        required.is_some_and(|names| names.iter().any(|required| required == name))
    };
    let mut names = properties(definition).into_iter().flat_map(serde_json::Map::keys);
    words.iter().any(|word| OWNERS.has(word))
        && !words.iter().any(|word| EXECUTORS.has(word))
        && names.any(|name| is_command(name) && !is_required(name))
}

fn properties(definition: &Value) -> Option<&serde_json::Map<String, Value>> {
    definition.get("inputSchema")?.get("properties")?.as_object()
}
