//! `hamming(a, b)`, also called `mismatches`, `jaccard(a, b)`, `jaro_similarity(a, b)`, `jaro_winkler_similarity(a, b)` and
//! `damerau_levenshtein(a, b)`: how far apart two strings are, as in DuckDB, by characters.
//!
//! `hamming` counts the places with different characters, and is an error of strings of different lengths. `jaccard` is the
//! share of the characters that both have among those that either has, and is an error of an empty string. NULL of NULL.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;

use super::plain::{self, Parts};

/// Returns the functions.
pub(crate) fn functions() -> [ScalarUDF; 5] {
    let hamming = Parts {
        names: &["hamming", "mismatches"],
        section: DOC_SECTION_STRING,
        description: "Counts the places at which two strings of one length have different characters.",
        syntax: "hamming(a, b)",
        takes: |given| two_strings("hamming", given),
        returns: |_| DataType::Int64,
        computes: |given| {
            let counts = pairs(given)?.map(|pair| pair.map(hamming).transpose());
            Ok(Arc::new(counts.collect::<Result<Int64Array>>()?))
        },
    };
    let jaccard = Parts {
        names: &["jaccard"],
        section: DOC_SECTION_STRING,
        description: "Returns the share of the characters of two strings that both have.",
        syntax: "jaccard(a, b)",
        takes: |given| two_strings("jaccard", given),
        returns: |_| DataType::Float64,
        computes: |given| {
            let shares = pairs(given)?.map(|pair| pair.map(jaccard).transpose());
            Ok(Arc::new(shares.collect::<Result<Float64Array>>()?))
        },
    };
    let jaro = Parts {
        names: &["jaro_similarity"],
        section: DOC_SECTION_STRING,
        description: "Returns how alike two strings are, from 0 to 1, by Jaro.",
        syntax: "jaro_similarity(a, b)",
        takes: |given| two_strings("jaro_similarity", given),
        returns: |_| DataType::Float64,
        computes: |given| likenesses(given, strsim::jaro),
    };
    let winkler = Parts {
        names: &["jaro_winkler_similarity"],
        section: DOC_SECTION_STRING,
        description: "Returns how alike two strings are, from 0 to 1, by Jaro and Winkler.",
        syntax: "jaro_winkler_similarity(a, b)",
        takes: |given| two_strings("jaro_winkler_similarity", given),
        returns: |_| DataType::Float64,
        computes: |given| likenesses(given, strsim::jaro_winkler),
    };
    let damerau = Parts {
        names: &["damerau_levenshtein"],
        section: DOC_SECTION_STRING,
        description: "Counts the letters to insert, delete, replace or swap with the next one.",
        syntax: "damerau_levenshtein(a, b)",
        takes: |given| two_strings("damerau_levenshtein", given),
        returns: |_| DataType::Int64,
        computes: |given| {
            let counts = pairs(given)?.map(|pair| {
                pair.map(|(left, right)| strsim::damerau_levenshtein(left, right) as i64)
            });
            Ok(Arc::new(counts.collect::<Int64Array>()))
        },
    };
    [hamming, jaccard, jaro, winkler, damerau].map(plain::function)
}

fn two_strings(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    let is_text = |given: &DataType| match given {
        DataType::Dictionary(_, values) => values.is_string(),
        given => given.is_string() || given.is_null(),
    };
    match given.len() == 2 && given.iter().all(is_text) {
        true => Ok(vec![DataType::Utf8View; 2]),
        false => plan_err!("{name} takes two strings: {name}(a, b)"),
    }
}

/// Computes how alike the strings of each row are; nothing is like an empty string.
fn likenesses(given: &[ArrayRef], of: fn(&str, &str) -> f64) -> Result<ArrayRef> {
    let shares = pairs(given)?.map(|pair| {
        pair.map(|(left, right)| match left.is_empty() || right.is_empty() {
            true => 0.0,
            false => of(left, right),
        })
    });
    Ok(Arc::new(shares.collect::<Float64Array>()))
}

/// Returns the strings of each row that has two.
fn pairs(given: &[ArrayRef]) -> Result<impl Iterator<Item = Option<(&str, &str)>>> {
    let [left, right] = given else {
        return exec_err!("two strings are compared");
    };
    let (left, right) = (left.as_string_view(), right.as_string_view());
    let pairs = left.iter().zip(right.iter());
    Ok(pairs.map(|(left, right)| left.zip(right)))
}

fn hamming((left, right): (&str, &str)) -> Result<i64> {
    let (mut left, mut right) = (left.chars(), right.chars());
    let mut count = 0;
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Ok(count),
            (Some(left), Some(right)) => count += i64::from(left != right),
            _ => return exec_err!("hamming takes strings of the same length"),
        }
    }
}

fn jaccard((left, right): (&str, &str)) -> Result<f64> {
    if left.is_empty() || right.is_empty() {
        return exec_err!("jaccard takes strings that are not empty");
    }
    let (left, right): (HashSet<char>, HashSet<char>) =
        (left.chars().collect(), right.chars().collect());
    let both = left.intersection(&right).count();
    let either = left.len() + right.len() - both;
    Ok(both as f64 / either as f64)
}

#[cfg(test)]
mod tests {
    use super::{hamming, jaccard};

    #[test]
    fn strings_are_compared_by_characters() {
        assert_eq!(hamming(("duck", "luck")).unwrap(), 1);
        assert_eq!(hamming(("über", "uber")).unwrap(), 1);
        assert_eq!(hamming(("", "")).unwrap(), 0);
        assert!(hamming(("a", "ab")).is_err());
        assert_eq!(jaccard(("duck", "luck")).unwrap(), 0.6);
        assert_eq!(jaccard(("aab", "b")).unwrap(), 0.5);
        assert!(jaccard(("", "a")).is_err());
    }
}
