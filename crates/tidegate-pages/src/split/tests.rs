use bytes::Bytes;

use super::joined;

#[test]
fn streams_are_joined() {
    for width in [1, 2, 3, 4, 8, 16] {
        for num_values in [0, 1, 7, 40] {
            let value = |index: usize, byte: usize| (index * 17 + byte * 3) as u8;
            let streams: Vec<u8> = (0..width)
                .flat_map(|byte| (0..num_values).map(move |index| value(index, byte)))
                .collect();
            let plain: Vec<u8> = (0..num_values)
                .flat_map(|index| (0..width).map(move |byte| value(index, byte)))
                .collect();
            assert_eq!(joined(&Bytes::from(streams), width).unwrap(), plain);
        }
    }
    assert!(joined(&Bytes::from_static(&[1, 2, 3]), 2).is_err());
    assert!(joined(&Bytes::from_static(&[1]), 0).is_err());
}
