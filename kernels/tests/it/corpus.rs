//! The text of every case, compiled by NVRTC for GPUs of several generations: no warning, and a
//! report of registers and spills.
//!
//! NVRTC is the one that `TIDEGATE_NVRTC` names, or else the one that the loader finds. Without one
//! nothing is compiled, unless `TIDEGATE_REQUIRE=nvrtc` says that this is a failure. Every text is also
//! written to the folder that `TIDEGATE_KERNEL_TEXTS` names, if it does, so that those of two commits can
//! be compared.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use tidegate_device::{Compiler, QUICKLY};
use tidegate_kernels::columns;
use tidegate_kernels::program::{
    DeviceProgram, FinishLayout, Sink, finish_program, parts_of, warm_up_source,
};

use tidegate_needs::Need;

use crate::check::{Case, Facts};
use crate::shim::keep;
use crate::{
    aggregates, conversions, customs, encodings, errors, expressions, extremes, generated, keys,
    radix, random, rows, shifts, variances, wide,
};

const ARCHITECTURES: [&str; 4] = ["sm_75", "sm_80", "sm_90", "sm_100"];
const THREADS: u32 = 256;

fn compiler() -> Option<Compiler> {
    let named = std::env::var_os("TIDEGATE_NVRTC").map(PathBuf::from);
    let place = named.unwrap_or_else(|| "libnvrtc.so.13".into());
    match Compiler::open(&place) {
        Ok(compiler) => Some(compiler),
        Err(error) => {
            tidegate_needs::skip(Need::Nvrtc, &error);
            None
        }
    }
}

/// Compiles the texts of cases, those that are equal once.
fn compile(cases: Vec<Case>, wanted: usize) {
    let mut texts = BTreeMap::new();
    for case in &cases {
        for facts in [Facts::Seen, Facts::Declared, Facts::LookedUp] {
            // What cannot be said of the types alone has a program for its values only.
            if let Ok((program, _)) = case.program(facts, THREADS) {
                // As a device has them compiled.
                for part in parts_of(&program.text, program.kernel_names()) {
                    let kernels = part.kernels.join(", ");
                    let name = || format!("{} ({facts:?}: {kernels})", case.name);
                    texts.entry(part.text).or_insert_with(name);
                }
            }
        }
    }
    compile_texts(&texts, wanted);
}

/// Compiles the kernels that finish the groups of cases, for the host and for another program.
fn compile_finishes(cases: Vec<Case>, wanted: usize) {
    let mut texts = BTreeMap::new();
    for case in &cases {
        let Ok((program, _)) = case.program(Facts::Seen, THREADS) else {
            continue;
        };
        let Sink::Groups(plan) = &program.sink else {
            continue;
        };
        for layout in [FinishLayout::Arrow, FinishLayout::Stored] {
            let literals = program.literals.len();
            if let Ok(finish) = finish_program(plan, &program.finishes, literals, layout) {
                texts
                    .entry(finish.text)
                    .or_insert_with(|| format!("{} ({layout:?})", case.name));
            }
        }
    }
    compile_texts(&texts, wanted);
}

/// Compiles texts, each with a name: of all of them about `wanted`, unless `TIDEGATE_KERNEL_CASES` is
/// set. Every eighth is compiled for all architectures, the others for one.
fn compile_texts(texts: &BTreeMap<String, String>, wanted: usize) {
    if let Some(folder) = std::env::var_os("TIDEGATE_KERNEL_TEXTS").map(PathBuf::from) {
        std::fs::create_dir_all(&folder).unwrap();
        for (text, name) in texts {
            let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
            let end = &name[name.len().saturating_sub(200)..];
            std::fs::write(folder.join(format!("{end}.cu")), text).unwrap();
        }
    }
    let Some(compiler) = compiler() else {
        return;
    };
    let all = std::env::var_os("TIDEGATE_KERNEL_CASES").is_some();
    let step = if all { 1 } else { texts.len().div_ceil(wanted) };
    for (index, (text, name)) in texts.iter().step_by(step).enumerate() {
        let architectures = if index % 8 == 0 {
            &ARCHITECTURES[..]
        } else {
            &ARCHITECTURES[2..3]
        };
        for architecture in architectures {
            let compiled = compiler.compile(name, text, architecture, &[]);
            let compiled = compiled.unwrap_or_else(|error| {
                panic!(
                    "{error}\nthe program is {}",
                    keep(text, &format!("{name}.cu")).display()
                )
            });
            let log = &compiled.log;
            assert!(!log.contains("warning"), "{name} for {architecture}: {log}");
            if text.starts_with(QUICKLY) {
                let in_registers = log.matches(" bytes stack frame").count()
                    == log.matches(" 0 bytes stack frame").count();
                assert!(in_registers, "{name} for {architecture}: {log}");
            }
            let found = usage(log);
            assert!(
                !found.is_empty(),
                "{name} for {architecture}: no report in {log}"
            );
            for usage in found {
                println!("{architecture} {name}: {usage}");
            }
        }
    }
}

