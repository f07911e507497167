//! Aggregates that are no more than what they take and return, their state, and what keeps it.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Signature, Volatility,
};

/// One or several aggregates, whose values depend on no order.
pub(super) trait Kind: Copy + Debug + Eq + Hash + Send + Sync + 'static {
    fn name(self) -> &'static str;

    fn documentation(self) -> Documentation;

    /// Returns the types to which arguments of given types are cast, or an error that says what it takes.
    fn takes(self, given: &[DataType]) -> Result<Vec<DataType>>;

    /// Returns the type of its values, given those of its arguments.
    fn returns(self, given: &[DataType]) -> DataType;

    /// Returns the columns of a state.
    fn state(self, given: &[FieldRef]) -> Result<Vec<(&'static str, DataType)>>;

    /// Makes what keeps the state of a group.
    fn keeper(self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>>;
}

/// Returns the function of a kind.
pub(super) fn function(kind: impl Kind) -> AggregateUDF {
    AggregateUDF::from(Aggregate {
        kind,
        signature: Signature::user_defined(Volatility::Immutable),
        documentation: kind.documentation(),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Aggregate<K> {
    kind: K,
    signature: Signature,
    documentation: Documentation,
}

impl<K: Kind> AggregateUDFImpl for Aggregate<K> {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.kind.takes(given)
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(self.kind.returns(given))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let columns = self.kind.state(args.input_fields)?.into_iter();
        let fields = columns.map(|(name, of)| {
            let name = format_state_name(args.name, name);
            Arc::new(Field::new(name, of, true))
        });
        Ok(fields.collect())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.kind.keeper(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}
