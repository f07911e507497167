//! `gamma(x)`, `lgamma(x)` and `nextafter(x, y)`, as in DuckDB.
//!
//! `gamma` is Lanczos' approximation, in the coefficients of Godfrey, and exact of whole numbers up to 23; `lgamma` is
//! Stirling's series. Both have about 14 digits, and are errors at zero and at negative whole numbers, where they have no value.
//! `nextafter` is the number next to x on the way to y. NULL of NULL.

use std::f64::consts::PI;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Float32Array, Float64Array};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_MATH;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// Whole numbers from here on have an infinite gamma.
const GAMMA_MAX: f64 = 172.0;

const LANCZOS_SHIFT: f64 = 7.5;
const LANCZOS: [f64; 9] = [
    0.999_999_999_999_809_9,
    676.520_368_121_885_1,
    -1_259.139_216_722_402_8,
    771.323_428_777_653_1,
    -176.615_029_162_140_6,
    12.507_343_278_686_905,
    -0.138_571_095_265_720_12,
    9.984_369_578_019_572e-6,
    1.505_632_735_149_311_6e-7,
];

/// The coefficients of 1/x, 1/x³, 1/x⁵, … in the logarithm of gamma.
const STIRLING: [f64; 7] = [
    1.0 / 12.0,
    -1.0 / 360.0,
    1.0 / 1_260.0,
    -1.0 / 1_680.0,
    1.0 / 1_188.0,
    -691.0 / 360_360.0,
    1.0 / 156.0,
];

/// Numbers below this are moved up to it before the series is summed.
const STIRLING_MIN: f64 = 12.0;

