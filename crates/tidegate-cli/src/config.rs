//! Where an option's value comes from: its default, the configuration file, the environment, the
//! command line; each overrides those before it, and SET overrides them all.
//!
//! The file is TOML. Its keys are the long options of the command line with `_` for `-`, those of
//! `serve` in the table `[serve]`; its tables `[tidegate]` and `[datafusion]` are settings of the
//! session, as SET knows them, and `[stores]` has options of object stores, for all or for one place:
//!
//! ```toml
//! memory_limit = "8GB"
//! format = "csv"
//!
//! [serve]
//! listen = "127.0.0.1:31337"
//!
//! [tidegate]
//! placement = "host"
//!
//! [stores]
//! aws.region = "eu-central-1"
//!
//! [stores."s3://logs"]
//! aws.endpoint = "https://minio.example"
//! ```
//!
//! Each option of the file becomes the default of its argument, so that the command line's own rules
//! read, check and override it.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory};
use tidegate::StoreOptions;
use toml::{Table, Value};

use crate::args::Args;
use crate::environment;

/// The arguments that the file may set, by their names there.
const FILE_KEYS: [&str; 15] = [
    "ca",
    "connect",
    "device_memory_limit",
    "format",
    "keep_going",
    "maxrows",
    "memory_limit",
    "no_progress",
    "quiet",
    "simulate_device",
    "temp_dir",
    "temp_limit",
    "threads",
    "timing",
    "user",
];

/// The table of the file, and the subcommand, that may set all of its own arguments.
const SERVE: &str = "serve";

/// The tables of the file that hold settings of the session.
const SETTING_TABLES: [&str; 2] = ["tidegate", "datafusion"];

/// The table of the file that holds options of object stores.
const STORES: &str = "stores";

/// Variables that begin as ours and are none of the configuration.
const OTHER_VARIABLES: [&str; 11] = [
    "TIDEGATE_CONFIG",
    "TIDEGATE_PASSWORD",
    "TIDEGATE_TOKEN",
    "TIDEGATE_UPDATE_DOCS",
    "TIDEGATE_FAULTS_SECONDS",
    "TIDEGATE_PAGER",
    "TIDEGATE_NVRTC",
    "TIDEGATE_REQUIRE",
    "TIDEGATE_SLT_",
    "TIDEGATE_FUZZ_",
    "TIDEGATE_KERNEL_",
];

/// A setting of the session and where it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) origin: String,
}

/// What the configuration file says.
#[derive(Debug, Default)]
pub(crate) struct File {
    path: Option<PathBuf>,
    /// Arguments with their values.
    options: Vec<(String, Vec<String>)>,
    settings: Vec<Setting>,
    stores: StoreOptions,
}

/// An option as `tidegate config` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OptionReport {
    pub(crate) name: String,
    /// `None` where nothing was said.
    pub(crate) value: Option<String>,
    pub(crate) origin: String,
    pub(crate) help: String,
}

