//! `tidegate demo`: a filter, a projection and a group-by over generated data, and where they ran.

use std::sync::Arc;

use tidegate::Session;
use tokio::runtime::Handle;

use crate::args::{OutputArgs, ScaleFactor};
use crate::console;
use crate::exit::{DONE, FAILED};
use crate::failure::Failure;
use crate::run::Runner;
use crate::signals::{Heard, Signals};

/// What the demonstration runs on.
pub(crate) struct Demo {
    /// Size of its data.
    pub(crate) scale_factor: ScaleFactor,
    /// Whether a simulated device takes part.
    pub(crate) is_simulated: bool,
}

/// Places every second morsel on the device. Left to itself, placement takes what ends first, which
/// an interpreter need not be.
const SHARE: &str = "SET tidegate.replay_placement = 'DH'";

/// What to try next.
const MORE: &str = "\nsee more: EXPLAIN ANALYZE before a query shows its morsels by placement \
                    and reason; `tidegate demo --simulate-device 2GB` shares the work with a simulated \
                    device; `tidegate` opens a prompt";

impl Demo {
    /// Runs the demonstration; returns the exit status.
    pub(crate) async fn run(&self, session: Session, workers: &Handle, output: &OutputArgs) -> u8 {
        match self.tell(session, workers, output).await {
            Ok(()) | Err(Failure::OutputClosed) => DONE,
            Err(failure) => {
                console::error(&failure, None);
                match failure {
                    Failure::Stopped(signal) => signal.status(),
                    _ => FAILED,
                }
            }
        }
    }

    async fn tell(
        &self,
        session: Session,
        workers: &Handle,
        output: &OutputArgs,
    ) -> Result<(), Failure> {
        let mut runner = Runner::new(Arc::new(session.clone()), workers, output, None);
        runner.timing = !output.quiet;
        runner.placement = !output.quiet;
        let say = |text: &str| {
            if !output.quiet {
                console::note(text);
            }
        };
        let ScaleFactor(scale) = self.scale_factor;
        say(&format!(
            "TPC-H line items at scale factor {scale}, made in this process by \
             tpch('lineitem', {scale}): filtered, projected, grouped.\n"
        ));
        if self.is_simulated {
            session.collect(SHARE).await?;
            say(&format!(
                "-- every second morsel for the simulated device, which shows placement and \
                 speeds nothing up\n{SHARE};\n"
            ));
        }
        let query = self.query();
        say(&format!("{query};\n"));
        runner
            .run(&query, &mut Signals::new(Heard::Interrupt))
            .await?;
        say(MORE);
        Ok(())
    }

    /// Returns TPC-H query 1, less some of its sums.
    fn query(&self) -> String {
        let ScaleFactor(scale) = self.scale_factor;
        format!(
            "SELECT l_returnflag, l_linestatus,
       sum(l_quantity) AS sum_quantity,
       sum(l_extendedprice * (1 - l_discount)) AS sum_discounted,
       avg(l_discount) AS avg_discount,
       count(*) AS num_items
FROM tpch('lineitem', {scale})
WHERE l_shipdate <= DATE '1998-09-02'
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus"
        )
    }
}
