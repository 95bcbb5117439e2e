//! Values that layers hand inward, by type.
//!
//! Applies to: both.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;

/// A small map from type to value; empty costs nothing.
#[derive(Clone, Default)]
pub struct Extensions(Vec<(TypeId, Arc<dyn Any + Send + Sync>)>);

impl Extensions {
    /// Puts a value, replacing one of the same type.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.insert_shared(Arc::new(value));
    }

    /// Puts a shared value.
    pub fn insert_shared<T: Send + Sync + 'static>(&mut self, value: Arc<T>) {
        let id = TypeId::of::<T>();
        self.0.retain(|(known, _)| *known != id);
        self.0.push((id, value));
    }

    /// Takes a look at a value.
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        let id = TypeId::of::<T>();
        self.0.iter().find(|(known, _)| *known == id).and_then(|(_, value)| value.downcast_ref())
    }

    /// Shares a value.
    #[must_use]
    pub fn get_shared<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let id = TypeId::of::<T>();
        let (_, value) = self.0.iter().find(|(known, _)| *known == id)?;
        Arc::clone(value).downcast().ok()
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} values", self.0.len())
    }
}
