//! Kernels beside those of queries: the values of an array, written to memory, and a check of what they
//! are made with.

use std::fmt::Write;

use super::generated::{Generated, GeneratedColumn};
use super::generated_code::GeneratedCode;
use super::source::blocks_of_random;
use crate::random::{Array, ValueKind, Values};

/// A kernel that writes the values at consecutive flat indices.
#[derive(Clone, Debug)]
pub struct ValuesKernel {
    /// CUDA C++ without a header; the kernel is called `write_values`.
    pub text: String,
    /// The last words of a launch. Before them come the address of the values, the first
    /// flat index and the number of values, both multiples of 64.
    pub literals: Vec<u64>,
}

/// Returns the kernel that writes the values of an array.
pub fn values_kernel(array: &Array) -> ValuesKernel {
    let source = generated_values(array);
    let literals = source.literals();
    let class = match array.kind() {
        ValueKind::Integer => "i64",
        ValueKind::Double => "double",
        ValueKind::Single => "float",
    };
    let rows = source.block_rows();
    let mut text = format!("#define TG_UNROLL 1\n#define TG_ROWS {rows}\n");
    text.push_str(&blocks_of_random(&source));
    let _ = write!(
        text,
        "\nstruct Launch {{\n    {class}* values;\n    u64 first;\n    u64 count;\n    u64 literals[{}];\n}};\n\n\
         extern \"C\" __global__ void __launch_bounds__(256) write_values(const __grid_constant__ Launch p) {{\n",
        literals.len()
    );
    if matches!(array.values(), Values::Normal { .. }) && array.kind() == ValueKind::Double {
        text.push_str("    __shared__ RandomTables tables;\n    random_tables(p, tables);\n");
    }
    let _ = write!(
        text,
        "    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < p.count / TG_ROWS; i += gridDim.x * (u64)blockDim.x) {{\n\
         \x20       const int u = 0;\n\
         \x20       {class} d0[TG_UNROLL][TG_ROWS];\n\
         \x20       const u64 to = i / TG_SPREAD * 64 + i % TG_SPREAD;\n\
         \x20       const Bunch bunch = whole_bunch(p.first + to);\n"
    );
    let code = GeneratedCode {
        source: &source,
        slots: &[],
    };
    code.write_values(&mut text, 0, class);
    text.push_str(
        "#pragma unroll\n        for (int r = 0; r < TG_ROWS; r++) p.values[to + TG_SPREAD * r] = d0[u][r];\n\
         \x20   }\n}\n",
    );
    ValuesKernel { text, literals }
}

/// Returns a kernel that counts the square roots of singles' radii that are not rounded correctly, of all
/// 2^31 that there can be. It is called `check_roots`; its one parameter is the address of the count.
pub fn roots_kernel(array: &Array) -> String {
    let source = generated_values(array);
    let mut text = format!(
        "#define TG_UNROLL 1\n#define TG_ROWS {}\n",
        source.block_rows()
    );
    text.push_str(&blocks_of_random(&source));
    text.push_str(
        "
extern \"C\" __global__ void __launch_bounds__(256) check_roots(u64* different) {
    u32 found = 0;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < 1ull << 31; i += gridDim.x * (u64)blockDim.x) {
        const float square = random_single_log(__uint2float_rn((u32)i * 2 + 1));
        found += __float_as_int(random_single_sqrt(square)) != __float_as_int(__fsqrt_rn(square));
    }
    if (found != 0) atomicAdd(different, (u64)found);
}
",
    );
    text
}

/// Returns an array's values, one after the other, as the source of a kernel.
fn generated_values(array: &Array) -> Generated {
    Generated {
        array: array.clone(),
        columns: vec![GeneratedColumn::Value],
        step: 1,
        short_runs: false,
    }
}
