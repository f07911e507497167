//! Strings of pages as arrays of views.

use arrow_array::StringViewArray;
use arrow_array::builder::make_view;
use arrow_buffer::{Buffer, ScalarBuffer};
use tidegate_kernels::host::simd::ascii_texts;

use crate::error::{PageError, Result};
use crate::slices::Slices;

/// Makes an array of a page's strings, one for each row. Rows without a value get the string before them.
/// `levels` has a byte for each row, 1 where there is a value; `None` if all have one.
///
/// # Errors
/// A string is not UTF-8.
pub(crate) fn text_of(slices: &Slices, levels: Option<&[u8]>) -> Result<StringViewArray> {
    let of_rows;
    let places = match levels {
        None => &slices.places,
        Some(levels) => {
            of_rows = places_of_rows(&slices.places, levels);
            &of_rows
        }
    };
    let bytes = Buffer::from(slices.bytes.clone());
    if let Some(array) = ascii_texts(bytes.clone(), places) {
        return Ok(array);
    }
    let view = |place: &(u32, u32)| make_view(slices.get(*place), 0, place.0);
    checked(places.iter().map(view).collect(), vec![bytes])
}

/// Returns a place for each row; rows without a value get the one before them, or the first.
fn places_of_rows(places: &[(u32, u32)], levels: &[u8]) -> Vec<(u32, u32)> {
    let mut last = places.first().copied().unwrap_or_default();
    let mut left = places.iter();
    let of_row = levels.iter().map(|level| {
        if *level != 0
            && let Some(place) = left.next()
        {
            last = *place;
        }
        last
    });
    of_row.collect()
}

fn checked(views: Vec<u128>, buffers: Vec<Buffer>) -> Result<StringViewArray> {
    StringViewArray::try_new(ScalarBuffer::from(views), buffers, None)
        .map_err(|error| PageError::damaged(error.to_string()))
}

/// Rows of a block that come from one array.
pub(crate) struct Piece {
    pub(crate) array: StringViewArray,
    pub(crate) rows: PieceRows,
}

/// Which rows of its array a piece has.
pub(crate) enum PieceRows {
    /// From one on.
    From(usize),
    /// These, as codes.
    Codes(Vec<u32>),
}

/// Joins pieces of a block: each has so many rows.
pub(crate) fn joined(pieces: &[(usize, Piece)]) -> Result<StringViewArray> {
    let mut views = Vec::with_capacity(pieces.iter().map(|(rows, _)| rows).sum());
    let mut buffers: Vec<Buffer> = Vec::new();
    for (num_rows, piece) in pieces {
        let first = buffers.len() as u32;
        let stored = piece.array.views();
        let moved = |view: u128| match view as u32 {
            // Short strings are in their views.
            0..=12 => view,
            _ => view + (u128::from(first) << 64),
        };
        match &piece.rows {
            PieceRows::From(start) => {
                views.extend(
                    stored
                        .iter()
                        .skip(*start)
                        .take(*num_rows)
                        .map(|v| moved(*v)),
                );
            }
            PieceRows::Codes(codes) => {
                let codes = codes.iter().take(*num_rows);
                views
                    .extend(codes.filter_map(|code| stored.get(*code as usize).map(|v| moved(*v))));
            }
        }
        buffers.extend(piece.array.data_buffers().iter().cloned());
    }
    checked(views, buffers)
}
