//! What of a plan is ours, in bytes: scans of generated tables, and of files that we read ourselves, the numbers of
//! shares, the sides of joins whose rows are counted, and local joins.

use std::sync::Arc;

use datafusion::common::{exec_datafusion_err, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_proto_converter, physical_plan_to_bytes_with_proto_converter,
};
use datafusion_proto::physical_plan::{
    DefaultPhysicalExtensionCodec, PhysicalExtensionCodec, PhysicalProtoConverterExtension,
};
use prost::Message;
use tidegate::UnaryExec;
use tidegate::spread::{LeafDescription, LocalExec};

use crate::counted::{Counted, CountedExec};
use crate::local::LocalLeaf;
use crate::share::{Share, ShareExec};

/// Carries our leaves, the numbers of shares, counted sides, and local joins.
#[derive(Debug)]
pub(crate) struct Codec;

/// A leaf of ours, or the number of the share or of the side below.
#[derive(Clone, PartialEq, prost::Message)]
struct Own {
    /// Its description, as JSON.
    #[prost(bytes = "vec", tag = "1")]
    description: Vec<u8>,
    /// The plan of its stand-in.
    #[prost(bytes = "vec", optional, tag = "2")]
    stand_in: Option<Vec<u8>>,
    #[prost(uint64, optional, tag = "3")]
    share: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    side: Option<u64>,
    /// The plan of local joins.
    #[prost(bytes = "vec", optional, tag = "5")]
    joins: Option<Vec<u8>>,
    /// The input is local joins.
    #[prost(bool, tag = "6")]
    is_local: bool,
}

/// Stand-ins are nodes of DataFusion's.
const PLAIN: DefaultPhysicalExtensionCodec = DefaultPhysicalExtensionCodec {};

impl PhysicalExtensionCodec for Codec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        ctx: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let leaf = Own::decode(buf).map_err(|error| DataFusionError::External(error.into()))?;
        if let (Some(joins), []) = (&leaf.joins, inputs) {
            let joins = physical_plan_from_bytes_with_proto_converter(joins, ctx, self, converter)?;
            return Ok(Arc::new(LocalLeaf { marked: joins }));
        }
        if let (true, [joins]) = (leaf.is_local, inputs) {
            return Ok(Arc::new(LocalExec::of(joins)));
        }
        match (leaf.share, leaf.side, inputs) {
            (None, None, []) => {}
            (None, Some(side), [inner]) => {
                return Ok(Arc::new(UnaryExec(Counted::new(Arc::clone(inner), side))));
            }
            (Some(number), None, [inner]) => {
                return Ok(Arc::new(UnaryExec(Share {
                    inner: Arc::clone(inner),
                    number,
                    what: String::new(),
                })));
            }
            _ => return internal_err!("a leaf came with inputs, or a share or side without"),
        }
        let stand_in = leaf.stand_in.map(|bytes| {
            physical_plan_from_bytes_with_proto_converter(&bytes, ctx, &PLAIN, converter)
        });
        LeafDescription::from_json(&leaf.description)?.plan(stand_in.transpose()?.as_ref())
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let mut own = Own::default();
        if let Some(share) = node.downcast_ref::<ShareExec>() {
            own.share = Some(share.0.number);
        } else if let Some(counted) = node.downcast_ref::<CountedExec>() {
            own.side = Some(counted.0.side);
        } else if let Some(local) = node.downcast_ref::<LocalLeaf>() {
            let joins = Arc::clone(&local.marked);
            let joins = physical_plan_to_bytes_with_proto_converter(joins, self, converter)?;
            own.joins = Some(joins.to_vec());
        } else if node.is::<LocalExec>() {
            own.is_local = true;
        } else {
            let leaf = LeafDescription::of(&node)?;
            let (description, stand_in) =
                leaf.ok_or_else(|| exec_datafusion_err!("{} is of this process", node.name()))?;
            let stand_in = stand_in
                .map(|plan| physical_plan_to_bytes_with_proto_converter(plan, &PLAIN, converter))
                .transpose()?;
            own.description = description.to_json()?;
            own.stand_in = stand_in.map(|bytes| bytes.to_vec());
        }
        buf.extend(own.encode_to_vec());
        Ok(())
    }
}
