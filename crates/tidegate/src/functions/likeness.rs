//! `hamming(a, b)`, also called `mismatches`, and `jaccard(a, b)`: how far apart two strings are, as in DuckDB, by characters.
//!
//! `hamming` counts the places with different characters, and is an error of strings of different lengths. `jaccard` is the
//! share of the characters that both have among those that either has, and is an error of an empty string. NULL of NULL.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// Returns the functions.
pub(crate) fn functions() -> [ScalarUDF; 2] {
    [Kind::Hamming, Kind::Jaccard].map(|kind| Likeness::new(kind).into())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Hamming,
    Jaccard,
}

/// A function of two strings.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Likeness {
    kind: Kind,
    aliases: Vec<String>,
    signature: Signature,
    documentation: Documentation,
}

impl Likeness {
    fn new(kind: Kind) -> Self {
        let (description, syntax, aliases) = match kind {
            Kind::Hamming => (
                "Counts the places at which two strings of one length have different characters.",
                "hamming(a, b)",
                vec!["mismatches".to_string()],
            ),
            Kind::Jaccard => (
                "Returns the share of the characters of two strings that both have.",
                "jaccard(a, b)",
                Vec::new(),
            ),
        };
        Self {
            kind,
            aliases,
            signature: Signature::user_defined(Volatility::Immutable),
            documentation: Documentation::builder(DOC_SECTION_STRING, description, syntax).build(),
        }
    }
}

impl ScalarUDFImpl for Likeness {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Hamming => "hamming",
            Kind::Jaccard => "jaccard",
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let is_text = |given: &DataType| match given {
            DataType::Dictionary(_, values) => values.is_string(),
            given => given.is_string() || given.is_null(),
        };
        match given.len() == 2 && given.iter().all(is_text) {
            true => Ok(vec![DataType::Utf8View; 2]),
            false => plan_err!("{0} takes two strings: {0}(a, b)", self.name()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::Hamming => DataType::Int64,
            Kind::Jaccard => DataType::Float64,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let kind = self.kind;
        make_scalar_function(move |given| compared(kind, given), Vec::new())(&args.args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

fn compared(kind: Kind, given: &[ArrayRef]) -> Result<ArrayRef> {
    let [left, right] = given else {
        return exec_err!("two strings are compared");
    };
    let (left, right) = (left.as_string_view(), right.as_string_view());
    let pairs = left.iter().zip(right.iter());
    let pairs = pairs.map(|(left, right)| left.zip(right));
    Ok(match kind {
        Kind::Hamming => {
            let counts = pairs.map(|pair| pair.map(hamming).transpose());
            Arc::new(counts.collect::<Result<Int64Array>>()?)
        }
        Kind::Jaccard => {
            let shares = pairs.map(|pair| pair.map(jaccard).transpose());
            Arc::new(shares.collect::<Result<Float64Array>>()?)
        }
    })
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
