//! What the arguments of a call say of files.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::datasource::file_format::FileFormat;
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use sqlparser::ast::TableFunctionArgs;
use tidegate_readers::json::{GivenJson, JsonFormats};
use tidegate_readers::{DateFormat, Encoding, Given, TimestampFormat};

use super::Session;
use super::arguments::{Arguments, Known, Value, texts_of};
use super::functions::{Format, data_type, wrong};
use super::looked::Look;
use crate::error::Error;
use crate::files::format::checked;
use crate::files::listed::FilePath;
use crate::files::table::FilesOptions;
use crate::files::text::{Kind, TextFormat, Union};
use crate::functions::letters::by_letters;

/// The arguments of every reader.
const OF_FILES: [Known; 5] = [
    ("union_by_name", &[]),
    ("filename", &[]),
    ("hive_partitioning", &[]),
    ("hive_types", &[]),
    ("hive_types_autocast", &[]),
];

/// The argument of `read_parquet`.
const OF_PARQUET: [Known; 1] = [("file_row_number", &[])];

/// The arguments of `read_csv`.
const OF_CSV: [Known; 28] = [
    ("delim", &["sep", "delimiter"]),
    ("quote", &[]),
    ("escape", &[]),
    ("header", &[]),
    ("columns", &[]),
    ("types", &["dtype", "dtypes", "column_types"]),
    ("names", &["column_names"]),
    ("nullstr", &["null", "na_values"]),
    ("dateformat", &["date_format"]),
    ("timestampformat", &["timestamp_format"]),
    ("decimal_separator", &[]),
    ("thousands", &[]),
    ("comment", &[]),
    ("skip", &["skiprows"]),
    ("encoding", &[]),
    ("sample_size", &["sample_rows"]),
    ("all_varchar", &[]),
    ("auto_type_candidates", &[]),
    ("ignore_errors", &[]),
    ("null_padding", &[]),
    ("strict_mode", &[]),
    ("compression", &[]),
    ("normalize_names", &[]),
    // Each row may end in its own way.
    ("new_line", &[]),
    // Rows may have 64 MB, and files are cut as it is best for them.
    ("max_line_size", &["maximum_line_size"]),
    ("buffer_size", &[]),
    ("parallel", &[]),
    // It is always so.
    ("auto_detect", &[]),
];

/// The arguments of `read_json`.
const OF_JSON: [Known; 8] = [
    ("format", &[]),
    ("columns", &[]),
    ("types", &["dtypes"]),
    ("dateformat", &["date_format"]),
    ("timestampformat", &["timestamp_format"]),
    ("sample_size", &["sample_rows"]),
    ("ignore_errors", &[]),
    ("compression", &[]),
];

/// A call of a reader.
#[derive(Clone, Debug)]
pub(super) struct Call {
    name: &'static str,
    format: Format,
    paths: Vec<String>,
    arguments: Arguments,
    /// The types of the columns of a table that the file's columns go into, by place.
    target: Vec<Option<DataType>>,
}

impl Call {
    /// Reads a call.
    ///
    /// # Errors
    /// Fails for arguments that the function does not have, and for a path that is missing.
    pub(super) fn read(
        name: &'static str,
        format: Format,
        args: &TableFunctionArgs,
    ) -> Result<Self, Error> {
        let known = match format {
            Format::Csv => [&OF_CSV[..], &OF_FILES].concat(),
            Format::Json => [&OF_JSON[..], &OF_FILES].concat(),
            Format::Parquet => [&OF_PARQUET[..], &OF_FILES].concat(),
            Format::Arrow => OF_FILES.to_vec(),
            Format::Look(_) => Vec::new(),
        };
        let arguments = Arguments::read(name, args, &known)?;
        let paths = match arguments.by_place() {
            [path] => texts_of(path),
            _ => None,
        };
        let Some(paths) = paths else {
            let what = format!(
                "its one argument without a name is a path or a list of paths, as in {name}('x') or \
                 {name}(['x', 'y'])"
            );
            return Err(wrong(name, what));
        };
        Ok(Self {
            name,
            format,
            paths,
            arguments,
            target: Vec::new(),
        })
    }

    /// Says which types a table has for the columns of the files. They are those of delimited text that is to be read
    /// as text, or of which is said how its dates are written, as COPY says it.
    pub(super) fn set_target(&mut self, types: &[Option<DataType>]) {
        let given = |name| self.arguments.given(name).is_some();
        let is_said = ["all_varchar", "dateformat", "timestampformat"]
            .into_iter()
            .any(given);
        if self.format == Format::Csv && is_said && !given("union_by_name") {
            self.target = types.to_vec();
        }
    }

    /// Returns the function's name and what it tells of files; `None` if it reads their rows.
    pub(super) fn look(&self) -> Option<(&'static str, Look)> {
        match self.format {
            Format::Look(look) => Some((self.name, look)),
            _ => None,
        }
    }

