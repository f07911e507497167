//! Options of object stores in statements.
//!
//! `CREATE EXTERNAL TABLE … OPTIONS ('aws.region' '…')` and `COPY … TO … OPTIONS (…)` configure the
//! store of their location, for the session from then on. They are taken out of the statement before
//! it is planned, so that no plan, and nothing that is told of one, holds them.

use datafusion::sql::parser::Statement;
use sqlparser::ast::Value;
use url::Url;

use super::Stores;
use super::location::{Family, remote_url};
use super::queries::with_query_in_path;
use crate::error::{Error, ErrorKind};

impl Stores {
    /// Takes the options out of a statement, and puts the queries of an external table's addresses into their paths.
    ///
    /// # Errors
    /// [`ErrorKind::Sql`] for an option that there is not or that is of another kind of store;
    /// [`ErrorKind::Denied`] where an operator decides over stores.
    pub(crate) fn take_options(&self, statement: &mut Statement) -> Result<(), Error> {
        match statement {
            Statement::CreateExternalTable(create) => {
                self.take(&mut create.options, &create.locations)?;
                for location in &mut create.locations {
                    *location = with_query_in_path(location).into_owned();
                }
                Ok(())
            }
            Statement::CopyTo(copy) => {
                self.take(&mut copy.options, std::slice::from_ref(&copy.target))
            }
            Statement::Explain(explain) => self.take_options(&mut explain.statement),
            Statement::Statement(_) | Statement::Reset(_) => Ok(()),
        }
    }

    fn take(&self, options: &mut Vec<(String, Value)>, places: &[String]) -> Result<(), Error> {
        let is_ours = |option: &mut (String, Value)| Family::of_option(&option.0).is_some();
        let ours: Vec<(String, Value)> = options.extract_if(.., is_ours).collect();
        let Some((name, _)) = ours.first() else {
            return Ok(());
        };
        if self.is_confined() {
            let message = format!(
                "the option {name} is refused: this server's operator configures object stores"
            );
            return Err(Error::new(ErrorKind::Denied, message));
        }
        for place in places {
            let url = url_of(&ours, place)?;
            let given = ours.iter().map(|(name, value)| match text(value) {
                Some(text) => Ok((name.clone(), text)),
                None => {
                    let message = format!("the option {name} is a text in quotes");
                    Err(Error::new(ErrorKind::Sql, message))
                }
            });
            self.configure(&url, &given.collect::<Result<Vec<_>, _>>()?)?;
        }
        Ok(())
    }
}

/// Returns the URL of a place whose store takes these options.
fn url_of(options: &[(String, Value)], place: &str) -> Result<Url, Error> {
    let url = remote_url(place);
    let family = url.as_ref().and_then(|url| Family::of(url.scheme()));
    let is_other = |name: &String| Family::of_option(name).map(|(family, _)| family) != family;
    match (url, options.iter().find(|(name, _)| is_other(name))) {
        (Some(url), None) => Ok(url),
        (_, other) => {
            let name = other.map_or("", |(name, _)| name);
            let message = format!("the option {name} is none of the store of '{place}'");
            Err(Error::new(ErrorKind::Sql, message))
        }
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => Some(text.clone()),
        Value::Number(number, _) => Some(number.to_string()),
        Value::Boolean(value) => Some(value.to_string()),
        _ => None,
    }
}
