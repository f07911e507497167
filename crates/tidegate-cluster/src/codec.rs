//! What of a plan is ours, in bytes: scans of generated tables, and of files that we read ourselves.

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
use tidegate::spread::LeafDescription;

/// Carries our leaves.
#[derive(Debug)]
pub(crate) struct Codec;

/// A leaf of ours.
#[derive(Clone, PartialEq, prost::Message)]
struct Leaf {
    /// Its description, as JSON.
    #[prost(bytes = "vec", tag = "1")]
    description: Vec<u8>,
    /// The plan of its stand-in.
    #[prost(bytes = "vec", optional, tag = "2")]
    stand_in: Option<Vec<u8>>,
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
        if !inputs.is_empty() {
            return internal_err!("a leaf came with inputs");
        }
        let leaf = Leaf::decode(buf).map_err(|error| DataFusionError::External(error.into()))?;
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
        let leaf = LeafDescription::of(&node)?;
        let (description, stand_in) =
            leaf.ok_or_else(|| exec_datafusion_err!("{} is of this process", node.name()))?;
        let stand_in = stand_in
            .map(|plan| physical_plan_to_bytes_with_proto_converter(plan, &PLAIN, converter))
            .transpose()?;
        let leaf = Leaf {
            description: description.to_json()?,
            stand_in: stand_in.map(|bytes| bytes.to_vec()),
        };
        buf.extend(leaf.encode_to_vec());
        Ok(())
    }
}
