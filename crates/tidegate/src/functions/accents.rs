//! `strip_accents(s)`: a string without the marks above and below its letters, as in DuckDB: `café` becomes `cafe`.
//!
//! Letters of the Latin, Greek and Cyrillic scripts lose the marks that Unicode takes apart from them, and marks that are
//! characters of their own are left out. A letter that is one whole stays: `ø`, `ß`, `ł`. NULL of NULL.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, AsArray, StringViewBuilder};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// Returns the function.
pub(crate) fn function() -> ScalarUDF {
    let description = "Leaves the accents of letters out.";
    let syntax = "strip_accents(s)";
    ScalarUDF::from(StripAccents {
        signature: Signature::user_defined(Volatility::Immutable),
        documentation: Documentation::builder(DOC_SECTION_STRING, description, syntax).build(),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct StripAccents {
    signature: Signature,
    documentation: Documentation,
}

impl ScalarUDFImpl for StripAccents {
    fn name(&self) -> &str {
        "strip_accents"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [DataType::Dictionary(_, values)] if values.is_string() => Ok(vec![DataType::Utf8View]),
            [given] if given.is_string() || given.is_null() => Ok(vec![DataType::Utf8View]),
            _ => plan_err!("strip_accents takes a string"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(all_stripped, Vec::new())(&args.args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

fn all_stripped(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [texts] = given else {
        return exec_err!("strip_accents takes one string");
    };
    let texts = texts.as_string_view();
    if texts.iter().flatten().all(str::is_ascii) {
        return Ok(Arc::new(texts.clone()));
    }
    let mut all = StringViewBuilder::new();
    for text in texts {
        match text {
            Some(text) if !text.is_ascii() => all.append_value(stripped(text)),
            text => all.append_option(text),
        }
    }
    Ok(Arc::new(all.finish()))
}

fn stripped(text: &str) -> String {
    let letters = text.chars().filter(|c| !is_mark(*c));
    let letters = letters.map(|c| match c.is_ascii() {
        true => c,
        false => LETTERS_OF.get(&c).copied().unwrap_or(c),
    });
    letters.collect()
}

/// Tells the marks that combine with the letter before them.
fn is_mark(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}'
        | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe20}'..='\u{fe2f}')
}

/// The letter of each letter with marks.
static LETTERS_OF: LazyLock<HashMap<char, char>> = LazyLock::new(|| {
    let rows = WITH_MARKS.iter();
    let pairs =
        rows.flat_map(|(letter, marked)| marked.chars().map(move |marked| (marked, *letter)));
    pairs.collect()
});

/// Letters, and all that are one of them with marks, as Unicode decomposes them.
#[rustfmt::skip]
const WITH_MARKS: &[(char, &str)] = &[
    ('A', "ÀÁÂÃÄÅĀĂĄǍǞǠǺȀȂȦḀẠẢẤẦẨẪẬẮẰẲẴẶ"),
    ('B', "ḂḄḆ"),
    ('C', "ÇĆĈĊČḈ"),
    ('D', "ĎḊḌḎḐḒ"),
    ('E', "ÈÉÊËĒĔĖĘĚȄȆȨḔḖḘḚḜẸẺẼẾỀỂỄỆ"),
    ('F', "Ḟ"),
    ('G', "ĜĞĠĢǦǴḠ"),
    ('H', "ĤȞḢḤḦḨḪ"),
    ('I', "ÌÍÎÏĨĪĬĮİǏȈȊḬḮỈỊ"),
    ('J', "Ĵ"),
    ('K', "ĶǨḰḲḴ"),
    ('L', "ĹĻĽḶḸḺḼ"),
    ('M', "ḾṀṂ"),
    ('N', "ÑŃŅŇǸṄṆṈṊ"),
    ('O', "ÒÓÔÕÖŌŎŐƠǑǪǬȌȎȪȬȮȰṌṎṐṒỌỎỐỒỔỖỘỚỜỞỠỢ"),
    ('P', "ṔṖ"),
    ('R', "ŔŖŘȐȒṘṚṜṞ"),
    ('S', "ŚŜŞŠȘṠṢṤṦṨ"),
    ('T', "ŢŤȚṪṬṮṰ"),
    ('U', "ÙÚÛÜŨŪŬŮŰŲƯǓǕǗǙǛȔȖṲṴṶṸṺỤỦỨỪỬỮỰ"),
    ('V', "ṼṾ"),
    ('W', "ŴẀẂẄẆẈ"),
    ('X', "ẊẌ"),
    ('Y', "ÝŶŸȲẎỲỴỶỸ"),
    ('Z', "ŹŻŽẐẒẔ"),
    ('a', "àáâãäåāăąǎǟǡǻȁȃȧḁạảấầẩẫậắằẳẵặ"),
    ('b', "ḃḅḇ"),
    ('c', "çćĉċčḉ"),
    ('d', "ďḋḍḏḑḓ"),
    ('e', "èéêëēĕėęěȅȇȩḕḗḙḛḝẹẻẽếềểễệ"),
    ('f', "ḟ"),
    ('g', "ĝğġģǧǵḡ"),
    ('h', "ĥȟḣḥḧḩḫẖ"),
    ('i', "ìíîïĩīĭįǐȉȋḭḯỉị"),
    ('j', "ĵǰ"),
    ('k', "ķǩḱḳḵ"),
    ('l', "ĺļľḷḹḻḽ"),
    ('m', "ḿṁṃ"),
    ('n', "ñńņňǹṅṇṉṋ"),
    ('o', "òóôõöōŏőơǒǫǭȍȏȫȭȯȱṍṏṑṓọỏốồổỗộớờởỡợ"),
    ('p', "ṕṗ"),
    ('r', "ŕŗřȑȓṙṛṝṟ"),
    ('s', "śŝşšșṡṣṥṧṩ"),
    ('t', "ţťțṫṭṯṱẗ"),
    ('u', "ùúûüũūŭůűųưǔǖǘǚǜȕȗṳṵṷṹṻụủứừửữự"),
    ('v', "ṽṿ"),
    ('w', "ŵẁẃẅẇẉẘ"),
    ('x', "ẋẍ"),
    ('y', "ýÿŷȳẏẙỳỵỷỹ"),
    ('z', "źżžẑẓẕ"),
    ('Æ', "ǢǼ"),
    ('Ø', "Ǿ"),
    ('æ', "ǣǽ"),
    ('ø', "ǿ"),
    ('ſ', "ẛ"),
    ('Ʒ', "Ǯ"),
    ('ʒ', "ǯ"),
    ('Α', "ΆἈἉἊἋἌἍἎἏᾈᾉᾊᾋᾌᾍᾎᾏᾸᾹᾺΆᾼ"),
    ('Ε', "ΈἘἙἚἛἜἝῈΈ"),
    ('Η', "ΉἨἩἪἫἬἭἮἯᾘᾙᾚᾛᾜᾝᾞᾟῊΉῌ"),
    ('Ι', "ΊΪἸἹἺἻἼἽἾἿῘῙῚΊ"),
    ('Ο', "ΌὈὉὊὋὌὍῸΌ"),
    ('Ρ', "Ῥ"),
    ('Υ', "ΎΫὙὛὝὟῨῩῪΎ"),
    ('Ω', "ΏὨὩὪὫὬὭὮὯᾨᾩᾪᾫᾬᾭᾮᾯῺΏῼ"),
    ('α', "άἀἁἂἃἄἅἆἇὰάᾀᾁᾂᾃᾄᾅᾆᾇᾰᾱᾲᾳᾴᾶᾷ"),
    ('ε', "έἐἑἒἓἔἕὲέ"),
    ('η', "ήἠἡἢἣἤἥἦἧὴήᾐᾑᾒᾓᾔᾕᾖᾗῂῃῄῆῇ"),
    ('ι', "ΐίϊἰἱἲἳἴἵἶἷὶίῐῑῒΐῖῗ"),
    ('ο', "όὀὁὂὃὄὅὸό"),
    ('ρ', "ῤῥ"),
    ('υ', "ΰϋύὐὑὒὓὔὕὖὗὺύῠῡῢΰῦῧ"),
    ('ω', "ώὠὡὢὣὤὥὦὧὼώᾠᾡᾢᾣᾤᾥᾦᾧῲῳῴῶῷ"),
    ('ϒ', "ϓϔ"),
    ('І', "Ї"),
    ('А', "ӐӒ"),
    ('Г', "Ѓ"),
    ('Е', "ЀЁӖ"),
    ('Ж', "ӁӜ"),
    ('З', "Ӟ"),
    ('И', "ЍЙӢӤ"),
    ('К', "Ќ"),
    ('О', "Ӧ"),
    ('У', "ЎӮӰӲ"),
    ('Ч', "Ӵ"),
    ('Ы', "Ӹ"),
    ('Э', "Ӭ"),
    ('а', "ӑӓ"),
    ('г', "ѓ"),
    ('е', "ѐёӗ"),
    ('ж', "ӂӝ"),
    ('з', "ӟ"),
    ('и', "йѝӣӥ"),
    ('к', "ќ"),
    ('о', "ӧ"),
    ('у', "ўӯӱӳ"),
    ('ч', "ӵ"),
    ('ы', "ӹ"),
    ('э', "ӭ"),
    ('і', "ї"),
    ('Ѵ', "Ѷ"),
    ('ѵ', "ѷ"),
    ('Ә', "Ӛ"),
    ('ә', "ӛ"),
    ('Ө', "Ӫ"),
    ('ө', "ӫ"),
    ('᾿', "῍῎῏"),
    ('῾', "῝῞῟"),
];

#[cfg(test)]
mod tests {
    use super::stripped;

    #[test]
    fn letters_lose_their_marks() {
        for (text, expect) in [
            ("café crème", "cafe creme"),
            ("ÄÖÜäöüß", "AOUaouß"),
            ("mu\u{308}de", "mude"),
            ("Đặng Thị Ngọc", "Đang Thi Ngoc"),
            ("Ελλάδα", "Ελλαδα"),
            ("ёлка й", "елка и"),
            ("smørrebrød, łódź", "smørrebrød, łodz"),
            ("日本語 한국", "日本語 한국"),
            ("", ""),
        ] {
            assert_eq!(stripped(text), expect);
        }
    }
}
