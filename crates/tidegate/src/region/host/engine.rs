//! Whether the host engine runs a region, decided when the plan is made, and the programs that it runs.

use std::sync::{Arc, OnceLock};

use datafusion::error::Result;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use tidegate_kernels::host::HostProgram;
use tidegate_pipeline::{Facts, Pipeline, Step};

use super::facts;
use crate::lower::bind;
use crate::options::{HostEngineMode, TidegateOptions};
use crate::region::Program;
use crate::region::join_keys::JoinKeys;

/// Why a region's order keeps the engine from running it.
const ORDERED: &str = "the region claims an order";

/// Whether the host's half of a region runs as a row program.
#[derive(Clone, Debug, Default)]
pub(crate) enum HostEngine {
    /// It was not asked for.
    #[default]
    Off,
    /// DataFusion's operators run, for all of these reasons.
    Refused(Vec<String>),
    /// It does.
    Runs(Arc<Engine>),
}

/// What the engine needs to run a region.
#[derive(Debug)]
pub(crate) struct Engine {
    program: Program,
    assumed: Vec<Facts>,
    declared: Arc<[Facts]>,
    /// The keys that joins above note for their scans.
    join_keys: Arc<[Arc<JoinKeys>]>,
    /// The compiled program, if it has no late parameters.
    compiled: Option<Arc<Programs>>,
}

/// A region's pipeline, compiled.
#[derive(Debug)]
pub(super) struct Programs {
    pipeline: Arc<Pipeline>,
    /// For rows that are as the statistics say.
    assumed: Arc<HostProgram>,
    declared: Arc<[Facts]>,
    /// For all others, compiled when the first of them comes.
    general: OnceLock<std::result::Result<Arc<HostProgram>, String>>,
}

impl HostEngine {
    /// Decides on a scan without operators, of which `program` yields all columns.
    pub(crate) fn of_scan(
        scan: &Arc<dyn ExecutionPlan>,
        program: &Program,
        join_keys: &[Arc<JoinKeys>],
        options: &TidegateOptions,
    ) -> Self {
        if options.host_engine == HostEngineMode::Off {
            return Self::Off;
        }
        if scan.output_ordering().is_some() {
            return Self::Refused(vec![ORDERED.into()]);
        }
        match Engine::compile(scan, program, join_keys) {
            Ok(engine) => Self::Runs(Arc::new(engine)),
            Err(reason) => Self::Refused(vec![reason]),
        }
    }

    /// Decides on a region with this chain over `leaf`, which `program` was lowered from.
    pub(crate) fn plan(
        chain: &Arc<dyn ExecutionPlan>,
        leaf: &Arc<dyn ExecutionPlan>,
        program: &Program,
        join_keys: &[Arc<JoinKeys>],
        options: &TidegateOptions,
    ) -> Self {
        if options.host_engine == HostEngineMode::Off {
            return Self::Off;
        }
        let mut refusals = refusals(chain, &program.pipeline);
        match Engine::compile(leaf, program, join_keys) {
            Ok(engine) if refusals.is_empty() => Self::Runs(Arc::new(engine)),
            Ok(_) => Self::Refused(refusals),
            Err(reason) => {
                refusals.push(reason);
                Self::Refused(refusals)
            }
        }
    }

    /// Returns whether the engine runs the region.
    pub(crate) fn runs(&self) -> bool {
        matches!(self, Self::Runs(_))
    }

    /// Returns why DataFusion's operators run instead; empty if the engine runs, or was not asked for.
    pub(crate) fn refusals(&self) -> &[String] {
        match self {
            Self::Refused(reasons) => reasons,
            Self::Off | Self::Runs(_) => &[],
        }
    }
}

