//! What a function that stands in the place of another has of that one.

/// Writes the methods for which a function asks the one in its field.
macro_rules! methods_of {
    ($of:tt) => {
        fn name(&self) -> &str {
            self.$of.name()
        }

        fn aliases(&self) -> &[String] {
            self.$of.aliases()
        }

        fn signature(&self) -> &datafusion::logical_expr::Signature {
            self.$of.signature()
        }

        fn return_type(
            &self,
            given: &[datafusion::arrow::datatypes::DataType],
        ) -> datafusion::error::Result<datafusion::arrow::datatypes::DataType> {
            self.$of.return_type(given)
        }

        fn documentation(&self) -> Option<&datafusion::logical_expr::Documentation> {
            self.$of.documentation()
        }
    };
}

pub(super) use methods_of;
