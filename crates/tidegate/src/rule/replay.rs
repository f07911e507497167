//! What an earlier query did, for its regions to be placed in the same way.

use std::cell::RefCell;

use datafusion::error::Result;
use tidegate_pipeline::Pipeline;
use tidegate_scheduler::RecordedRegion;

use crate::options::{ReplayedPlacement, TidegateOptions};
use crate::query::History;
use crate::runtime::Runtime;

/// The regions of an earlier query that have not been placed again yet, each with its program.
#[derive(Debug)]
pub(super) struct Recording(RefCell<Vec<(String, RecordedRegion)>>);

impl Recording {
    /// Returns the query to be replayed, if there is one. Whether the session may see it was looked at
    /// when it was set.
    pub(super) fn of(runtime: &Runtime, options: &TidegateOptions) -> Result<Option<Self>> {
        let Some(ReplayedPlacement::Query(id)) = options.replay_placement else {
            return Ok(None);
        };
        let regions = History::of(runtime).recorded(id, None)?;
        Ok(Some(Self(RefCell::new(regions))))
    }

    /// Takes how a region of this program ran, if that is `wanted`: of several the first.
    pub(super) fn take(
        &self,
        program: &Pipeline,
        wanted: impl Fn(&RecordedRegion) -> bool,
    ) -> Option<RecordedRegion> {
        let program = program.to_string();
        let mut regions = self.0.borrow_mut();
        let is_it =
            |(other, region): &(String, RecordedRegion)| *other == program && wanted(region);
        let position = regions.iter().position(is_it)?;
        Some(regions.remove(position).1)
    }
}
