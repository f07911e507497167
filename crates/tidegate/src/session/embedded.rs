//! Frames as statements, for a program that builds plans beside text: its tables in a statement's plan, a
//! frame started as a statement is, and errors explained as those of text are.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::dataframe::DataFrame;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::session_state::SessionStateBuilder;

use super::added::Added;
use super::hinted::with_hint;
use super::{Session, statement};
use crate::clients::Client;
use crate::error::Error;
use crate::query::{CancelHandle, History, QueryProgress, apart, cancelled};
use crate::statements::Parsed;

impl Session {
    /// Lists the tables that a statement names without a schema and that there are not; none for what is no
    /// SQL of DataFusion's.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Sql`] for text that cannot be parsed.
    pub fn missing_tables(&self, sql: &str) -> Result<Vec<String>, Error> {
        let explained = |error: Error| with_hint(error, sql, self);
        let (text, mut source) = statement::read(self, sql).map_err(explained)?;
        let parsed = text.parse().map_err(|error| explained(error.into()))?;
        let Parsed::Standard(query) = parsed else {
            return Ok(Vec::new());
        };
        let state = self.ctx.state();
        let parsed = source.parse(&state, query);
        parsed.map_err(|error| explained(error.into()))?;
        let mut missing = Vec::new();
        for name in source.names.iter().flat_map(|names| names.iter()) {
            let TableReference::Bare { table } = name else {
                continue;
            };
            if !self.ctx.table_exist(name.clone())? {
                missing.push(table.to_string());
            }
        }
        Ok(missing)
    }

    /// Makes a view of this session in which these names, too, are tables of its default schema, unless it
    /// has tables of these names. What a statement makes in the view is made in the session; settings that
    /// it changes are the view's own.
    pub fn with_tables(&self, tables: HashMap<String, Arc<dyn TableProvider>>) -> Self {
        let state = self.ctx.state();
        let config = state.config().clone();
        let state = SessionStateBuilder::new_from_existing(state);
        let added = Added {
            temp: None,
            tables: Arc::new(tables),
        };
        self.with_added(state, config, self.inputs.clone(), added)
    }

    /// Starts a frame as [`super::Planned::start`] starts a statement: `cancel` stops it, as does dropping the
    /// stream, and the statement's time limit counts.
    ///
    /// # Errors
    /// See [`crate::ErrorKind`]; the stream's errors turn into [`Error`] by `From`.
    pub async fn start_frame(
        &self,
        frame: DataFrame,
        cancel: &CancelHandle,
    ) -> Result<SendableRecordBatchStream, Error> {
        let (mut state, plan) = frame.into_parts();
        state.config_mut().set_extension(Arc::new(cancel.clone()));
        let work = apart(statement::timeout(self), async move {
            super::rights::check_rights(&state, &plan)?;
            Ok(DataFrame::new(state, plan).execute_stream().await?)
        });
        tokio::select! {
            stream = work => stream.map_err(|error| self.explained(error)),
            () = cancel.cancelled() => Err(cancelled()),
        }
    }

    /// Adds to an error of a frame what was probably meant.
    pub fn explained(&self, error: impl Into<Error>) -> Error {
        with_hint(error, "", self)
    }

    /// Tells how far the query has come that this handle stops; `None` if it does not run.
    pub fn progress_of(&self, cancel: &CancelHandle) -> Option<QueryProgress> {
        let client = Client::of(&self.ctx.copied_config());
        History::of(&self.runtime).progress_of(client.as_deref(), cancel)
    }
}
