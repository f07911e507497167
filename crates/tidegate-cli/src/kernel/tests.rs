//! A kernel has a line for each function.

use tidegate::{CompiledKernel, EntryPoint};

use super::{COLUMNS, lines, print};

#[test]
fn a_kernel_has_a_line_for_each_function() {
    let entry = |name: &str, registers| EntryPoint {
        name: name.into(),
        registers,
        ..EntryPoint::default()
    };
    let compiled = CompiledKernel {
        entry_points: vec![entry("fold", 104), entry("clear", 8)],
        image_bytes: 12_345,
        milliseconds: 98.76,
        log: String::new(),
    };
    let mut rows = vec![COLUMNS.map(str::to_string)];
    rows.extend(lines(1, &compiled));
    let mut text = Vec::new();
    print(&rows, &mut text).unwrap();
    let expect = "\
region  kernel  registers  spill bytes  stack bytes  cubin bytes    ms
     1  fold          104            0            0       12,345  98.8
     1  clear           8            0            0
";
    assert_eq!(String::from_utf8(text).unwrap(), expect);
}
