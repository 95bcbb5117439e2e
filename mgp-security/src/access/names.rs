//! A map with names as keys, small and fast for the snapshot that decisions read.

use rustc_hash::FxHashMap;

/// The maximum number of names that are searched linearly; with so few, that is cheaper than hashing.
const FEW: usize = 6;

/// A map from names to values: a list while it has few names, and a hash map otherwise.
///
/// Only operators choose the names, so an unseeded hash is safe from collision attacks.
pub(super) enum Names<V> {
    Few(Vec<(Box<str>, V)>),
    Many(FxHashMap<Box<str>, V>),
}

impl<V> Names<V> {
    pub(super) fn get(&self, name: &str) -> Option<&V> {
        match self {
            Self::Few(few) => {
                few.iter().find(|(known, _)| **known == *name).map(|(_, value)| value)
            }
            Self::Many(many) => many.get(name),
        }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        let (few, many) = match self {
            Self::Few(few) => (Some(few), None),
            Self::Many(many) => (None, Some(many)),
        };
        let few = few.into_iter().flatten().map(|(_, value)| value);
        few.chain(many.into_iter().flat_map(FxHashMap::values))
    }
}

impl<V: Default> Names<V> {
    /// Returns the value of a name; inserts a default value if the name is new.
    pub(super) fn entry(&mut self, name: &str) -> &mut V {
        if let Self::Few(few) = self
            && few.len() == FEW
        {
            *self = Self::Many(few.drain(..).collect());
        }
        match self {
            Self::Few(few) => {
                let at = few.iter().position(|(known, _)| **known == *name).unwrap_or(few.len());
                if at == few.len() {
                    few.push((name.into(), V::default()));
                }
                &mut few[at].1
            }
            Self::Many(many) => many.entry(name.into()).or_default(),
        }
    }
}

impl<V> Default for Names<V> {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_are_found_alike() {
        let mut names = Names::<Vec<usize>>::default();
        for number in 0..FEW * 3 {
            for _ in 0..2 {
                names.entry(&number.to_string()).push(number);
            }
            assert_eq!(names.values().count(), number + 1);
            let found = |name: usize| names.get(&name.to_string());
            assert!((0..=number).all(|name| found(name) == Some(&vec![name; 2])));
            assert!(found(number + 1).is_none());
        }
    }
}
