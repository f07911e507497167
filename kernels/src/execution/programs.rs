//! Programs that were written for a device, found again by what they were written for.
//!
//! Writing a kernel takes longer than running one over little. A program depends on the pipeline,
//! whose parameters decide widths, and on what is known of its slots; both are compared whole.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_pipeline::{Pipeline, Unsupported};

use crate::program::{
    DeviceProgram, Generated, ProgramOptions, Slot, SlotFacts, declared_facts, declared_program,
    generate,
};

/// Programs kept; what was used longest ago goes first.
const PROGRAMS_MAX: usize = 128;

/// The programs of one device.
#[derive(Debug, Default)]
pub struct Programs {
    /// What was used last stands in front.
    known: Mutex<VecDeque<Known>>,
}

#[derive(Debug)]
struct Known {
    purpose: Purpose,
    written: Result<Arc<DeviceProgram>, Unsupported>,
}

/// What a program is written for.
#[derive(Clone, Debug)]
pub(super) struct Purpose {
    pub(super) pipeline: Arc<Pipeline>,
    /// The slots with what is known of each; `None` if nothing is known of any.
    pub(super) facts: Option<Vec<(Slot, SlotFacts)>>,
    /// Float sums are kept in more digits.
    pub(super) wide_floats: bool,
    /// They are kept in the same digits whatever the values are.
    pub(super) fixed_floats: bool,
    /// The array that the input's columns are made of, if they are.
    pub(super) generated: Option<Arc<Generated>>,
}

impl Purpose {
    fn is(&self, other: &Self) -> bool {
        let same_pipeline =
            Arc::ptr_eq(&self.pipeline, &other.pipeline) || self.pipeline == other.pipeline;
        let same_floats =
            self.wide_floats == other.wide_floats && self.fixed_floats == other.fixed_floats;
        same_pipeline
            && same_floats
            && self.facts == other.facts
            && self.generated == other.generated
    }

    fn write(&self, options: &ProgramOptions) -> Result<DeviceProgram, Unsupported> {
        let Some(facts) = &self.facts else {
            return declared_program(&self.pipeline, options);
        };
        let facts_of = |slot: &Slot| {
            let known = facts.iter().find(|(known, _)| known == slot);
            match known {
                Some((_, facts)) => facts.clone(),
                None => declared_facts(slot),
            }
        };
        let options = ProgramOptions {
            wide_floats: self.wide_floats,
            fixed_floats: self.fixed_floats,
            generated: self.generated.clone(),
            ..options.clone()
        };
        generate(&self.pipeline, &facts_of, &options)
    }
}

impl Programs {
    /// Returns the program of a pipeline of whose values nothing is known, or why it has none.
    pub(crate) fn declared(
        &self,
        pipeline: &Arc<Pipeline>,
        options: &ProgramOptions,
    ) -> Result<Arc<DeviceProgram>, Unsupported> {
        let purpose = Purpose {
            pipeline: Arc::clone(pipeline),
            facts: None,
            wide_floats: false,
            fixed_floats: options.fixed_floats,
            generated: None,
        };
        self.get(purpose, options)
    }

    /// Returns the program of a pipeline over an array that the device makes, or why it has none.
    pub(crate) fn generated(
        &self,
        pipeline: &Arc<Pipeline>,
        source: &Arc<Generated>,
        wide_floats: bool,
        options: &ProgramOptions,
    ) -> Result<Arc<DeviceProgram>, Unsupported> {
        let purpose = Purpose {
            pipeline: Arc::clone(pipeline),
            // All that is known is known of the array.
            facts: Some(Vec::new()),
            wide_floats,
            fixed_floats: options.fixed_floats,
            generated: Some(Arc::clone(source)),
        };
        self.get(purpose, options)
    }

    /// Returns the program for a purpose, written now if it is not known, or why there is none.
    pub(super) fn get(
        &self,
        purpose: Purpose,
        options: &ProgramOptions,
    ) -> Result<Arc<DeviceProgram>, Unsupported> {
        if let Some(written) = self.find(&purpose) {
            return written;
        }
        let written = purpose.write(options).map(Arc::new);
        let mut known = self.known.lock();
        known.truncate(PROGRAMS_MAX - 1);
        known.push_front(Known {
            purpose,
            written: written.clone(),
        });
        written
    }

    fn find(&self, purpose: &Purpose) -> Option<Result<Arc<DeviceProgram>, Unsupported>> {
        let mut known = self.known.lock();
        let position = known.iter().position(|known| known.purpose.is(purpose))?;
        let found = known.remove(position)?;
        let written = found.written.clone();
        known.push_front(found);
        Some(written)
    }
}

#[cfg(test)]
mod tests;
