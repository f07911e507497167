//! Values are where they were fetched.

use super::Packet;

#[test]
fn values_are_where_they_were_fetched() {
    let bytes = Packet::of(3, &[1], 8);
    assert_eq!(
        bytes.fetch(1),
        "f3[u] = __ldcs((const uint2*)(k3.data + (u64)at * 1));"
    );
    assert_eq!(bytes.raw(1, 6), "(f3[u].y >> 16 & 0xff)");

    let longs = Packet::of(0, &[8], 2);
    assert_eq!(longs.raw(8, 1), "f0[u].y");

    let mixed = Packet::of(1, &[1, 2, 8], 2);
    assert_eq!(
        mixed.fetch(1),
        "f1[u].x = __ldcs((const u16*)(k1.data + (u64)at * 1));"
    );
    assert_eq!(mixed.raw(2, 1), "(f1[u].x >> 16 & 0xffff)");
    assert_eq!(mixed.raw(8, 1), "joined(f1[u].z, f1[u].w)");

    let wide = Packet::of(2, &[16], 2);
    assert_eq!(wide.raw(16, 1), "wide_value(f2_1[u])");
}

#[test]
fn each_rows_value_moves_to_where_the_one_before_it_was() {
    let advance = |widths: &[u32], width, rows| Packet::of(0, widths, rows).advance(width);
    assert_eq!(advance(&[0], 0, 4), "");
    assert_eq!(advance(&[1], 1, 4), "f0[u] >>= 8;");
    assert_eq!(
        advance(&[2], 2, 4),
        "f0[u].x = f0[u].x >> 16 | f0[u].y << 16; f0[u].y >>= 16;"
    );
    assert_eq!(
        advance(&[4], 4, 4),
        "f0[u].x = f0[u].y; f0[u].y = f0[u].z; f0[u].z = f0[u].w;"
    );
    assert_eq!(
        advance(&[8], 8, 4),
        "f0[u].x = f0[u].y; f0[u].y = f0_1[u].x; f0_1[u].x = f0_1[u].y;"
    );
    assert_eq!(
        advance(&[1, 8], 8, 2),
        "f0[u].x = f0[u].z; f0[u].y = f0[u].w;"
    );
    assert_eq!(advance(&[16], 16, 2), "f0[u] = f0_1[u];");
}
