//! Names that were nearly right.

/// Finds the name that was probably meant.
pub(crate) fn nearest<'a>(names: &'a [String], name: &str) -> Option<&'a str> {
    let likeness = |candidate: &'a String| (strsim::jaro_winkler(candidate, name), candidate);
    let nearest = names
        .iter()
        .map(likeness)
        .max_by(|left, right| left.0.total_cmp(&right.0));
    let (likeness, candidate) = nearest?;
    (likeness > 0.75).then_some(candidate)
}