impl File {
    /// Reads the file that the command line or the environment names, or the user's own if there is
    /// one.
    pub(crate) fn find(words: &[OsString]) -> Result<Self, String> {
        let lenient = Args::command().ignore_errors(true);
        let named = lenient.try_get_matches_from(words).ok();
        let named = named.and_then(|matches| matches.get_one::<PathBuf>("config").cloned());
        if let Some(path) = named {
            let text = std::fs::read_to_string(&path).map_err(|error| {
                format!("cannot read the configuration {}: {error}", path.display())
            })?;
            return Self::read(&path, &text);
        }
        let Some(path) = environment::config_file() else {
            return Ok(Self::default());
        };
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::read(&path, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!(
                "cannot read the configuration {}: {error}",
                path.display()
            )),
        }
    }

    fn read(path: &Path, text: &str) -> Result<Self, String> {
        let place = path.display();
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            format!(
                "the configuration {place} is not TOML: {}",
                error.to_string().trim_end()
            )
        })?;
        let mut file = Self {
            path: Some(path.to_path_buf()),
            ..Self::default()
        };
        for (key, value) in table {
            let wrong = |why: String| format!("the configuration {place}: {why}");
            if SETTING_TABLES.contains(&key.as_str()) {
                let Value::Table(settings) = value else {
                    return Err(wrong(format!(
                        "{key} is a table: write [{key}] and settings below"
                    )));
                };
                file.flatten(&key, settings).map_err(wrong)?;
            } else if key == SERVE {
                let Value::Table(options) = value else {
                    return Err(wrong(format!(
                        "{key} is a table: write [{key}] and options below"
                    )));
                };
                for (name, value) in options {
                    let key = format!("{SERVE}.{name}");
                    file.option(key, value).map_err(wrong)?;
                }
            } else if key == STORES {
                let Value::Table(stores) = value else {
                    return Err(wrong("stores is a table: write [stores]".into()));
                };
                file.take_stores("", "", stores).map_err(wrong)?;
            } else {
                file.option(key, value).map_err(wrong)?;
            }
        }
        Ok(file)
    }

    /// Takes an option of the command line.
    fn option(&mut self, key: String, value: Value) -> Result<(), String> {
        let command = Args::command();
        let known = configurable(&command);
        if !known.iter().any(|(name, _)| *name == key) {
            let names = known.into_iter().map(|(name, _)| name);
            let tables = SETTING_TABLES.iter().map(ToString::to_string);
            let hint = hint(&key, names.chain(tables).chain([STORES.to_string()]));
            return Err(format!("unknown key {key}: {hint}"));
        }
        let values = texts(&key, value)?;
        check(&key, &values)?;
        self.options.push((key, values));
        Ok(())
    }

    /// Takes the settings of a table and of those in it.
    fn flatten(&mut self, prefix: &str, table: Table) -> Result<(), String> {
        for (key, value) in table {
            let name = format!("{prefix}.{key}");
            match value {
                Value::Table(inner) => self.flatten(&name, inner)?,
                value => {
                    let value = text(&name, value)?;
                    let origin = self.path.as_ref().map(|path| path.display().to_string());
                    self.settings.push(Setting {
                        name,
                        value,
                        origin: origin.unwrap_or_default(),
                    });
                }
            }
        }
        Ok(())
    }

    /// Takes options of object stores; a key with `://` names the place that those below it are for.
    fn take_stores(&mut self, place: &str, prefix: &str, table: Table) -> Result<(), String> {
        for (key, value) in table {
            match value {
                Value::Table(inner) if key.contains("://") => {
                    self.take_stores(&key, "", inner)?;
                }
                Value::Table(inner) => {
                    self.take_stores(place, &format!("{prefix}{key}."), inner)?;
                }
                value => {
                    let name = format!("{prefix}{key}");
                    let value = text(&name, value)?;
                    let set = self.stores.set(place, &name, &value);
                    set.map_err(|error| error.to_string())?;
                }
            }
        }
        Ok(())
    }

    /// Gathers the options of object stores: of the file, and of the environment.
    pub(crate) fn stores(&self) -> StoreOptions {
        let mut stores = self.stores.clone();
        stores.extend(StoreOptions::from_variables(environment::store_variables()));
        stores
    }

    /// Makes what the file says the defaults of a command line.
    pub(crate) fn apply(&self, mut command: Command) -> Command {
        for (key, values) in &self.options {
            let values: Vec<clap::builder::OsStr> =
                values.iter().map(|value| value.clone().into()).collect();
            command = match key.strip_prefix("serve.") {
                None => command.mut_arg(key, |arg| arg.default_values(values)),
                Some(name) => command.mut_subcommand(SERVE, |serve| {
                    serve.mut_arg(name, |arg| arg.default_values(values))
                }),
            };
        }
        command
    }

    /// Gathers the settings of the session: of the file, the environment, and `--set`.
    pub(crate) fn settings(&self, set: &[String]) -> Result<Vec<Setting>, String> {
        let mut settings = self.settings.clone();
        settings.extend(from_environment(environment::own_variables())?);
        for assignment in set {
            let Some((name, value)) = assignment.split_once('=') else {
                return Err(format!(
                    "--set {assignment}: expected NAME=VALUE, such as tidegate.placement=host"
                ));
            };
            settings.push(Setting {
                name: name.trim().to_string(),
                value: value.trim().to_string(),
                origin: "--set".to_string(),
            });
        }
        Ok(settings)
    }

    /// Lists the options of the command line that can be configured.
    pub(crate) fn options(&self, matches: &ArgMatches) -> Vec<OptionReport> {
        let command = Args::command();
        let fresh = self.apply(Args::command());
        let fresh = fresh.try_get_matches_from(["tidegate", SERVE]).ok();
        let serve = matches.subcommand_matches(SERVE);
        let serve = serve.or_else(|| fresh.as_ref()?.subcommand_matches(SERVE));
        let mut reports = Vec::new();
        for (key, arg) in configurable(&command) {
            let matches = match key.starts_with("serve.") {
                true => serve,
                false => Some(matches),
            };
            reports.extend(matches.map(|matches| self.report(&key, arg, matches)));
        }
        reports.sort_by(|left, right| left.name.cmp(&right.name));
        reports
    }

    fn report(&self, key: &str, arg: &Arg, matches: &ArgMatches) -> OptionReport {
        let id = arg.get_id().as_str();
        let in_file = self.options.iter().any(|(known, _)| known == key);
        let origin = match matches.value_source(id) {
            Some(ValueSource::CommandLine) => format!("--{}", id.replace('_', "-")),
            Some(ValueSource::EnvVariable) => variable(arg),
            _ if in_file => self
                .path
                .as_ref()
                .map_or_else(String::new, |path| path.display().to_string()),
            _ => "default".to_string(),
        };
        let raw = matches.get_raw(id).map(|values| {
            let texts: Vec<String> = values.map(|value| value.to_string_lossy().into()).collect();
            texts.join(", ")
        });
        OptionReport {
            name: key.to_string(),
            value: raw.filter(|value| !value.is_empty()),
            origin,
            help: arg.get_help().map(ToString::to_string).unwrap_or_default(),
        }
    }
}

