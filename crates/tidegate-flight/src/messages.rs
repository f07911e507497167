//! The messages about session options, which `arrow-flight` 59 does not have, after Arrow's
//! `Flight.proto`.

use std::collections::HashMap;

/// A session option's value.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SessionOptionValue {
    #[prost(oneof = "OptionValue", tags = "1, 2, 3, 4, 5")]
    pub(crate) option_value: Option<OptionValue>,
}

/// One of the forms that a session option's value has.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum OptionValue {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Truth(bool),
    #[prost(sfixed64, tag = "3")]
    Integer(i64),
    #[prost(double, tag = "4")]
    Number(f64),
    #[prost(message, tag = "5")]
    Texts(StringListValue),
}

/// A list of strings.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StringListValue {
    #[prost(string, repeated, tag = "1")]
    pub(crate) values: Vec<String>,
}

/// Asks to set options; a value that is not set unsets.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SetSessionOptionsRequest {
    #[prost(map = "string, message", tag = "1")]
    pub(crate) session_options: HashMap<String, SessionOptionValue>,
}

/// Tells which options could not be set.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SetSessionOptionsResult {
    #[prost(map = "string, message", tag = "1")]
    pub(crate) errors: HashMap<String, OptionError>,
}

/// Why an option could not be set.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct OptionError {
    #[prost(enumeration = "OptionErrorValue", tag = "1")]
    pub(crate) value: i32,
}

/// Why an option could not be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum OptionErrorValue {
    Unspecified = 0,
    InvalidName = 1,
    InvalidValue = 2,
    Error = 3,
}

/// Tells all options.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GetSessionOptionsResult {
    #[prost(map = "string, message", tag = "1")]
    pub(crate) session_options: HashMap<String, SessionOptionValue>,
}

/// Tells whether a session was closed.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct CloseSessionResult {
    #[prost(enumeration = "CloseStatus", tag = "1")]
    pub(crate) status: i32,
}

/// Whether a session was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum CloseStatus {
    Unspecified = 0,
    Closed = 1,
    Closing = 2,
    NotCloseable = 3,
}