/// Returns what the plan asks for that no program of the host gives.
fn refusals(chain: &Arc<dyn ExecutionPlan>, pipeline: &Pipeline) -> Vec<String> {
    let mut reasons = Vec::new();
    match chain.downcast_ref::<AggregateExec>() {
        Some(aggregate) if *aggregate.mode() != AggregateMode::Partial => {
            reasons.push("an aggregate that is no partial one".into());
        }
        Some(aggregate) if aggregate.limit_options().is_some() => {
            reasons.push("LIMIT over groups".into());
        }
        // Without a filter there is nothing that the engine saves.
        None if !pipeline
            .steps
            .iter()
            .any(|step| matches!(step, Step::Filter(_))) =>
        {
            reasons.push("neither an aggregate nor a filter".into());
        }
        Some(_) | None => {}
    }
    if chain.output_ordering().is_some() {
        reasons.push(ORDERED.into());
    }
    reasons
}

impl Engine {
    fn compile(
        leaf: &Arc<dyn ExecutionPlan>,
        program: &Program,
        join_keys: &[Arc<JoinKeys>],
    ) -> std::result::Result<Self, String> {
        let assumed = facts::assumed(leaf);
        let declared: Arc<[Facts]> = facts::declared(leaf).into();
        // Without its late parameters a program shows whether there is one, and no more.
        let compiled = Programs::compile(&program.pipeline, &assumed, &declared)?;
        let is_complete = program.bindings.is_empty();
        Ok(Self {
            program: program.clone(),
            assumed,
            declared,
            join_keys: join_keys.into(),
            compiled: is_complete.then(|| Arc::new(compiled)),
        })
    }

    /// Returns the programs with the values of late parameters. Call it within `execute`.
    ///
    /// # Errors
    /// What computing the values raises; the inner one is why there is no program with them.
    pub(super) fn programs(&self) -> Result<std::result::Result<Arc<Programs>, String>> {
        if let Some(compiled) = &self.compiled {
            return Ok(Ok(Arc::clone(compiled)));
        }
        let pipeline = bind(&self.program.pipeline, &self.program.bindings)?;
        Ok(Programs::compile(&pipeline, &self.assumed, &self.declared).map(Arc::new))
    }

    /// Returns the programs if they have no late parameters.
    pub(super) fn known(&self) -> Option<&Arc<Programs>> {
        self.compiled.as_ref()
    }

    /// Returns the keys that joins above note for their scans.
    pub(super) fn join_keys(&self) -> &[Arc<JoinKeys>] {
        &self.join_keys
    }

    /// Returns the pipeline, without values of late parameters.
    pub(super) fn pipeline(&self) -> &Pipeline {
        &self.program.pipeline
    }
}

impl Programs {
    fn compile(
        pipeline: &Arc<Pipeline>,
        assumed: &[Facts],
        declared: &Arc<[Facts]>,
    ) -> std::result::Result<Self, String> {
        Ok(Self {
            pipeline: Arc::clone(pipeline),
            assumed: compiled(pipeline, assumed)?,
            declared: Arc::clone(declared),
            general: OnceLock::new(),
        })
    }

    /// Returns the program for rows that are as the statistics say.
    pub(super) fn assumed(&self) -> &Arc<HostProgram> {
        &self.assumed
    }

    /// Returns the program for rows of which nothing is known but their types.
    pub(super) fn general(&self) -> std::result::Result<&Arc<HostProgram>, &String> {
        let general = self
            .general
            .get_or_init(|| compiled(&self.pipeline, &self.declared));
        general.as_ref()
    }

    /// Returns whether rows are grouped by keys.
    pub(super) fn has_keys(&self) -> bool {
        let last = self.pipeline.steps.last();
        matches!(last, Some(Step::Aggregate(aggregate)) if !aggregate.keys.is_empty())
    }
}

fn compiled(pipeline: &Pipeline, facts: &[Facts]) -> std::result::Result<Arc<HostProgram>, String> {
    let program = HostProgram::new(pipeline, &|column| facts[column]);
    program.map(Arc::new).map_err(|refusal| refusal.to_string())
}
