//! SQL's intervals as integers of 128 bits, in the order in which intervals compare: months, then days,
//! then nanoseconds.

use super::Accuracy;
use super::kernel::{Body, Kernel};
use crate::interval::Interval;
use crate::program::{Builder, Type, ValueId};

/// An interval's parts; they are added in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) months: i32,
    pub(crate) days: i32,
    pub(crate) nanoseconds: i64,
}

impl Span {
    pub(crate) fn new(months: i32, days: i32, nanoseconds: i64) -> Self {
        Self {
            months,
            days,
            nanoseconds,
        }
    }

    /// Returns months, days and nanoseconds in 32, 32 and 64 bits; the lower two are moved, so that none
    /// is below zero.
    pub(crate) fn packed(self) -> i128 {
        let days = (self.days as u32) ^ 1 << 31;
        let nanoseconds = (self.nanoseconds as u64) ^ 1 << 63;
        i128::from(self.months) << 96 | i128::from(days) << 64 | i128::from(nanoseconds)
    }

    pub(crate) fn of_packed(packed: i128) -> Self {
        Self {
            months: (packed >> 96) as i32,
            days: ((packed >> 64) as u32 ^ 1 << 31) as i32,
            nanoseconds: (packed as u64 ^ 1 << 63) as i64,
        }
    }
}

static MONTHS: Kernel = Kernel {
    name: "months",
    accuracy: Accuracy::Exact,
    body: Body::Unpack(|packed| i64::from(Span::of_packed(packed).months)),
    gives: |_| Type::Int(Interval::signed(32)),
    cuda: Some("(i32)((i128){0} >> 96)"),
};

static DAYS: Kernel = Kernel {
    name: "days",
    accuracy: Accuracy::Exact,
    body: Body::Unpack(|packed| i64::from(Span::of_packed(packed).days)),
    gives: |_| Type::Int(Interval::signed(32)),
    cuda: Some("(i32)((u32)((i128){0} >> 64) ^ 0x80000000u)"),
};

static NANOSECONDS: Kernel = Kernel {
    name: "nanoseconds",
    accuracy: Accuracy::Exact,
    body: Body::Unpack(|packed| Span::of_packed(packed).nanoseconds),
    gives: |_| Type::Int(Interval::signed(64)),
    cuda: Some("(i64)((u64){0} ^ 0x8000000000000000ull)"),
};

static INTERVAL: Kernel = Kernel {
    name: "interval",
    accuracy: Accuracy::Exact,
    body: Body::Pack(|months, days, nanoseconds| {
        Span::new(months as i32, days as i32, nanoseconds).packed()
    }),
    gives: |_| Type::Int(Interval::ALL),
    cuda: Some(
        "(i128)((u128)(u32){0} << 96 | (u128)((u32){1} ^ 0x80000000u) << 64 | ((u64){2} ^ 0x8000000000000000ull))",
    ),
};

/// Returns months, days and nanoseconds.
pub(crate) fn parts(builder: &mut Builder, span: ValueId) -> [ValueId; 3] {
    [&MONTHS, &DAYS, &NANOSECONDS].map(|part| builder.call(part, vec![span]))
}

/// Makes an interval of its parts, which are within 32, 32 and 64 bits.
pub(crate) fn of_parts(builder: &mut Builder, parts: [ValueId; 3]) -> ValueId {
    builder.call(&INTERVAL, parts.to_vec())
}

#[cfg(test)]
mod tests {
    use super::Span;

    #[test]
    fn packing_keeps_the_order() {
        let parts = [i32::MIN, -1, 0, 1, i32::MAX];
        let nanoseconds = [i64::MIN, -1, 0, 1, i64::MAX];
        let mut last = None;
        for months in parts {
            for days in parts {
                for nanoseconds in nanoseconds {
                    let span = Span::new(months, days, nanoseconds);
                    assert_eq!(Span::of_packed(span.packed()), span);
                    assert!(last.is_none_or(|last| last < span.packed()));
                    last = Some(span.packed());
                }
            }
        }
    }
}
