//! The servers that a session may be at: when one is gone, the next takes the session over.
//!
//! A session of another server has none of what the first one kept: temporary tables and prepared statements
//! are lost. Settings are made again, in their order.

use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_flight::flight_service_client::FlightServiceClient;
use parking_lot::Mutex;
use tidegate::statements::{HighlightKind, highlight};
use tidegate::{Error, ErrorKind};

use super::address::Address;
use super::rows::run_to_end;
use super::{Client, ConnectOptions, MESSAGE_BYTES_MAX, login};

/// First words of statements that change nothing, and that may run twice.
const QUERIES: [&str; 9] = [
    "SELECT",
    "WITH",
    "VALUES",
    "TABLE",
    "FROM",
    "SHOW",
    "DESCRIBE",
    "DESC",
    "SUMMARIZE",
];

/// First words of statements that change a session's settings.
const SETTINGS: [&str; 2] = ["SET", "RESET"];

/// What a statement is, as far as a lost connection matters to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It may run twice.
    Query,
    /// It belongs to the session, and is made again in another one.
    Setting,
    /// It may have changed something.
    Other,
}

impl Kind {
    pub(super) fn of(sql: &str) -> Self {
        let words = highlight(sql).into_iter();
        let mut words = words.filter(|span| span.kind != HighlightKind::Comment);
        let first = words.find_map(|span| {
            let text = sql.get(span.range)?;
            let mut words = text.split(|c: char| !c.is_alphabetic());
            Some(words.find(|word| !word.is_empty())?.to_uppercase())
        });
        match first.as_deref() {
            Some(word) if QUERIES.contains(&word) => Self::Query,
            Some(word) if SETTINGS.contains(&word) => Self::Setting,
            _ => Self::Other,
        }
    }
}

/// One or several servers, and the session that is open at one of them.
pub(super) struct Servers {
    options: ConnectOptions,
    addresses: Vec<Address>,
    current: Mutex<Current>,
    /// Held while another server is looked for.
    moving: tokio::sync::Mutex<()>,
    settings: Mutex<Vec<String>>,
    moves: AtomicUsize,
}

/// The session that is open.
#[derive(Clone)]
pub(super) struct Current {
    pub(super) client: Client,
    /// Which of the addresses it is at.
    at: usize,
    /// How often the session moved before.
    moves: usize,
}

impl Servers {
    /// Opens a session at the first server that can be reached.
    pub(super) async fn connect(options: &ConnectOptions) -> Result<Self, Error> {
        let addresses = Address::parse_all(options)?;
        let mut refused = None;
        for (at, address) in addresses.iter().enumerate() {
            match open(address, options).await {
                Ok(client) => {
                    return Ok(Self {
                        options: options.clone(),
                        addresses,
                        current: Mutex::new(Current {
                            client,
                            at,
                            moves: 0,
                        }),
                        moving: tokio::sync::Mutex::default(),
                        settings: Mutex::default(),
                        moves: AtomicUsize::new(0),
                    });
                }
                Err(error) if error.kind() != ErrorKind::Io => return Err(error),
                // The first one is the one that people mean.
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or_else(|| Error::new(ErrorKind::Sql, "there is no server's URL")))
    }

    /// Returns the session that is open.
    pub(super) fn current(&self) -> Current {
        self.current.lock().clone()
    }

    /// Returns the URL of the server where the session is.
    pub(super) fn url(&self) -> String {
        let at = self.current.lock().at;
        self.addresses[at].to_string()
    }

    /// Returns how often the session moved to another server.
    pub(super) fn num_moves(&self) -> usize {
        self.moves.load(Ordering::Relaxed)
    }

    /// Tells whether there is another server to move to.
    pub(super) fn has_others(&self) -> bool {
        self.addresses.len() > 1
    }

    /// Keeps a setting for the next server.
    pub(super) fn keep_setting(&self, sql: &str) {
        if !self.has_others() {
            return;
        }
        let name = |sql: &str| {
            let sql = sql.split('=').next().unwrap_or(sql).trim().to_lowercase();
            sql.split_whitespace().nth(1).map(str::to_string)
        };
        let mut settings = self.settings.lock();
        // The last one of a name holds.
        settings.retain(|earlier| name(earlier) != name(sql));
        settings.push(sql.to_string());
    }

    /// Opens a session at another server than one that is gone, with the same settings; one that another
    /// statement opened meanwhile is taken.
    ///
    /// # Errors
    /// That of the last server, if none can be reached.
    pub(super) async fn move_from(&self, gone: &Current) -> Result<Current, Error> {
        let _moving = self.moving.lock().await;
        let current = self.current();
        if current.moves != gone.moves {
            return Ok(current);
        }
        let count = self.addresses.len();
        let mut refused = None;
        // The one that is gone may be back.
        for at in (1..=count).map(|next| (gone.at + next) % count) {
            match self.settle(at).await {
                Ok(client) => {
                    let moves = self.moves.fetch_add(1, Ordering::Relaxed) + 1;
                    let current = Current { client, at, moves };
                    *self.current.lock() = current.clone();
                    return Ok(current);
                }
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| Error::new(ErrorKind::Io, "no server can be reached")))
    }

    /// Opens a session with the settings.
    async fn settle(&self, at: usize) -> Result<Client, Error> {
        let client = open(&self.addresses[at], &self.options).await?;
        let settings = self.settings.lock().clone();
        for sql in settings {
            run_to_end(client.clone(), &sql).await?;
        }
        Ok(client)
    }
}

/// Connects, and logs in.
async fn open(address: &Address, options: &ConnectOptions) -> Result<Client, Error> {
    let channel = address.connect(options.ca.as_deref()).await?;
    let inner = FlightServiceClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let mut client = Client::new_from_inner(inner);
    let token = match &options.token {
        Some(token) => token.clone(),
        None => login::log_in(client.inner_mut(), options, address).await?,
    };
    client.set_token(token);
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::Kind;

    #[test]
    fn a_statement_is_known_by_its_first_word() {
        for (sql, kind) in [
            ("SELECT 1", Kind::Query),
            (
                "-- SET a = 1\n /* x */ (select 1) union all (select 2)",
                Kind::Query,
            ),
            ("from 't.csv'", Kind::Query),
            ("with a as (select 1) select * from a", Kind::Query),
            ("SET tidegate.cache = 'off'", Kind::Setting),
            ("reset tidegate.cache", Kind::Setting),
            ("INSERT INTO t SELECT 1", Kind::Other),
            ("explain analyze insert into t select 1", Kind::Other),
            ("", Kind::Other),
        ] {
            assert_eq!(Kind::of(sql), kind, "{sql}");
        }
    }
}
