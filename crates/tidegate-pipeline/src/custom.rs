//! Functions that a user of the library defined, with one body for the host and one for a device.
//!
//! The host's body is Rust over Arrow arrays, the device's is CUDA C++ over the values of one row.
//! Both mean the same; who registers a function holds them against each other. NULL in, NULL out:
//! neither body sees a row in which an argument is NULL.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit};
use serde::{Deserialize, Serialize};

use crate::check::Unsupported;
use crate::interpret::EvalError;

/// What a host body is: arrays of one length, one for each argument, to an array of that length.
pub type HostBody = dyn Fn(&[ArrayRef]) -> Result<ArrayRef, BodyFailed> + Send + Sync;

/// What the body of a function says to whoever wrote the query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BodyFailed(pub String);

/// A function that can run on a device too.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CustomFunction {
    /// What queries call it.
    pub name: String,
    /// Names and types of its arguments; the device's body uses the names.
    pub arguments: Vec<(String, DataType)>,
    /// The type of its value.
    pub returns: DataType,
    /// A C++ expression over the arguments, or statements that `return` one.
    pub cuda: String,
    /// The host's body; it does not travel with the pipeline.
    #[serde(skip)]
    pub host: Host,
}

/// The host's body of a function, if it is in this process.
#[derive(Clone, Default)]
pub struct Host(pub Option<Arc<HostBody>>);

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "Host"
        } else {
            "Host(absent)"
        })
    }
}

impl PartialEq for Host {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(left), Some(right)) => Arc::ptr_eq(left, right),
            (left, right) => left.is_none() && right.is_none(),
        }
    }
}

impl Eq for Host {}

impl Hash for Host {
    /// Adds nothing: the name and the other body tell functions apart.
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl CustomFunction {
    /// Checks that the types are ones that both bodies can have, and that the names are ones that
    /// C++ takes.
    ///
    /// # Errors
    /// What is in the way.
    pub fn check(&self) -> Result<(), Unsupported> {
        let name = &self.name;
        for (argument, data_type) in &self.arguments {
            check_type(name, data_type)?;
            if !is_identifier(argument) {
                return Err(Unsupported::new(format!(
                    "function {name}: argument {argument:?} is no name in C++"
                )));
            }
        }
        check_type(name, &self.returns)
    }

    /// Calls the host's body, and makes its value NULL where an argument is.
    ///
    /// # Errors
    /// [`EvalError::Function`] with what the body says, or with how its result is not what it was
    /// declared to be.
    pub fn call(&self, args: &[ArrayRef]) -> Result<ArrayRef, EvalError> {
        let failed = |why: String| EvalError::Function {
            name: self.name.clone(),
            why,
        };
        let Host(Some(body)) = &self.host else {
            return Err(failed("its body is in another process".into()));
        };
        let num_rows = args.first().map(|array| array.len());
        let result = body(args).map_err(|BodyFailed(why)| failed(why))?;
        if result.data_type() != &self.returns {
            let (given, wanted) = (result.data_type(), &self.returns);
            return Err(failed(format!("its body gave {given} and not {wanted}")));
        }
        if num_rows.is_some_and(|rows| rows != result.len()) {
            let (given, wanted) = (result.len(), num_rows.unwrap_or(0));
            return Err(failed(format!(
                "its body gave {given} values for {wanted} rows"
            )));
        }
        let known = args.iter().map(|array| array.logical_nulls());
        let nulls = known.fold(result.nulls().cloned(), |nulls, other| {
            NullBuffer::union(nulls.as_ref(), other.as_ref())
        });
        let data = result.to_data().into_builder().nulls(nulls).build();
        Ok(arrow_array::make_array(data.map_err(EvalError::Arrow)?))
    }
}

fn check_type(name: &str, data_type: &DataType) -> Result<(), Unsupported> {
    let has_form = matches!(
        data_type,
        DataType::Boolean
            | DataType::Float32
            | DataType::Float64
            | DataType::Date32
            | DataType::Timestamp(
                TimeUnit::Second
                    | TimeUnit::Millisecond
                    | TimeUnit::Microsecond
                    | TimeUnit::Nanosecond,
                None
            )
    ) || data_type.is_integer();
    if has_form {
        return Ok(());
    }
    Err(Unsupported::new(format!(
        "function {name}: a CUDA body has no {data_type}; there are booleans, integers, floats, dates \
         and timestamps without a time zone"
    )))
}

fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    let first = chars.next();
    first.is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}