/// Returns a line for each kernel of the assembler's report: its name, registers, and bytes spilled
/// if any.
fn usage(log: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut kernel, mut spilled) = ("?", "0");
    for line in log.lines() {
        if let Some((_, name)) = line.split_once("entry function '") {
            kernel = name.split('\'').next().unwrap_or("?");
        }
        if let Some((before, _)) = line.split_once(" bytes spill stores") {
            spilled = before.rsplit(' ').next().unwrap_or("0");
        }
        if let Some((_, used)) = line.split_once("Used ") {
            let registers = used.split(' ').next().unwrap_or("?");
            found.push(match spilled {
                "0" => format!("{kernel}: {registers} registers"),
                bytes => format!("{kernel}: {registers} registers, {bytes} bytes spilled"),
            });
        }
    }
    found
}

#[test]
fn what_warms_the_compiler_up() {
    let text = BTreeMap::from([(warm_up_source(), "warm_up".to_owned())]);
    compile_texts(&text, 1);
}

#[test]
fn what_is_compiled_with_fewer_optimisations_stays_in_registers() {
    let cases = [aggregates::cases(), expressions::cases(), keys::cases()].concat();
    let mut texts = BTreeMap::new();
    for case in cases {
        for facts in [Facts::Seen, Facts::Declared] {
            if let Ok((program, _)) = case.program(facts, THREADS)
                && program.text.starts_with(QUICKLY)
            {
                let name = format!("{} ({facts:?})", case.name);
                texts.insert(program.text.to_string(), name);
            }
        }
    }
    assert!(texts.len() >= 5, "{} kernels are of this kind", texts.len());
    compile_texts(&texts, 20);
}

#[test]
fn group_tables() {
    compile(keys::cases(), 24);
}

#[test]
fn keys_of_more_than_64_bits() {
    compile(wide::cases(), 10);
    compile_finishes(wide::cases(), 5);
}

#[test]
fn sorted_groups() {
    compile(radix::cases(), 36);
}

#[test]
fn parts_of_a_source_have_its_kernels_and_no_others() {
    let Some(compiler) = compiler() else {
        return;
    };
    let programs = radix::cases().into_iter().filter_map(|case| {
        let (program, _) = case.program(Facts::Seen, THREADS).ok()?;
        Some(program)
    });
    let programs: Vec<_> = programs.collect();
    for (of_store, num_parts) in [("aggregate_shared", 2), ("estimate", 3)] {
        let sorts = |program: &&DeviceProgram| program.kernel_names().contains(&of_store);
        let program = programs.iter().find(sorts).unwrap();
        let parts = parts_of(&program.text, program.kernel_names());
        assert_eq!(parts.len(), num_parts);
        for part in parts {
            let compiled = compiler.compile("part", &part.text, ARCHITECTURES[2], &[]);
            let found = usage(&compiled.unwrap().log);
            let names = found.iter().filter_map(|usage| usage.split(':').next());
            let names: BTreeSet<&str> = names.collect();
            assert_eq!(names, part.kernels.into_iter().collect());
        }
    }
}

#[test]
fn aggregate_calls() {
    compile(aggregates::cases(), 24);
}

#[test]
fn extremes_of_strings() {
    compile(extremes::cases(), 4);
}

#[test]
fn variances_of_every_kind() {
    compile(variances::cases(), 24);
    compile_finishes(variances::cases(), 12);
}

#[test]
fn expressions_of_every_kind() {
    compile(
        [expressions::cases(), conversions::cases(), shifts::cases()].concat(),
        28,
    );
}

#[test]
fn functions_of_users() {
    compile(customs::cases(), 6);
}

#[test]
fn rows_and_encodings() {
    compile([rows::cases(), encodings::cases()].concat(), 24);
}

#[test]
fn what_may_raise() {
    compile(errors::cases(), 24);
}

#[test]
fn finished_groups() {
    compile_finishes([keys::cases(), aggregates::cases()].concat(), 24);
}

#[test]
fn plain_columns() {
    let text = (columns::SOURCE.clone(), "columns".to_owned());
    compile_texts(&BTreeMap::from([text]), 1);
}

#[test]
fn random_pipelines() {
    compile(random::cases(), 24);
}

#[test]
fn generated_arrays() {
    let named = generated::texts()
        .into_iter()
        .map(|(name, text)| (text, name));
    compile_texts(&named.collect(), 24);
}
