//! The id of a message that was too long to be stored; only its beginning and its end are known.

use bytestring::ByteString;

use super::envelope::Envelope;
use crate::wire::Id;

/// A message that was too long to be stored; only its beginning and its end are known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CutMessage {
    /// The message is a request with this id; this side can answer it with an error.
    Request(Id),
    /// The message is the response to a request of this side with this id; the call that waits for it can end with an
    /// error.
    Answer(Id),
}

impl CutMessage {
    /// Reads the id from the beginning or the end of a message; `None` if neither contains it.
    ///
    /// ```
    /// use mgp_types::service::CutMessage;
    ///
    /// let head = br#"{"jsonrpc":"2.0","id":1,"result":{"text":"aaa"#;
    /// assert_eq!(CutMessage::read(head, b""), Some(CutMessage::Answer(1.into())));
    /// let head = br#"{"result":{"text":"aaa"#;
    /// assert_eq!(CutMessage::read(head, b""), None);
    /// assert_eq!(CutMessage::read(head, br#"aaa"},"id":1}"#), Some(CutMessage::Answer(1.into())));
    /// ```
    #[must_use]
    pub fn read(head: &[u8], tail: &[u8]) -> Option<Self> {
        let head = ByteString::from(String::from_utf8_lossy(head).into_owned());
        let mut envelope = Envelope::default();
        // Parsing always fails, because the end of the message is missing. Afterwards `envelope` contains the members
        // that precede the missing part.
        let _ = envelope.read(&head);
        let id = envelope.id().or_else(|| id_at_end(tail))?;
        Some(if envelope.is_response() { Self::Answer(id) } else { Self::Request(id) })
    }
}

/// Finds the id of a cut message in `tail`, the end of the message; `None` if `tail` does not contain it.
fn id_at_end(tail: &[u8]) -> Option<Id> {
    let tail = String::from_utf8_lossy(tail);
    tail.match_indices("\"id\"").find_map(|(at, _)| {
        let end = ByteString::from(format!("{{{}", &tail[at..]));
        let mut envelope = Envelope::default();
        // If the `id` belongs to a nested object, parsing fails, because more than one closing brace follows.
        envelope.read(&end).ok()?;
        envelope.id()
    })
}
