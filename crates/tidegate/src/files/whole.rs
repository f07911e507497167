//! Files that are written whole or not at all.
//!
//! When the rows that a statement writes end with an error, DataFusion's sinks finish their files with
//! what has come before, and then return the error. Whoever reads such a file later takes half of a result
//! for all of it. A [`WholeSink`] keeps the error from the sink: to that the rows never end, and when the
//! statement has the error the sink is dropped, and with it its files, as if it had been cancelled.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{internal_err, not_impl_err};
use datafusion::datasource::file_format::csv::CsvSink;
use datafusion::datasource::file_format::json::JsonSink;
use datafusion::datasource::file_format::parquet::ParquetSink;
use datafusion::datasource::physical_plan::{FileSink, FileSinkConfig};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ReplaceChildrenOptions,
};
use futures::channel::oneshot;
use futures::future::{Either, pending, select};
use futures::{StreamExt, pin_mut, stream};

use super::json_sink::ObjectsSink;
use crate::node_rule::Replaced;

/// Puts a [`WholeSink`] before a sink, and an [`ObjectsSink`] in the place of DataFusion's.
pub(crate) fn write_whole(node: &Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Replaced {
    let Some(exec) = node.downcast_ref::<DataSinkExec>() else {
        return Ok(None);
    };
    if exec.sink().is::<ParquetSink>() {
        check_parquet(&exec.input().schema())?;
    }
    let with_sink = |sink: Arc<dyn DataSink>| {
        let input = Arc::clone(exec.input());
        DataSinkExec::new(input, sink, exec.sort_order().clone())
    };
    let sink = match exec.sink().downcast_ref::<JsonSink>() {
        Some(json) => SinkNode::new(&with_sink(Arc::new(ObjectsSink::lines(json))))?,
        None => SinkNode::new(exec)?,
    };
    let whole = with_sink(Arc::new(WholeSink(sink)));
    Ok(Some(Arc::new(whole)))
}

/// Returns whether a sink writes CSV or JSON.
pub(crate) fn writes_text(exec: &DataSinkExec) -> bool {
    let sink = inner(exec);
    sink.is::<CsvSink>() || sink.is::<JsonSink>() || sink.is::<ObjectsSink>()
}

/// Returns what a sink of Parquet, CSV or JSON files writes; `None` for other sinks.
pub(crate) fn file_config(exec: &DataSinkExec) -> Option<&FileSinkConfig> {
    let sink = inner(exec);
    let parquet = sink.downcast_ref::<ParquetSink>().map(FileSink::config);
    let csv = || sink.downcast_ref::<CsvSink>().map(FileSink::config);
    let json = || sink.downcast_ref::<JsonSink>().map(FileSink::config);
    let objects = || sink.downcast_ref::<ObjectsSink>().map(FileSink::config);
    parquet.or_else(csv).or_else(json).or_else(objects)
}

/// Returns the sink behind a [`WholeSink`].
fn inner(exec: &DataSinkExec) -> &dyn DataSink {
    let whole = exec.sink().downcast_ref::<WholeSink>();
    whole.map_or(exec.sink(), |whole| whole.0.sink())
}

/// Refuses columns at which the writer of Parquet panics.
fn check_parquet(schema: &Schema) -> Result<()> {
    let is_union = |data_type: &DataType| matches!(data_type, DataType::Union(_, _));
    let fields = schema.flattened_fields();
    match fields.into_iter().find(|field| is_union(field.data_type())) {
        Some(field) => {
            not_impl_err!(
                "the column '{}' is a union, and Parquet has none",
                field.name()
            )
        }
        None => Ok(()),
    }
}

/// A sink that is to be had by reference only, and the node that holds it, which reads nothing.
#[derive(Debug)]
pub(crate) struct SinkNode(DataSinkExec);

impl SinkNode {
    pub(crate) fn new(exec: &DataSinkExec) -> Result<Self> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let nothing = Arc::new(EmptyExec::new(exec.input().schema()));
        let node = Arc::new(exec.clone()).replace_children(vec![nothing], options)?;
        match node.downcast_ref::<DataSinkExec>() {
            Some(node) => Ok(Self(node.clone())),
            None => internal_err!("a sink became another node"),
        }
    }

    pub(crate) fn sink(&self) -> &dyn DataSink {
        self.0.sink()
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        self.sink().schema()
    }
}

/// A sink that is dropped where its rows end with an error.
#[derive(Debug)]
struct WholeSink(SinkNode);

impl DisplayAs for WholeSink {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.sink().fmt_as(format, f)
    }
}

#[async_trait]
impl DataSink for WholeSink {
    fn metrics(&self) -> Option<MetricsSet> {
        self.0.sink().metrics()
    }

    fn schema(&self) -> &SchemaRef {
        self.0.schema()
    }

    async fn write_all(
        &self,
        data: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let (fail, failed) = oneshot::channel();
        let writing = self.0.sink().write_all(until_an_error(data, fail), context);
        pin_mut!(writing);
        match select(failed, writing).await {
            Either::Left((Ok(error), _)) => Err(error),
            // The rows have ended well.
            Either::Left((Err(_), writing)) => writing.await,
            Either::Right((written, _)) => written,
        }
    }
}

/// Passes rows on; an error goes to `fail`, and nothing comes after it.
fn until_an_error(
    data: SendableRecordBatchStream,
    fail: oneshot::Sender<DataFusionError>,
) -> SendableRecordBatchStream {
    let schema = data.schema();
    let rows = stream::unfold((data, fail), |(mut data, fail)| async move {
        match data.next().await? {
            Ok(batch) => Some((Ok(batch), (data, fail))),
            Err(error) => {
                // Where nobody listens, the sink has ended already.
                let _ = fail.send(error);
                pending().await
            }
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::{DataType, Field, Schema, UnionFields, UnionMode};

    use super::check_parquet;

    #[test]
    fn unions_are_refused_wherever_they_are() {
        let fields = UnionFields::try_new(vec![0], vec![Field::new("a", DataType::Int64, true)]);
        let union = DataType::Union(fields.unwrap(), UnionMode::Sparse);
        let of = |data_type| Schema::new(vec![Field::new("u", data_type, true)]);
        let within = Arc::new(Field::new("item", union.clone(), true));
        for schema in [of(union), of(DataType::List(within))] {
            let error = check_parquet(&schema).unwrap_err().to_string();
            assert!(error.contains("is a union"), "{error}");
        }
        check_parquet(&of(DataType::Int64)).unwrap();
    }
}
