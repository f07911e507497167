//! The fields of objects, in the order in which they are met.

use std::collections::HashMap;
use std::ops::Deref;

use super::Shape;

/// So many fields are searched one after the other; where there are more, each is found by its name.
const SEARCHED_MAX: usize = 32;

/// The fields of an object, in order; no two have one name.
#[derive(Clone, Debug, Default)]
pub struct ObjectFields {
    fields: Vec<(String, Shape)>,
    /// Where each field stands; empty if they are searched.
    places: HashMap<String, usize>,
}

impl ObjectFields {
    /// Adds a value of a field, which most often stands at `place`.
    pub(super) fn add(&mut self, name: String, shape: Shape, place: usize) {
        match self.find(&name, place) {
            Some(found) => self.fields[found].1.merge(shape),
            None => self.push(name, shape),
        }
    }

    /// Adds the fields of another object.
    pub(super) fn merge(&mut self, others: Self) {
        for (place, (name, shape)) in others.fields.into_iter().enumerate() {
            self.add(name, shape, place);
        }
    }

    /// Takes whole numbers of more than 64 bits for numbers.
    pub(super) fn narrow(&mut self) {
        self.change(|_, shape| shape.narrow());
    }

    /// Changes the fields' shapes.
    pub(super) fn change(&mut self, change: impl Fn(&str, &mut Shape)) {
        for (name, shape) in &mut self.fields {
            change(name, shape);
        }
    }

    fn find(&self, name: &str, place: usize) -> Option<usize> {
        // Most objects have their fields in one order.
        if self.fields.get(place).is_some_and(|(same, _)| same == name) {
            return Some(place);
        }
        match self.places.is_empty() {
            true => self.fields.iter().position(|(known, _)| known == name),
            false => self.places.get(name).copied(),
        }
    }

    fn push(&mut self, name: String, shape: Shape) {
        let place = self.fields.len();
        if place == SEARCHED_MAX {
            let known = self.fields.iter().enumerate();
            self.places = known
                .map(|(place, (name, _))| (name.clone(), place))
                .collect();
        }
        if place >= SEARCHED_MAX {
            self.places.insert(name.clone(), place);
        }
        self.fields.push((name, shape));
    }
}

impl Deref for ObjectFields {
    type Target = [(String, Shape)];

    fn deref(&self) -> &Self::Target {
        &self.fields
    }
}

impl PartialEq for ObjectFields {
    fn eq(&self, other: &Self) -> bool {
        self.fields == other.fields
    }
}