    /// Returns the files.
    pub(super) async fn paths(
        &self,
        session: &Session,
        state: &SessionState,
    ) -> Result<Vec<FilePath>> {
        let mut paths = Vec::with_capacity(self.paths.len());
        for path in &self.paths {
            let copy = match &session.inputs {
                Some(inputs) => inputs.copy_of(path, state).await?,
                None => None,
            };
            paths.push(FilePath::parse(copy.as_deref().unwrap_or(path))?);
        }
        Ok(paths)
    }

    /// Returns the format of the files, and what the table has beside their columns.
    pub(super) fn resolve(
        &self,
        state: &SessionState,
    ) -> Result<(Arc<dyn FileFormat>, FilesOptions)> {
        let options = self.files(state)?;
        let union = match options.union_by_name {
            true => Union::ByName,
            false => Union::ByPlace,
        };
        Ok((self.file_format(state, union)?, options))
    }

    fn files(&self, state: &SessionState) -> Result<FilesOptions> {
        let arguments = &self.arguments;
        let given = arguments.given("filename");
        let filename = match given {
            None | Some(Value::Boolean(false)) => None,
            Some(Value::Boolean(true)) => Some("filename".to_string()),
            Some(Value::Text(name)) => Some(name.clone()),
            // As a query that names the column asks for it.
            Some(Value::List(names)) if names.len() == 1 => Some("filename".to_string()),
            Some(_) => return Ok(arguments.mismatch("filename", "true, false or a column's name")?),
        };
        let hive_types = match arguments.given("hive_types") {
            None => Vec::new(),
            Some(Value::Struct(fields)) => typed(self.name, state, fields)?,
            Some(_) => {
                let takes = "keys of folders with their types, as in {'year': 'INT'}";
                return Ok(arguments.mismatch("hive_types", takes)?);
            }
        };
        Ok(FilesOptions {
            filename,
            is_filename_hidden: matches!(given, Some(Value::List(_))),
            hive_partitioning: arguments.flag("hive_partitioning")?,
            hive_types,
            are_keys_text: arguments.flag("hive_types_autocast")? == Some(false),
            file_row_number: arguments.flag("file_row_number")?.unwrap_or(false),
            union_by_name: arguments.flag("union_by_name")?.unwrap_or(false),
        })
    }

    fn file_format(&self, state: &SessionState, union: Union) -> Result<Arc<dyn FileFormat>> {
        let ending = self.format.ending().unwrap_or_default();
        let Some(factory) = state.get_file_format_factory(ending) else {
            return Err(wrong(self.name, format!("this build reads no {ending}")).into());
        };
        let mut options = HashMap::new();
        if let Some(compression) = self.arguments.text("compression")? {
            let known = ["auto", "none", "uncompressed"].contains(&compression);
            if !known {
                options.insert("format.compression".to_string(), compression.to_string());
            }
        }
        let inner = factory.create(state, &options)?;
        let kind = match self.format {
            Format::Csv => Kind::Delimited(Box::new(self.given(state)?)),
            Format::Json => self.json(state)?,
            Format::Parquet | Format::Arrow | Format::Look(_) => return Ok(inner),
        };
        Ok(checked(Arc::new(TextFormat::new(kind, inner, union))))
    }

    fn json(&self, state: &SessionState) -> Result<Kind> {
        let known = ["auto", "newline_delimited", "nd", "array", "unstructured"];
        let format = self.arguments.text("format")?;
        // Each file shows what it is.
        if format.is_some_and(|format| !known.contains(&format)) {
            let takes = "'auto', 'array' or 'newline_delimited'";
            return Ok(self.arguments.mismatch("format", takes)?);
        }
        let ignore_errors = self.arguments.flag("ignore_errors")?.unwrap_or(false);
        let formats = JsonFormats {
            date: self.format_of("dateformat")?.map(DateFormat::Custom),
            timestamp: self
                .format_of("timestampformat")?
                .map(TimestampFormat::Custom),
        };
        if ignore_errors && !formats.is_empty() {
            let what = "ignore_errors leaves out no objects for their dates: it does not go with dateformat and \
                        timestampformat";
            return Err(wrong(self.name, what).into());
        }
        Ok(Kind::Json(Box::new(GivenJson {
            columns: self.columns(state)?,
            types: self.types(state)?,
            sample_rows: self.sample_rows()?,
            ignore_errors,
            formats,
        })))
    }

    /// Returns how dates or timestamps are written, as `strftime` describes it.
    fn format_of(&self, name: &str) -> Result<Option<String>, Error> {
        let format = self.arguments.text(name)?;
        let format = format.filter(|format| *format != "auto");
        Ok(format.map(|format| by_letters(format).unwrap_or_else(|| format.to_string())))
    }

