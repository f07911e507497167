//! TPC-H over Parquet: first runs, and all queries with little device memory.

use super::memory::thrice;
use super::{Args, Sample, session, tell};
use crate::Failure;
use crate::answers::median;
use crate::tpch::{TABLES, generate, query, register};

/// Queries of which regions without a join can run on a device, and two of joins.
const COLD: [usize; 7] = [1, 6, 15, 18, 22, 3, 9];

/// Q6 and Q1 of TPC-H, three times each.
pub(super) async fn resident(args: &Args) -> Result<(), Failure> {
    let folder = generate(&args.folder, &args.scale_factor).await?;
    for number in [6, 1] {
        let session = session(args, &[]).await?;
        register(&session, &folder).await?;
        tell(&format!(
            "resident: Q{number} over Parquet, scale factor {}",
            args.scale_factor
        ));
        thrice(&session, query(number)).await?;
    }
    Ok(())
}

/// First runs in new sessions, `host` and `auto` in turns; the files are in the system's page cache.
pub(super) async fn cold(args: &Args) -> Result<(), Failure> {
    let folder = generate(&args.folder, &args.scale_factor).await?;
    tell(&format!(
        "cold: scale factor {}, first runs of new sessions, medians of {} in ms",
        args.scale_factor, args.rounds
    ));
    tell("query      host      auto  auto / host  rows of the device");
    for number in COLD {
        let (mut times, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
        let (mut expected, mut device_rows) = (None, 0);
        // The first round compiles the kernels, and has the files read.
        for round in 0..=args.rounds {
            let mut pair = [0.0; 2];
            for turn in 0..2 {
                let which = (turn + round) % 2;
                let placement = ["host", "auto"][which];
                let placed = format!("placement = '{placement}'");
                let session = session(args, &[&placed]).await?;
                register(&session, &folder).await?;
                let sample = Sample::of(&session, query(number)).await?;
                let expected = expected.get_or_insert_with(|| sample.lines.clone());
                sample.check(&format!("Q{number}, {placement}"), expected)?;
                pair[which] = sample.millis;
                device_rows = device_rows.max(sample.work().device_rows);
            }
            if round > 0 {
                ratios.push(pair[1] / pair[0]);
                for (times, time) in times.iter_mut().zip(pair) {
                    times.push(time);
                }
            }
        }
        let [on_host, auto] = times.map(median);
        tell(&format!(
            "{number:>5} {on_host:>9.1} {auto:>9.1} {:>12.3}  {device_rows}",
            median(ratios)
        ));
    }
    Ok(())
}

/// All queries, in so many passes as there are rounds, with a device memory limit of 2 GB, against those with all of the memory.
pub(super) async fn tpch(args: &Args) -> Result<(), Failure> {
    let folder = generate(&args.folder, &args.scale_factor).await?;
    let mut runs = Vec::new();
    tell(&format!(
        "tpch: scale factor {}, the last of {} passes in ms",
        args.scale_factor, args.rounds
    ));
    for settings in [&[][..], &["device_memory_limit = '2GB'"]] {
        let session = session(args, settings).await?;
        register(&session, &folder).await?;
        let mut last: Vec<Sample> = Vec::new();
        for _ in 0..args.rounds.max(1) {
            let mut samples = Vec::new();
            for number in 1..=22 {
                let sample = Sample::of(&session, query(number)).await?;
                if let Some(before) = last.get(number - 1) {
                    sample.check(&format!("Q{number} again"), &before.lines)?;
                }
                samples.push(sample);
            }
            last = samples;
        }
        runs.push(last);
    }
    tell("query  unlimited       2 GB  rows of the device, unlimited and 2 GB");
    let (mut all, mut limited) = (0, 0);
    for (number, (free, short)) in (1..).zip(runs[0].iter().zip(&runs[1])) {
        short.check(&format!("Q{number} with 2 GB"), &free.lines)?;
        let (in_free, in_short) = (free.work().device_rows, short.work().device_rows);
        (all, limited) = (all + in_free, limited + in_short);
        tell(&format!(
            "{number:>5} {:>10.1} {:>10.1}  {in_free:>12} {in_short:>12}",
            free.millis, short.millis
        ));
    }
    tell(&format!(
        "{} tables, 22 queries equal; rows of the device {all} and {limited}",
        TABLES.len()
    ));
    Ok(())
}