/// Returns the functions.
pub(crate) fn functions() -> [ScalarUDF; 3] {
    [Kind::Gamma, Kind::LogGamma, Kind::NextAfter].map(|kind| Special::new(kind).into())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Gamma,
    LogGamma,
    NextAfter,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Special {
    kind: Kind,
    signature: Signature,
    documentation: Documentation,
}

impl Special {
    fn new(kind: Kind) -> Self {
        let (description, syntax) = match kind {
            Kind::Gamma => (
                "Returns gamma of a number: (x - 1)! of a whole one.",
                "gamma(x)",
            ),
            Kind::LogGamma => (
                "Returns the natural logarithm of the absolute value of gamma of a number.",
                "lgamma(x)",
            ),
            Kind::NextAfter => (
                "Returns the floating-point number next to x on the way to y.",
                "nextafter(x, y)",
            ),
        };
        Self {
            kind,
            signature: Signature::user_defined(Volatility::Immutable),
            documentation: Documentation::builder(DOC_SECTION_MATH, description, syntax).build(),
        }
    }
}

impl ScalarUDFImpl for Special {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Gamma => "gamma",
            Kind::LogGamma => "lgamma",
            Kind::NextAfter => "nextafter",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let is_number = |given: &DataType| given.is_numeric() || given.is_null();
        match (self.kind, given) {
            (Kind::NextAfter, [DataType::Float32, DataType::Float32]) => Ok(given.to_vec()),
            (Kind::NextAfter, [x, y]) if is_number(x) && is_number(y) => {
                Ok(vec![DataType::Float64; 2])
            }
            (Kind::NextAfter, _) => plan_err!("nextafter takes two numbers: nextafter(x, y)"),
            (_, [x]) if is_number(x) => Ok(vec![DataType::Float64]),
            _ => plan_err!("{} takes a number", self.name()),
        }
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        match given {
            [DataType::Float32, ..] => Ok(DataType::Float32),
            _ => Ok(DataType::Float64),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let kind = self.kind;
        make_scalar_function(move |given| computed(kind, given), Vec::new())(&args.args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

fn computed(kind: Kind, given: &[ArrayRef]) -> Result<ArrayRef> {
    let each = |name: &str, of: fn(f64) -> f64| {
        let Some(numbers) = given.first() else {
            return exec_err!("{name} takes a number");
        };
        let numbers = numbers.as_primitive::<Float64Type>().iter();
        let values = numbers.map(|number| match number {
            Some(number) if number <= 0.0 && number.trunc() == number => {
                exec_err!("{name} has no value at zero and at negative whole numbers")
            }
            number => Ok(number.map(of)),
        });
        let values = values.collect::<Result<Float64Array>>()?;
        Ok(Arc::new(values) as ArrayRef)
    };
    match kind {
        Kind::Gamma => each("gamma", gamma),
        Kind::LogGamma => each("lgamma", lgamma),
        Kind::NextAfter => next_after(given),
    }
}

fn next_after(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [from, to] = given else {
        return exec_err!("nextafter takes two numbers");
    };
    if let (Some(from), Some(to)) = (
        from.as_primitive_opt::<Float32Type>(),
        to.as_primitive_opt::<Float32Type>(),
    ) {
        let pairs = from.iter().zip(to.iter());
        let next = |(from, to): (f32, f32)| match from.partial_cmp(&to) {
            Some(std::cmp::Ordering::Less) => from.next_up(),
            Some(std::cmp::Ordering::Greater) => from.next_down(),
            Some(std::cmp::Ordering::Equal) => to,
            None => f32::NAN,
        };
        let values = pairs.map(|(from, to)| from.zip(to).map(next));
        return Ok(Arc::new(values.collect::<Float32Array>()));
    }
    let pairs = from.as_primitive::<Float64Type>().iter();
    let pairs = pairs.zip(to.as_primitive::<Float64Type>().iter());
    let next = |(from, to): (f64, f64)| match from.partial_cmp(&to) {
        Some(std::cmp::Ordering::Less) => from.next_up(),
        Some(std::cmp::Ordering::Greater) => from.next_down(),
        Some(std::cmp::Ordering::Equal) => to,
        None => f64::NAN,
    };
    let values = pairs.map(|(from, to)| from.zip(to).map(next));
    Ok(Arc::new(values.collect::<Float64Array>()))
}

/// Computes gamma of what is no pole.
fn gamma(x: f64) -> f64 {
    if x.is_nan() || x == f64::INFINITY {
        return x;
    }
    if x > 0.0 && x.trunc() == x {
        return match x < GAMMA_MAX {
            true => (2..x as u32).fold(1.0, |product, factor| product * f64::from(factor)),
            false => f64::INFINITY,
        };
    }
    if x < 0.5 {
        return PI / (sine_of_pi(x) * gamma(1.0 - x));
    }
    let x = x - 1.0;
    let terms = LANCZOS.iter().enumerate().skip(1);
    let sum = terms.fold(LANCZOS[0], |sum, (place, coefficient)| {
        sum + coefficient / (x + place as f64)
    });
    let shifted = x + LANCZOS_SHIFT;
    // In two halves: the power alone may be infinite.
    let half = shifted.powf((x + 0.5) / 2.0);
    (2.0 * PI).sqrt() * half * (-shifted).exp() * half * sum
}

/// Computes the logarithm of the absolute value of gamma of what is no pole.
fn lgamma(x: f64) -> f64 {
    if x.is_nan() || x.is_infinite() {
        return x.abs();
    }
    if x == 1.0 || x == 2.0 {
        return 0.0;
    }
    if x < 0.5 {
        return (PI / sine_of_pi(x).abs()).ln() - lgamma(1.0 - x);
    }
    let (mut x, mut product) = (x, 1.0);
    while x < STIRLING_MIN {
        product *= x;
        x += 1.0;
    }
    let square = x * x;
    let series = STIRLING.iter().rev();
    let series = series.fold(0.0, |sum, coefficient| sum / square + coefficient) / x;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * PI).ln() + series - f64::ln(product)
}

/// Computes sin(πx), of which large numbers keep their fraction.
fn sine_of_pi(x: f64) -> f64 {
    (PI * (x % 2.0)).sin()
}

#[cfg(test)]
mod tests {
    use super::{gamma, lgamma};

    #[track_caller]
    fn check(given: f64, expect: f64) {
        let is_near = (given - expect).abs() <= 1e-13 * expect.abs().max(1.0);
        assert!(is_near, "{given} is not {expect}");
    }

    #[test]
    fn gamma_is_near_its_known_values() {
        assert_eq!(gamma(1.0), 1.0);
        assert_eq!(gamma(5.0), 24.0);
        assert_eq!(gamma(171.0).log10().floor(), 306.0);
        assert_eq!(gamma(172.0), f64::INFINITY);
        check(gamma(0.5), 1.772_453_850_905_516);
        check(gamma(-0.5), -3.544_907_701_811_032);
        check(gamma(4.5), 11.631_728_396_567_448);
        check(gamma(0.1), 9.513_507_698_668_732);
        assert!(gamma(170.5).is_finite() && gamma(f64::NAN).is_nan());
        check(lgamma(10.0), 12.801_827_480_081_47);
        check(lgamma(0.5), 0.572_364_942_924_700_1);
        check(lgamma(-0.5), 1.265_512_123_484_645_4);
        check(lgamma(3.0), std::f64::consts::LN_2);
        check(lgamma(1e10) / 2.202_585_092_888_106_4e11, 1.0);
        assert_eq!(lgamma(f64::INFINITY), f64::INFINITY);
    }
}
