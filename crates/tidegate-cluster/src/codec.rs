//! What of a plan is ours, in bytes: scans of generated tables, and of files that we read ourselves, and the
//! numbers of shares.

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
use tidegate::spread::LeafDescription;

use crate::share::{Share, ShareExec};

/// Carries our leaves, and the numbers of shares.
#[derive(Debug)]
pub(crate) struct Codec;

/// A leaf of ours, or the number of the share below.
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
        match (leaf.share, inputs) {
            (None, []) => {}
            (Some(number), [inner]) => {
                return Ok(Arc::new(UnaryExec(Share {
                    inner: Arc::clone(inner),
                    number,
                    what: String::new(),
                })));
            }
            _ => return internal_err!("a leaf came with inputs, or a share without"),
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
        if let Some(share) = node.downcast_ref::<ShareExec>() {
            let own = Own {
                share: Some(share.0.number),
                ..Own::default()
            };
            buf.extend(own.encode_to_vec());
            return Ok(());
        }
        let leaf = LeafDescription::of(&node)?;
        let (description, stand_in) =
            leaf.ok_or_else(|| exec_datafusion_err!("{} is of this process", node.name()))?;
        let stand_in = stand_in
            .map(|plan| physical_plan_to_bytes_with_proto_converter(plan, &PLAIN, converter))
            .transpose()?;
        let leaf = Own {
            description: description.to_json()?,
            stand_in: stand_in.map(|bytes| bytes.to_vec()),
            share: None,
        };
        buf.extend(leaf.encode_to_vec());
        Ok(())
    }
}
