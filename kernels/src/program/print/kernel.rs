//! Calls of the catalogue's functions that have a body of their own.

use tidegate_pipeline::Unsupported;
use tidegate_pipeline::catalogue::Kernel;
use tidegate_pipeline::program::{Type, ValueId};

use super::{RowText, c_type};

impl RowText<'_> {
    /// Returns the C++ of a call, as the catalogue spells it.
    pub(super) fn kernel(
        &mut self,
        kernel: &Kernel,
        arguments: &[ValueId],
        data: Type,
    ) -> Result<String, Unsupported> {
        let Some(spelled) = kernel.cuda else {
            return Err(Unsupported::new(format!(
                "{} has no device form",
                kernel.name
            )));
        };
        // What a spelling calls is in one of these.
        self.blocks.checked = true;
        self.blocks.calendar = true;
        let mut code = spelled.to_owned();
        for (index, argument) in arguments.iter().enumerate() {
            code = code.replace(&format!("{{{index}}}"), self.name(*argument));
        }
        Ok(match data.is_integer() {
            true => format!("({})({code})", c_type(data.class())),
            false => code,
        })
    }
}
