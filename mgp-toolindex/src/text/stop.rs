//! English stop words, including words that are common in requests for tools (MGP §16.4).

const STOP_WORDS: &[&str] = &[
    "a", "about", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "because",
    "been", "but", "by", "can", "could", "did", "do", "does", "for", "from", "had", "has", "have",
    "he", "her", "here", "hers", "him", "his", "how", "i", "if", "im", "in", "into", "is", "it",
    "its", "just", "like", "ll", "m", "may", "me", "might", "must", "my", "need", "no", "not",
    "of", "on", "or", "our", "please", "re", "s", "shall", "she", "should", "so", "some", "such",
    "t", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those",
    "to", "too", "us", "use", "using", "ve", "very", "via", "want", "was", "we", "were", "what",
    "when", "where", "which", "while", "who", "will", "with", "would", "you", "your",
];

pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_can_be_searched() {
        assert!(STOP_WORDS.is_sorted());
        assert!(
            is_stop_word("the")
                && is_stop_word("a")
                && is_stop_word("your")
                && !is_stop_word("file")
        );
    }
}
