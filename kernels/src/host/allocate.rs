//! Few registers for many values: one is used again once its last reader has run.

use std::collections::{HashMap, HashSet};

use super::code::{Code, Instruction, Register, SinkCode};
use super::vector::Lane;

/// Numbers the registers of a code anew. Constants keep theirs; each of the other lists of instructions
/// starts with all others free, since they run one after the other.
pub(super) fn allocate(code: &mut Code) {
    let mut allocator = Allocator {
        old: std::mem::take(&mut code.lanes),
        lanes: Vec::new(),
        pinned: HashMap::new(),
        pool: Vec::new(),
    };
    for (register, _) in &mut code.constants {
        *register = allocator.pin(*register);
    }
    for instruction in &mut code.setup {
        for register in instruction.operands_mut() {
            *register = allocator.pin(*register);
        }
        instruction.to = allocator.pin(instruction.to);
    }
    for entry in &mut code.entries {
        let mut roots: Vec<&mut Register> = Vec::new();
        roots.extend(entry.tables.iter_mut().map(|(register, _)| register));
        allocator.list(&mut entry.instructions, roots);
    }
    let raised = code
        .filter_raises
        .iter_mut()
        .flat_map(|(guard, when)| [guard, when]);
    let roots = code.pass.iter_mut().chain(raised).collect();
    allocator.list(&mut code.filter, roots);
    let raised = code
        .rest_raises
        .iter_mut()
        .flat_map(|(guard, when)| [guard, when]);
    let mut roots: Vec<&mut Register> = raised.collect();
    match &mut code.sink {
        SinkCode::Rows(columns) => {
            for (value, valid) in columns {
                roots.push(value);
                roots.extend(valid);
            }
        }
        SinkCode::Groups { keys, accumulators } => {
            for (value, valid) in keys {
                roots.push(value);
                roots.extend(valid);
            }
            for (value, rows) in accumulators {
                roots.extend(value);
                roots.extend(rows);
            }
        }
    }
    allocator.list(&mut code.rest, roots);
    code.lanes = allocator.lanes;
}

struct Allocator {
    /// The lanes of the registers that there were.
    old: Vec<Lane>,
    lanes: Vec<Lane>,
    /// The new registers of constants.
    pinned: HashMap<Register, Register>,
    /// The registers that are no constants.
    pool: Vec<Register>,
}

impl Allocator {
    fn add(&mut self, lane: Lane) -> Register {
        self.lanes.push(lane);
        self.lanes.len() - 1
    }

    fn pin(&mut self, old: Register) -> Register {
        if let Some(known) = self.pinned.get(&old) {
            return *known;
        }
        let new = self.add(self.old[old]);
        self.pinned.insert(old, new);
        new
    }

    fn list(&mut self, instructions: &mut [Instruction], roots: Vec<&mut Register>) {
        let mut last: HashMap<Register, usize> = HashMap::new();
        for (at, instruction) in instructions.iter_mut().enumerate() {
            for register in instruction.operands_mut() {
                last.insert(*register, at);
            }
        }
        let kept: HashSet<Register> = roots.iter().map(|register| **register).collect();
        let mut free = self.pool.clone();
        let mut places: HashMap<Register, Register> = HashMap::new();
        for (at, instruction) in instructions.iter_mut().enumerate() {
            let mut done = Vec::new();
            for register in instruction.operands_mut() {
                let old = *register;
                if let Some(pinned) = self.pinned.get(&old) {
                    *register = *pinned;
                    continue;
                }
                *register = places.get(&old).copied().unwrap_or_default();
                if last.get(&old) == Some(&at) && !kept.contains(&old) && !done.contains(register) {
                    done.push(*register);
                }
            }
            let to = &mut instruction.to;
            let lane = self.old[*to];
            // The result has a register of its own beside those of its operands.
            let new = match free
                .iter()
                .rposition(|register| self.lanes[*register] == lane)
            {
                Some(place) => free.swap_remove(place),
                None => {
                    let new = self.add(lane);
                    self.pool.push(new);
                    new
                }
            };
            places.insert(*to, new);
            *to = new;
            free.extend(done);
        }
        for root in roots {
            let old = *root;
            let pinned = self.pinned.get(&old).copied();
            *root = pinned
                .or_else(|| places.get(&old).copied())
                .unwrap_or_default();
        }
    }
}
