//! Bounds of numbers among the options of COPY and the settings of DataFusion, which takes any: a batch of no rows is
//! written for ever, and 100,000 partitions take more memory than there is.

use std::ops::RangeInclusive;

use datafusion::error::Result;

use crate::error::{Error, ErrorKind};

/// Options by the last part of their names, and the values that they may have.
const BOUNDS: [(&str, RangeInclusive<f64>); 8] = [
    ("batch_size", 1.0..=16_777_216.0),
    ("target_partitions", 0.0..=1_024.0),
    ("write_batch_size", 1.0..=1e9),
    ("max_row_group_size", 1.0..=1e12),
    ("data_pagesize_limit", 1.0..=1e12),
    ("data_page_row_count_limit", 1.0..=1e12),
    ("dictionary_page_size_limit", 1.0..=1e12),
    ("bloom_filter_fpp", 1e-9..=0.999_999),
];

/// Refuses options with which no file can be written or no statement run.
///
/// # Errors
/// [`ErrorKind::Sql`] with the option, what it is and what it may be.
pub(super) fn check_options<'a>(
    options: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> Result<()> {
    for (name, value) in options {
        let named = |(known, _): &&(&str, _)| {
            let option = name.split("::").next().unwrap_or_default();
            option.rsplit('.').next() == Some(*known)
        };
        let Some((_, bounds)) = BOUNDS.iter().find(named) else {
            continue;
        };
        // What is no number is refused by whoever reads it.
        if value
            .trim()
            .parse()
            .is_ok_and(|value: f64| !bounds.contains(&value))
        {
            let message = format!(
                "{name} is {value}: it may be from {} to {}",
                bounds.start(),
                bounds.end()
            );
            return Err(Error::new(ErrorKind::Sql, message).into());
        }
    }
    Ok(())
}