    fn given(&self, state: &SessionState) -> Result<Given> {
        let arguments = &self.arguments;
        let delimiter = match arguments.byte("delim")? {
            Some(None) => return Ok(arguments.mismatch("delim", "a single character of ASCII")?),
            delimiter => delimiter.flatten(),
        };
        let decimal = match arguments.byte("decimal_separator")?.flatten() {
            None => None,
            Some(decimal @ (b'.' | b',')) => Some(decimal),
            Some(_) => return Ok(arguments.mismatch("decimal_separator", "'.' or ','")?),
        };
        // What is between groups of digits is not before the fraction.
        let decimal = match arguments.byte("thousands")?.flatten() {
            None => decimal,
            Some(b',') if decimal != Some(b',') => Some(b'.'),
            Some(b'.') if decimal != Some(b'.') => Some(b','),
            Some(_) => {
                let takes = "',' or '.', and not what stands before fractions";
                return Ok(arguments.mismatch("thousands", takes)?);
            }
        };
        let skip = match arguments.whole("skip")?.map(usize::try_from) {
            Some(Err(_)) => return Ok(arguments.mismatch("skip", "a number of lines")?),
            skip => skip.and_then(std::result::Result::ok),
        };
        let encoding = match arguments.text("encoding")?.map(Encoding::named) {
            Some(None) => {
                let takes = "an encoding, as in 'utf-8', 'utf-16', 'latin-1', 'windows-1252' or \
                             'shift_jis'";
                return Ok(arguments.mismatch("encoding", takes)?);
            }
            encoding => encoding.flatten(),
        };
        let (columns, types) = (self.columns(state)?, self.types(state)?);
        let all_text = arguments.flag("all_varchar")?.unwrap_or(false);
        let null_words = match arguments.texts("nullstr")? {
            // What is NULL in columns of text.
            None if all_text && !self.target.is_empty() => Some(vec![String::new(), "\\N".into()]),
            words => words,
        };
        Ok(Given {
            delimiter,
            quote: arguments.byte("quote")?,
            escape: arguments.byte("escape")?.map(|escape| {
                // A quote that is doubled needs no name.
                escape.filter(|escape| *escape != b'"')
            }),
            comment: arguments.byte("comment")?,
            header: arguments.flag("header")?,
            skip,
            encoding,
            null_words,
            decimal,
            date_format: self.format_of("dateformat")?.map(DateFormat::Custom),
            timestamp_format: self
                .format_of("timestampformat")?
                .map(TimestampFormat::Custom),
            columns,
            names: arguments.texts("names")?,
            normalize_names: arguments.flag("normalize_names")?.unwrap_or(false),
            types,
            types_by_place: self.types_by_place(state)?,
            candidates: self.candidates(state)?,
            all_text,
            null_padding: match arguments.flag("null_padding")? {
                Some(pads) => pads,
                None => arguments.flag("strict_mode")? == Some(false),
            },
            ignore_errors: arguments.flag("ignore_errors")?.unwrap_or(false),
            sample_rows: self.sample_rows()?,
        })
    }

    fn sample_rows(&self) -> Result<Option<usize>> {
        match self.arguments.whole("sample_size")? {
            None => Ok(None),
            Some(-1) => Ok(Some(usize::MAX)),
            Some(rows @ 1..) => Ok(usize::try_from(rows).ok()),
            Some(_) => {
                let takes = "a number of rows, or -1 for all";
                Ok(self.arguments.mismatch("sample_size", takes)?)
            }
        }
    }

    fn columns(&self, state: &SessionState) -> Result<Option<Vec<(String, DataType)>>> {
        match self.arguments.given("columns") {
            None => Ok(None),
            Some(Value::Struct(fields)) if !fields.is_empty() => {
                Ok(Some(typed(self.name, state, fields)?))
            }
            Some(_) => {
                let takes = "all columns with their types, as in {'a': 'BIGINT', 'b': 'VARCHAR'}";
                Ok(self.arguments.mismatch("columns", takes)?)
            }
        }
    }

    fn types(&self, state: &SessionState) -> Result<Vec<(String, DataType)>> {
        match self.arguments.given("types") {
            None => Ok(Vec::new()),
            Some(Value::Struct(fields)) => typed(self.name, state, fields),
            Some(Value::List(_)) if self.format == Format::Csv => Ok(Vec::new()),
            Some(_) => {
                let takes = "columns with their types, as in {'a': 'BIGINT'}";
                Ok(self.arguments.mismatch("types", takes)?)
            }
        }
    }

    /// Returns the types that columns may have which are given none.
    fn candidates(&self, state: &SessionState) -> Result<Vec<DataType>> {
        let names = self.arguments.texts("auto_type_candidates")?;
        let names = names.unwrap_or_default();
        names.iter().map(|name| data_type(state, name)).collect()
    }

    /// Returns the types of the first columns, as a list, or as the table has them.
    fn types_by_place(&self, state: &SessionState) -> Result<Vec<Option<DataType>>> {
        match self.arguments.given("types") {
            Some(Value::List(_)) => {
                let types = self.arguments.texts("types")?.unwrap_or_default();
                let types = types.iter().map(|text| data_type(state, text).map(Some));
                types.collect()
            }
            _ => Ok(self.target.clone()),
        }
    }
}

fn typed(
    reader: &str,
    state: &SessionState,
    fields: &[(String, Value)],
) -> Result<Vec<(String, DataType)>> {
    let mut typed = Vec::with_capacity(fields.len());
    for (name, value) in fields {
        let Value::Text(text) = value else {
            let what = format!("the type of '{name}' is a text, as in 'BIGINT'");
            return Err(wrong(reader, what).into());
        };
        typed.push((name.clone(), data_type(state, text)?));
    }
    Ok(typed)
}
