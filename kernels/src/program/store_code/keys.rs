//! The word that a table knows a row's key by.

use std::fmt::Write;

use tidegate_pipeline::program::Class;

use super::StoreCode;
use crate::program::store::{KEY_LITERALS, Store};
use crate::program::wide::{self, KEY_WORD, WideKeys};

impl StoreCode<'_> {
    pub(in crate::program) fn write_key(&self, text: &mut String) {
        let word = self.key_type();
        if let Some(wide) = &self.wide {
            self.write_wide_key(text, wide);
            return;
        }
        let mut terms = Vec::new();
        for (position, (_, value)) in self.keys.iter().enumerate() {
            let at = self.key_literals + KEY_LITERALS * position;
            let index = self.index_code(position);
            let index = match &value.valid {
                None => index,
                Some(valid) => format!("({valid} ? {index} : ({word})p.literals[{}])", at + 1),
            };
            terms.push(if position == 0 {
                index
            } else {
                format!("{index} * ({word})p.literals[{}]", at + 2)
            });
        }
        let _ = writeln!(
            text,
            "                const {word} key = {};",
            terms.join(" + ")
        );
    }

    /// Returns the C++ type of the word that a table knows a key by.
    fn key_type(&self) -> &'static str {
        match self.store {
            Store::Hash => "u64",
            _ => "u32",
        }
    }

    /// Returns the C++ of a key's index, of that type, if the key is not NULL.
    fn index_code(&self, position: usize) -> String {
        let (key, value) = &self.keys[position];
        let at = self.key_literals + KEY_LITERALS * position;
        let word = self.key_type();
        if key.step > 1 {
            // The distance is a multiple of the step: a product with the inverse of its odd part
            // modulo the word's bits, and a shift for the even one.
            let distance = match value.class {
                Class::I32 => format!("(u32){} - (u32)p.literals[{at}]", value.code),
                _ => format!("(u64){} - p.literals[{at}]", value.code),
            };
            let of = if value.class == Class::I32 {
                "(u32)"
            } else {
                ""
            };
            let (inverse, shift) = (at + 4, at + 5);
            return format!(
                "({word})((({distance}) * {of}p.literals[{inverse}]) >> (u32)p.literals[{shift}])"
            );
        }
        let cast = match (self.store, value.class) {
            (Store::Hash, Class::I128) => "",
            (Store::Hash, _) => "(u64)(i64)",
            _ => "",
        };
        format!("(({word}){cast}{} - ({word})p.literals[{at}])", value.code)
    }

    /// Writes the words of keys that need more than 64 bits, and the one that the table knows them by.
    fn write_wide_key(&self, text: &mut String, wide: &WideKeys) {
        let indent = "                ";
        let index_of = |position: usize| self.index_code(position);
        let words = wide::words_code(self.keys, wide.num_words, self.key_literals, index_of);
        for (word, code) in words.iter().enumerate() {
            let _ = writeln!(text, "{indent}const u64 {KEY_WORD}{word} = {code};");
        }
        let _ = writeln!(
            text,
            "{indent}const u64 key = {KEY_WORD}{} ^ {};",
            wide.num_words - 1,
            wide.hash_code()
        );
    }
}
