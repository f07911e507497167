//! Calls of functions that users defined.
//!
//! Each function becomes one of the generated source, with the user's text between `#line`
//! directives, so that the compiler names the function and counts the lines of its body. A call is
//! made only for rows that are selected and whose arguments are there: a body may loop.

use std::fmt::Write;
use std::sync::Arc;

use arrow_schema::DataType;
use tidegate_pipeline::program::ValueId;
use tidegate_pipeline::{CustomFunction, Unsupported};

use super::RowText;
use crate::program::source::PRELUDE;

impl RowText<'_> {
    /// Returns the C++ of a call, made where it is wanted.
    pub(super) fn custom(
        &mut self,
        function: &Arc<CustomFunction>,
        arguments: &[ValueId],
        wanted: ValueId,
    ) -> Result<String, Unsupported> {
        let known = self.customs.iter().position(|(known, _)| known == function);
        let index = known.unwrap_or(self.customs.len());
        if known.is_none() {
            let text = function_text(index, function)?;
            self.customs.push((Arc::clone(function), text));
        }
        let mut passed = Vec::with_capacity(arguments.len());
        for (id, (_, data_type)) in arguments.iter().zip(&function.arguments) {
            passed.push(format!("({}){}", c_type(data_type)?, self.name(*id)));
        }
        let (wanted, returns) = (self.name(wanted), c_type(&function.returns)?);
        let passed = passed.join(", ");
        Ok(format!("{wanted} ? custom{index}({passed}) : ({returns})0"))
    }
}

fn function_text(index: usize, function: &CustomFunction) -> Result<String, Unsupported> {
    let mut arguments = Vec::with_capacity(function.arguments.len());
    for (name, data_type) in &function.arguments {
        arguments.push(format!("{} {name}", c_type(data_type)?));
    }
    let (arguments, returns) = (arguments.join(", "), c_type(&function.returns)?);
    let body = function.cuda.trim_end();
    let name: String = function
        .name
        .chars()
        .filter(|c| !matches!(c, '"' | '\\' | '\n'))
        .collect();
    let is_expression = !words(body).any(|word| word == "return");
    let (open, close) = if is_expression {
        ("return (", ");")
    } else {
        ("", "")
    };
    Ok(format!(
        "__device__ inline {returns} custom{index}({arguments}) {{\n{open}\n#line 1 \"{name}\"\n\
         {body}\n#line 1 \"kernel\"\n{close}\n}}\n"
    ))
}

fn words(body: &str) -> impl Iterator<Item = &str> {
    body.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// Returns a source that holds nothing but a function, for a compiler to look at.
///
/// # Errors
/// Why the function has no device form.
pub fn probe(function: &CustomFunction) -> Result<String, Unsupported> {
    let mut text = PRELUDE.to_owned();
    text.push_str(&function_text(0, function)?);
    let (mut arguments, mut places) = (Vec::new(), Vec::new());
    for (index, (_, data_type)) in function.arguments.iter().enumerate() {
        arguments.push(format!("const {}* a{index}", c_type(data_type)?));
        places.push(format!("a{index}[threadIdx.x]"));
    }
    arguments.push(format!("{}* result", c_type(&function.returns)?));
    let _ = writeln!(
        text,
        "extern \"C\" __global__ void probe({}) {{ result[threadIdx.x] = custom0({}); }}",
        arguments.join(", "),
        places.join(", ")
    );
    Ok(text)
}

/// Returns what C++ calls values of a type.
fn c_type(data_type: &DataType) -> Result<&'static str, Unsupported> {
    Ok(match data_type {
        DataType::Boolean => "bool",
        DataType::Int8 => "signed char",
        DataType::Int16 => "short",
        DataType::Int32 | DataType::Date32 => "i32",
        DataType::Int64 | DataType::Timestamp(_, None) => "i64",
        DataType::UInt8 => "u8",
        DataType::UInt16 => "u16",
        DataType::UInt32 => "u32",
        DataType::UInt64 => "u64",
        DataType::Float32 => "float",
        DataType::Float64 => "double",
        other => return Err(Unsupported::new(format!("a CUDA body has no {other}"))),
    })
}
