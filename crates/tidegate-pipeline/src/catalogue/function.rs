//! Functions and aggregates of the catalogue as pipelines name them.

use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{AggregateEntry, ScalarEntry};

/// A scalar function of the catalogue. It is known by its name, by which it also travels.
#[derive(Clone, Copy)]
pub struct Function(&'static ScalarEntry);

impl Function {
    /// Returns the function of a name.
    pub fn named(name: &str) -> Option<Self> {
        super::functions()
            .find(|entry| entry.name == name)
            .map(Self)
    }

    /// Returns the function that stands for one of DataFusion's.
    pub fn of_datafusion(name: &str) -> Option<Self> {
        super::functions()
            .find(|entry| entry.datafusion.contains(&name))
            .map(Self)
    }

    /// Returns what the catalogue says of it.
    pub fn entry(self) -> &'static ScalarEntry {
        self.0
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Function {}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl Serialize for Function {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl<'de> Deserialize<'de> for Function {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::named(&name).ok_or_else(|| de::Error::custom(format!("no function {name}")))
    }
}

/// An aggregate of the catalogue. It is known by its name, by which it also travels.
#[derive(Clone, Copy)]
pub struct NamedAggregate(&'static AggregateEntry);

impl NamedAggregate {
    /// Names an entry.
    pub(super) const fn new(entry: &'static AggregateEntry) -> Self {
        Self(entry)
    }

    /// Returns what the catalogue says of it.
    pub fn entry(self) -> &'static AggregateEntry {
        self.0
    }
}

impl PartialEq for NamedAggregate {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for NamedAggregate {}

impl Hash for NamedAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl fmt::Debug for NamedAggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl Serialize for NamedAggregate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl<'de> Deserialize<'de> for NamedAggregate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let found = super::aggregates().find(|entry| entry.name == name);
        let found = found.map(Self);
        found.ok_or_else(|| de::Error::custom(format!("no aggregate {name}")))
    }
}
