//! `cargo xtask ci`: every check but the tests, in order, each with its time.
//!
//! Cheap checks come first and the first failure ends the run.

use std::path::Path;
use std::time::Instant;

use crate::failure::Failure;
use crate::{process, tidy};

/// One check: `tidy` runs in this process, the others are cargo's.
enum Step {
    Tidy,
    Cargo {
        args: &'static [&'static str],
        envs: &'static [(&'static str, &'static str)],
    },
}

const STEPS: &[Step] = &[
    Step::Cargo {
        args: &["fmt", "--all", "--check"],
        envs: &[],
    },
    Step::Cargo {
        args: &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
        envs: &[],
    },
    Step::Tidy,
    Step::Cargo {
        args: &["doc", "--workspace", "--no-deps"],
        envs: &[("RUSTDOCFLAGS", "-D warnings")],
    },
];

/// Runs all steps in `root`, stopping at the first failure.
pub(crate) fn run(root: &Path) -> Result<(), Failure> {
    for step in STEPS {
        println!("$ {}", step.label());
        let start = Instant::now();
        step.run(root)?;
        println!("  ok, {:.1} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}

impl Step {
    fn label(&self) -> String {
        match self {
            Step::Tidy => "cargo xtask tidy".to_owned(),
            Step::Cargo { args, envs } => {
                let assignments: String = envs
                    .iter()
                    .map(|(name, value)| format!("{name}=\"{value}\" "))
                    .collect();
                assignments + &process::command_line("cargo", args)
            }
        }
    }

    fn run(&self, root: &Path) -> Result<(), Failure> {
        match self {
            Step::Tidy => tidy::run(root),
            Step::Cargo { args, envs } => process::pass_through(root, "cargo", args, envs),
        }
    }
}