/// Lists the arguments that the file may set, by their names there.
fn configurable(command: &Command) -> Vec<(String, &Arg)> {
    let arguments = command.get_arguments().filter_map(|arg| {
        let id = arg.get_id().as_str();
        FILE_KEYS.contains(&id).then(|| (id.to_string(), arg))
    });
    let serve = command.find_subcommand(SERVE);
    let serve = serve.into_iter().flat_map(Command::get_arguments);
    let serve = serve.map(|arg| (format!("{SERVE}.{}", arg.get_id()), arg));
    arguments.chain(serve).collect()
}

fn variable(arg: &Arg) -> String {
    arg.get_env()
        .map(|name| name.to_string_lossy().into())
        .unwrap_or_default()
}

/// Reads settings from variables: `TIDEGATE_PLACEMENT` is `tidegate.placement`. Those of arguments
/// are left to the command line.
fn from_environment(variables: Vec<(String, String)>) -> Result<Vec<Setting>, String> {
    let command = Args::command();
    let configurable = configurable(&command).into_iter();
    let of_arguments: Vec<String> = configurable.map(|(_, arg)| variable(arg)).collect();
    let known = tidegate::options::names();
    let mut settings = Vec::new();
    for (name, value) in variables {
        let is_other = OTHER_VARIABLES.iter().any(|other| name.starts_with(other));
        if is_other || of_arguments.contains(&name) {
            continue;
        }
        let key = name.trim_start_matches("TIDEGATE_").to_ascii_lowercase();
        if !known.contains(&key.as_str()) {
            let all = of_arguments.iter().filter(|name| !name.is_empty()).cloned();
            let all = all.chain(
                known
                    .iter()
                    .map(|key| format!("TIDEGATE_{}", key.to_ascii_uppercase())),
            );
            return Err(format!("unknown variable {name}: {}", hint(&name, all)));
        }
        settings.push(Setting {
            name: format!("tidegate.{key}"),
            value,
            origin: name,
        });
    }
    Ok(settings)
}

/// Tries a value of the file as the command line would.
fn check(key: &str, values: &[String]) -> Result<(), String> {
    let command = Args::command();
    let known = configurable(&command);
    let arg = known.iter().find(|(name, _)| name == key);
    if arg.is_some_and(|(_, arg)| matches!(arg.get_action(), ArgAction::SetTrue)) {
        return match values {
            [value] if value == "true" || value == "false" => Ok(()),
            _ => Err(format!("{key} is true or false")),
        };
    }
    for value in values {
        let mut words = vec!["tidegate".to_string()];
        let name = match key.strip_prefix("serve.") {
            Some(name) => {
                words.push(SERVE.to_string());
                name
            }
            None => key,
        };
        words.push(format!("--{}={value}", name.replace('_', "-")));
        if let Err(error) = Args::command().try_get_matches_from(words) {
            let message = error.to_string();
            let first = message.lines().next().unwrap_or_default();
            let why = first.rsplit_once(": ").map_or(first, |(_, why)| why);
            return Err(format!("{key} = '{value}': {why}"));
        }
    }
    Ok(())
}

fn texts(key: &str, value: Value) -> Result<Vec<String>, String> {
    match value {
        Value::Array(values) => values.into_iter().map(|value| text(key, value)).collect(),
        value => Ok(vec![text(key, value)?]),
    }
}

fn text(key: &str, value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(value) => Ok(value.to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
            Err(format!("{key} is a string, a number, true or false"))
        }
    }
}

