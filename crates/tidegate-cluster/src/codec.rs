//! What of a plan is ours, in bytes: scans of generated tables.

use std::sync::Arc;

use datafusion::common::{exec_datafusion_err, internal_err};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use tidegate::spread::LeafDescription;

/// Carries our leaves.
#[derive(Debug)]
pub(crate) struct Codec;

impl PhysicalExtensionCodec for Codec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !inputs.is_empty() {
            return internal_err!("a leaf came with inputs");
        }
        LeafDescription::from_json(buf)?.plan()
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let leaf = LeafDescription::of(&node);
        let leaf =
            leaf.ok_or_else(|| exec_datafusion_err!("{} is of this process", node.name()))?;
        buf.extend(leaf.to_json()?);
        Ok(())
    }
}
