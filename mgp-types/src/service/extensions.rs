//! Values that outer layers pass to inner layers, found by type.

use std::any::{Any, TypeId};
use std::sync::Arc;

/// A small map from a type to a value of that type; an empty map needs no allocation.
#[derive(Clone, Default)]
pub struct Extensions {
    /// The value that was inserted first. It is stored here, because most calls have at most one value, and the list
    /// would need an allocation.
    first: Option<Value>,
    rest: Vec<Value>,
}

type Value = (TypeId, Arc<dyn Any + Send + Sync>);

impl Extensions {
    /// Inserts a value, which replaces an earlier value of the same type.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.insert_shared(Arc::new(value));
    }

    /// Inserts a shared value, which replaces an earlier value of the same type.
    pub fn insert_shared<T: Send + Sync + 'static>(&mut self, value: Arc<T>) {
        let id = TypeId::of::<T>();
        if let Some((known, _)) = &self.first
            && *known != id
        {
            self.rest.retain(|(known, _)| *known != id);
            self.rest.push((id, value));
        } else {
            self.first = Some((id, value));
        }
    }

    /// Returns a reference to the value of type `T`, if any.
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.find::<T>()?.downcast_ref()
    }

    /// Returns a new `Arc` of the value of type `T`, if any.
    #[must_use]
    pub fn get_shared<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        Arc::clone(self.find::<T>()?).downcast().ok()
    }

    fn find<T: 'static>(&self) -> Option<&Arc<dyn Any + Send + Sync>> {
        let id = TypeId::of::<T>();
        match &self.first {
            Some((known, value)) if *known == id => Some(value),
            _ => self.rest.iter().find(|(known, _)| *known == id).map(|(_, value)| value),
        }
    }
}

crate::opaque_debug!(Extensions);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_one_value() {
        let mut values = Extensions::default();
        assert_eq!(values.get::<u8>(), None);
        values.insert(1_u8);
        values.insert(2_u16);
        values.insert(3_u32);
        // Replaces a value wherever it is stored: inline or in the list.
        values.insert(4_u8);
        values.insert(5_u32);
        assert_eq!(
            (values.get(), values.get(), values.get()),
            (Some(&4_u8), Some(&2_u16), Some(&5_u32))
        );
        assert_eq!(values.get_shared::<u16>().as_deref(), Some(&2));
        assert_eq!(values.get_shared::<u64>(), None);
    }
}