fn hint(name: &str, known: impl Iterator<Item = String>) -> String {
    let known: Vec<String> = known.collect();
    let likeness = |known: &&String| (strsim::jaro_winkler(known, name) * 1e6) as u64;
    match known.iter().max_by_key(likeness) {
        Some(nearest) if strsim::jaro_winkler(nearest, name) > 0.8 => {
            format!("did you mean {nearest}?")
        }
        _ => format!("there are {}", known.join(", ")),
    }
}

/// Writes the reference page: every option and setting, its default, where it can be given.
pub(crate) fn reference() -> String {
    let command = Args::command();
    let mut page = String::from(
        "# Configuration\n\nThis page is written by `tidegate config --reference`.\n\n\
         Values come from these sources, later ones overriding earlier ones: the default; the \
         configuration file (`--config FILE`, `TIDEGATE_CONFIG`, or tidegate/config.toml below \
         `$XDG_CONFIG_HOME`, by default `~/.config`); the environment; the command line; `SET`.\n\
         An unknown key or variable is an error.\n`tidegate config` lists each value and its \
         origin.\n\n## Options\n\n\
         In the file these are top-level keys; those that begin with `serve.` are keys of the table \
         `[serve]`, and options of `tidegate serve`.\n\n\
         | file | environment | command line | what it does |\n|---|---|---|---|\n",
    );
    let mut rows: Vec<String> = configurable(&command)
        .into_iter()
        .map(|(key, arg)| {
            let id = arg.get_id().as_str();
            let variable = match variable(arg).as_str() {
                "" => String::new(),
                name => format!("`{name}`"),
            };
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            format!(
                "| `{key}` | {variable} | `--{}` | {help} |\n",
                id.replace('_', "-")
            )
        })
        .collect();
    rows.sort();
    page.extend(rows);
    page.push_str(
        "\n## Settings of a session\n\n\
         In the file these are keys of the table `[tidegate]`; on the command line `--set NAME=VALUE`; in SQL \
         `SET NAME = VALUE`; in the environment as `TIDEGATE_PLACEMENT` for `tidegate.placement`.\n\
         The settings of DataFusion, `datafusion.*`, can be given in the same \
         ways, except in the environment.\n\n\
         | setting | default | what it does |\n|---|---|---|\n",
    );
    for setting in tidegate::options::defaults() {
        let default = setting
            .value
            .map(|value| format!("`{value}`"))
            .unwrap_or_default();
        // Writing to a string does not fail.
        let _ = writeln!(
            page,
            "| `{}` | {default} | {} |",
            setting.name, setting.help
        );
    }
    page.push_str(
        "\n## Object stores\n\n\
         In the file these are keys of the table `[stores]`, and of a table such as \
         `[stores.\"s3://bucket\"]` for one store; in the environment they have the names that each cloud \
         uses; in SQL they are `OPTIONS` of `CREATE EXTERNAL TABLE` and `COPY`, valid for the bucket until \
         the session ends. Clients of a server cannot set any.\n\
         Names follow the variables: `aws.region` is `AWS_REGION`.\n\
         Without credentials, S3 uses those of the machine's instance profile, if there is one.\n\n\
         | URLs | options | environment |\n|---|---|---|\n\
         | `s3://bucket/…` | `aws.access_key_id`, `aws.secret_access_key`, `aws.session_token`, `aws.region`, \
         `aws.endpoint`, `aws.skip_signature` … | `AWS_…` |\n\
         | `gs://bucket/…` | `gcp.service_account`, `gcp.service_account_key`, `gcp.skip_signature` … | `GOOGLE_…` |\n\
         | `az://container/…`, `abfs://…` | `azure.account_name`, `azure.account_key`, `azure.sas_token`, \
         `azure.skip_signature` … | `AZURE_STORAGE_…`, `AZURE_…` |\n\
         | `https://…`, `http://…` | `http.timeout`, `http.connect_timeout`, `http.proxy_url` … | |\n\
         \nEvery kind of store has `timeout` and `connect_timeout`.\n\
         \n## Example\n\n```toml\nmemory_limit = \"8GB\"\nformat = \"csv\"\n\n[serve]\n\
         listen = \"0.0.0.0:31337\"\nallow = [\"/data\"]\n\n[tidegate]\n\
         placement = \"host\"\n\n[datafusion.execution]\nbatch_size = 8192\n\n[stores]\naws.region = \"eu-central-1\"\n```\n",
    );
    page
}

#[cfg(test)]
mod tests;
