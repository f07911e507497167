//! A measured time, smoothed.

use serde::{Deserialize, Serialize};

/// The least weight of a new observation; the first ones weigh more.
const WEIGHT_MIN: f64 = 0.25;

/// Observations after which a new one weighs no less than the one before.
const COUNT_MAX: u32 = 4;

/// A positive quantity that is observed again and again: the exponentially weighted geometric mean,
/// since what is ten times too large is as wrong as what is ten times too small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Smoothed {
    value: f64,
    /// Observations, as far as they count.
    count: u32,
    /// It is a measurement, not only a start.
    measured: bool,
}

impl Smoothed {
    /// Takes in an observation.
    pub(super) fn learn(&mut self, observed: f64) {
        if observed <= 0.0 || !observed.is_finite() {
            return;
        }
        self.measured = true;
        self.count = (self.count + 1).min(COUNT_MAX);
        let weight = (1.0 / f64::from(self.count)).max(WEIGHT_MIN);
        self.value = if self.count == 1 || self.value <= 0.0 {
            observed
        } else {
            self.value * (observed / self.value).powf(weight)
        };
    }

    /// Takes a measurement to begin with, which the first observation replaces.
    pub(super) fn calibrate(&mut self, value: f64) {
        if self.count == 0 && value > 0.0 && value.is_finite() {
            self.value = value;
            self.measured = true;
        }
    }

    pub(super) fn is_measured(&self) -> bool {
        self.measured
    }

    /// Returns this one if there is anything in it, else the other.
    pub(super) fn or(self, other: Self) -> Self {
        if self.value > 0.0 { self } else { other }
    }

    pub(super) fn value_or(&self, other: f64) -> f64 {
        if self.value > 0.0 { self.value } else { other }
    }

    /// Returns whether this is something that could have been observed.
    pub(super) fn is_sound(&self) -> bool {
        self.value.is_finite() && self.value >= 0.0
    }
}
